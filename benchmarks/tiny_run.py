"""A very small but real run, and train.py started on it as a user would; what several measurements and tests share.

The text is the built-in grammar's, prepared by preprocess.py. Dropout, a moving average, changes on the fly, several
micro-batches an update and frequent saving are on: whatever a stop could damage.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from data.grammar.corpus import write_corpus
from transformer.errors import RunError

ROOT = Path(__file__).resolve().parent.parent
NAME = "tiny"
CONFIG = """
name: tiny
data:
  train: [{src: corpus/train.en, tgt: corpus/train.de}]
  valid: [{src: corpus/valid.en, tgt: corpus/valid.de}]
vocabulary: {size: 500}
model: {n_encoder_layers: 1, n_decoder_layers: 1, d_model: 32, d_ff: 64, n_heads: 2, dropout: 0.1}
train:
  device: cpu
  threads: 1            # so that every run adds up in the same order
  precision: fp32
  attention: explicit
  batch_tokens: 300
  max_tokens: 150       # so that an update is several micro-batches
  max_steps: 200
  lr: 3e-3
  warmup_steps: 50
  cooldown_steps: 50
  clip_norm: 1.0
  ema_decay: 0.99
  augmentation:
    src: {bpe_dropout: 0.1}
    tgt: {bpe_dropout: 0.1}
    upper_case: 0.1
    typos: 0.1
    merge_sentences: 0.1
  validate_every: 20
  save_every: 10
  log_every: 7          # neither divides the other
  average_checkpoints: 3
translate: {beam_size: 1, max_length_ratio: 0, max_extra_length: 8}
"""
CLOCK = {"seconds", "tokens_per_second", "memory_gib"}  # what may differ between equal runs
_LONGEST = 600  # seconds that a run is given to end


def prepare(folder: Path, *overrides: str, n_train: int = 3000, n_valid: int = 8) -> None:
    """Write text and tiny.yaml into a folder, and prepare the text there as prepared/tiny."""
    folder.mkdir(parents=True, exist_ok=True)
    write_corpus(folder / "corpus", n_train, n_valid, 0, seed=1)
    (folder / "tiny.yaml").write_text(CONFIG, encoding="utf-8")
    finish(Program(folder, [sys.executable, str(ROOT / "preprocess.py"), *arguments(*overrides)]))


def arguments(*overrides: str) -> list[str]:
    """What preprocess.py and train.py are given in such a folder."""
    return ["--config", "tiny.yaml", *overrides]


def train_command(
    processes: int, *overrides: str, script: Path = ROOT / "train.py", launcher: Sequence[str] = ("--standalone",)
) -> list[str]:
    """How train.py is started: by itself, or by torchrun on this machine with options of its own."""
    return command_of(processes, [str(script), *arguments(*overrides)], launcher)


def command_of(processes: int, script: Sequence[str], launcher: Sequence[str] = ("--standalone",)) -> list[str]:
    """How a script with its arguments is started: by itself, or by torchrun."""
    torchrun = ["-m", "torch.distributed.run", *launcher, "--nproc-per-node", str(processes)]
    return [sys.executable, *(torchrun if processes > 1 else []), *script]


class Program:
    """A program that runs in a folder, and the processes that it has started; to be waited for, or killed."""

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        self.folder = folder
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as it may write)
        self._started = time.monotonic()
        self.process = subprocess.Popen(command, cwd=folder, stdout=self._log, stderr=subprocess.STDOUT)
        self.pids = [self.process.pid]

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._started

    @property
    def told(self) -> str:
        """Everything it has written so far; read at a position, as the place to write is the program's."""
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")

    @property
    def runs(self) -> bool:
        """Whether it has not ended by now."""
        return self.process.poll() is None

    def wait_until(self, there: Callable[[], bool], seconds: float = math.inf) -> bool:
        """Whether it came true before the program ended and the time was over."""
        end = time.monotonic() + seconds
        while not there():
            if not self.runs or time.monotonic() > end:
                return there()
            time.sleep(0.001)
        return True

    def wait_until_it_trains(self) -> bool:
        """Until train.py has announced the run: imports are over, all processes are there, nothing is loaded yet."""
        if not self.wait_until(lambda: f"runs/{NAME}:" in self.told, _LONGEST):
            return False
        self.find_processes()
        return True

    def find_processes(self) -> None:
        """Note all its processes: torchrun gives each a session of its own, so that no signal to a group finds them."""
        table = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, encoding="ascii", check=True)
        parents = [tuple(map(int, line.split())) for line in table.stdout.splitlines()]
        self.pids = [self.process.pid]
        for one in self.pids:  # grows meanwhile
            self.pids += [child for child, parent in parents if parent == one]

    def kill(self) -> None:
        """End all its processes at once, as a power cut would, and wait until they are gone."""
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        while any(alive(pid) for pid in self.pids):
            time.sleep(0.01)

    def wait(self, seconds: float = _LONGEST) -> int:
        """Its exit code.

        Raises:
            RunError: it did not end in time; it is killed then.
        """
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.find_processes()
            self.kill()
            raise RunError(f"{self.process.args!r} did not end within {seconds:.0f} s:\n{self.told[-8000:]}") from None


def alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, encoding="ascii", check=False)
    return done.stdout.strip()[:1] not in ("", "Z")


def finish(program: Program) -> None:
    """Wait for a program that must end well.

    Raises:
        RunError: it did not; with what it told.
    """
    code = program.wait()
    if code != 0:
        raise RunError(f"{program.process.args!r} ended with exit code {code}:\n{program.told[-8000:]}")


def metrics_of(run: Path) -> list[dict[str, Any]]:
    """The whole lines of metrics.jsonl, without those figures that may differ between equal runs."""
    path = run / "metrics.jsonl"
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [{key: value for key, value in row.items() if key not in CLOCK} for row in rows]
