"""The record of a run: every byte and version it depends on, and what of it has changed since."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch

from data.prepared import MANIFEST, Prepared
from transformer.config import Settings
from transformer.errors import RunError
from transformer.model_directory import Model, save_model
from transformer.training import record as module
from transformer.training.choices import Choices
from transformer.training.record import (
    FORMAT,
    Git,
    Record,
    check_record,
    environment_changes,
    load_record,
    make_record,
    save_record,
)

MakeSettings = Callable[..., Settings]
CPU = torch.device("cpu")
CHOICES = Choices("cpu", "fp32", "explicit", {})


@pytest.fixture
def directory(prepared: Prepared, tmp_path: Path) -> Path:
    """A copy of the prepared data, to be altered, with a page about it."""
    copy = tmp_path / "prepared" / "tiny"
    shutil.copytree(prepared.directory, copy)
    (copy / "report.html").write_text("<p>made in 3 s</p>")
    return copy


@pytest.fixture
def record(directory: Path, prepared: Prepared, make_settings: MakeSettings) -> Record:
    return make_record(make_settings(), directory, prepared, CHOICES, 2)


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


# --- what is recorded ---


def test_every_file_that_training_depends_on_is_recorded_by_size_and_checksum(record: Record, directory: Path) -> None:
    sides = [f"{split}.{side}" for split in ("train", "valid") for side in ("src", "tgt")]
    ids = {f"{side}.{part}.npy" for side in sides for part in ("ids", "offsets")}
    assert record.files.keys() == ids | {"valid.src.txt", "valid.tgt.txt", "vocabulary.model"}
    for name, found in record.files.items():
        content = (directory / name).read_bytes()
        assert (found.bytes, found.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_the_checksum_of_a_file_of_many_chunks_is_that_of_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", 7)
    for size in (0, 1, 7, 8, 700, 701):
        content = np.random.default_rng(size).bytes(size)
        (tmp_path / "file").write_bytes(content)
        reported: list[int] = []
        assert module._sha256(tmp_path / "file", reported.append) == hashlib.sha256(content).hexdigest()
        assert sum(reported) == size


def test_seed_vocabularies_versions_device_and_processes_are_recorded(
    record: Record, prepared: Prepared, make_settings: MakeSettings
) -> None:
    assert record.seed == make_settings().seed
    assert record.vocabularies == {"src": prepared.src_vocabulary.hash, "tgt": prepared.tgt_vocabulary.hash}
    environment = record.environment
    assert environment.versions["torch"] == torch.__version__
    for library in ("numpy", "sentencepiece", "sacrebleu"):
        assert environment.versions[library] == version(library)
    assert {"python", "attention-is-all-you-need"} < environment.versions.keys()
    assert environment.processes == 2
    assert (environment.device.type, environment.device.threads) == ("cpu", torch.get_num_threads())
    assert environment.device.count == os.cpu_count()
    assert environment.device.name
    assert environment.platform["system"]


def test_corpora_are_recorded_in_their_order(
    directory: Path, of_two_corpora: Prepared, make_settings: MakeSettings
) -> None:
    record = make_record(make_settings(), directory, of_two_corpora, CHOICES, 1)
    assert list(record.corpora.items()) == [("large", 45), ("small", 15)]


def test_a_record_comes_back_as_it_was(record: Record, tmp_path: Path) -> None:
    for each in (record, replace(record, environment=replace(record.environment, git=None))):
        save_record(tmp_path / "record.json", each)
        assert load_record(tmp_path / "record.json") == each


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", "[" * 100_000, '{"format": 1}', '{"format": "1"}', "ÿ"])
def test_a_damaged_record_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "record.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(RunError, match=r"record\.json: damaged; restore it"):
        load_record(tmp_path / "record.json")


def test_a_record_that_lost_any_of_its_lines_is_refused(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    save_record(path, record)
    whole = json.loads(path.read_text())
    for key in whole:
        path.write_text(json.dumps({name: value for name, value in whole.items() if name != key}))
        with pytest.raises(RunError, match="damaged"):
            load_record(path)


def test_a_missing_record_and_one_of_a_newer_format_say_what_to_do(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    with pytest.raises(RunError, match=r"record\.json: not there, .*train it again"):
        load_record(path)
    path.write_text(json.dumps(asdict(record) | {"format": FORMAT + 1, "files": "other"}))
    with pytest.raises(RunError, match="update the program"):
        load_record(path)


# --- the program ---


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, encoding="utf-8", check=True)
    return done.stdout.strip()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The folder of a program, with a commit."""
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "train.py").write_text("pass\n")
    git(folder, "init")
    git(folder, "add", "train.py")
    git(folder, "commit", "-m", "first")
    return folder


def test_the_commit_is_recorded_and_whether_files_differ_from_it(program: Path) -> None:
    commit = git(program, "rev-parse", "HEAD")
    (program / "notes.txt").write_text("no part of the program\n")
    assert module._git(program) == Git(commit, dirty=False)
    (program / "train.py").write_text("import transformer\n")
    assert module._git(program) == Git(commit, dirty=True)


def test_a_program_that_lies_in_a_repository_of_something_else_has_no_commit(program: Path) -> None:
    installed = program / "site-packages"
    installed.mkdir()
    (installed / "train.py").write_text("pass\n")
    assert module._git(installed) is None


