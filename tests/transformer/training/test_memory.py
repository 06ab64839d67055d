"""What training needs is known before: tensors that last to the byte, those of a pass by a law."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from data.batches import EpochPlan, collate
from data.prepared import Prepared
from transformer.config import Settings, TrainSettings
from transformer.training.choices import Choices
from transformer.training.group import ALONE
from transformer.training.memory import (
    Shape,
    activation_bytes,
    estimate_memory,
    longest_micro_batch,
    peak_memory,
    saved_bytes,
)
from transformer.training.setup import build
from transformer.training.state import TrainingState
from transformer.training.stream import open_stream
from transformer.training.update import update

MakeSettings = Callable[..., Settings]
CPU = torch.device("cpu")
CHOICES = Choices("cpu", "fp32", "explicit", {}, max_tokens=60)
SHAPE = Shape(rows=7, src=9, tgt=8)


@pytest.fixture
def start(prepared: Prepared, make_settings: MakeSettings) -> Iterator[Callable[..., TrainingState]]:
    """The state of a run of these settings before its first update."""
    yield lambda **sections: build(make_settings(**sections), prepared, CPU)[0]
    torch.set_flush_denormal(False)


def tensor_bytes(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("freeze", [[], ["encoder.*"]])
def test_weights_gradients_moments_and_average_are_those_of_training_to_the_byte(
    optimizer: str, freeze: list[str], prepared: Prepared, make_settings: MakeSettings, start: Any
) -> None:
    if optimizer == "muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("this PyTorch has no Muon")  # pyproject.toml allows versions from before it came
    train = {"optimizer": optimizer, "freeze": freeze, "ema_decay": 0.9}
    settings, state = make_settings(train=train), start(train=train)
    estimate = estimate_memory(state, [SHAPE], settings.train, CHOICES)

    gradients: list[int] = []
    for each in state.optimizers:
        each.register_step_pre_hook(
            lambda optimizer, *_: gradients.append(
                tensor_bytes(p.grad for group in optimizer.param_groups for p in group["params"])
            )
        )
    stream = open_stream(settings, prepared, CHOICES.max_tokens)
    update(state, stream.take(0, 0), 1e-3, settings.train, CHOICES, ALONE)
    stream.close()
    moments = (
        value
        for each in state.optimizers
        for of_parameter in each.state.values()
        for name, value in of_parameter.items()
        if name != "step"  # a number
    )
    assert state.average is not None
    assert estimate["weights"] == tensor_bytes(state.network.parameters())
    assert estimate["gradients"] == sum(gradients)
    assert estimate["optimizer moments"] == tensor_bytes(moments)
    assert estimate["moving average"] == tensor_bytes(state.average.parameters())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("attention", ["explicit", "fused"])
@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"train": {"r_drop": 1.0}},
        {"model": {"layer_drop": 0.5, "n_encoder_layers": 3}},
        {"model": {"activation": "swiglu", "norm": "rms_norm", "norm_position": "pre", "positions": "rotary"}},
        {"model": {"attention_dropout": 0.1, "feed_forward_dropout": 0.1, "attention_bias": True}},
    ],
)
def test_activations_of_many_rows_follow_from_those_of_few(
    precision: Any, attention: Any, variant: dict[str, Any], make_settings: MakeSettings, start: Any
) -> None:
    settings, state = make_settings(**variant), start(**variant)
    state.network.use_attention(attention)
    choices = Choices("cpu", precision, attention, {}, max_tokens=60)
    measured = saved_bytes(state.network, SHAPE, settings.train, choices)
    assert activation_bytes(state.network, SHAPE, settings.train, choices) == pytest.approx(measured, rel=0.01)


def test_activations_hold_at_least_what_the_formulas_of_attention_and_feed_forward_need(
    make_settings: MakeSettings, start: Any
) -> None:
    model = make_settings().model
    rows, src, tgt = SHAPE
    weights = model.n_heads * rows * (src * src + tgt * tgt + tgt * src)  # softmax, of three attentions
    inner = model.d_ff * rows * (src + tgt)  # after the activation
    queries_keys_values = 3 * model.d_model * rows * (src + tgt)
    state = start()
    state.network.use_attention("explicit")
    found = saved_bytes(state.network, SHAPE, TrainSettings(), CHOICES)
    assert found > 4 * (weights + inner + queries_keys_values)
    assert found < 20 * 4 * (weights + inner + queries_keys_values)


def test_explicit_attention_needs_more_for_each_token_of_long_sentences(start: Any) -> None:
    network = start().network
    network.use_attention("explicit")
    short, long = (saved_bytes(network, Shape(2, n, n), TrainSettings(), CHOICES) / n for n in (20, 200))
    assert long > 1.5 * short  # by token


def test_counting_leaves_weights_and_layer_drop_as_they_were(make_settings: MakeSettings, start: Any) -> None:
    settings = make_settings(model={"layer_drop": 0.5})
    state = start(model={"layer_drop": 0.5})
    before = {name: tensor.clone() for name, tensor in state.network.state_dict().items()}
    estimate_memory(state, [SHAPE], settings.train, CHOICES)
    torch.testing.assert_close(state.network.state_dict(), before, rtol=0, atol=0)
    assert all(parameter.grad is None for parameter in state.network.parameters())
    assert state.network.encoder.layer_drop == state.network.decoder.layer_drop == 0.5


@pytest.mark.parametrize("max_tokens", [12, 60, 1000])
def test_no_micro_batch_of_an_epoch_has_longer_rows_than_the_one_of_the_longest(
    max_tokens: int, prepared: Prepared
) -> None:
    found = longest_micro_batch(prepared.train, 80, max_tokens)
    assert found.rows * max(found.src, found.tgt) <= max_tokens
    plan = EpochPlan(prepared.train, batch_tokens=80, max_tokens=max_tokens, seed=1, epoch=0)
    for number in range(len(plan)):
        for sentences in plan.micro_batches(number):
            batch = collate(prepared.train, sentences)
            assert max(batch.src.size(1), batch.tgt_out.size(1)) <= max(found.src, found.tgt)


def test_the_peak_of_a_process_counts_what_it_allocates() -> None:
    before = peak_memory(CPU)
    held = torch.ones(before // 4 + 2**24)  # 4 bytes each: more than all before
    assert peak_memory(CPU) - before > 2**25
    del held
