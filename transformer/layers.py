"""The parts around attention: norms, dropout, the residual connection (§3.1), feed-forward (§3.3), layer drop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config import ModelSettings

Layer = TypeVar("Layer")

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "swiglu": F.silu}


def make_norm(settings: ModelSettings) -> nn.Module:
    """Layer normalisation (Ba et al. 2016), or RMSNorm (Zhang & Sennrich 2019), over the last dimension."""
    norm = nn.LayerNorm if settings.norm == "layer_norm" else nn.RMSNorm
    return norm(settings.d_model, eps=settings.norm_epsilon)


def dropout(x: Tensor, probability: float, training: bool) -> Tensor:
    """Zero elements with the given probability and scale the others, so that the expectation stays (§5.4).

    On a CPU the probability is rounded to a multiple of 1/256: eight decisions from each 64 random bits take an eighth
    of the time of PyTorch's one float each, which was a fifth of a training step. The scale is that of the rounded one.
    """
    if not training or probability == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():  # which cannot trace what follows
        return F.dropout(x, probability)
    threshold = min(round(probability * 256), 255)  # a random byte below it drops its element
    random = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
    # 0 or 1, as numbers of x's type: whole bytes are exact in all of them, and a product with booleans is slow.
    keep = random.view(torch.uint8)[: x.numel()].view_as(x).to(x.dtype).sub_(threshold - 1).clamp_(0, 1)
    return (x * keep).mul_(256 / (256 - threshold))


def layer_drop(layers: Sequence[Layer], probability: float, training: bool) -> Sequence[Layer]:
    """The layers that run this time: in training each is left out with the given probability, from all rows at once.

    LayerDrop (Fan et al. 2020, §3), without scaling, as there: the residual connection carries x past the gap. Helps to
    train deep stacks, and to cut layers off a trained one. The draw is the CPU's, so no device is waited for.
    """
    if not training or probability == 0:
        return layers
    draws = torch.rand(len(layers), device="cpu").tolist()
    return [layer for layer, draw in zip(layers, draws, strict=True) if draw >= probability]


class Residual(nn.Module):
    """The connection around every sub-layer, §3.1: norm(x + dropout(sublayer(x))).

    Pre-norm (Xiong et al. 2020) is x + dropout(sublayer(norm(x))) instead. Used as
    `connection.add(x, sublayer(connection.enter(x)))`, so that a sub-layer may return more than its output.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.norm = make_norm(settings)
        self.pre = settings.norm_position == "pre"
        self.dropout = settings.dropout

    def enter(self, x: Tensor) -> Tensor:
        """What the sub-layer sees."""
        return self.norm(x) if self.pre else x

    def add(self, x: Tensor, output: Tensor) -> Tensor:
        """Add the sub-layer's output to what came in."""
        total = x + dropout(output, self.dropout, self.training)
        return total if self.pre else self.norm(total)


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W₁ + b₁) W₂ + b₂, equation 2, at every position alike; or with another activation.

    SwiGLU (Shazeer 2020): (silu(x W₁ + b₁) ⊙ (x V + c)) W₂ + b₂; W₁ and V are stacked in one product.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.gated = settings.activation == "swiglu"
        self.activation = ACTIVATIONS[settings.activation]
        self.dropout = settings.feed_forward_dropout
        self.inner = nn.Linear(settings.d_model, settings.d_ff * (2 if self.gated else 1))
        self.outer = nn.Linear(settings.d_ff, settings.d_model)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        inner: Tensor = self.inner(x)  # (B, T, d_ff), twice as wide when gated
        if self.gated:
            gate, inner = inner.chunk(2, dim=-1)
            inner = self.activation(gate) * inner
        else:
            inner = self.activation(inner)
        output: Tensor = self.outer(dropout(inner, self.dropout, self.training))
        return output
