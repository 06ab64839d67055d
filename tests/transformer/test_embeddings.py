"""Positions against the paper's formula in float64, rotations against complex numbers, and what embeddings add up."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from transformer.config import ModelSettings
from transformer.embeddings import Rotation, TokenEmbedding, rotary_positions, rotate, sinusoidal_positions


def settings(**changes: object) -> ModelSettings:
    return ModelSettings(**{"d_model": 16, "d_ff": 20, "n_heads": 2, "dropout": 0.0, **changes})


def paper_positions(n: int, d_model: int, first: int = 0) -> Tensor:
    """§3.5, element by element, in float64."""
    table = np.zeros((n, d_model))
    for position, column in np.ndindex(n, d_model):
        angle = (first + position) / 10_000 ** ((column - column % 2) / d_model)
        table[position, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return torch.from_numpy(table)


# --- sinusoidal positions, §3.5 ---


@pytest.mark.parametrize("d_model", [1, 2, 7, 16, 512])
def test_positions_equal_the_papers_formula(d_model: int) -> None:
    positions = sinusoidal_positions(50, d_model)
    assert positions.dtype == torch.float32
    assert_close(positions.double(), paper_positions(50, d_model), atol=1e-5, rtol=0)


@pytest.mark.parametrize("first", [1_000, 20_000])
def test_positions_follow_the_formula_beyond_any_sentence(first: int) -> None:
    off_by = first * 2**-22  # angles are rounded to fp32: in proportion to the place, 0.005 at place 20,000
    assert_close(sinusoidal_positions(4, 32, first).double(), paper_positions(4, 32, first), atol=off_by, rtol=0)


def test_later_positions_are_rows_of_the_whole_table() -> None:
    assert torch.equal(sinusoidal_positions(20, 16)[7:12], sinusoidal_positions(5, 16, first=7))


def test_a_shift_of_positions_is_a_linear_map() -> None:
    """§3.5: "for any fixed offset k, PE(pos+k) can be represented as a linear function of PE(pos)"."""
    k, positions = 5, sinusoidal_positions(40, 8).double()
    angles = torch.tensor([k / 10_000 ** (2 * i / 8) for i in range(4)], dtype=torch.float64)
    blocks = [torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]) for a in angles.tolist()]
    assert_close(positions[:-k] @ torch.block_diag(*blocks).double().T, positions[k:], atol=1e-5, rtol=0)


# --- rotary positions, Su et al. 2021 ---


def test_rotation_is_multiplication_by_a_complex_number() -> None:
    x = torch.randn(2, 3, 9, 8, dtype=torch.float64)
    turned = rotate(x, rotary_positions(9, 8, first=4))
    places = torch.arange(4, 13, dtype=torch.float64)
    angles = places[:, None] * 10_000 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    pairs = torch.view_as_complex(x.unflatten(-1, (4, 2)))
    expected = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
    assert_close(turned, expected, atol=1e-5, rtol=0)
    assert_close(turned.norm(dim=-1), x.norm(dim=-1), atol=1e-6, rtol=1e-6)


def test_products_of_rotated_vectors_depend_on_their_distance_only() -> None:
    query, key = torch.randn(2, 8, dtype=torch.float64)
    n = 30
    queries, keys = (rotate(x.expand(1, 1, n, 8), rotary_positions(n, 8))[0, 0] for x in (query, key))
    products = queries @ keys.T  # (n, n): of the same two vectors at all pairs of places
    for distance in range(-n + 1, n):
        diagonal = products.diagonal(distance)
        assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4, rtol=0)
    assert (products.diagonal(1)[0] - products.diagonal(2)[0]).abs() > 1e-3


def test_later_rotations_are_rows_of_all_of_them() -> None:
    part, whole = rotary_positions(5, 6, first=7), rotary_positions(20, 6)
    assert torch.equal(part.cos, whole.cos[7:12])
    assert torch.equal(part.sin, whole.sin[7:12])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_rotation_keeps_the_type_of_queries_and_keys(dtype: torch.dtype) -> None:
    x = torch.randn(1, 2, 3, 4, dtype=dtype)
    assert rotate(x, rotary_positions(3, 4)).dtype == dtype
    assert torch.equal(rotate(x, Rotation(torch.ones(3, 2), torch.zeros(3, 2))), x)


# --- token embeddings, §3.4 ---

IDS = torch.tensor([[5, 3, 9], [3, 0, 0]])


@pytest.mark.parametrize(("scaling", "factor"), [("embedding", 4.0), ("projection", 1.0), ("none", 1.0)])
def test_an_embedding_is_scaled_and_its_position_added(scaling: str, factor: float) -> None:
    embedding = TokenEmbedding(11, settings(scaling=scaling))  # √16 = 4
    assert_close(embedding(IDS), factor * embedding.table.weight[IDS] + paper_positions(3, 16).float())
    for position in (0, 30, 64, 1000):  # of all of them: the newest pieces of a beam
        expected = factor * embedding.table.weight[IDS] + paper_positions(1, 16, position).float()
        assert_close(embedding(IDS, position), expected, atol=3e-4, rtol=0)


def test_rotary_positions_are_not_added_to_embeddings() -> None:
    embedding = TokenEmbedding(11, settings(positions="rotary"))
    assert_close(embedding(IDS, 30), 4.0 * embedding.table.weight[IDS])


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_the_optional_norm_stands_after_the_sum(norm: str) -> None:
    plain = TokenEmbedding(11, settings())
    normed = TokenEmbedding(11, settings(embedding_norm=True, norm=norm))
    normed.table.weight = plain.table.weight
    x = plain(IDS)
    x = x - x.mean(-1, keepdim=True) if norm == "layer_norm" else x
    assert_close(normed(IDS), x / x.pow(2).mean(-1, keepdim=True).sqrt(), atol=1e-4, rtol=1e-4)


def test_dropout_falls_on_the_sum_of_embedding_and_position_in_training_only() -> None:
    embedding = TokenEmbedding(11, settings(dropout=0.5))
    ids = torch.arange(11).repeat(20, 1)
    dropped = embedding(ids)
    embedding.eval()
    whole = embedding(ids)
    assert ((dropped == 0) | torch.isclose(dropped, 2 * whole)).all()
    assert 0.4 < (dropped == 0).float().mean() < 0.6


def test_the_optional_norm_comes_after_dropout() -> None:
    embedding = TokenEmbedding(11, settings(embedding_norm=True, norm="rms_norm", dropout=0.5))
    normed = embedding(IDS)
    assert (normed == 0).any()
    assert_close(normed.pow(2).mean(-1), torch.ones(2, 3), atol=1e-4, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_adding_positions_keeps_the_type_of_the_embeddings(dtype: torch.dtype) -> None:
    assert TokenEmbedding(11, settings()).to(dtype)(IDS).dtype == dtype


def test_there_is_no_longest_sentence() -> None:
    assert TokenEmbedding(11, settings())(torch.ones(1, 5_000, dtype=torch.int64)).shape == (1, 5_000, 16)
