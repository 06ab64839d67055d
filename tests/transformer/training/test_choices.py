"""Choices by timing: only what is open is timed, nothing else changes, and what was chosen is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from data.batches import Batch, collate
from data.prepared import Prepared
from transformer.config import Settings, TrainSettings
from transformer.errors import ConfigError
from transformer.model_directory import Model
from transformer.training import choices as module
from transformer.training.checkpoint import TrainingState
from transformer.training.choices import Choices, autocast, choose
from transformer.training.run_directory import RunDirectory
from transformer.training.setup import set_up

MakeSettings = Callable[..., Settings]
CPU = torch.device("cpu")
ALL = ["bf16 explicit", "bf16 fused", "fp32 explicit", "fp32 fused"]


@pytest.fixture
def state(make_settings: MakeSettings, make_state: Callable[[Settings], tuple[TrainingState, Model]]) -> TrainingState:
    return make_state(make_settings())[0]


@pytest.fixture
def batch(prepared: Prepared) -> Batch:
    return collate(prepared.train, np.arange(4))


@pytest.mark.parametrize(
    ("precision", "attention", "timed"),
    [
        ("auto", "auto", ALL),
        ("fp32", "auto", ["fp32 explicit", "fp32 fused"]),
        ("auto", "fused", ["bf16 fused", "fp32 fused"]),
        ("bf16", "explicit", []),
    ],
)
def test_what_the_settings_leave_open_is_timed_and_the_rest_is_as_set(
    precision: Any, attention: Any, timed: list[str], state: TrainingState, batch: Batch
) -> None:
    found = choose(state.network, batch, TrainSettings(precision=precision, attention=attention), CPU)
    assert sorted(found.seconds) == timed
    assert all(seconds > 0 for seconds in found.seconds.values())
    assert found.device == "cpu"
    assert precision in ("auto", found.precision)
    assert attention in ("auto", found.attention)
    if timed:
        assert min(found.seconds, key=found.seconds.__getitem__) == f"{found.precision} {found.attention}"


@pytest.mark.parametrize("fastest", ALL)
def test_the_fastest_is_chosen(
    fastest: str, state: TrainingState, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def timed(network: Any, batch: Any, candidate: Choices) -> float:
        return 1.0 if f"{candidate.precision} {candidate.attention}" == fastest else 2.0

    monkeypatch.setattr(module, "_time", timed)
    found = choose(state.network, batch, TrainSettings(), CPU)
    assert f"{found.precision} {found.attention}" == fastest


def test_timing_leaves_weights_gradients_and_random_numbers_as_they_were(state: TrainingState, batch: Batch) -> None:
    weights = {name: tensor.clone() for name, tensor in state.network.state_dict().items()}
    random_state = torch.get_rng_state()
    assert state.network.training  # dropout draws numbers while it is timed
    choose(state.network, batch, TrainSettings(), CPU)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert_close(state.network.state_dict(), weights, rtol=0, atol=0)
    assert all(parameter.grad is None for parameter in state.network.parameters())


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_autocast_runs_products_in_the_chosen_precision(precision: Any, dtype: torch.dtype) -> None:
    with autocast(Choices("cpu", precision, "explicit", {})):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


# --- in a run ---


def test_the_choices_are_recorded_in_the_run_and_not_made_again(
    tmp_path: Any, prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(train={"precision": "auto", "attention": "auto"})
    run = RunDirectory(tmp_path / "run")
    _, _, chosen = set_up(settings, prepared, run)
    assert len(chosen.seconds) == 4
    assert run.load_choices() == chosen

    def refuse(*args: Any) -> None:
        raise AssertionError("timed again")

    monkeypatch.setattr("transformer.training.setup.choose", refuse)
    state, _, again = set_up(settings, prepared, run)
    assert again == chosen
    assert {m.form for m in state.network.modules() if hasattr(m, "form")} == {chosen.attention}


def test_timing_does_not_change_what_a_run_starts_from(
    tmp_path: Any, prepared: Prepared, make_settings: MakeSettings
) -> None:
    """The first weights and all later random numbers depend on the seed only."""
    starts = []
    for name, train in {"timed": {"precision": "auto", "attention": "auto"}, "set": {}}.items():
        state, _, _ = set_up(make_settings(train=train), prepared, RunDirectory(tmp_path / name))
        starts.append((state.network.state_dict(), torch.rand(5)))
    assert_close(starts[0], starts[1], rtol=0, atol=0)


def test_choices_made_on_another_device_are_made_again(
    tmp_path: Any, prepared: Prepared, make_settings: MakeSettings
) -> None:
    run = RunDirectory(tmp_path)
    run.save_choices(Choices("cuda", "bf16", "fused", {"bf16 fused": 0.1}))
    _, _, found = set_up(make_settings(train={"precision": "fp32"}), prepared, run)
    assert (found.device, found.precision, found.attention) == ("cpu", "fp32", "explicit")
    assert run.load_choices() == found


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_demanded_but_absent_is_a_wrong_setting(
    tmp_path: Any, prepared: Prepared, make_settings: MakeSettings
) -> None:
    with pytest.raises(ConfigError, match="cuda is demanded") as error:
        set_up(make_settings(train={"device": "cuda"}), prepared, RunDirectory(tmp_path / "run"))
    assert error.value.exit_code == 2
    assert not (tmp_path / "run").exists()  # nothing begun


@pytest.mark.gpu
def test_on_a_gpu_every_candidate_runs_and_random_numbers_stay(prepared: Prepared, state: TrainingState) -> None:
    device = torch.device("cuda")
    batch = collate(prepared.train, np.arange(4)).to(device)
    before = torch.cuda.get_rng_state()
    found = choose(state.network.to(device), batch, TrainSettings(), device)
    assert found.device == "cuda"
    assert len(found.seconds) >= 2
    assert torch.equal(torch.cuda.get_rng_state(), before)
