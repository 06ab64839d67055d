"""Let a toolkit's program train on a task: start it, wait until it is warm, time it, look at its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.programs import Program, peak_bytes

THREADS = 2


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


def train(row: System, folder: Path, n_intervals: int, log: Path) -> Run:
    """Let a system train once. Raises RunError when it fails, with what it printed last."""
    command = ["-m", f"benchmarks.training_peers.{row.program}", str(folder)]
    program = Program(row.name, row.python, command, {**row.options, "threads": THREADS}, THREADS, log)
    try:
        ready = program.answer()
        rates = []
        for _ in range(n_intervals):
            program.go()
            done = program.answer()
            rates.append(done["tokens"] / done["seconds"])
        memory = peak_bytes(program.process.pid)
    finally:
        program.end()
    return Run(ready["version"], ready["precision"], ready["note"], rates, memory)
