"""What a search knows between two calls of its step: values, with a shape on every field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class BeamState:
    """A search between two calls of the step; B counts the sentences still searched, M is n_best.

    A log-probability of -inf marks a row that holds no hypothesis: beams when there are fewer continuations than W,
    finished ones until M have finished.
    """

    sentences: Tensor  # (B,) places in the batch the search began with: index what is known per sentence with them
    max_lengths: Tensor  # (B,) pieces, </s> included
    tokens: Tensor  # (B, W, T) live hypotheses, <s> left out; W is 1 before the first step
    log_probs: Tensor  # (B, W) of the live hypotheses
    origin: Tensor  # (B, W) the row of the last step call that each live hypothesis continues
    bonus: Tensor  # (B, W) what is added to a hypothesis' score beside log P / penalty; 0 where nothing is
    finished: Tensor  # (B, M, T') finished hypotheses, best first, the shorter ones filled up with </s>; T' ≤ T
    scores: Tensor  # (B, M) of the finished hypotheses

    def take(self, rows: Tensor) -> BeamState:
        """The state of these sentences only; `rows` (B',) are places in this state."""
        return BeamState(**{name: value[rows] for name, value in vars(self).items()})


@dataclass(frozen=True)
class Continuations:
    """Every live hypothesis by every piece: log P(hypothesis, piece) = logits + offset."""

    logits: Tensor  # (B, W, V) fp32, log P of the piece; -inf where it must not follow, less where it is less wanted
    offset: Tensor  # (B, W) log P of the hypothesis


@dataclass(frozen=True)
class Candidates:
    """The continuations worth a look, in the order of preference."""

    log_probs: Tensor  # (B, C)
    beams: Tensor  # (B, C) which live hypothesis is continued …
    tokens: Tensor  # (B, C) … by which piece


@dataclass(frozen=True)
class Hypothesis:
    """One output: its pieces, with </s> at the end if it is complete, and without where the length limit cut it."""

    tokens: list[int]
    score: float
    complete: bool


Step = Callable[[Tensor, Tensor], Tensor]
"""(tokens (N,), origin (N,)) → logits (N, V), which are the caller's to overwrite; see `beam_search`."""

Restriction = Callable[[Continuations, BeamState], None]
"""Lowers logits in place: pieces that must not follow to -inf, others that are less wanted by less."""

Choice = Callable[[Continuations, BeamState], Candidates]
"""Picks the candidates. The first W of them that end are finished; the first W that do not end live on."""
