"""`translate.py` from a file into a file: in parts that survive whatever ends it, shared by all processes."""

from __future__ import annotations

import io
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from benchmarks.tiny_run import ROOT, Program, alive
from transformer.inference.command import job
from transformer.inference.translator import Translator

Call = Callable[..., CompletedProcess[str]]
Launch = Callable[..., Program]

SIZE = 10  # lines in a part
N_PARTS = 12
LINES = [" ".join([f"w{i}"] * (i % 9)) for i in range(N_PARTS * SIZE - 3)]

# translate.py with small parts, which says which part it begins, and does something at the end of each.
WRAPPER = """
import os, signal, sys, time

sys.path.insert(0, {root!r})
import translate
from transformer.command_line import run_command
from transformer.errors import RunError
from transformer.inference.command import job
from transformer.inference.translator import Translator

job.LINES_PER_PART = {size}
rank = int(os.environ.get("RANK", "0"))
plain = Translator.translations


def logged(self, requests, window, progress, annotate, first_line):
    part = first_line // {size}
    with open("log", "a") as log:
        print(part, rank, os.getpid(), file=log)
    yield from plain(self, requests, window, progress, annotate, first_line)
    {event}


Translator.translations = logged
if __name__ == "__main__":
    sys.exit(run_command(translate.main))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an input."""
    (tmp_path / "in").write_text("".join(line + "\n" for line in LINES))
    return tmp_path


@pytest.fixture
def launch(untrained: Path, folder: Path) -> Iterator[Launch]:
    """Start translate.py on one process or several; none is left after the test."""
    programs: list[Program] = []

    def run(processes: int, event: str = "time.sleep(0.02)", output: str = "out", *arguments: str) -> Program:
        script = folder / "wrapper.py"
        script.write_text(WRAPPER.format(root=str(ROOT), size=SIZE, event=event))
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, *(torchrun if processes > 1 else []), str(script), "--model", str(untrained)]
        command += ["--device", "cpu", "--threads", "1", "--input", "in", "--output", output, *arguments]
        programs.append(Program(folder, command))
        return programs[-1]

    yield run
    for program in programs:
        if program.runs:
            program.find_processes()
            program.kill()


