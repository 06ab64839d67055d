"""Preparing again, and failing: nothing is done twice, and nothing half-made is ever left."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import data.preparation
import data.preparation_steps
from data.corpora import FileSource, Source
from data.errors import DataError
from data.part_making import IdsMaker, TextMaker
from data.preparation import (
    Corpora,
    Preparation,
    Rules,
    Shard,
    TrainingCorpus,
    VocabularyOptions,
    prepare,
    prepare_shard,
)
from data.prepared import MANIFEST, load_prepared

ROOT = Path(__file__).resolve().parents[2]
FILLER = [(f"the cat number {i} sat on the mat", f"die katze nummer {i} sass auf der matte") for i in range(200)]

DUPLICATES = ("duplicates", {"of": "pair", "normalised": False})


def write_pairs(path: Path, pairs: list[tuple[str, str]]) -> FileSource:
    return write_bytes(path, *("".join(f"{line}\n" for line in side).encode() for side in zip(*pairs, strict=True)))


def write_bytes(path: Path, src: bytes, tgt: bytes) -> FileSource:
    source = FileSource(path.with_suffix(".src"), path.with_suffix(".tgt"))
    source.src.write_bytes(src)
    source.tgt.write_bytes(tgt)
    return source


@pytest.fixture
def filler(tmp_path: Path) -> FileSource:
    return write_pairs(tmp_path / "filler", FILLER)


def run(directory: Path, train: list[Source], **changes: Any) -> Preparation:
    workers = changes.pop("workers", 1)
    return prepare(directory, *arguments(train, **changes), workers)


def shard(directory: Path, train: list[Source], which: Shard) -> None:
    prepare_shard(directory, *arguments(train), which, 1)


def arguments(
    train: list[Source], *, valid: list[Source] | None = None, **changes: Any
) -> tuple[Corpora, Rules, VocabularyOptions]:
    """Small defaults; the first training corpus also serves for validation."""
    named = [TrainingCorpus(source, f"corpus-{number}") for number, source in enumerate(train, 1)]
    corpora = Corpora("en", "de", named, train[:1] if valid is None else valid, changes.pop("test", {}))
    asked = {name: changes.pop(name) for name in list(changes) if name in Rules.__dataclass_fields__}
    rules = Rules(**{"filters": [DUPLICATES], "drop_contamination": False, **asked})
    return corpora, rules, VocabularyOptions(**{"size": 300, **changes})


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_second_run_with_nothing_changed_does_nothing(tmp_path: Path, filler: FileSource) -> None:
    first = run(tmp_path / "out", [filler])
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    second = run(tmp_path / "out", [filler], workers=2)
    assert (first.unchanged, second.unchanged) == (False, True)
    assert second.manifest == first.manifest
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize("name", ["size", "type", "joint", "max_length", "filters", "sample_lines", "test"])
def test_any_other_setting_makes_it_anew(tmp_path: Path, filler: FileSource, name: str) -> None:
    changes = {
        "size": 301,
        "type": "unigram",
        "joint": False,
        "max_length": 99,
        "filters": [],
        "sample_lines": 150,
        "test": {"t": filler},
    }
    run(tmp_path / "out", [filler], size=290)
    assert not run(tmp_path / "out", [filler], **{"size": 290, name: changes[name]}).unchanged
    assert run(tmp_path / "out", [filler], **{"size": 290, name: changes[name]}).unchanged


def test_a_changed_source_or_a_damaged_result_makes_it_anew(tmp_path: Path, filler: FileSource) -> None:
    run(tmp_path / "out", [filler])
    whole = contents(tmp_path / "out")
    (tmp_path / "out" / "train.src.ids.npy").write_bytes(b"")
    assert not run(tmp_path / "out", [filler]).unchanged
    assert contents(tmp_path / "out") == whole
    (tmp_path / "out" / MANIFEST).unlink()
    with pytest.raises(DataError, match=r"preprocess\.py did not make it"):
        run(tmp_path / "out", [filler])
    write_pairs(tmp_path / "filler", FILLER[1:])
    (tmp_path / "out" / MANIFEST).write_bytes(whole[MANIFEST])
    assert run(tmp_path / "out", [filler]).manifest["counts"]["train"][0]["read"] == 199


def test_a_directory_of_somebody_else_is_not_replaced(tmp_path: Path, filler: FileSource) -> None:
    (tmp_path / "out").mkdir()
    assert not run(tmp_path / "out", [filler]).unchanged  # an empty one may be filled
    for path in (tmp_path / "out").iterdir():
        path.unlink()
    (tmp_path / "out" / "thesis.tex").touch()
    with pytest.raises(DataError, match="did not make it"):
        run(tmp_path / "out", [filler])
    assert (tmp_path / "out" / "thesis.tex").exists()


def test_several_problems_are_one_message(tmp_path: Path, filler: FileSource) -> None:
    missing = FileSource(tmp_path / "a.src", tmp_path / "a.tgt")
    with pytest.raises(DataError) as refusal:
        run(tmp_path / "out", [filler, missing], valid=[], test={"t": replace(filler, tgt=tmp_path)})
    message = str(refusal.value)
    for words in ("a.src: cannot be read", "a.tgt: cannot be read", "data.valid lists no corpora", "Is a directory"):
        assert words in message
    assert "relative" in message  # why a file may not be where one thinks
    assert message.count("\n") == 4


@pytest.mark.parametrize("which", ["train", "valid", "test"])
def test_an_empty_corpus_is_refused(tmp_path: Path, filler: FileSource, which: str) -> None:
    empty = write_bytes(tmp_path / "empty", b"", b"")
    corpora: dict[str, Any] = {"train": [filler], "valid": [filler], "test": {}}
    corpora[which] = {"t": empty} if which == "test" else [filler, empty]
    with pytest.raises(DataError, match=r"empty\.src .* not one line"):
        run(tmp_path / "out", corpora.pop("train"), **corpora)


def test_blank_training_text_is_refused_with_its_counts(tmp_path: Path, filler: FileSource) -> None:
    blank = write_bytes(tmp_path / "blank", b" \n\n\t\n", b"a\nb\nc\n")
    with pytest.raises(DataError, match="0 of 3 pairs are left to train on: 3 empty"):
        run(tmp_path / "out", [blank], valid=[filler])


def test_a_full_disk_leaves_the_old_data_and_says_so(
    tmp_path: Path, filler: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "out", [filler])
    before = contents(tmp_path / "out")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    steps = ((data.preparation_steps, "save_text"), (data.preparation_steps, "save_vocabularies"))
    for module, step in (*steps, (data.preparation, "save_manifest")):
        monkeypatch.setattr(module, step, full)
        with pytest.raises(DataError, match=r"out: No space left on device\. .*out is as it was before"):
            run(tmp_path / "out", [filler], size=290)
        monkeypatch.undo()
        assert contents(tmp_path / "out") == before
    run(tmp_path / "out", [filler], size=290)
    assert {path.name for path in tmp_path.iterdir()} == {"out", "filler.src", "filler.tgt"}


def test_what_was_finished_before_an_interruption_is_not_done_again(
    tmp_path: Path, filler: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data.preparation_steps, "PAIRS_PER_PART", 30)
    run(tmp_path / "undisturbed", [filler, filler])
    made: list[str] = []

    def interrupt_at(patch: pytest.MonkeyPatch, maker: type, n_jobs: int) -> None:
        original = maker.__call__

        def counted(self: object, job: Any) -> None:
            if len(made) == n_jobs:
                raise KeyboardInterrupt
            original(self, job)
            made.append(job.path.name)

        patch.setattr(maker, "__call__", counted)

    for maker, n_jobs in ((TextMaker, 5), (IdsMaker, 9)):
        with monkeypatch.context() as patch:
            interrupt_at(patch, maker, n_jobs)
            with pytest.raises(KeyboardInterrupt):
                run(tmp_path / "out", [filler, filler])
    for maker in (TextMaker, IdsMaker):
        interrupt_at(monkeypatch, maker, 10**9)
    run(tmp_path / "out", [filler, filler])
    assert sorted(made) == sorted(set(made))
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")


def test_shards_filtered_apart_give_the_same_bytes(
    tmp_path: Path, filler: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data.preparation_steps, "PAIRS_PER_PART", 30)
    run(tmp_path / "alone", [filler, filler])
    for number in (2, 0, 1):
        shard(tmp_path / "out", [filler, filler], Shard(number, 3))
    monkeypatch.setattr(TextMaker, "__call__", lambda *_: pytest.fail("a part was made that a shard had made"))
    run(tmp_path / "out", [filler, filler])
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")


def test_a_limit_on_file_size_is_one_message(tmp_path: Path, filler: FileSource) -> None:
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    found = subprocess.run(command(tmp_path, filler), cwd=ROOT, preexec_fn=small_files, capture_output=True, text=True)
    assert found.returncode != 0
    assert found.stderr.strip().splitlines()[-1].startswith("data.errors.DataError")
    assert "File too large" in found.stderr
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, filler: FileSource) -> None:
    (tmp_path / "prepared").write_text("a file where a folder should be")
    with pytest.raises(DataError, match="prepared"):
        run(tmp_path / "prepared" / "out", [filler])


def command(folder: Path, source: FileSource) -> list[str]:
    """A program that prepares `folder/out` from `source`."""
    code = f"""
