"""Run a toolkit's program on a task: start it, wait until it is ready, time it, look at its memory."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformer.errors import RunError

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 600  # seconds after which a program is ended: it hangs


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
    programs = [_Program(system, folder, log, (i * system.every, n * system.every), batch_sizes) for i in range(n)]
    try:
        with _watched([program.process.pid for program in programs]) as peak:
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


class _Program:
    """One process of a system, spoken to as `benchmarks.decoding_peers.task` says."""

    def __init__(
        self, system: System, folder: Path, log: Path, part: tuple[int, int], batch_sizes: Sequence[int]
    ) -> None:
        self.name, self.log = system.name, log
        options = {**system.options, "part": part, "threads": system.threads, "batch_sizes": list(batch_sizes)}
        command = [str(system.python), "-m", f"benchmarks.decoding_peers.{system.program}", str(folder)]
        threads = {f"{library}_NUM_THREADS": str(system.threads) for library in ("OMP", "MKL", "OPENBLAS")}
        with log.open("ab") as stream:
            stream.write(f"--- {system.name}\n".encode())
            stream.flush()
            self.process = subprocess.Popen(
                [*command, json.dumps(options)],
                cwd=ROOT,
                env={**os.environ, **threads, "HF_HUB_OFFLINE": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                encoding="utf-8",
            )
        self.timer = threading.Timer(PATIENCE, self.process.kill)
        self.timer.start()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            last = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1]
            raise RunError(f"{self.name}: ended with exit code {self.process.wait()}, in {self.log.name} last: {last}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def go(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has died; asked for an answer, it gives none
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def end(self) -> None:
        self.timer.cancel()
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.close()
            self.process.wait(20)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@contextmanager
def _watched(pids: Sequence[int]) -> Iterator[list[int]]:
    """Collect, while it lasts, the largest sum of the resident bytes of these processes and all they started.

    Pages that several of them share count for each. Looked at ten times a second; 0 where there is no /proc.
    """
    peak, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            peak[0] = max(peak[0], sum(map(_resident_bytes, pids)))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _resident_bytes(pid: int) -> int:
    """Of a process and its descendants."""
    folder = Path("/proc") / str(pid)
    try:
        own = int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        children = [
            int(child) for task in (folder / "task").iterdir() for child in (task / "children").read_text().split()
        ]
    except (OSError, IndexError):  # it has just ended, or there is no /proc
        return 0
    return own + sum(map(_resident_bytes, children))


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
