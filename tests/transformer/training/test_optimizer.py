"""Adam against its published equations, and clipping against its formula."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from transformer.config import TrainSettings
from transformer.training.optimizer import clip_gradients, make_optimizer, set_learning_rate


def network_with_gradients(*gradients: Tensor) -> nn.Module:
    network = nn.ParameterList([nn.Parameter(torch.randn_like(gradient)) for gradient in gradients])
    for parameter, gradient in zip(network.parameters(), gradients, strict=True):
        parameter.grad = gradient.clone()
    return network


def test_a_step_is_that_of_kingma_and_ba_with_the_papers_constants() -> None:
    """Kingma & Ba 2015, algorithm 1; β 0.9 and 0.98, ε 1e-9 of §5.3 are the defaults."""
    rates, gradients = [1e-3, 2e-3, 5e-4], [torch.randn(4, 3) for _ in range(3)]
    network = network_with_gradients(gradients[0])
    parameter = next(network.parameters())
    theta = parameter.detach().double()
    m, v = torch.zeros_like(theta), torch.zeros_like(theta)
    optimizer = make_optimizer(network, TrainSettings())
    for t, (rate, gradient) in enumerate(zip(rates, gradients, strict=True), 1):
        parameter.grad = gradient.clone()
        set_learning_rate(optimizer, rate)
        optimizer.step()
        m = 0.9 * m + 0.1 * gradient
        v = 0.98 * v + 0.02 * gradient**2
        theta = theta - rate * (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)).sqrt() + 1e-9)
    assert_close(parameter.detach().double(), theta, rtol=1e-5, atol=1e-6)


def test_the_constants_of_adam_are_settings() -> None:
    settings = TrainSettings(adam_beta1=0.8, adam_beta2=0.9, adam_epsilon=1e-3)
    (group,) = make_optimizer(nn.Linear(2, 2), settings).param_groups
    assert (group["betas"], group["eps"]) == ((0.8, 0.9), 1e-3)


def test_every_parameter_is_optimised_once() -> None:
    network = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3))
    network[1].weight = network[0].weight
    (group,) = make_optimizer(network, TrainSettings()).param_groups
    assert len(group["params"]) == 2


@pytest.mark.parametrize("clip_norm", [0.5, 100.0, None])
def test_a_gradient_longer_than_the_limit_is_scaled_down_to_it(clip_norm: float | None) -> None:
    gradients = [torch.randn(4, 3), torch.randn(5)]
    norm = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))
    network = network_with_gradients(*gradients)
    assert float(clip_gradients(network, clip_norm)) == pytest.approx(norm)  # the norm before
    scale = min(1.0, clip_norm / norm) if clip_norm is not None else 1.0
    for parameter, gradient in zip(network.parameters(), gradients, strict=True):
        assert_close(parameter.grad, gradient * scale)
