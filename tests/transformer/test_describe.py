"""The table of `describe`: parameters as in the paper and by formula, FLOPs as torch counts them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer.config import ModelSettings
from transformer.describe import TYPICAL_LENGTH, describe, format_description
from transformer.model import Transformer

BASE: dict[str, Any] = {}
BIG: dict[str, Any] = {"d_model": 1024, "d_ff": 4096, "n_heads": 16}
TINY: dict[str, Any] = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 32, "d_ff": 48, "n_heads": 4}
OTHER: dict[str, Any] = {
    **TINY,
    "n_encoder_layers": 3,
    "n_decoder_layers": 2,
    "d_head": 6,
    "d_value": 10,
    "norm_position": "pre",
    "norm": "rms_norm",
    "activation": "swiglu",
    "positions": "rotary",
    "attention_bias": True,
    "embedding_norm": True,
    "tie_embeddings": "none",
}
VOCAB = 37_000


def paper_parameters(d_model: int, d_ff: int, n_layers: int, vocab_size: int) -> int:
    """§3: four D × D matrices per attention, feed-forward with biases, a layer norm per sub-layer, one table."""
    attention, norm = 4 * d_model**2, 2 * d_model
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return vocab_size * d_model + n_layers * (encoder_layer + decoder_layer)


@pytest.mark.parametrize(
    ("values", "formula", "bounds"),
    [(BASE, (512, 2048), (63e6, 65e6)), (BIG, (1024, 4096), (210e6, 215e6))],
    ids=["base", "big"],
)
def test_base_and_big_have_the_papers_parameters(
    values: dict[str, Any], formula: tuple[int, int], bounds: tuple[float, float]
) -> None:
    description = describe(ModelSettings(**values), VOCAB, VOCAB)
    assert bounds[0] <= description.parameters <= bounds[1]
    assert description.parameters == paper_parameters(*formula, 6, VOCAB)
    assert description.parameters_without_embeddings == description.parameters - VOCAB * formula[0]
    with torch.device("meta"):
        network = Transformer(ModelSettings(**values), VOCAB, VOCAB)
    assert description.parameters == sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("tie", ["three_way", "target", "source_target", "none"])
def test_a_shared_matrix_counts_once_and_is_marked(tie: str) -> None:
    description = describe(ModelSettings(**TINY, tie_embeddings=tie), 70, 70)
    untied = describe(ModelSettings(**TINY, tie_embeddings="none"), 70, 70)
    n_shared = {"three_way": 2, "target": 1, "source_target": 1, "none": 0}[tie]
    assert untied.parameters - description.parameters == n_shared * 70 * 32
    assert format_description(description).count("     shared") == n_shared
    assert untied.parameters_without_embeddings == description.parameters_without_embeddings


@pytest.mark.parametrize("values", [TINY, OTHER], ids=["paper", "every other choice"])
def test_parts_add_up_to_the_network(values: dict[str, Any]) -> None:
    description = describe(ModelSettings(**values), 90, 90)
    network = Transformer(ModelSettings(**values), 90, 90)
    assert description.parameters == sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("form", ["explicit", "fused"])
@pytest.mark.parametrize("length", [1, 7, TYPICAL_LENGTH])
@pytest.mark.parametrize("values", [TINY, OTHER], ids=["paper", "every other choice"])
def test_flops_equal_those_that_torch_counts(values: dict[str, Any], length: int, form: Any) -> None:
    description = describe(ModelSettings(**values), 90, 90, length)
    with torch.device("meta"):
        network = Transformer(ModelSettings(**values), 90, 90)
    network.use_attention(form)
    ids = torch.ones(2, length, dtype=torch.int64, device="meta")
    with FlopCounterMode(display=False) as counter:
        network(ids, ids)
    assert counter.get_total_flops() == description.flops * 2 * length


def test_training_costs_about_three_times_the_forward_pass() -> None:
    network = Transformer(ModelSettings(**TINY), 90, 90)
    ids = torch.ones(2, 30, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        network(ids, ids).sum().backward()
    expected = 3 * describe(ModelSettings(**TINY), 90, 90, 30).flops * 2 * 30
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.02)


def test_the_table_names_every_part_its_sums_and_its_assumptions() -> None:
    description = describe(ModelSettings(), VOCAB, VOCAB, length=25)
    text = format_description(description)
    for part in description.parts:
        assert part.name in text
        assert part.shapes[0] in text
    assert f"{description.parameters:,}" in text
    assert f"{description.parameters_without_embeddings:,}" in text
    assert f"{3 * description.flops / 1e6:,.2f}" in text
    assert "25 source and 25 target pieces" in text
