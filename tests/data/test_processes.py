"""Jobs in processes: all are done, few wait, and what goes wrong there is heard here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from data.errors import DataError
from data.processes import run_jobs

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Touch:
    """Makes the file of that name; a module of its own would be needed for spawn to find it, so code is sent."""

    folder: Path

    def __call__(self, name: str) -> None:
        (self.folder / name).touch()


PROGRAM = """
import sys, os, time
from pathlib import Path
from data.processes import run_jobs
from data.errors import DataError

def work(name):
    if name == "bad":
        raise DataError("the bad one")
    if name == "killed":
        os.kill(os.getpid(), 9)
    if name == "slow":
        Path("pid-%d" % os.getpid()).touch()
        time.sleep(600)
    Path(name).touch()

if __name__ == "__main__":
    try:
        n = sum(1 for _ in run_jobs(work, sys.argv[1:], 2))
        print(n, "done")
    except DataError as error:
        print("error:", error)
"""


def run_program(folder: Path, *names: str) -> str:
    (folder / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "program.py", *names]
    found = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def test_one_worker_needs_no_process_and_draws_a_job_only_when_the_last_is_done(tmp_path: Path) -> None:
    drawn: list[str] = []

    def jobs() -> object:
        for name in ("a", "b", "c"):
            drawn.append(name)
            yield name

    work = Touch(tmp_path)
    for n_done, _ in enumerate(run_jobs(work, jobs(), 1), 1):
        assert len(list(tmp_path.iterdir())) == n_done
        assert len(drawn) == max(2, n_done)  # two are looked at to see whether processes pay
    assert drawn == ["a", "b", "c"]


def test_processes_do_all_jobs_and_their_errors_arrive(tmp_path: Path) -> None:
    names = [str(number) for number in range(10)]
    assert run_program(tmp_path, *names) == "10 done"
    assert {path.name for path in tmp_path.iterdir()} == {*names, "program.py"}
    assert run_program(tmp_path, "0", "bad", "1") == "error: the bad one"


def test_a_killed_process_is_a_sentence_not_a_hang(tmp_path: Path) -> None:
    assert "worker processes was killed" in run_program(tmp_path, "0", "killed", "1")


def test_workers_of_a_killed_parent_end(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "program.py", "slow", "slow"], cwd=tmp_path, env=environment)
    wait_until(lambda: len(list(tmp_path.glob("pid-*"))) == 2)
    pids = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_until(condition: object, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def test_an_error_of_a_single_job_is_its_own() -> None:
    def fail(_: int) -> None:
        raise DataError("here")

    with pytest.raises(DataError, match="here"):
        list(run_jobs(fail, [1], 8))
