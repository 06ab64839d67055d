"""The parts around attention, each against its formula."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from transformer.config import ModelSettings
from transformer.layers import FeedForward, Residual, dropout, make_norm


def settings(**changes: object) -> ModelSettings:
    return ModelSettings(**{"d_model": 12, "d_ff": 20, "n_heads": 3, "dropout": 0.0, **changes})


# --- norms ---


@pytest.mark.parametrize("epsilon", [1e-6, 0.3])
@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm"])
def test_norms_equal_their_formulas(kind: str, epsilon: float) -> None:
    norm = make_norm(settings(norm=kind, norm_epsilon=epsilon)).double()
    gain = torch.nn.init.normal_(norm.weight)
    x = 3 + torch.randn(4, 5, 12, dtype=torch.float64)
    if kind == "layer_norm":
        bias = torch.nn.init.normal_(norm.bias)
        mean = x.sum(-1, keepdim=True) / 12
        variance = ((x - mean) ** 2).sum(-1, keepdim=True) / 12
        expected = (x - mean) / (variance + epsilon).sqrt() * gain + bias
    else:
        expected = x / ((x**2).sum(-1, keepdim=True) / 12 + epsilon).sqrt() * gain
        assert [name for name, _ in norm.named_parameters()] == ["weight"]
    assert_close(norm(x), expected)


# --- dropout, §5.4 ---


def test_dropout_does_nothing_in_evaluation_or_at_probability_zero() -> None:
    x = torch.randn(3, 4)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.99, 0.999])
def test_dropout_zeroes_the_rounded_share_and_keeps_the_expectation(probability: float) -> None:
    rate = min(round(probability * 256), 255) / 256
    assert abs(rate - probability) <= 1 / 256
    n = 200_000
    y = dropout(torch.ones(n), probability, training=True)
    deviation = math.sqrt(rate * (1 - rate) / n)
    assert abs((y == 0).double().mean().item() - rate) < 5 * deviation
    assert_close(y[y != 0].unique(), torch.tensor([1 / (1 - rate)]))
    assert abs(y.double().mean().item() - 1) < 5 * deviation / (1 - rate)


def test_each_of_the_eight_decisions_of_a_random_word_has_the_same_rate_and_knows_nothing_of_the_others() -> None:
    n = 100_000
    kept = (dropout(torch.ones(n, 8), 0.25, training=True) != 0).double()
    assert ((kept.mean(0) - 0.75).abs() < 5 * math.sqrt(0.25 * 0.75 / n)).all()
    correlations = torch.corrcoef(kept.T) - torch.eye(8)
    assert (correlations.abs() < 5 / math.sqrt(n)).all()


def test_the_gradient_of_dropout_is_its_mask_times_its_scale() -> None:
    x = torch.randn(7, 9, requires_grad=True)
    y = dropout(x, 0.5, training=True)
    (gradient,) = torch.autograd.grad(y, x, torch.full_like(y, 3.0))
    assert_close(gradient, torch.where(y == 0, 0.0, 3.0 * 2.0))
    assert_close(y, x * gradient / 3.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (8,), (3, 5, 7), (2, 0, 3)])
def test_dropout_keeps_shape_and_type_whatever_the_number_of_elements(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    y = dropout(torch.ones(shape, dtype=dtype), 0.5, training=True)
    assert y.shape == shape
    assert y.dtype == dtype
    assert ((y == 0) | (y == 2)).all()


def test_dropout_leaves_its_input_alone_even_a_transposed_one() -> None:
    x = torch.randn(6, 10).t()
    before = x.clone()
    y = dropout(x, 0.5, training=True)
    assert torch.equal(x, before)
    assert ((y == 0) | (y == 2 * x)).all()
    assert (y == 0).any()


def test_dropout_is_repeatable_from_a_seed() -> None:
    def drop(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return dropout(torch.ones(100), 0.5, training=True)

    assert torch.equal(drop(5), drop(5))
    assert not torch.equal(drop(5), drop(6))


# --- the residual connection, §3.1 ---


@pytest.mark.parametrize("position", ["post", "pre"])
def test_a_residual_connection_normalises_after_the_sum_or_before_the_sublayer(position: str) -> None:
    residual = Residual(settings(norm_position=position))
    torch.nn.init.normal_(residual.norm.weight)
    x, weight = torch.randn(2, 5, 12), torch.randn(12, 12)

    def sublayer(x: Tensor) -> Tensor:
        return (x @ weight).sin()

    expected = residual.norm(x + sublayer(x)) if position == "post" else x + sublayer(residual.norm(x))
    assert_close(residual.add(x, sublayer(residual.enter(x))), expected)


@pytest.mark.parametrize("training", [True, False])
def test_dropout_falls_on_the_sublayers_output_only(training: bool) -> None:
    residual = Residual(settings(norm_position="pre", dropout=0.5)).train(training)
    x, output = torch.randn(40, 12), torch.ones(40, 12)
    added = residual.add(x, output) - x
    assert_close(added.unique().round(decimals=4).unique(), torch.tensor([0.0, 2.0] if training else [1.0]))


# --- feed-forward, §3.3 ---

ACTIVATIONS = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
}


def random_feed_forward(**changes: object) -> FeedForward:
    feed_forward = FeedForward(settings(**changes)).double()
    for parameter in feed_forward.parameters():
        torch.nn.init.normal_(parameter)
    return feed_forward


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_feed_forward_sublayer_equals_equation_2(activation: str) -> None:
    feed_forward = random_feed_forward(activation=activation)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    inner = ACTIVATIONS[activation](x @ feed_forward.inner.weight.T + feed_forward.inner.bias)
    assert inner.size(-1) == 20
    assert_close(feed_forward(x), inner @ feed_forward.outer.weight.T + feed_forward.outer.bias)


def test_swiglu_multiplies_a_gate_and_a_linear_branch() -> None:
    feed_forward = random_feed_forward(activation="swiglu")
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    (w, v), (b, c) = feed_forward.inner.weight.split(20), feed_forward.inner.bias.split(20)
    inner = ACTIVATIONS["silu"](x @ w.T + b) * (x @ v.T + c)
    assert_close(feed_forward(x), inner @ feed_forward.outer.weight.T + feed_forward.outer.bias)


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_positions_do_not_see_each_other_in_the_feed_forward_sublayer(activation: str) -> None:
    feed_forward = random_feed_forward(activation=activation)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    alone = torch.stack([feed_forward(x[:, [t]]) for t in range(5)], 1).squeeze(2)
    assert_close(feed_forward(x), alone)


def test_feed_forward_dropout_acts_in_training_only() -> None:
    feed_forward = random_feed_forward(feed_forward_dropout=0.5)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    assert not torch.equal(feed_forward(x), feed_forward(x))
    feed_forward.eval()
    assert torch.equal(feed_forward(x), feed_forward(x))
