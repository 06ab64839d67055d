"""preprocess.py as people run it: what it prints, its exit codes, and that train.py could go on from there."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from data.prepared import load_prepared
from preprocess import main
from transformer.command_line import run_command

TINY = ("--config", "../project/tiny.yaml")
SCRIPT = Path(__file__).resolve().parents[2] / "preprocess.py"
CONFIG = """
name: tiny
data:
  train: [{src: filler.en, tgt: filler.de}]
  valid: [{src: filler.en, tgt: filler.de}]
  test:
    flickr: {src: filler.en, tgt: filler.de}
  drop_contamination: false
vocabulary:
  size: 300
"""


@dataclass
class Finished:
    code: int
    stdout: str
    stderr: str


Preprocess = Callable[..., Finished]


@pytest.fixture
def preprocess(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Preprocess:
    """Runs the script in this process, which is quicker than in one of its own."""
    monkeypatch.chdir(folder)

    def run(*arguments: str) -> Finished:
        try:
            code = run_command(lambda: main(arguments))
        except SystemExit as stop:  # what argparse does
            code = int(stop.code or 0)
        return Finished(code, *capsys.readouterr())

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory beside the folder of config and corpora."""
    (tmp_path / "project").mkdir()
    for language, line in (("en", "the cat number {} sat"), ("de", "die katze nummer {} sass")):
        (tmp_path / "project" / f"filler.{language}").write_text("".join(line.format(i) + "\n" for i in range(200)))
    (tmp_path / "project" / "tiny.yaml").write_text(CONFIG)
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_it_prepares_reports_and_names_the_next_command(folder: Path, preprocess: Preprocess) -> None:
    found = preprocess(*TINY)
    assert found.code == 0, found.stderr
    prepared = load_prepared(folder / "prepared" / "tiny")
    assert len(prepared.train) == 200
    for words in (" 200   200  ", "vocabulary  300 pieces, joint", "200 pairs  flickr", "prepared/tiny"):
        assert words in found.stdout
    assert f"en {prepared.train.src_lengths.sum():,} tokens" in found.stdout
    assert "warning: test set flickr: 200 of 200 sentences" in found.stdout
    assert (folder / "prepared" / "tiny" / "report.html").exists()
    assert "python train.py --config ../project/tiny.yaml" in found.stdout


def test_run_again_it_does_nothing_and_says_so(preprocess: Preprocess) -> None:
    preprocess(*TINY)
    found = preprocess(*TINY, "--workers", "1")
    assert found.code == 0
    assert "nothing to do" in found.stdout
    assert found.stderr == ""


def test_overrides_reach_the_data(folder: Path, preprocess: Preprocess) -> None:
    Path(folder / "one.en").write_text("one\n")
    Path(folder / "one.de").write_text("eins\n")
    overrides = ("data.test={one: {src: one.en, tgt: one.de}}", "vocabulary.joint=false", "model.tie_embeddings=none")
    more = ("vocabulary.size=285", "data.src_lang=xx", "name=other", "vocabulary.type=unigram", "data.max_length=50")
    found = preprocess(*TINY, *overrides, *more)
    assert found.code == 0, found.stderr
    prepared = load_prepared(folder / "prepared" / "other")
    assert prepared.test_text == {"one": (["one"], ["eins"])}
    assert prepared.src_vocabulary.hash != prepared.tgt_vocabulary.hash
    assert (prepared.manifest["src_lang"], prepared.manifest["tgt_lang"]) == ("xx", "de")
    assert prepared.manifest["settings"]["data"]["max_length"] == 50
    assert prepared.manifest["settings"]["vocabulary"]["type"] == "unigram"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("data.train=[{src: none.en, tgt: none.de}]",), 1, ["none.en: cannot be read", "none.de: cannot be read"]),
        (("data.train=[]", "data.valid=[]"), 1, ["data.train lists no corpora", "data.valid lists no corpora"]),
        (("vocabulary.size=8000",), 1, ["8000", "too large"]),
        (("data.max_length=1",), 1, ["0 of 200 pairs", "data.max_length 1"]),
        (
            ("data.drop_contamination=true",),
            1,
            ["0 of 200 pairs", "200 contamination", "also in validation or test sets"],
        ),
        (("vocabulary.sise=300",), 2, ["vocabulary.sise"]),
        (("--workers", "0"), 2, ["--workers 0"]),
        (("--worker", "2"), 2, ["--worker"]),
    ],
)
def test_a_mistake_is_one_message_and_an_exit_code(
    folder: Path, preprocess: Preprocess, arguments: tuple[str, ...], code: int, words: list[str]
) -> None:
    found = preprocess(*TINY, *arguments)
    assert found.code == code
    for word in words:
        assert word in found.stderr
    assert "Traceback" not in found.stderr
    assert not (folder / "prepared" / "tiny").exists()


def test_ctrl_c_ends_it_and_keeps_what_was_finished(folder: Path) -> None:
    # A corpus that is still being read when the signal comes.
    for language in ("en", "de"):
        (folder / f"big.{language}").write_text("".join(f"{i} {language}\n" for i in range(400_000)))
    arguments = [sys.executable, str(SCRIPT), *TINY, "data.train=[{src: big.en, tgt: big.de}]"]
    with subprocess.Popen(arguments, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not list(folder.glob("prepared/.tiny.work-*/text-*.npz")):
            time.sleep(0.01)
        process.send_signal(2)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    [work] = (folder / "prepared").iterdir()
    assert list(work.glob("text-*.npz"))
    assert not list(work.glob("ids-*.npz"))


def test_check_says_what_is_wrong_and_changes_nothing(folder: Path, preprocess: Preprocess) -> None:
    clean = preprocess(*TINY, "--check")
    assert clean.code == 0, clean.stdout
    lines = [f"die katze nummer {i} sass" for i in range(200)]
    (folder / "short.de").write_text("".join(f"{line}\n" for line in lines[:120] + lines[121:]))
    found = preprocess(*TINY, "--check", "data.train=[{src: ../project/filler.en, tgt: short.de}]")
    assert found.code == 1
    assert "200" in found.stdout
    assert "199" in found.stdout
    assert "short.de" in found.stdout
    assert not (folder / "prepared").exists()


def test_shards_and_a_last_run_make_the_same_bytes(folder: Path, preprocess: Preprocess) -> None:
    preprocess(*TINY)
    alone = {path.name: path.read_bytes() for path in (folder / "prepared" / "tiny").iterdir()}
    shutil.rmtree(folder / "prepared")
    for shard in ("2/2", "1/2"):
        found = preprocess(*TINY, "--shard", shard)
        assert found.code == 0, found.stderr
        assert "without" not in found.stdout
        assert "python preprocess.py --config" in found.stdout
    assert preprocess(*TINY).code == 0
    assert {path.name: path.read_bytes() for path in (folder / "prepared" / "tiny").iterdir()} == alone
    for wrong in ("0/2", "3/2", "1", "a/b", "1/0"):
        assert preprocess(*TINY, "--shard", wrong).code == 2
