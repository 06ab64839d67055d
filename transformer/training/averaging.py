"""Averages of weights: a moving one during training, and one over checkpoints after it (§6.1)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from transformer.model import Transformer
from transformer.model_directory import WEIGHTS, load_tensors
from transformer.training.sharding import own_share


def moving_average_copy(network: Transformer) -> Transformer:
    """A network of its own that will hold the moving average; it starts as the weights are now."""
    return copy.deepcopy(network).eval().requires_grad_(False)


@torch.no_grad()
def update_moving_average(average: Transformer, network: Transformer, step: int, decay: float) -> None:
    """average ← d · average + (1 − d) · weights, with d = min(decay, (1 + step) / (10 + step)); steps count from 0.

    The smaller d at the start (as in TensorFlow's ExponentialMovingAverage) lets the initial weights be forgotten.
    """
    decay = min(decay, (1 + step) / (10 + step))
    averages, weights = ([own_share(p) for p in one.parameters()] for one in (average, network))
    torch._foreach_lerp_(averages, weights, 1 - decay)


def average_checkpoints(checkpoints: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints (§6.1 averages the last 5 of base, 20 of big).

    One checkpoint is in memory at a time; sums are in fp32.
    """
    total: dict[str, Tensor] = {}
    for checkpoint in checkpoints:
        weights = load_tensors(checkpoint / WEIGHTS)
        for name, tensor in weights.items():
            total[name] = total[name] + tensor.float() if name in total else tensor.float()
    return {name: tensor / len(checkpoints) for name, tensor in total.items()}