@pytest.fixture
def translate(untrained: Path, folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run translate.py in this process, with small parts."""
    monkeypatch.setattr(job, "LINES_PER_PART", SIZE)
    return lambda *arguments: call("translate", "--model", untrained, "--device", "cpu", *arguments)


@pytest.fixture
def undisturbed(translate: Call, folder: Path) -> bytes:
    """What comes out."""
    done = translate("--input", "in", "--output", "undisturbed")
    assert done.returncode == 0, done.stderr
    return (folder / "undisturbed").read_bytes()


def begun(folder: Path) -> list[tuple[int, int, int]]:
    """(part, rank, process) of each part that was begun, in order."""
    log = folder / "log"
    rows = [tuple(map(int, line.split())) for line in log.read_text().splitlines()] if log.exists() else []
    return [(part, rank, pid) for part, rank, pid in rows]


def finished(folder: Path) -> set[int]:
    return {int(path.stem.removeprefix("part-")) for path in (folder / "out.parts").glob("part-*.jsonl")}


def test_parts_give_what_a_stream_gives_in_every_form(
    translate: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in ([], ["--format", "tsv"], ["--format", "jsonl"], ["--format", "xml"]):
        assert translate("--input", "in", "--output", "out", *arguments).returncode == 0
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((folder / "in").read_bytes())))
            assert translate("--output", "streamed", *arguments).returncode == 0
        assert (folder / "out").read_bytes() == (folder / "streamed").read_bytes()
        assert not (folder / "out.parts").exists()


def test_two_processes_give_what_one_gives_and_share_the_work(launch: Launch, folder: Path, undisturbed: bytes) -> None:
    program = launch(2, "time.sleep(0.1)")
    assert program.wait(120) == 0, program.told
    assert (folder / "out").read_bytes() == undisturbed
    assert Counter(part for part, _, _ in begun(folder)) == dict.fromkeys(range(N_PARTS), 1)
    assert {rank for _, rank, _ in begun(folder)} == {0, 1}
    assert program.told.count("wrote out: 117 lines") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["in", "log", "out", "undisturbed", "wrapper.py"]


def test_where_one_process_fails_all_end_and_finished_parts_are_kept(
    launch: Launch, folder: Path, undisturbed: bytes
) -> None:
    event = 'time.sleep(0.2)\n    if rank == 1 and part > 3: raise RunError("a cable was pulled")'
    program = launch(2, event)
    assert program.wait(60) != 0
    assert "error: a cable was pulled" in program.told
    assert "Traceback" not in program.told.split("a cable was pulled")[0]
    assert not any(alive(pid) for _, _, pid in begun(folder))
    assert not (folder / "out").exists()
    kept = finished(folder)
    assert kept
    (folder / "log").unlink()
    program = launch(1)
    assert program.wait(60) == 0, program.told
    assert f"{len(kept)} of {N_PARTS} parts are finished already" in program.told
    assert (folder / "out").read_bytes() == undisturbed
    assert not kept & {part for part, _, _ in begun(folder)}


def kill_until_it_ends(launch: Launch, folder: Path, processes: int, chance: random.Random, most: int) -> int:
    """Kill it at random moments, and start it again; returns how often it was killed."""
    n_kills = 0
    while not (folder / "out").exists():
        before = finished(folder)
        (folder / "log").unlink(missing_ok=True)
        program = launch(processes)
        n_more = chance.randint(1, N_PARTS // 2) if n_kills < most else N_PARTS + 1
        program.wait_until(lambda n_more=n_more: len(begun(folder)) >= n_more)  # type: ignore[misc]
        program.wait_until(lambda: False, chance.random() * 0.05)
        program.find_processes()
        n_kills += program.runs
        program.kill()
        assert not before & {part for part, _, _ in begun(folder)}
    return n_kills


def test_killed_at_random_moments_it_ends_with_the_bytes_of_an_undisturbed_run(
    launch: Launch, folder: Path, undisturbed: bytes
) -> None:
    assert kill_until_it_ends(launch, folder, 1, random.Random(1), most=2) == 2
    assert (folder / "out").read_bytes() == undisturbed


@pytest.mark.slow
def test_two_processes_killed_at_random_moments_do_too(launch: Launch, folder: Path, undisturbed: bytes) -> None:
    chance, n_kills = random.Random(2), 0
    for _ in range(2):
        (folder / "out").unlink(missing_ok=True)
        n_kills += kill_until_it_ends(launch, folder, 2, chance, most=5)
        assert (folder / "out").read_bytes() == undisturbed
    assert n_kills > 4


@pytest.mark.slow
def test_one_of_two_killed_ends_both_and_loses_nothing_finished(
    launch: Launch, folder: Path, undisturbed: bytes
) -> None:
    program = launch(2, "time.sleep(0.2)")
    assert program.wait_until(lambda: len(finished(folder)) > 2, 60), program.told
    pid = begun(folder)[-1][2]
    os.kill(pid, signal.SIGKILL)
    assert program.wait(60) != 0
    kept = finished(folder)
    (folder / "log").unlink()
    assert launch(2).wait(60) == 0
    assert (folder / "out").read_bytes() == undisturbed
    assert not kept & {part for part, _, _ in begun(folder)}


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Ctrl-C comes in the part after so many."""
    plain = Translator.translations

    def stop(n_parts: int) -> None:
        def stopped(self: Translator, requests: Any, window: Any, progress: Any, annotate: Any, first_line: int) -> Any:
            if first_line == n_parts * SIZE:
                raise KeyboardInterrupt
            return plain(self, requests, window, progress, annotate, first_line)

        monkeypatch.setattr(Translator, "translations", stopped)

    return stop


def test_ctrl_c_says_how_much_is_finished_and_the_same_command_goes_on(
    translate: Call, folder: Path, undisturbed: bytes, stop_after: Callable[[int], None]
) -> None:
    stop_after(3)
    done = translate("--input", "in", "--output", "out")
    assert done.returncode == 130
    assert done.stderr == "interrupted: 3 of 12 parts are finished; the same command goes on there\n"
    stop_after(-1)
    done = translate("--input", "in", "--output", "out", "--batch-size", "3")  # how it is computed may change
    assert done.returncode == 0
    assert "3 of 12 parts are finished already, in " in done.stderr
    assert "wrote out: 117 lines, of them 87 here, in " in done.stderr
    assert (folder / "out").read_bytes() == undisturbed


def test_parts_of_another_input_model_or_setting_are_refused_and_kept(
    untrained: Path, translate: Call, folder: Path, undisturbed: bytes, stop_after: Callable[[int], None]
) -> None:
    stop_after(2)
    command = ("--input", "in", "--output", "out")
    assert translate(*command).returncode == 130
    stop_after(-1)
    kept = finished(folder)
    (folder / "prefix").write_text("\n" * len(LINES))
    (folder / "other").write_text("".join(line + "\n" for line in LINES[::-1]))
    for other, words in (
        ([*command, "translate.beam_size=2"], "translate.beam_size: 4 → 2"),
        ([*command, "--prefix", "prefix"], "inputs.prefix"),
        ([*command, "--alignments", "aligned"], "annotate: false → true"),
        (["--input", "other", "--output", "out"], "inputs.input: another one, or changed"),
        ([*command, "--model", str(untrained), str(untrained)], "models"),
    ):
        done = translate(*other)
        assert done.returncode == 1
        assert words in done.stderr
        assert "out.parts has 2 finished parts of another translation" in done.stderr
    assert finished(folder) == kept
    assert translate(*command).returncode == 0
    assert (folder / "out").read_bytes() == undisturbed


def test_an_input_that_changes_meanwhile_is_noticed(
    translate: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Translator.translations

    def changing(self: Translator, *arguments: Any) -> Any:
        with (folder / "in").open("a") as file:
            file.write("more\n")
        return plain(self, *arguments)

    monkeypatch.setattr(Translator, "translations", changing)
    done = translate("--input", "in", "--output", "out")
    assert done.returncode == 1
    assert "in, or a file beside it, was changed while it was translated" in done.stderr
    assert not (folder / "out").exists()


def test_several_processes_need_files(translate: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    done = translate("--input", "in")
    assert done.returncode == 2
    assert "2 processes" in done.stderr
    assert "--output FILE" in done.stderr
