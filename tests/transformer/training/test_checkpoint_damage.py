"""Checkpoints: damage is noticed and named; full disks and killed writers cost no more than the checkpoint at hand."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from safetensors import SafetensorError
from torch import Tensor

from data.errors import DataError
from transformer import model_directory
from transformer.errors import RunError
from transformer.model_directory import Model, find_model, load_model
from transformer.training import checkpoint
from transformer.training.checkpoint import (
    PROGRESS,
    STATE,
    last_checkpoints,
    list_checkpoints,
    load_checkpoint,
    sound_checkpoint,
)
from transformer.training.state import TrainingState

Trained = tuple[TrainingState, Model]
Save = Callable[..., Path]


def refusal(path: Path, state: TrainingState) -> str:
    with pytest.raises(RunError) as error:
        load_checkpoint(path, state)
    return str(error.value)


def test_case_c3_a_truncated_or_missing_file_is_refused_and_named(tmp_path: Path, save: Save, trained: Trained) -> None:
    path = save(tmp_path, *trained)
    files = [file for file in path.iterdir() if file.name != "README.md"]
    assert len(files) == 5
    for file in files:
        content = file.read_bytes()
        for n_bytes in (0, 1, len(content) // 2, len(content) - 2):
            file.write_bytes(content[:n_bytes])
            assert str(file) in refusal(path, trained[0]), (file.name, n_bytes)
        file.unlink()
        assert str(file) in refusal(path, trained[0])
        file.write_bytes(content)
        load_checkpoint(path, trained[0])  # whole again


@pytest.mark.parametrize("name", ["model.safetensors", "model.json", "vocabulary.model", STATE])
def test_case_c3_a_single_flipped_bit_is_refused_and_its_file_named(
    name: str, tmp_path: Path, save: Save, trained: Trained
) -> None:
    path = save(tmp_path, *trained)
    content = (path / name).read_bytes()
    for _ in range(20):
        damaged = bytearray(content)
        damaged[random.randrange(len(content))] ^= 1 << random.randrange(8)
        (path / name).write_bytes(damaged)
        assert str(path / name) in refusal(path, trained[0])


def test_case_c3_a_flipped_bit_of_the_progress_is_refused_or_without_effect(
    tmp_path: Path, save: Save, trained: Trained
) -> None:
    """The last of 17 digits may leave a number what it was, and a damaged checksum looks like a damaged file."""
    path = save(tmp_path, *trained)
    state, saved = trained[0], trained[0].progress
    content = (path / PROGRESS).read_bytes()
    places = range(0, len(content), 3)
    n_refused = 0
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << random.randrange(8)
        (path / PROGRESS).write_bytes(damaged)
        try:
            load_checkpoint(path, state)
        except RunError as error:
            n_refused += 1
            assert str(path) in str(error)
        assert state.progress == saved
    assert n_refused > 0.99 * len(places)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", '{"format": 1}', '{"format": "1"}', "[" * 100_000, "\xff", '{"format": 1e999}']
)
def test_a_progress_file_that_is_no_progress_is_refused(
    text: str, tmp_path: Path, save: Save, trained: Trained
) -> None:
    path = save(tmp_path, *trained)
    (path / PROGRESS).write_bytes(text.encode("latin-1"))
    assert str(path / PROGRESS) in refusal(path, trained[0])


def test_a_checkpoint_of_a_newer_format_asks_for_a_newer_program(tmp_path: Path, save: Save, trained: Trained) -> None:
    path = save(tmp_path, *trained)
    saved = json.loads((path / PROGRESS).read_text())
    (path / PROGRESS).write_text(json.dumps(saved | {"format": 99}))
    message = refusal(path, trained[0])
    assert "format 99" in message
    assert "update the program" in message


# --- the checkpoint before ---


@pytest.mark.parametrize("name", ["model.safetensors", "model.json", "vocabulary.model", STATE, PROGRESS])
@pytest.mark.parametrize("how", ["flipped", "truncated", "missing"])
def test_case_c3_where_the_newest_is_damaged_a_run_goes_on_from_the_one_before(
    name: str, how: str, tmp_path: Path, save: Save, trained: Trained, capsys: pytest.CaptureFixture[str]
) -> None:
    state, model = trained
    before = save(tmp_path, state, model)
    state.progress.step = 6
    newest = save(tmp_path, state, model)
    assert sound_checkpoint(tmp_path) == newest
    file = newest / name
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 4
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(content if how == "flipped" else content[:-9])
    assert sound_checkpoint(tmp_path) == before
    told = capsys.readouterr().err
    assert str(file) in told and "going on from" in told and before.name in told
    assert list(list_checkpoints(tmp_path)) == [4]  # nothing reads the damaged one again
    assert (tmp_path / f"damaged-{newest.name}").is_dir()


def test_where_all_are_damaged_the_run_does_not_begin_anew_in_silence(
    tmp_path: Path, save: Save, trained: Trained
) -> None:
    state, model = trained
    paths = []
    for step in (4, 6):
        state.progress.step = step
        paths.append(save(tmp_path, state, model))
    for path in paths:
        (path / STATE).write_bytes(b"")
    for _ in range(2):  # and not the next time either
        with pytest.raises(RunError) as error:
            sound_checkpoint(tmp_path)
        assert all(str(path / STATE) in str(error.value) for path in paths)


# --- a disk that is full, a writer that is killed ---


@contextmanager
def files_limited_to(n_bytes: int) -> Iterator[None]:
    """Writing more into one file fails, as on a full disk; an error of the operating system, not of a stand-in."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("n_bytes", [0, 1000, 30_000, 60_000])
