"""The update of a PyTorch program: loss, gradient, clipping, step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.training_peers.task import Ids

# The paper's Adam, §5.3; the rate is small, so that the weights stay nearly what they are: time does not depend on it.
LR, BETAS, EPSILON = 1e-4, (0.9, 0.98), 1e-9


def update_function(
    network: nn.Module, optimizer: torch.optim.Optimizer, losses: Sequence[Callable[[], Tensor]], clip_norm: float
) -> Callable[[int], None]:
    """The update on a batch, whose mean loss `losses` computes."""
    network.train()

    def update(number: int) -> None:
        losses[number]().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), clip_norm)
        optimizer.step()
        optimizer.zero_grad()

    return update


def tensor(ids: Ids) -> Tensor:
    """The same ids for PyTorch."""
    return torch.from_numpy(np.ascontiguousarray(ids))
