"""Averages of weights against their formulas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from transformer.config import ModelSettings, Settings
from transformer.model import Transformer
from transformer.model_directory import WEIGHTS, Model, load_tensors, save_model
from transformer.training.averaging import average_checkpoints, moving_average_copy, update_moving_average
from transformer.training.checkpoint import TrainingState

MakeState = Callable[[Settings], tuple[TrainingState, Model]]
TINY = ModelSettings(n_encoder_layers=1, n_decoder_layers=1, d_model=8, d_ff=8, n_heads=2)


@torch.no_grad()
def change(network: Transformer) -> None:
    for parameter in network.parameters():
        parameter += torch.randn_like(parameter)


def test_the_moving_average_begins_as_a_copy_of_its_own_without_gradients() -> None:
    network = Transformer(TINY, 20, 20)
    average = moving_average_copy(network)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    change(network)
    assert_close(average.state_dict(), before, rtol=0, atol=0)
    assert not any(parameter.requires_grad for parameter in average.parameters())
    assert average.projection.weight is average.encoder.embedding.table.weight  # tied as in the network


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.999])
def test_the_moving_average_follows_its_formula(decay: float) -> None:
    network = Transformer(TINY, 20, 20)
    average = moving_average_copy(network)
    expected = [parameter.detach().double() for parameter in network.parameters()]
    for step in range(6):
        change(network)
        update_moving_average(average, network, step, decay)
        d = min(decay, (1 + step) / (10 + step))  # at 0.3, both sides of the minimum come: 0.1, 0.18, 0.25, 0.3 …
        expected = [d * e + (1 - d) * p.detach().double() for e, p in zip(expected, network.parameters(), strict=True)]
    for found, wanted in zip(average.parameters(), expected, strict=True):
        assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [1, 3])
def test_the_average_of_checkpoints_is_the_mean_of_their_weights(
    n: int, tmp_path: Path, make_settings: Callable[..., Settings], make_state: MakeState
) -> None:
    state, model = make_state(make_settings())
    directories = [tmp_path / str(i) for i in range(n)]
    for directory in directories:
        directory.mkdir()
        change(state.network)
        save_model(directory, model)
    average = average_checkpoints(directories)
    weights = [load_tensors(directory / WEIGHTS) for directory in directories]
    assert average.keys() == weights[0].keys()
    for name, found in average.items():
        assert_close(found, torch.stack([each[name] for each in weights]).mean(dim=0))
