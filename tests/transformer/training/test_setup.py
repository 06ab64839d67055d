"""What is known and refused before the first update."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from data.prepared import IdSequences, ParallelIds, Prepared
from data.vocabulary import Vocabulary
from transformer.config import Settings, TrainSettings
from transformer.errors import RunError
from transformer.model_directory import Model
from transformer.training import loop
from transformer.training.loop import train
from transformer.training.run_directory import RunDirectory
from transformer.training.setup import prepare_cpu, set_up
from transformer.training.state import TrainingState

MakeSettings = Callable[..., Settings]


def pairs_of_lengths(lengths: list[int]) -> ParallelIds:
    offsets = np.cumsum([0, *lengths])
    side = IdSequences(np.full(offsets[-1], 7, np.uint16), offsets)
    return ParallelIds(side, side)


def with_train(prepared: Prepared, lengths: list[int]) -> Prepared:
    return replace(prepared, train=pairs_of_lengths(lengths))


CASE_F3 = [8] * 500 + [201] + [8] * 499  # 1,000 pairs, one of them over a budget of 200 tokens


def test_case_f3_a_pair_over_the_budget_is_counted_before_the_first_update(
    tmp_path: Path,
    prepared: Prepared,
    make_settings: MakeSettings,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def first_update(*args: Any) -> None:
        raise InterruptedError("this is the first update")

    monkeypatch.setattr(loop, "update", first_update)
    settings = make_settings(train={"max_tokens": 200, "batch_tokens": 3000})
    with pytest.raises(InterruptedError):
        train(settings, with_train(prepared, CASE_F3), RunDirectory(tmp_path))
    message = capsys.readouterr().err
    assert "1 of 1,000 training pairs are left out: longer than train.max_tokens=200 (prepared pair 501)" in message


def test_case_f3_training_goes_on_without_it(tmp_path: Path, prepared: Prepared, make_settings: MakeSettings) -> None:
    """One whole epoch: 999 pairs of 9 tokens."""
    settings = make_settings(train={"max_tokens": 200, "batch_tokens": 3000, "max_steps": 3, "validate_every": 3})
    assert train(settings, with_train(prepared, CASE_F3), RunDirectory(tmp_path)) is not None
    state, _, _ = set_up(settings, with_train(prepared, CASE_F3), RunDirectory(tmp_path))
    assert (state.progress.epoch, state.progress.n_tokens) == (0, 999 * 9)


def test_where_every_pair_is_over_the_budget_nothing_begins(
    tmp_path: Path, prepared: Prepared, make_settings: MakeSettings
) -> None:
    with pytest.raises(RunError, match=r"each of the 4 training pairs is longer than train\.max_tokens=20"):
        set_up(make_settings(train={"max_tokens": 20}), with_train(prepared, [20] * 4), RunDirectory(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_no_word_of_pairs_that_all_fit(
    tmp_path: Path, prepared: Prepared, make_settings: MakeSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up(make_settings(), prepared, RunDirectory(tmp_path))
    assert "left out" not in "".join(capsys.readouterr())


def test_a_run_of_another_vocabulary_is_refused(
    tmp_path: Path, prepared: Prepared, make_settings: MakeSettings
) -> None:
    """The same size, but other pieces: nothing but the hash would notice."""
    settings, run = make_settings(train={"max_steps": 1}), RunDirectory(tmp_path)
    train(settings, prepared, run)
    other = Vocabulary.learn(["quite other words", "make other pieces here"] * 9, size=30, byte_fallback=False)
    with pytest.raises(RunError, match="trained with another vocabulary"):
        set_up(settings, replace(prepared, src_vocabulary=other, tgt_vocabulary=other), run)


def test_a_run_starts_from_its_seed_alone(tmp_path: Path, prepared: Prepared, make_settings: MakeSettings) -> None:
    def start(seed: int, name: str) -> TrainingState:
        torch.rand(int(torch.randint(9, ())))  # whatever happened before
        return set_up(make_settings(seed=seed), prepared, RunDirectory(tmp_path / name))[0]

    first, again, other = start(3, "first"), start(3, "again"), start(4, "other")
    assert_close(first.network.state_dict(), again.network.state_dict(), rtol=0, atol=0)
    assert not torch.equal(first.network.projection.weight, other.network.projection.weight)


@pytest.mark.parametrize("ema_decay", [None, 0.9])
def test_network_average_and_model_are_what_the_settings_say(
    ema_decay: float | None, tmp_path: Path, prepared: Prepared, make_settings: MakeSettings
) -> None:
    settings = make_settings(train={"ema_decay": ema_decay, "attention": "fused"})
    found: tuple[TrainingState, Model, Any] = set_up(settings, prepared, RunDirectory(tmp_path))
    state, model, _ = found
    assert (state.average is not None) == (ema_decay is not None)
    assert model.network is state.network
    known = settings.translate.model_copy(update={"max_source_length": settings.data.max_length})
    assert (model.settings, model.translate) == (settings.model, known)
    assert (model.src_lang, model.tgt_lang) == ("en", "de")
    for network in (state.network, state.evaluated):
        assert {m.form for m in network.modules() if hasattr(m, "form")} == {"fused"}
    assert state.network.training
    assert {parameter.device.type for parameter in state.network.parameters()} == {"cpu"}


def test_threads_are_set(tmp_path: Path, prepared: Prepared, make_settings: MakeSettings) -> None:
    before = torch.get_num_threads()
    try:
        set_up(make_settings(train={"threads": before + 1}), prepared, RunDirectory(tmp_path))
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("link", ["missing", "dangling", "older"])
def test_a_run_goes_on_from_the_newest_checkpoint_whatever_the_link_says(
    link: str, tmp_path: Path, prepared: Prepared, make_settings: MakeSettings
) -> None:
    """A kill between writing a checkpoint and linking it, or a copy without links, costs nothing."""
    settings, run = make_settings(train={"max_steps": 4, "validate_every": 2}), RunDirectory(tmp_path)
    train(settings, prepared, run)
    last = run.checkpoints / "last"
    last.unlink()
    if link != "missing":
        last.symlink_to("step-00000099" if link == "dangling" else "step-00000002")
    state, _, _ = set_up(settings, prepared, run)
    assert state.progress.step == 4


# --- room for compiled products ---

CAPACITY = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


@pytest.mark.parametrize(
    ("n_tokens", "max_tokens", "expected"),
    [(400_000, "auto", "16384"), (400_000, 1000, None), (40_000_000, "auto", None), (40_000_000, 4096, None)],
)
def test_many_compiled_products_are_kept_where_an_epoch_has_few_batches(
    n_tokens: int, max_tokens: int | str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CAPACITY, "")  # so that what was there comes back
    monkeypatch.delenv(CAPACITY)
    settings = TrainSettings.model_validate({"batch_tokens": 4096, "max_tokens": max_tokens})
    prepare_cpu(settings, pairs_of_lengths([n_tokens]))
    assert os.environ.get(CAPACITY) == expected


def test_the_users_room_for_compiled_products_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPACITY, "7")
    n_threads = torch.get_num_threads()
    prepare_cpu(TrainSettings(threads=n_threads), pairs_of_lengths([10]))
    assert (os.environ[CAPACITY], torch.get_num_threads()) == ("7", n_threads)