def test_without_git_there_is_no_commit(tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert module._git(tmp_path) is None  # no repository
    assert module._git(tmp_path / "nowhere") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert module._git(program) is None  # no git


# --- what differs now ---


def test_the_same_bytes_pass_also_where_they_were_prepared_anew(
    record: Record, directory: Path, make_settings: MakeSettings
) -> None:
    """The page and the manifest tell times and paths, and other test sets are no part of training."""
    (directory / "report.html").write_text("<p>made in 4 s</p>")
    manifest = json.loads((directory / MANIFEST).read_text())
    (directory / MANIFEST).write_text(json.dumps(manifest | {"seconds": 4}))
    (directory / "test.new.src.txt").write_text("a\n")
    check_record(record, make_settings(), directory)


def test_a_byte_that_differs_in_any_file_is_refused(
    record: Record, directory: Path, make_settings: MakeSettings
) -> None:
    for name in record.files:
        before = (directory / name).read_bytes()
        flip_a_byte(directory / name)
        with pytest.raises(RunError) as error:
            check_record(record, make_settings(), directory)
        assert f"  {name}: sha256" in str(error.value)
        assert str(error.value).count("\n  ") == 1
        (directory / name).write_bytes(before)
    check_record(record, make_settings(), directory)


def test_every_file_that_differs_is_named_in_one_message(
    record: Record, directory: Path, make_settings: MakeSettings
) -> None:
    flip_a_byte(directory / "train.src.ids.npy")
    with (directory / "valid.tgt.txt").open("ab") as text:
        text.write(b"\n")
    (directory / "vocabulary.model").unlink()
    with pytest.raises(RunError) as error:
        check_record(record, make_settings(), directory)
    message = str(error.value)
    assert message.startswith(f"{directory} is not what the run was trained on")
    size = record.files["valid.tgt.txt"].bytes
    for words in ("train.src.ids.npy: sha256", f"{size:,} → {size + 1:,} bytes", "vocabulary.model: is missing"):
        assert words in message
    assert "preprocess.py --config" in message  # the remedy


def test_prepared_data_that_are_gone_are_refused(record: Record, tmp_path: Path, make_settings: MakeSettings) -> None:
    with pytest.raises(RunError, match=r"vocabulary\.model: is missing"):
        check_record(record, make_settings(), tmp_path / "elsewhere")


@pytest.mark.parametrize("corpora", [{"large": 44, "small": 16}, {"small": 15, "large": 45}, {"large": 60}])
def test_the_same_bytes_cut_into_other_corpora_are_refused(
    corpora: dict[str, int], directory: Path, of_two_corpora: Prepared, make_settings: MakeSettings
) -> None:
    record = make_record(make_settings(), directory, of_two_corpora, CHOICES, 1)
    manifest = of_two_corpora.manifest
    train = [{"name": name, "kept": kept} for name, kept in corpora.items()]
    (directory / MANIFEST).write_text(json.dumps(manifest | {"counts": {"train": train, "test": {}}}))
    with pytest.raises(RunError, match="pairs of each training corpus"):
        check_record(record, make_settings(), directory)
    (directory / MANIFEST).write_text(json.dumps(manifest))
    check_record(record, make_settings(), directory)


def test_another_model_than_the_one_that_training_started_from_is_refused(
    directory: Path,
    prepared: Prepared,
    make_settings: MakeSettings,
    trained: tuple[object, Model],
    tmp_path: Path,
) -> None:
    start = tmp_path / "start"
    start.mkdir()
    save_model(start, trained[1])
    settings = make_settings(train={"init_from": str(start)})
    record = make_record(settings, directory, prepared, CHOICES, 1)
    check_record(record, settings, directory)
    for name in ("model.safetensors", "vocabulary.model"):
        before = (start / name).read_bytes()
        flip_a_byte(start / name)
        with pytest.raises(RunError, match=rf"(?s)train\.init_from.*  {name}: sha256"):
            check_record(record, settings, directory)
        (start / name).write_bytes(before)


def test_nothing_has_changed_where_nothing_has(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    same = Git("0123456789abcdef", dirty=False)
    monkeypatch.setattr(module, "_git", lambda folder: same)
    record = replace(record, environment=replace(record.environment, git=same))
    assert environment_changes(record, CPU, 2) == []


def test_versions_device_processes_and_program_that_changed_are_each_a_line(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_git", lambda folder: Git("fedcba9876543210", dirty=True))
    then = record.environment
    other = replace(
        then,
        versions=then.versions | {"torch": "1.0"},
        git=Git("0123456789abcdef", dirty=False),
        device=replace(then.device, name="Abacus", count=99, threads=77),
        processes=3,
        platform=then.platform | {"machine": "vax", "release": "4.3"},
    )
    changes = environment_changes(replace(record, environment=other), CPU, 2)
    assert changes == [
        f"torch: 1.0 → {torch.__version__}",
        f"device name: Abacus → {then.device.name}",
        "processes: 3 → 2",
        f"machine: vax → {then.platform['machine']}",
        "program: 0123456789ab → fedcba987654 with changes",
    ]


def test_changes_that_no_commit_holds_are_told_also_at_the_same_commit(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be others than those of then."""
    dirty = Git("0123456789abcdef", dirty=True)
    monkeypatch.setattr(module, "_git", lambda folder: dirty)
    record = replace(record, environment=replace(record.environment, git=dirty))
    (change,) = environment_changes(record, CPU, 2)
    assert change == "program: 0123456789ab with changes → 0123456789ab with changes"
