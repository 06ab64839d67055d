"""The programs as people run them: in a process of their own, or in this one, which is quicker; and a trained model."""

from __future__ import annotations

import importlib
import math
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from data.vocabulary import Vocabulary
from transformer.command_line import run_command
from transformer.config import ModelSettings, TranslateSettings
from transformer.model import Transformer
from transformer.model_directory import Model, save_model

ROOT = Path(__file__).resolve().parents[2]
MODULES = {"transformer": "transformer.__main__", "grammar": "data.grammar.__main__"}  # the others are scripts

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def program() -> Callable[..., Done]:
    """Run a script to its end, in a process of its own and in a folder."""

    def run(folder: Path, script: str, *arguments: str, stdin: str = "") -> Done:
        command = [sys.executable, ROOT / f"{script}.py", *arguments]
        return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, encoding="utf-8", check=False)

    return run


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a script in a process of its own and in a folder; `limit` runs in it first. Killed after the test."""
    processes: list[subprocess.Popen[str]] = []

    def run(
        folder: Path, script: str, *arguments: str, limit: Callable[[], object] | None = None
    ) -> subprocess.Popen[str]:
        command = [sys.executable, ROOT / f"{script}.py", *arguments]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "encoding": "utf-8"}
        processes.append(subprocess.Popen(command, cwd=folder, preexec_fn=limit, **pipes))
        return processes[-1]

    yield run
    for process in processes:
        with process:  # waits for its end, and closes its pipe
            process.kill()


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[object]:
    """Run a script's main in this process, in `tmp_path`; whatever happens, a user sees no traceback."""
    monkeypatch.chdir(tmp_path)
    n_threads = torch.get_num_threads()

    def run(script: str, *arguments: str | Path) -> Done:
        main = importlib.import_module(MODULES.get(script, script)).main
        capsys.readouterr()
        try:
            code = run_command(lambda: main([*map(str, arguments)]))
        except SystemExit as stop:  # usage and --help
            code = int(stop.code or 0)
        done = Done([script, *map(str, arguments)], code, *capsys.readouterr())
        assert "Traceback" not in done.stderr
        return done

    yield run
    torch.set_num_threads(n_threads)
    torch.set_flush_denormal(False)


UNTRAINED = TranslateSettings(max_length_ratio=0.5, max_extra_length=4)


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with a tiny untrained model, en to de, whose outputs depend strongly on its input."""
    lines = [f"w{i} the cat number {i} sat on the mat" for i in range(1, 200)]
    vocabulary = Vocabulary.learn(lines, size=200, byte_fallback=False)
    directory = tmp_path_factory.mktemp("runs") / "untrained"
    save_untrained(directory, vocabulary, UNTRAINED)
    return directory


def save_untrained(directory: Path, vocabulary: Vocabulary, translate: TranslateSettings) -> None:
    """Write a run directory with an untrained model; enlarged parameters make its outputs depend on its input."""
    settings = ModelSettings(n_encoder_layers=1, n_decoder_layers=1, d_model=32, d_ff=48, n_heads=4)
    torch.manual_seed(0)
    network = Transformer(settings, len(vocabulary), len(vocabulary)).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            matrix = parameter.dim() == 2 and "table" not in name
            parameter *= (4 * math.sqrt(2) if "in_projection" in name else 4) if matrix else 2
    (directory / "model").mkdir(parents=True)
    save_model(directory / "model", Model(network, settings, translate, vocabulary, vocabulary, "en", "de"))


TINY = """
name: tiny
data:
  train: [{src: filler.src, tgt: filler.tgt}]
  valid: [{src: valid.src, tgt: valid.tgt}]
  test: {held-out: {src: valid.src, tgt: valid.tgt}}
vocabulary: {size: 300}
model: {n_encoder_layers: 1, n_decoder_layers: 1, d_model: 32, d_ff: 32, n_heads: 2}
train:
  device: cpu
  threads: 1            # so that every process adds up in the same order
  precision: fp32
  attention: explicit
  batch_tokens: 200
  max_tokens: 300
  max_steps: 4
  lr: 1e-3
  warmup_steps: 10
  ema_decay: 0.9
  validate_every: 10
  save_every: 5
  log_every: 1
translate: {beam_size: 1, max_length_ratio: 0, max_extra_length: 4}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A folder with tiny.yaml and its text; a model to train in a second, that learns nothing."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    for name, numbers in (("filler", range(200)), ("valid", range(200, 206))):
        for side, line in (("src", "the cat number {} sat"), ("tgt", "die katze nummer {} sass")):
            (tmp_path / f"{name}.{side}").write_text("".join(line.format(i) + "\n" for i in numbers))
    return tmp_path


class CopyRun(NamedTuple):
    """Where a model was trained to copy, and with which arguments."""

    folder: Path
    arguments: tuple[str, ...]


@pytest.fixture(scope="session")
def copy_run(tmp_path_factory: pytest.TempPathFactory, program: Callable[..., Done]) -> CopyRun:
    """A folder in which preprocess.py and train.py have learnt to copy lines of up to six of the words w1 … w875."""
    folder = tmp_path_factory.mktemp("copy")
    write_copy_text(folder)
    arguments = ("--config", "demo.yaml", *COPY)
    for script in ("preprocess", "train"):
        done = program(folder, script, *arguments)
        assert done.returncode == 0, done.stderr
    return CopyRun(folder, arguments)


COPY = (
    "name=copy",
    "data.train=[{src: train.txt, tgt: train.txt}]",
    "data.valid=[{src: valid.txt, tgt: valid.txt}]",
    "data.test={held-out: {src: test.txt, tgt: test.txt}}",
    "data.tgt_lang=copied",
    "vocabulary.size=890",  # nearly every word is one piece
    "vocabulary.byte_fallback=false",
    "model.n_encoder_layers=1",
    "model.d_model=64",
    "model.d_ff=64",
    "model.dropout=0",
    "model.norm_position=pre",
    "train.device=cpu",
    "train.precision=fp32",
    "train.attention=explicit",
    "train.threads=1",
    "train.batch_tokens=400",
    "train.label_smoothing=0",
    "train.lr=8e-3",
    "train.warmup_steps=50",
    "train.cooldown_steps=200",
    "train.max_steps=600",
    "train.validate_every=300",
    "train.save_every=300",
    "train.model_from=last",
)


def write_copy_text(folder: Path) -> None:
    """Lines of random words, none of them twice; held-out ones are not the longest, whose ends are seen least."""
    draw = random.Random(1)
    seen: set[str] = set()
    for name, n_lines, longest in (("train", 6000, 6), ("valid", 50, 5), ("test", 200, 5)):
        lines: list[str] = []
        while len(lines) < n_lines:
            line = " ".join(f"w{draw.randint(1, 875)}" for _ in range(draw.randint(1, longest)))
            if line not in seen:
                lines.append(line)
                seen.add(line)
        (folder / f"{name}.txt").write_text("".join(line + "\n" for line in lines))
