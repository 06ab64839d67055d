"""Beam search over a step function: the most probable continuations of <s>, for a batch of sentences at once.

The search knows no network. It calls `step(tokens, origin) -> logits` once per position: `tokens` (N,) are the last
pieces of N live hypotheses, `origin` (N,) says for each of them which row of the previous call it continues, so that a
step that caches can reorder its cache. The rows of a sentence lie together:

    call 1: N = B          one row per sentence, all <s>, origin = 0 … B-1; W equal rows would be W times the work
    call 2: N = B·W        sentence 1 may have origin 1 1 1: its three beams all continue row 1 of call 1
    call k: N = B'·W       a sentence that is done leaves the batch; its rows are nobody's origin

The state is a value: `expand`, `finish`, `select`, `is_done` and `cut` compute new values from it, without a Python
loop over sentences or hypotheses. A score is log P / penalty(length), higher is better (see `length_penalty`), in fp32
whatever the precision of the logits. Equal ones are ordered by beam, then by id, so a result depends neither on the
batch nor on chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transformer.inference.length_penalty import LengthPenalty

Step = Callable[[Tensor, Tensor], Tensor]
"""(tokens (N,), origin (N,)) → logits (N, V); see the top of this module."""

IMPOSSIBLE = (PAD_ID, BOS_ID)
"""No target ever holds them: they are no outcomes, and the others share the whole probability."""


@dataclass(frozen=True)
class SearchRules:
    """What a search looks for; `n_best` hypotheses are returned, at most as many as `beam_size`."""

    beam_size: int
    penalty: LengthPenalty
    n_best: int = 1
    bos_id: int = BOS_ID
    eos_id: int = EOS_ID
    impossible: tuple[int, ...] = IMPOSSIBLE
    # <unk> was an outcome in training and keeps its probability, but nobody can read it: it is never chosen.
    unwanted: tuple[int, ...] = (UNK_ID,)

    def __post_init__(self) -> None:
        assert 1 <= self.n_best <= self.beam_size


@dataclass(frozen=True)
class Hypothesis:
    """One output: its pieces, with </s> at the end if it is complete, and without where the length limit cut it."""

    tokens: list[int]
    score: float
    complete: bool


@dataclass(frozen=True)
class BeamState:
    """A search between two calls of the step; B counts the sentences still searched, M is n_best.

    Rows are sorted, best first. A log-probability of -inf marks a row that holds no hypothesis: beams when there are
    fewer continuations than W, finished ones until M have finished.
    """

    sentences: Tensor  # (B,) places in the batch the search began with
    max_lengths: Tensor  # (B,) pieces, </s> included
    tokens: Tensor  # (B, W, T) live hypotheses, <s> left out; W is 1 before the first step
    log_probs: Tensor  # (B, W) of the live hypotheses
    origin: Tensor  # (B, W) the row of the last step call that each live hypothesis continues
    finished: Tensor  # (B, M, T) finished hypotheses, the shorter ones filled up with </s>
    scores: Tensor  # (B, M) of the finished hypotheses

    def take(self, rows: Tensor) -> BeamState:
        """The state of these sentences only; `rows` (B',) are places in this state."""
        return BeamState(**{name: value[rows] for name, value in vars(self).items()})


@dataclass(frozen=True)
class Candidates:
    """The continuations worth a look, best first; C = 2W."""

    log_probs: Tensor  # (B, C)
    beams: Tensor  # (B, C) which live hypothesis is continued …
    tokens: Tensor  # (B, C) … by which piece


def beam_search(step: Step, max_lengths: Tensor, rules: SearchRules) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses found for each sentence, best first.

    max_lengths (B,): the most pieces per sentence, </s> included, at least 1. Hypotheses that are cut there compete
    with the complete ones by their scores, and say so.
    """
    state = start(max_lengths, rules)
    left = []
    while len(state.sentences):
        last = state.tokens[:, :, -1] if state.tokens.shape[2] else torch.full_like(state.origin, rules.bos_id)
        candidates = expand(state, step(last.flatten(), state.origin.flatten()), rules)
        state = select(finish(state, candidates, rules), candidates, rules)
        done = is_done(state, rules)
        leaving = done.nonzero().flatten()  # waits for the device, as best_of's look for ties does; nothing else does
        if len(leaving):
            left.append(cut(state.take(leaving), rules))
            state = state.take((~done).nonzero().flatten())
    results: list[list[Hypothesis]] = [[] for _ in range(len(max_lengths))]
    for part in left:
        for sentence, hypotheses in zip(part.sentences.tolist(), _hypotheses(part, rules.eos_id), strict=True):
            results[sentence] = hypotheses
    return results


def start(max_lengths: Tensor, rules: SearchRules) -> BeamState:
    """One empty hypothesis per sentence, nothing finished."""
    n, device = len(max_lengths), max_lengths.device
    places = torch.arange(n, device=device)
    return BeamState(
        sentences=places,
        max_lengths=max_lengths,
        tokens=torch.empty(n, 1, 0, dtype=torch.int64, device=device),
        log_probs=torch.zeros(n, 1, device=device),
        origin=places[:, None],
        finished=torch.empty(n, rules.n_best, 0, dtype=torch.int64, device=device),
        scores=torch.full((n, rules.n_best), -torch.inf, device=device),
    )


def log_distribution(logits: Tensor, impossible: Sequence[int]) -> Tensor:
    """log P over the last axis, fp32; the impossible ids are left out before normalising, not after."""
    logits = logits.to(torch.float32, copy=True)
    for impossible_id in impossible:  # not one assignment with a list of ids: that copies the list to the device
        logits[..., impossible_id] = -torch.inf
    return logits.log_softmax(-1)


def expand(state: BeamState, logits: Tensor, rules: SearchRules) -> Candidates:
    """The 2W best continuations by one piece, out of W·V.

    2W because at most W of them can be </s>, one per beam: W are always left to live on (flax's wmt example).
    """
    n, width = state.log_probs.shape
    log_probs = log_distribution(logits, rules.impossible)  # (B·W, V)
    for unwanted_id in rules.unwanted:
        log_probs[:, unwanted_id] = -torch.inf
    vocab_size = log_probs.shape[1]
    sums = log_probs.view(n, width, vocab_size).add_(state.log_probs[:, :, None])  # in place: memory costs time here
    best, places = best_of(sums.view(n, width * vocab_size), 2 * rules.beam_size)
    missing = 2 * rules.beam_size - best.shape[1]  # the first step has V continuations; 2W may be more
    return Candidates(
        log_probs=F.pad(best, (0, missing), value=-torch.inf),
        beams=F.pad(places // vocab_size, (0, missing)),
        tokens=F.pad(places % vocab_size, (0, missing)),
    )


def best_of(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k greatest of each row (all, if there are fewer) and their places; of equal ones, the first.

    values (B, n) → (B, min(k, n)) twice. torch.topk leaves open which of equal values it returns, and in which order.
    """
    n = values.shape[1]
    k = min(k, n)
    best, places = values.topk(min(k + 1, n))
    last = best[:, k - 1 : k]
    if k < n and bool(((best[:, k:] == last) & (last > -torch.inf)).any()):
        # A tie across the border, rare in fp32: take what is greater, then of what is equal the lowest places.
        index = torch.arange(n, device=values.device)
        rank = torch.where(values > last, index - n, torch.where(values == last, index, n))
        places = rank.topk(k, largest=False).indices
    places = places[:, :k].sort(dim=1).values
    best, order = values.gather(1, places).sort(dim=1, descending=True, stable=True)
    return best, places.gather(1, order)


def finish(state: BeamState, candidates: Candidates, rules: SearchRules) -> BeamState:
    """Candidates that end now join the finished ones, of which the best M stay; live ones are left as they are.

    Only the W best candidates may end, as in a search whose beam is W wide; so beam 1 ends where greedy search does.
    """
    beams, tokens = candidates.beams[:, : rules.beam_size], candidates.tokens[:, : rules.beam_size]
    scores = candidates.log_probs[:, : rules.beam_size] / rules.penalty(torch.tensor(state.tokens.shape[2] + 1))
    scores = scores.masked_fill(tokens != rules.eos_id, -torch.inf)
    older = F.pad(state.finished, (0, 1), value=rules.eos_id)  # (B, M, T+1)
    return _join(replace(state, finished=older), _continued(state.tokens, beams, tokens), scores)


def select(state: BeamState, candidates: Candidates, rules: SearchRules) -> BeamState:
    """The W best candidates that do not end live on."""
    ends = candidates.tokens == rules.eos_id
    chosen = ends.int().sort(dim=1, stable=True).indices[:, : rules.beam_size]  # (B, W), still best first
    beams = candidates.beams.gather(1, chosen)
    n, width = state.log_probs.shape
    first_rows = torch.arange(n, device=beams.device)[:, None] * width  # (B, 1)
    return replace(
        state,
        tokens=_continued(state.tokens, beams, candidates.tokens.gather(1, chosen)),
        log_probs=candidates.log_probs.gather(1, chosen),
        origin=first_rows + beams,
    )


def is_done(state: BeamState, rules: SearchRules) -> Tensor:
    """(B,) True where no further step can change the result, or the length limit is reached.

    A live hypothesis can only lose log P, which is at most 0, and the penalty never falls with the length; so no
    descendant of it, complete or cut, scores above log P / penalty(max_length). Once the worst of the M finished ones
    reaches that of the best live one, going on cannot help; "W have finished", the usual rule, is no such proof. A beam
    of 1 is greedy search: it ends with its first finished hypothesis.
    """
    worst = state.scores[:, -1]
    reachable = state.log_probs[:, 0] / rules.penalty(state.max_lengths)
    done = (state.tokens.shape[2] >= state.max_lengths) | (worst >= reachable)
    return done | (worst > -torch.inf) if rules.beam_size == 1 else done


def cut(state: BeamState, rules: SearchRules) -> BeamState:
    """For sentences that are done: live hypotheses join the finished ones by their scores as they stand.

    So they matter at the length limit only; in a sentence that was done before it, the finished ones are no worse.
    """
    scores = state.log_probs / rules.penalty(torch.tensor(state.tokens.shape[2]))
    return _join(state, state.tokens, scores)


def _join(state: BeamState, tokens: Tensor, scores: Tensor) -> BeamState:
    """The best M of the finished hypotheses and these, (B, R, T) and (B, R); of equal scores the earlier found."""
    n_best = state.scores.shape[1]
    scores, order = torch.cat([state.scores, scores], 1).sort(dim=1, descending=True, stable=True)
    finished = _rows(torch.cat([state.finished, tokens], 1), order[:, :n_best])
    return replace(state, finished=finished, scores=scores[:, :n_best])


def _continued(tokens: Tensor, beams: Tensor, last: Tensor) -> Tensor:
    """Hypotheses `beams` (B, R) of tokens (B, W, T), each with its piece of `last` (B, R): (B, R, T+1)."""
    return torch.cat([_rows(tokens, beams), last[:, :, None]], 2)


def _rows(tokens: Tensor, rows: Tensor) -> Tensor:
    """Rows (B, R) of each sentence of tokens (B, W, T): (B, R, T)."""
    return tokens.gather(1, rows[:, :, None].expand(-1, -1, tokens.shape[2]))


def _hypotheses(state: BeamState, eos_id: int) -> list[list[Hypothesis]]:
    """What is finished, as Python values, for each sentence of the state."""
    results = []
    for rows, scores in zip(state.finished.tolist(), state.scores.tolist(), strict=True):
        found = [(row, score) for row, score in zip(rows, scores, strict=True) if score != -torch.inf]
        results.append([_hypothesis(row, score, eos_id) for row, score in found])
    return results


def _hypothesis(row: list[int], score: float, eos_id: int) -> Hypothesis:
    complete = eos_id in row
    return Hypothesis(row[: row.index(eos_id) + 1] if complete else row, score, complete)
