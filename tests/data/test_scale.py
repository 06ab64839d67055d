"""Case F2, and several machines: size and memory do not grow as they should not, and shards change no byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from data.lines import write_lines
from data.prepared import load_prepared

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


def write_corpus(folder: Path, n_pairs: int) -> list[str]:
    """A corpus of its own folder, and the arguments that prepare it."""
    write_lines(folder / "train.en", (f"the cat number {i} sat on the mat {i % 97}" for i in range(n_pairs)))
    write_lines(folder / "train.de", (f"die Katze Nummer {i} saß auf der Matte {i % 97}" for i in range(n_pairs)))
    write_lines(folder / "valid.en", ["a small dog ran home"])
    write_lines(folder / "valid.de", ["ein kleiner Hund lief nach Hause"])
    corpus = "data.train=[{src: train.en, tgt: train.de}]"
    return ["--config", "base.yaml", "name=x", corpus, "data.valid=[{src: valid.en, tgt: valid.de}]", "data.test={}"]


def peak_memory(folder: Path, arguments: list[str]) -> int:
    """Prepare in a process of its own; what its largest process took at most."""
    process = subprocess.Popen([sys.executable, str(ROOT / "preprocess.py"), *arguments], cwd=folder)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss


def test_f2_memory_and_disk_stay_within_bounds(tmp_path: Path) -> None:
    peaks = []
    for n_pairs in (60_000, 240_000):
        folder = tmp_path / str(n_pairs)
        folder.mkdir()
        arguments = [*write_corpus(folder, n_pairs), "vocabulary.size=500", "vocabulary.sample_lines=20000"]
        peaks.append(peak_memory(folder, arguments))
        prepared = load_prepared(folder / "prepared" / "x")
        assert len(prepared.train) == n_pairs
        binarised = sum(path.stat().st_size for path in (folder / "prepared" / "x").glob("train.*"))
        n_tokens = int(prepared.train.src_lengths.sum() + prepared.train.tgt_lengths.sum())
        assert binarised <= 4 * n_tokens + 16 * n_pairs + 1000
    assert peaks[1] / peaks[0] < 1.3


def test_processes_of_torchrun_make_the_same_bytes_as_one(tmp_path: Path) -> None:
    results = []
    for name, launcher in (("alone", []), ("together", ["-m", "torch.distributed.run", "--nproc-per-node=2"])):
        folder = tmp_path / name
        folder.mkdir()
        arguments = [*write_corpus(folder, 50_000), "vocabulary.size=400", "vocabulary.sample_lines=5000"]
        for language in ("en", "de"):  # the manifest holds their names and times
            os.utime(folder / f"train.{language}", ns=(0, 0))
        command = [sys.executable, *launcher, str(ROOT / "preprocess.py"), *arguments, "--workers", "1"]
        subprocess.run(command, cwd=folder, check=True, timeout=300, capture_output=True)
        made = folder / "prepared" / "x"
        results.append({path.name: path.read_bytes() for path in made.iterdir() if path.suffix in (".npy", ".model")})
        assert [path.name for path in made.parent.iterdir()] == ["x"]
    assert results[0] == results[1]