from pathlib import Path
from data.corpora import FileSource
from data.preparation import Corpora, Rules, TrainingCorpus, VocabularyOptions, prepare
source = FileSource(Path({str(source.src)!r}), Path({str(source.tgt)!r}))
corpora = Corpora("en", "de", [TrainingCorpus(source, "text")], [source], {{"t": source}})
prepare(Path({str(folder / "out")!r}), corpora, Rules(drop_contamination=False), VocabularyOptions(300), 2)
"""
    return [sys.executable, "-c", code]


@pytest.mark.slow
def test_killed_at_any_moment_it_leaves_old_data_or_new_and_the_next_run_is_as_if_undisturbed(tmp_path: Path) -> None:
    # Three parts of 20,000 pairs: reading, worker processes, joining.
    source = write_pairs(tmp_path / "text", [(f"{i} {src}", f"{i} {tgt}") for i in range(210) for src, tgt in FILLER])
    start = time.monotonic()
    subprocess.run(command(tmp_path, source), cwd=ROOT, check=True, capture_output=True)
    seconds = time.monotonic() - start
    undisturbed = contents(tmp_path / "out")
    other = run(tmp_path / "out", [source], size=290).manifest
    n_killed = 0
    for _ in range(12):
        process = subprocess.Popen(command(tmp_path, source), cwd=ROOT, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0.3, 1.1) * seconds)
        process.send_signal(signal.SIGKILL)
        n_killed += process.wait() == -signal.SIGKILL
        if not (tmp_path / "out").exists():  # killed in the microseconds between the two renames
            (tmp_path / ".out.old").rename(tmp_path / "out")
        manifest = load_prepared(tmp_path / "out").manifest
        if manifest != other:
            assert contents(tmp_path / "out") == undisturbed
            run(tmp_path / "out", [source], size=290)
    assert n_killed > 3
    subprocess.run(command(tmp_path, source), cwd=ROOT, check=True, capture_output=True)
    assert contents(tmp_path / "out") == undisturbed
    assert {path.name for path in tmp_path.iterdir()} == {"out", "text.src", "text.tgt"}


# --- faults that a review found, and their kind ---


def left_behind(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if ".work-" in path.name or path.suffix in (".partial", ".old")}


def test_a_refused_second_run_leaves_the_parts_of_the_first(tmp_path: Path, filler: FileSource) -> None:
    def run_another(*_: object) -> None:
        with pytest.raises(DataError, match="another process"):
            run(tmp_path / "out", [filler], size=301)
        assert any(path.glob("text-*.npz") for path in tmp_path.glob(".out.work-*"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data.preparation, "save_page", run_another)
        assert not run(tmp_path / "out", [filler]).unchanged
    assert not left_behind(tmp_path)


def test_what_a_run_killed_at_its_very_end_left_goes_with_the_next(
    tmp_path: Path, filler: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(data.preparation.WorkDirectory, "remove", lambda _: None)
        patch.setattr(data.preparation.WorkDirectory, "remove_leftovers", lambda _: None)
        run(tmp_path / "out", [filler])
    assert left_behind(tmp_path)
    assert run(tmp_path / "out", [filler]).unchanged
    assert not left_behind(tmp_path)


def test_parts_of_text_that_has_changed_since_are_refused(
    tmp_path: Path, filler: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data.preparation_steps, "PAIRS_PER_PART", 30)
    with monkeypatch.context() as patch:
        patch.setattr(data.preparation_steps.Steps, "find_repeats", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "out", [filler])
    [work] = tmp_path.glob(".out.work-*")
    (work / "text-0-3.npz").unlink()
    monkeypatch.setattr(data.preparation_steps, "PAIRS_PER_PART", 50)  # as if lines had moved
    with pytest.raises(DataError, match="changed while it was being prepared"):
        run(tmp_path / "out", [filler])
    assert not (tmp_path / "out").exists()


def test_a_given_vocabulary_must_be_as_joint_as_the_settings_say(tmp_path: Path, filler: FileSource) -> None:
    run(tmp_path / "joint", [filler])
    run(tmp_path / "apart", [filler], joint=False, size=290)
    for name, joint in (("joint", False), ("apart", True)):
        with pytest.raises(DataError, match=rf"set vocabulary\.joint to {str(not joint).lower()}"):
            run(tmp_path / "out", [filler], path=tmp_path / name, joint=joint)
    again = run(tmp_path / "out", [filler], path=tmp_path / "joint")
    assert again.manifest["vocabulary_hash"] == load_prepared(tmp_path / "joint").manifest["vocabulary_hash"]


def test_a_shard_that_is_launched_late_finds_the_work_done(tmp_path: Path, filler: FileSource) -> None:
    run(tmp_path / "out", [filler])
    found = prepare_shard(tmp_path / "out", *arguments([filler]), Shard(1, 2), 1, launched=True)
    assert found is None
