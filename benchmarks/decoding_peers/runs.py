"""Run a toolkit's program on a task: start it, wait until it is ready, time it, look at its memory."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.programs import Program, watched
from transformer.errors import RunError


@dataclass(frozen=True)
class System:
    """A way of decoding: a row of the table."""

    name: str
    program: str  # the module of this package that serves it
    python: Path
    processes: int = 1  # that share the sentences among them
    threads: int = 2  # of each process
    options: Mapping[str, Any] = field(default_factory=dict)
    batch_sizes: Sequence[int] = (0,)  # of which it takes the fastest; 0: it chooses by itself
    every: int = 1  # decodes every so many-th sentence only, because it is slow
    own_weights: bool = True  # False: weights of its own, so the length of its outputs is forced
    kind: str = "ours"  # or torch, compiled


@dataclass(frozen=True)
class Run:
    """What came out of it once."""

    version: str
    batch_size: int
    seconds: float
    n_tokens: int
    outputs: list[Any]  # lists of ids, or texts
    memory_gib: float | None  # the most that its processes held together; None: unknown on this platform


def decode(system: System, folder: Path, log: Path, batch_sizes: Sequence[int]) -> Run:
    """Let a system decode a task once; its own messages are added to `log`.

    Raises:
        RunError: it failed; the message ends with what it printed last.
    """
    n = system.processes
    programs = [_started(system, folder, log, (i * system.every, n * system.every), batch_sizes) for i in range(n)]
    try:
        with watched([program.process.pid for program in programs]) as peak:
            ready = [program.answer() for program in programs]
            for program in programs:
                program.go()
            done = [program.answer() for program in programs]
    finally:
        for program in programs:
            program.end()
    outputs: list[Any] = [None] * sum(len(answer["outputs"]) for answer in done)
    for i, answer in enumerate(done):
        outputs[i::n] = answer["outputs"]
    return Run(
        ready[0]["version"],
        ready[0]["batch_size"],
        max(answer["seconds"] for answer in done),
        sum(answer["tokens"] for answer in done),
        outputs,
        peak[0] / 2**30 if peak[0] else None,
    )


def _started(system: System, folder: Path, log: Path, part: tuple[int, int], batch_sizes: Sequence[int]) -> Program:
    """One process of a system, spoken to as `benchmarks.decoding_peers.task` says."""
    command = ["-m", f"benchmarks.decoding_peers.{system.program}", str(folder)]
    options = {**system.options, "part": part, "threads": system.threads, "batch_sizes": list(batch_sizes)}
    return Program(system.name, system.python, command, options, system.threads, log)


def seconds_to_first_line(command: Sequence[str], folder: Path) -> float:
    """From the start of a command to the first line it prints. Raises RunError when it prints none."""
    begin = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - begin
    if not line:
        raise RunError(f"{' '.join(command)} printed nothing, and ended with exit code {process.returncode}")
    return seconds
