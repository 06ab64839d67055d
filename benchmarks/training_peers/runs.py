"""Let a toolkit's program train on a task: start it, wait until it is warm, time it, look at its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.others import Others, wait_until_quiet
from benchmarks.programs import Program, peak_bytes

THREADS = 2
QUIET_CORES = 0.1  # an interval in which others kept more busy is done again
N_TRIES = 3  # of which, if none was quiet, the quietest counts
PATIENCE_SECONDS = 30.0  # before each, for others to end


@dataclass(frozen=True)
class System:
    """A row of the table."""

    name: str
    program: str  # the module of benchmarks.training_peers that serves it
    python: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = None  # takes part in so many at most, because it is slow

    @property
    def is_ours(self) -> bool:
        """A way of this project, not one to compare it with."""
        return self.program == "ours"


@dataclass(frozen=True)
class Run:
    """What came out of a program once."""

    version: str
    precision: str
    note: str
    tokens_per_second: list[float]  # of each interval
    memory_bytes: int | None  # None: unknown on this platform
    n_disturbed: int = 0  # intervals in which others kept more than QUIET_CORES busy, each time


def train(row: System, folder: Path, n_intervals: int, log: Path) -> Run:
    """Let a system train once. Raises RunError when it fails, with what it printed last."""
    command = ["-m", f"benchmarks.training_peers.{row.program}", str(folder)]
    program = Program(row.name, row.python, command, {**row.options, "threads": THREADS}, THREADS, log)
    try:
        ready = program.answer()
        intervals = [_interval(program) for _ in range(n_intervals)]
        memory = peak_bytes(program.process.pid)
    finally:
        program.end()
    rates = [rate for _, rate in intervals]
    n_disturbed = sum(others > QUIET_CORES for others, _ in intervals)
    return Run(ready["version"], ready["precision"], ready["note"], rates, memory, n_disturbed)


def _interval(program: Program) -> tuple[float, float]:
    """Cores that others kept busy meanwhile, and target tokens per second: the quietest of some tries."""
    tries = []
    for _ in range(N_TRIES):
        wait_until_quiet(program.process.pid, QUIET_CORES, PATIENCE_SECONDS)
        others = Others(program.process.pid)
        program.go()
        done = program.answer()
        tries.append((others.cores(), done["tokens"] / done["seconds"]))
        if tries[-1][0] <= QUIET_CORES:
            break
    return min(tries)
