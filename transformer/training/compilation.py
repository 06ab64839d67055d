"""`train.compile`: forward and backward pass of packed micro-batches, fused by torch.compile for their one shape."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import torch

from data.packing import AnyBatch
from transformer.errors import RunError
from transformer.model import Transformer
from transformer.training.loss import Loss, batch_loss

BACKEND = "inductor"


class LossFunction(Protocol):
    """`batch_loss` of a network."""

    def __call__(self, batch: AnyBatch, smoothing: float, r_drop: float | None = None) -> Loss:
        """The sums over its tokens."""


def compile_loss(network: Transformer, **options: Any) -> LossFunction:
    """`batch_loss` of the network, compiled when it is first called, in one piece and once for all micro-batches.

    A second shape would be compiled once more, each for minutes; a part that Python had to do would be an error.
    `options` are torch.compile's.
    """
    compiled: LossFunction = torch.compile(
        partial(batch_loss, network), fullgraph=True, dynamic=False, **{"backend": BACKEND} | options
    )
    return compiled


def compilation_failed(error: RuntimeError) -> RunError | None:
    """What to tell the user if the error is the compiler's."""
    if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
        return None
    reason = str(error).strip().split("\n")[0]
    return RunError(f"torch.compile failed: {reason}. Set train.compile=false; the same command goes on")
