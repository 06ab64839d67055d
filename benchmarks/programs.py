"""Programs of other toolkits, each run by the Python of its own environment and spoken to by lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from transformer.errors import ConfigError, RunError

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 600  # seconds after which a program is ended: it hangs


def pythons(arguments: Sequence[str], names: Sequence[str]) -> dict[str, Path]:
    """The interpreters of NAME=DIR. Raises ConfigError when one is not there."""
    found = {}
    for argument in arguments:
        name, _, folder = argument.partition("=")
        python = Path(folder).resolve() / "bin/python"
        if name not in names:
            raise ConfigError(f"--venv {argument}: NAME is one of {', '.join(names)}")
        if not python.exists():
            raise ConfigError(f"--venv {argument}: there is no {python}; benchmarks/install_peers.sh makes it")
        found[name] = python
    return found


class Program:
    """A process that answers with lines on its standard output, and goes on when it is sent an empty one.

    `command` is what follows the interpreter; the last argument is `options` as JSON. `name` is what messages call it;
    its own messages are added to `log`.
    """

    def __init__(
        self,
        name: str,
        python: Path,
        command: Sequence[str],
        options: Mapping[str, Any],
        threads: int,
        log: Path,
    ) -> None:
        self.name, self.log = name, log
        environment = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL", "OPENBLAS")}
        with log.open("ab") as stream:
            stream.write(f"--- {name}\n".encode())
            stream.flush()
            self.process = subprocess.Popen(
                [str(python), *command, json.dumps(options)],
                cwd=ROOT,
                env={**os.environ, **environment, "HF_HUB_OFFLINE": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                encoding="utf-8",
            )
        self.timer = threading.Timer(PATIENCE, self.process.kill)
        self.timer.start()

    def answer(self) -> dict[str, Any]:
        """Wait for its next line. Raises RunError when it ends instead, with what it printed last."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            last = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1]
            raise RunError(f"{self.name}: ended with exit code {self.process.wait()}, in {self.log.name} last: {last}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def go(self) -> None:
        """Send it a line."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has died; asked for an answer, it gives none
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def end(self) -> None:
        """Close its input, and wait until it has ended."""
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
def watched(pids: Sequence[int]) -> Iterator[list[int]]:
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


def peak_bytes(pid: int) -> int | None:
    """The most that a process has held so far; None where there is no /proc."""
    try:
        lines = (Path("/proc") / str(pid) / "status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)
