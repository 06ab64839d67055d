"""The real programs, run as a user runs them, and one small machine that has learnt to copy."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
COPY = [  # settings with which the copy task is learnt in seconds
    "vocabulary.size=890",
    "vocabulary.byte_fallback=false",
    "model.n_encoder_layers=1",
    "model.d_model=64",
    "model.d_ff=64",
    "model.norm_position=pre",
    "model.dropout=0",
    "train.precision=fp32",
    "train.attention=explicit",
    "train.batch_tokens=400",
    "train.max_tokens=2000",
    "train.max_steps=400",
    "train.warmup_steps=50",
    "train.cooldown_steps=150",
    "train.lr=8e-3",
    "train.label_smoothing=0",
    "train.validate_every=200",
    "train.save_every=200",
    "train.model_from=last",
]


class Finished(NamedTuple):
    """How a program ended."""

    code: int
    out: str
    err: str


Script = Callable[..., Finished]


def start(script: str, arguments: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    """Begin to run a script of the repository in a folder."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / script), *arguments],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="surrogateescape",
    )


@pytest.fixture(scope="session")
def script() -> Script:
    """Run a script to its end: `script(folder, "train.py", "--config", …, stdin="text")`."""

    def run(folder: Path, name: str, *arguments: str, stdin: str = "") -> Finished:
        process = start(name, arguments, folder)
        out, err = process.communicate(stdin, timeout=300)
        assert "Traceback" not in err, err
        return Finished(process.returncode, out, err)

    return run


def write_copy_corpus(folder: Path, n_train: int) -> list[str]:
    """Sentences of 1 to 6 numbered words, equal on both sides, none twice; returns the arguments that name them."""
    chance = random.Random(1)
    seen: set[str] = set()
    for split, n, longest in (("train", n_train, 6), ("valid", 60, 5), ("test", 200, 5)):
        lines: list[str] = []
        while len(lines) < n:
            line = " ".join(f"w{chance.randint(1, 875)}" for _ in range(chance.randint(1, longest)))
            if line not in seen:
                seen.add(line)
                lines.append(line)
        for side in ("src", "tgt"):
            (folder / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines))
    return [
        "--config=demo.yaml",
        "name=copy",
        "data.train=[{src: train.src, tgt: train.tgt}]",
        "data.valid=[{src: valid.src, tgt: valid.tgt}]",
        "data.test={copy: {src: test.src, tgt: test.tgt}}",
        *COPY,
    ]


class CopyRun(NamedTuple):
    """A finished run of the copy task."""

    folder: Path
    arguments: list[str]
    preprocess: Finished
    train: Finished


@pytest.fixture(scope="session")
def copy_run(tmp_path_factory: pytest.TempPathFactory, script: Script) -> CopyRun:
    """preprocess.py and train.py on the copy task, once for all tests."""
    folder = tmp_path_factory.mktemp("copy")
    arguments = write_copy_corpus(folder, n_train=6000)
    prepared = script(folder, "preprocess.py", *arguments)
    return CopyRun(folder, arguments, prepared, script(folder, "train.py", *arguments))
