"""Adam (§5.3) and the gradient norm."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transformer.config import TrainSettings


def make_optimizer(network: nn.Module, settings: TrainSettings) -> torch.optim.Adam:
    """Adam with the paper's β and ε; all parameters in one kernel where PyTorch has it. The rate is set each step."""
    device = next(network.parameters()).device.type
    return torch.optim.Adam(
        network.parameters(),
        lr=0.0,
        betas=(settings.adam_beta1, settings.adam_beta2),
        eps=settings.adam_epsilon,
        fused=device in ("cpu", "cuda"),
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Use this rate in the next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def clip_gradients(network: nn.Module, clip_norm: float | None) -> Tensor:
    """Scale the gradient down to `clip_norm` if it is longer; returns its norm before, always measured."""
    return nn.utils.clip_grad_norm_(network.parameters(), clip_norm if clip_norm is not None else float("inf"))