def test_when_the_disk_is_full_the_checkpoint_before_stays(
    n_bytes: int,
    tmp_path: Path,
    save: Save,
    trained: Trained,
    files_of: Callable[[Path], dict[str, bytes]],
) -> None:
    """The weights take 40 kB, the state of training more, the rest less: each limit stops another file."""
    state, model = trained
    save(tmp_path, state, model)
    before = files_of(tmp_path)
    state.progress.step = 6
    with files_limited_to(n_bytes), pytest.raises((RunError, OSError)) as error:
        save(tmp_path, state, model)
    assert "\n" not in str(error.value)
    assert files_of(tmp_path) == before
    assert (tmp_path / "last").resolve().name == "step-00000004"
    save(tmp_path, state, model)  # with room again, as if nothing had been
    assert list(list_checkpoints(tmp_path)) == [4, 6]


def test_no_space_left_is_one_sentence_that_says_what_is_safe(
    tmp_path: Path, save: Save, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(tensors: dict[str, Tensor], path: Path, *_: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(model_directory, "save_file", full)
    with pytest.raises(RunError) as error:
        save(tmp_path, *trained)
    message = str(error.value)
    assert "No space left on device" in message
    assert message.endswith("what was saved before is untouched")
    assert "\n" not in message


def test_what_a_killed_writer_left_behind_is_swept(tmp_path: Path, save: Save, trained: Trained) -> None:
    leftovers = [tmp_path / ".step-00000002.partial", tmp_path / ".step-00000004.partial"]
    for leftover in leftovers:
        leftover.mkdir()
        (leftover / "model.safetensors").write_bytes(b"half")
    (tmp_path / ".last.partial").symlink_to("step-00000002")
    path = save(tmp_path, *trained)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["best", "last", path.name]
    load_checkpoint(path, trained[0])


def test_case_c3_a_writer_killed_at_any_moment_leaves_a_checkpoint_to_go_on_from(
    tmp_path: Path, save: Save, trained: Trained
) -> None:
    """Twenty processes that do nothing but save, killed while they do."""
    state, model = trained
    save(tmp_path, state, model, keep=1)
    n_interrupted = 0
    for _ in range(20):
        begin = max(list_checkpoints(tmp_path))
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                for step in range(begin + 1, begin + 1000):
                    state.progress.step = step
                    save(tmp_path, state, model, keep=1)
            os._exit(1)
        deadline = time.monotonic() + 20
        while max(list_checkpoints(tmp_path)) == begin and time.monotonic() < deadline:  # until it has saved once
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        n_interrupted += any(path.name.endswith(".partial") for path in tmp_path.iterdir())
        (newest,) = last_checkpoints(tmp_path, 1)
        load_checkpoint(newest, state)
        assert newest.name == f"step-{state.progress.step:08d}"
        load_model(find_model(tmp_path / "last"))  # the link may be one older, but never to nothing
        state.progress.step += 1
        save(tmp_path, state, model, keep=1)
        assert not list(tmp_path.glob(".*"))
    assert n_interrupted > 0


def test_two_processes_cannot_write_one_checkpoint(
    tmp_path: Path, save: Save, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "sweep", lambda directory: None)
    with (
        checkpoint.whole_directory(tmp_path / "step-00000004"),
        pytest.raises(DataError, match="another process is writing"),
    ):
        save(tmp_path, *trained)
