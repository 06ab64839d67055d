"""From ids to vectors: token embeddings (§3.4) and positions (§3.5, or rotary)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from transformer.config import ModelSettings
from transformer.layers import dropout, make_norm


def _angles(positions: Tensor, width: int) -> Tensor:
    """position / 10000^(2i / width) for positions (T,) and i = 0 … ⌈width / 2⌉ − 1: (T, ⌈width / 2⌉)."""
    columns = torch.arange(0, width, 2, dtype=torch.float32, device=positions.device)
    frequencies = torch.exp(columns * (-math.log(10_000) / width))
    return positions.to(torch.float32)[:, None] * frequencies


def sinusoidal_positions(n: int, d_model: int, first: int = 0, device: torch.device | None = None) -> Tensor:
    """`sinusoids` of positions first … first + n − 1: (n, D)."""
    return sinusoids(torch.arange(first, first + n, device=device), d_model)


def sinusoids(positions: Tensor, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same, §3.5.

    Computed when asked for, so that there is no longest sentence. positions (T,) integers → (T, D).
    """
    angles = _angles(positions, d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]  # columns sin, cos, sin, cos, …


def _stored_position(position: int, d_model: int, device: torch.device) -> Tensor:
    """(1, D): one of `sinusoidal_positions`, computed 64 at a time: decoding asks for them one by one."""
    return _stored_positions(position // 64, d_model, device)[position % 64][None]


@lru_cache(maxsize=64)
def _stored_positions(block: int, d_model: int, device: torch.device) -> Tensor:
    return sinusoidal_positions(64, d_model, 64 * block, device)


class Rotation(NamedTuple):
    """Cosines and sines by which rotary positions turn each pair of columns."""

    cos: Tensor  # (T, K / 2)
    sin: Tensor  # (T, K / 2)


def rotary_positions(n: int, d_head: int, first: int = 0, device: torch.device | None = None) -> Rotation:
    """`rotations` of positions first … first + n − 1."""
    return rotations(torch.arange(first, first + n, device=device), d_head)


def rotations(positions: Tensor, d_head: int) -> Rotation:
    """The rotations of positions (T,) (Su et al. 2021, "RoFormer", equation 15)."""
    angles = _angles(positions, d_head)
    return Rotation(angles.cos(), angles.sin())


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn columns (2i, 2i+1) of x (B, H, T, K) by the angle of its position: products depend on distances only."""
    cos, sin = rotation.cos.to(x.dtype), rotation.sin.to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)  # (B, H, T, K/2, 2) → K


class TokenEmbedding(nn.Module):
    """Embeddings × √d_model (§3.4) + positions (§3.5), with dropout on the sum (§5.4) and an optional norm after it."""

    def __init__(self, vocab_size: int, settings: ModelSettings) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, settings.d_model)
        self.scale = math.sqrt(settings.d_model) if settings.scaling == "embedding" else 1.0
        self.sinusoidal = settings.positions == "sinusoidal"
        self.dropout = settings.dropout
        self.norm = make_norm(settings) if settings.embedding_norm else nn.Identity()

    def forward(self, ids: Tensor, position: int | Tensor | None = None) -> Tensor:
        """Ids (B, T) → (B, T, D).

        They stand at positions 0 … T − 1; or all of them at the one that is given; or, packed, at those given: (T,).
        """
        x: Tensor = self.table(ids) * self.scale
        if self.sinusoidal:
            if isinstance(position, int):
                added = _stored_position(position, x.size(-1), x.device)
            else:
                positions = torch.arange(ids.size(1), device=x.device) if position is None else position
                added = sinusoids(positions, x.size(-1))
            x = x + added.to(x.dtype)
        embedded: Tensor = self.norm(dropout(x, self.dropout, self.training))
        return embedded
