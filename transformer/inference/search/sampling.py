"""Ancestral sampling: hypotheses drawn piece by piece from the model's distribution, as a `Choice` of the search.

Sample i of a sentence continues row i. What ends joins the finished ones, and the others move up in their order; so
which row a sample stands in depends on the samples before it alone, and the noise can be keyed by the row: the first
samples of a sentence are the same however many are drawn. Different samples may have the same text, as they should
where their frequencies matter (minimum Bayes risk).

Each draw turns one number, made of (seed, line, row, position) by a hash, into a piece. No generator is advanced, so
neither the other sentences of a batch, nor their order, nor the device changes the noise. Probabilities are rounded to
whole numbers, whose sums are exact on every device: nothing impossible is ever drawn, nor anything outside the nucleus.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transformer.inference.search.best import best_continuations
from transformer.inference.search.search_state import BeamState, Candidates, Continuations

WHOLE = 2.0**29
"""What probability 1 is rounded to: a row's sum fits 32 bits, and a piece of less than 10⁻⁹ is not drawn."""


@dataclass(frozen=True)
class Sampling:
    """Draws `n_samples` hypotheses per sentence, the beam size of the search, from what the restrictions left.

    Pieces are drawn from P^(1/temperature), first reduced to the `top_k` most probable ones (Fan et al. 2018, §5.2),
    then to the fewest most probable ones that hold `top_p` of the rest (nucleus, Holtzman et al. 2020, eq. 2). The
    candidates' log P is the model's own, whatever the temperature and the reduction. A row without any possible piece
    dies: its log P is -inf from then on.
    """

    lines: Tensor  # (B0,) the number in the input of each sentence of the batch; any whole numbers that differ
    n_samples: int
    seed: int
    temperature: float = 1.0
    top_k: int | None = None  # None: all
    top_p: float = 1.0

    def __post_init__(self) -> None:
        assert self.temperature > 0
        assert self.top_k is None or self.top_k > 0
        assert 0 < self.top_p <= 1

    def __call__(self, continuations: Continuations, state: BeamState) -> Candidates:
        """One candidate per row; at the first step, all of them out of the one row."""
        logits, offset = continuations.logits, continuations.offset
        n, width = offset.shape
        rows = torch.arange(self.n_samples, device=logits.device)
        noise = random_numbers(self.seed, self.lines[state.sentences][:, None], rows, state.tokens.size(2))
        tokens = draw(logits, noise.view(n, width, -1), self.temperature, self.top_k, self.top_p)
        log_probs = logits.gather(2, tokens) + offset[:, :, None]  # (B, 1, n) at the first step, then (B, n, 1)
        return Candidates(log_probs.flatten(1), rows.clamp(max=width - 1).expand(n, -1), tokens.flatten(1))


def draw(
    logits: Tensor, noise: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0
) -> Tensor:
    """Ids (B, W, N) drawn from logits (B, W, V) by noise (B, W, N) of `random_numbers`, as `Sampling` describes.

    The inverse of the distribution function. Where every logit is -inf, or one is not a number: id 0.
    """
    values, ids = logits.flatten(0, 1), None  # (B · W, V)
    if top_k is not None and top_k < values.size(1):
        rows = Continuations(values[:, None], values.new_zeros(len(values), 1))
        best = best_continuations(rows, top_k)  # of equal ones the first by id: topk leaves that to chance
        values, ids = best.log_probs, best.tokens  # (B · W, top_k)
    # A lower temperature would make infinities of logits; it draws the most probable piece as this one does.
    probabilities = (values if temperature == 1 else values / max(temperature, 1e-30)).softmax(1)
    weights = probabilities.mul_(WHOLE).nan_to_num_(0).to(torch.int32)
    cumulated = (nucleus(weights, top_p) if top_p < 1 else weights).cumsum(1, dtype=torch.int32)
    # The first place where the sum exceeds noise / 2³² of the last sum; that place has a weight of its own.
    thresholds = (noise.flatten(0, 1) * cumulated[:, -1:]) >> 32
    drawn = torch.searchsorted(cumulated, thresholds.to(torch.int32), right=True) % weights.size(1)
    return (drawn if ids is None else ids.gather(1, drawn)).view_as(noise)


def nucleus(weights: Tensor, top_p: float) -> Tensor:
    """The weights (R, V), but 0 outside the nucleus: the greatest ones, of equal ones the first, that reach top_p.

    int32 below 2³⁰. Sorting takes several times as long on a CPU as finding the weight at the border digit by digit,
    of ten bits each: the sums by their first digit say which digit the border has, and so on among those that share it.
    """
    missing = (top_p * weights.sum(1, keepdim=True, dtype=torch.int32)).ceil().clamp(min=1).to(torch.int32)  # (R, 1)
    border = torch.zeros_like(missing)
    for shift in (20, 10, 0):
        digits = weights >> shift
        shared = torch.where(digits >> 10 == border, weights, 0)
        digits = 1023 - (digits & 1023)  # the greatest first
        sums = torch.zeros_like(weights[:, :1]).repeat(1, 1024).scatter_add_(1, digits.long(), shared)
        reached = sums.cumsum(1, dtype=torch.int32)
        digit = torch.searchsorted(reached, missing).clamp(max=1023)
        missing = missing - (reached - sums).gather(1, digit)
        border = border * 1024 + 1023 - digit.to(torch.int32)
    equal = weights == border
    inside = equal & (equal.cumsum(1, dtype=torch.int32) * border < missing + border)
    return torch.where((weights > border) | inside, weights, 0)


# --- noise ---


def _signed(number: int) -> int:
    """The 64-bit integer with the same bits: torch has no arithmetic on unsigned ones."""
    return number - (1 << 64) if number >> 63 else number


_GAMMA, _FIRST, _SECOND = map(_signed, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def random_numbers(seed: int, *keys: Tensor | int) -> Tensor:
    """Whole numbers 0 ≤ n < 2³², of the broadcast shape of the keys, int64: the same on every device."""
    state = mixed(torch.tensor(seed))
    for key in keys:
        state = mixed(state ^ key)
    return _shifted(state, 32)


def mixed(state: Tensor) -> Tensor:
    """The next output of splitmix64 (Steele, Lea & Flood 2014, fig. 15) from this state: int64 → int64, one to one."""
    state = state + _GAMMA
    state = (state ^ _shifted(state, 30)) * _FIRST
    state = (state ^ _shifted(state, 27)) * _SECOND
    return state ^ _shifted(state, 31)


def _shifted(bits: Tensor, n: int) -> Tensor:
    """Shifted to the right, with zeros moving in; >> repeats the sign."""
    return (bits >> n) & ((1 << (64 - n)) - 1)
