"""Parts of a translation: finished once, by whoever it is, and put together by one."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from transformer.errors import RunError
from transformer.inference.command.parts import Parts, differences, open_parts
from transformer.inference.translation import Translation

LINES = [f"line {i}" for i in range(43)]
PLAN = {"lines": len(LINES), "lines_per_part": 5, "translate": {"beam_size": 4}, "inputs": {"input": "a" * 64}}
N_PARTS = 9

Make = Callable[[int, list[str]], Iterable[Translation]]


def shouted(n_before: int, lines: list[str]) -> Iterator[Translation]:
    """What stands for a translation."""
    return (Translation(line.upper(), -1.0, 2, True) for line in lines)


def make(output: Path, translate: Make = shouted, meet: Callable[[], object] = lambda: None) -> bool:
    """What a process does: its share, and the output if it is the last one."""
    with open_parts(output, PLAN, together=True) as parts:
        meet()
        is_last = parts.make(lambda: LINES, translate)
        if is_last:
            with parts.take_all() as translations:
                output.write_text("".join(f"{translation.text}\n" for translation in translations))
        return is_last


def expected() -> str:
    return "".join(f"{line.upper()}\n" for line in LINES)


def finished(output: Path) -> set[str]:
    return {path.name for path in output.with_name(f"{output.name}.parts").glob("part-*")}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_one_process_makes_all_parts_and_leaves_only_the_output(output: Path) -> None:
    assert make(output)
    assert output.read_text() == expected()
    assert names(output.parent) == ["out"]


@pytest.mark.parametrize("n_lines", [0, 1, 5, 6])
def test_any_number_of_lines_is_cut_without_rest(output: Path, n_lines: int) -> None:
    with open_parts(output, PLAN | {"lines": n_lines}) as parts:
        assert parts.n_parts == (n_lines + 4) // 5
        assert parts.make(lambda: LINES[:n_lines], shouted)
        assert parts.n_finished_lines() == n_lines
        with parts.take_all() as translations:
            assert [translation.text for translation in translations] == [line.upper() for line in LINES[:n_lines]]
    assert names(output.parent) == []


def test_what_is_finished_when_it_is_stopped_is_not_done_again(output: Path) -> None:
    seen: list[int] = []

    def stopped(n_before: int, lines: list[str]) -> Iterator[Translation]:
        seen.append(n_before)
        for translation in shouted(n_before, lines):
            if translation.text == "LINE 17":
                raise KeyboardInterrupt
            yield translation

    with pytest.raises(KeyboardInterrupt):
        make(output, stopped)
    assert seen == [0, 5, 10, 15]
    assert finished(output) == {f"part-0000{n}.jsonl" for n in range(3)}
    seen.clear()
    with open_parts(output, PLAN) as parts:
        assert (parts.n_found, parts.n_finished_lines(), parts.missing()) == (3, 15, [3, 4, 5, 6, 7, 8])

    def counted(n_before: int, lines: list[str]) -> Iterator[Translation]:
        seen.append(n_before)
        return shouted(n_before, lines)

    assert make(output, counted)
    assert seen == [15, 20, 25, 30, 35, 40]
    assert output.read_text() == expected()


def test_nothing_stays_where_nothing_was_finished(output: Path) -> None:
    def broken(n_before: int, lines: list[str]) -> Iterator[Translation]:
        yield from shouted(n_before, lines[:2])
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        make(output, broken)
    assert names(output.parent) == []


def make_some(output: Path) -> None:
    """Leave with parts unfinished."""

    def stopped(n_before: int, lines: list[str]) -> Iterator[Translation]:
        if n_before >= 10:
            raise KeyboardInterrupt
        return shouted(n_before, lines)

    with pytest.raises(KeyboardInterrupt):
        make(output, stopped)
    assert len(finished(output)) == 2


def test_parts_of_another_translation_are_refused_and_kept(output: Path) -> None:
    make_some(output)
    other = PLAN | {"translate": {"beam_size": 5}, "inputs": {"input": "b" * 64, "prefix": "c" * 64}}
    with pytest.raises(RunError) as refused, open_parts(output, other):
        pass
    message = str(refused.value)
    for words in ("2 finished parts", "beam_size: 4 → 5", "inputs.input: another one", "inputs.prefix", "rm -r"):
        assert words in message
    assert make(output)
    assert output.read_text() == expected()


def test_a_plan_of_which_nothing_was_finished_gives_way(output: Path) -> None:
    directory = output.with_name("out.parts")
    with open_parts(output, PLAN | {"lines": 3}):
        left = {path.name: path.read_bytes() for path in directory.iterdir()}
    directory.mkdir()
    for name, content in left.items():  # as after a kill
        (directory / name).write_bytes(content)
    assert make(output)
    assert output.read_text() == expected()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda content: content[: len(content) // 2], "line 3"),
        (lambda content: b"".join(content.splitlines(keepends=True)[:-1]), "4 lines instead of 5"),
        (lambda content: content.replace(b"LINE", b"\xff\xfe", 1), "line 1"),
        (lambda content: b"", "0 lines instead of 5"),
    ],
)
def test_a_damaged_part_is_named_and_made_again_when_it_is_removed(
    output: Path, damage: Callable[[bytes], bytes], words: str
) -> None:
    make_some(output)
    part = output.with_name("out.parts") / "part-00001.jsonl"
    part.write_bytes(damage(part.read_bytes()))
    with pytest.raises(RunError, match=words) as refused:
        make(output)
    assert str(part) in str(refused.value)
    assert not output.exists() or output.read_text() != expected()
    part.unlink()
    assert make(output)
    assert output.read_text() == expected()


def test_parts_without_a_manifest_are_refused(output: Path) -> None:
    make_some(output)
    (output.with_name("out.parts") / "manifest.json").unlink()
    with pytest.raises(RunError, match=r"no manifest\.json"):
        make(output)


def test_a_link_is_followed_to_where_the_output_will_be(output: Path) -> None:
    (output.parent / "disk").mkdir()
    output.symlink_to("disk/real")
    with open_parts(output, PLAN) as parts:
        assert parts.directory == output.parent / "disk/real.parts"


def test_differences_name_what_differs_and_nothing_else() -> None:
    first = {"a": 1, "b": {"c": "x", "d": [1]}, "e": "a" * 64, "g": {}}
    assert differences(first, first) == []
    assert differences(first, first | {"a": 2, "b": {"c": "x", "d": [2]}, "e": "b" * 64, "f": True}) == [
        "a: 1 → 2",
        "b.d: [1] → [2]",
        "e: another one, or changed",
        "f: null → true",
    ]


# --- several processes ---


def work(output: Path, seconds: float, meet: Callable[[], object]) -> None:
    """A process that says, in a file, which parts it begins, and takes its time for them."""
    log = output.with_name("log")

    def slow(n_before: int, lines: list[str]) -> Iterator[Translation]:
        with log.open("a") as file:
            file.write(f"{os.getpid()} {n_before // 5}\n")
        for translation in shouted(n_before, lines):
            time.sleep(seconds)
            yield translation

    make(output, slow, meet)


@pytest.fixture
def start(output: Path) -> Iterator[Callable[..., BaseProcess]]:
    context = multiprocessing.get_context("fork")  # quick: everything is imported
    processes: list[BaseProcess] = []

    def begin(seconds: float, meet: Callable[[], object] = time.monotonic) -> BaseProcess:
        process = context.Process(target=work, args=(output, seconds, meet))
        process.start()
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.join()


def begun(output: Path) -> list[tuple[int, int]]:
    """(process, part) as the log has them."""
    lines = output.with_name("log").read_text().splitlines()
    return [(int(pid), int(part)) for pid, part in (line.split() for line in lines)]


def test_processes_share_the_parts_and_make_each_once(output: Path, start: Callable[..., BaseProcess]) -> None:
    processes = [start(0.01) for _ in range(3)]
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert sorted(part for _, part in begun(output)) == list(range(N_PARTS))
    assert len({pid for pid, _ in begun(output)}) > 1
    assert output.read_text() == expected()
    assert names(output.parent) == ["log", "out"]


def test_what_a_killed_process_had_claimed_is_made_by_another(output: Path, start: Callable[..., BaseProcess]) -> None:
    victim = start(60)  # for a line
    while not output.with_name("log").exists():
        time.sleep(0.001)
    other = start(0.01)
    while not finished(output):
        time.sleep(0.001)
    assert other.is_alive()
    victim.kill()
    other.join(60)
    assert other.exitcode == 0
    assert output.read_text() == expected()
    assert sorted(part for _, part in begun(output)) == [0, *range(N_PARTS)]


def test_while_others_work_the_first_to_end_leaves_the_output_to_them(
    output: Path, start: Callable[..., BaseProcess]
) -> None:
    slow = start(0.2)
    while not output.with_name("log").exists():
        time.sleep(0.001)
    assert not make(output)
    assert not output.exists()
    assert len(finished(output)) == N_PARTS - 1
    slow.join(60)
    assert output.read_text() == expected()


def test_another_translation_into_the_same_output_is_refused_while_one_is_made(
    output: Path, start: Callable[..., BaseProcess]
) -> None:
    start(0.2)
    while not output.with_name("log").exists():
        time.sleep(0.001)
    with pytest.raises(RunError, match="beam_size"), open_parts(output, PLAN | {"translate": {"beam_size": 5}}):
        pass


def test_killed_at_any_moment_the_output_is_as_undisturbed_and_nothing_finished_is_done_again(
    output: Path, start: Callable[..., BaseProcess]
) -> None:
    chance = random.Random(1)
    n_kills = 0
    for _ in range(10):
        output.unlink(missing_ok=True)
        while not output.exists():
            log = output.with_name("log")
            log.write_text("")
            before = finished(output)
            meet = multiprocessing.get_context("fork").Barrier(2).wait  # as under torchrun
            processes = [start(0.0005, meet) for _ in range(2)]
            time.sleep(chance.random() * 0.05)
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(process.pid or 0, signal.SIGKILL)
                process.join()
                n_kills += process.exitcode == -signal.SIGKILL
            again = {f"part-{part:05}.jsonl" for _, part in begun(output)}
            assert not before & again
        assert output.read_text() == expected()
        make(output) if output.with_name("out.parts").exists() else None  # killed before it had tidied up
        assert output.read_text() == expected()
    assert n_kills >= 5  # more on a quiet machine
    assert make(output)  # sweeps away what a process left that was killed while it tidied up
    assert names(output.parent) == ["log", "out"]


def test_a_disk_that_cannot_lock_serves_one_process_but_not_several(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.lockf", refuse)
    with pytest.raises(RunError, match="cannot lock"), open_parts(output, PLAN, together=True):
        pass
    with open_parts(output, PLAN) as parts:
        assert isinstance(parts, Parts)
        assert parts.make(lambda: LINES, shouted)
        with parts.take_all() as translations:
            assert len(list(translations)) == len(LINES)
