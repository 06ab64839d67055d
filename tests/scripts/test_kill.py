"""train.py killed at random moments, or with a damaged checkpoint: it ends with every bit of an undisturbed run."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from benchmarks.kill_test import Trial, differences, kill_until_it_ends, train_undisturbed
from benchmarks.tiny_run import arguments, prepare

Call = Callable[..., CompletedProcess[str]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text and settings of a small run, prepared."""
    folder = tmp_path_factory.mktemp("kills")
    prepare(folder)
    return folder


@pytest.fixture(scope="module")
def trial(folder: Path) -> Trial:
    """One process, and how it ends when nothing disturbs it."""
    return train_undisturbed(folder, 1)


def test_killed_at_twenty_moments_it_ends_with_every_bit_of_an_undisturbed_run(trial: Trial) -> None:
    killed = kill_until_it_ends(trial, 20, random.Random(1))
    assert len(killed.kills) > 10
    assert killed.differences == []


def test_killed_while_it_saves_it_does_too(trial: Trial) -> None:
    killed = kill_until_it_ends(trial, 8, random.Random(2), aimed=1)
    assert any(kill.while_saving for kill in killed.kills)
    assert killed.differences == []


def test_two_processes_killed_at_once_do_too(tmp_path: Path, folder: Path) -> None:
    shutil.copytree(folder / "prepared", tmp_path / "prepared")
    shutil.copy(folder / "tiny.yaml", tmp_path)
    shutil.copytree(folder / "corpus", tmp_path / "corpus")
    steps = "train.max_steps=100"
    killed = kill_until_it_ends(train_undisturbed(tmp_path, 2, steps), 6, random.Random(3))
    assert len(killed.kills) > 2
    assert killed.differences == []


FILES = ("model.safetensors", "training.safetensors", "training.json", "model.json", "vocabulary.model")


@pytest.fixture(scope="module")
def stopped(trial: Trial) -> Path:
    """The same run, killed not long before its end."""
    killed = trial.start()
    killed.wait_until((trial.run / "checkpoints/step-00000170").exists)
    killed.kill()
    return trial.run.rename(trial.run.with_name("stopped"))


@pytest.mark.parametrize("damage", ["a flipped bit", "truncated", "gone"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_of_the_newest_checkpoint_costs_the_way_from_the_one_before(
    trial: Trial, stopped: Path, call: Call, monkeypatch: pytest.MonkeyPatch, name: str, damage: str
) -> None:
    shutil.rmtree(trial.run, ignore_errors=True)
    shutil.copytree(stopped, trial.run, symlinks=True)
    steps = sorted((trial.run / "checkpoints").glob("step-*"))
    damage_file(steps[-1] / name, damage)

    monkeypatch.chdir(trial.folder)
    done = call("train", *arguments())
    assert done.returncode == 0, done.stderr
    assert f"{steps[-1].name}/{name}" in done.stderr
    assert steps[-2].name in done.stderr
    assert differences(trial.run, trial.undisturbed) == []


def test_killed_when_its_last_checkpoint_was_written_it_only_tidies_up(
    trial: Trial, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(trial.run, ignore_errors=True)
    shutil.copytree(trial.undisturbed, trial.run, symlinks=True)
    steps = sorted((trial.run / "checkpoints").glob("step-*"))
    shutil.copytree(steps[-3], steps[-3].with_name("step-00000170"))  # had still to go
    shutil.copytree(steps[-3], steps[-3].with_name(".step-00000150.partial"))  # was going
    (trial.run / "checkpoints/last").unlink()
    (trial.run / "checkpoints/last").symlink_to(steps[-2].name)
    shutil.rmtree(trial.run / "model")

    monkeypatch.chdir(trial.folder)
    assert call("train", *arguments()).returncode == 0
    assert differences(trial.run, trial.undisturbed) == []


def damage_file(file: Path, damage: str) -> None:
    content = bytearray(file.read_bytes())
    if damage == "gone":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
