"""Checkpoints written beside the training: as if written at once, of the state at that moment; errors are not lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from transformer.errors import RunError
from transformer.model_directory import Model
from transformer.training import checkpoint_writer as module
from transformer.training.checkpoint import load_checkpoint, newest_checkpoint, take_snapshot
from transformer.training.checkpoint_writer import CheckpointWriter
from transformer.training.state import TrainingState

Trained = tuple[TrainingState, Model]
HOW: dict[str, Any] = {"best_by": "bleu", "keep": 2, "regular": True}


def test_training_goes_on_while_the_disk_is_slow_and_the_checkpoint_is_of_the_moment_it_was_asked_for(
    tmp_path: Path, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, model = trained
    may_write = threading.Event()
    save = module.save_checkpoint

    def slow(*arguments: Any, **more: Any) -> Path:
        assert may_write.wait(timeout=20)
        return save(*arguments, **more)

    monkeypatch.setattr(module, "save_checkpoint", slow)
    writer = CheckpointWriter(tmp_path, model)
    before = [parameter.detach().clone() for parameter in state.network.parameters()]
    progress = state.progress.step, len(state.progress.validations)
    writer.save(take_snapshot(state), **HOW)  # returns while nothing is written
    assert newest_checkpoint(tmp_path) is None
    with torch.no_grad():  # training goes on
        for parameter in (*state.network.parameters(), *state.evaluated.parameters()):
            parameter.fill_(7.0)
    state.progress.step += 1
    state.progress.validations.clear()
    writer.check()
    may_write.set()
    writer.wait()
    writer.close()
    newest = newest_checkpoint(tmp_path)
    assert newest is not None
    load_checkpoint(newest, state)
    assert all(torch.equal(a, b) for a, b in zip(before, state.network.parameters(), strict=True))
    assert (state.progress.step, len(state.progress.validations)) == progress


@pytest.mark.parametrize("notice", ["check", "wait", "save"])
def test_what_goes_wrong_while_writing_is_raised_at_the_next_occasion(
    notice: str, tmp_path: Path, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **more: Any) -> Path:
        raise RunError("the disk is full")

    monkeypatch.setattr(module, "save_checkpoint", full)
    state, model = trained
    writer = CheckpointWriter(tmp_path, model)
    writer.save(take_snapshot(state), **HOW)
    writer.close()  # waits for the thread
    occasion: Callable[[], object] = {
        "check": writer.check,
        "wait": writer.wait,
        "save": lambda: writer.save(take_snapshot(state), **HOW),
    }[notice]
    with pytest.raises(RunError, match="the disk is full"):
        occasion()
    writer.wait()  # told once


def test_a_disk_without_room_is_said_before_anything_is_written(
    tmp_path: Path, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformer.training import checkpoint

    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 2**20})())
    state, model = trained
    with pytest.raises(RunError, match=r"0\.00 GiB are free on this disk, and a checkpoint needs 0\.06 GiB"):
        checkpoint.save_checkpoint(tmp_path, take_snapshot(state), model, **HOW)
    assert list(tmp_path.iterdir()) == []
