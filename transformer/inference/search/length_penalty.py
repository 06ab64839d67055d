"""What a sum of log-probabilities is divided by, so that long hypotheses are not at a disadvantage.

The length of a hypothesis counts its pieces with the closing </s>; <s> is not generated and does not count. Every
penalty is 1 or more at length 1 and never falls as the length grows: beam search's stopping rule rests on that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

LengthPenalty = Callable[[Tensor], Tensor]
"""lengths, any shape, integers → divisors of the same shape, in fp32."""


def wu(alpha: float) -> LengthPenalty:
    """((5 + length) / 6)^α: Wu et al. 2016, equation 14, without its coverage term (β = 0)."""
    return lambda lengths: ((5.0 + lengths) / 6.0) ** alpha


def average(alpha: float) -> LengthPenalty:
    """length^α: the mean log-probability of a piece where α is 1, the form of CTranslate2 and Hugging Face."""
    return lambda lengths: lengths.to(torch.float32) ** alpha


def none() -> LengthPenalty:
    """1: hypotheses are compared by their probability alone, which favours short ones."""
    return lambda lengths: torch.ones_like(lengths, dtype=torch.float32)


def length_penalty(name: Literal["wu", "average", "none"], alpha: float) -> LengthPenalty:
    """The penalty that the settings name; `none` ignores α."""
    return {"wu": wu(alpha), "average": average(alpha), "none": none()}[name]
