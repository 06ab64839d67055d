"""Beam search over a step function: the most probable continuations of <s>, for a batch of sentences at once.

The search knows no network. It calls `step(tokens, origin) -> logits` once per position: `tokens` (N,) are the last
pieces of N live hypotheses, `origin` (N,) says for each of them which row of the previous call it continues, so that a
step that caches can follow. The rows of a sentence lie together:

    call 1: N = B          one row per sentence, all <s>, origin = 0 … B-1; W equal rows would be W times the work
    call 2: N = B·W        sentence 1 may have origin 1 1 1: its three beams all continue row 1 of call 1
    call k: N = B'·W       a sentence that is done leaves the batch; its rows are nobody's origin

The state is a value: `expand`, `finish`, `select`, `is_done` and `cut` compute new values from it, without a Python
loop over sentences or hypotheses. A score is log P / penalty(length), higher is better (see `length_penalty`), in fp32
whatever the precision of the logits. Equal ones are ordered by beam, then by id, so a result depends neither on the
batch nor on chance.

What else people ask of a search enters in three places, and nowhere else: `restrictions` lower what must not follow,
`choose` picks the candidates otherwise than by log P alone, and `bonus` adds to the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transformer.inference.search.best import best_continuations
from transformer.inference.search.length_penalty import LengthPenalty
from transformer.inference.search.search_state import (
    BeamState,
    Candidates,
    Choice,
    Continuations,
    Hypothesis,
    Restriction,
    Step,
)

IMPOSSIBLE = (PAD_ID, BOS_ID)
"""No target ever holds them: they are no outcomes, and the others share the whole probability."""

LEAVING = 8
"""Sentences that are done leave together once they are an eighth of the batch: leaving copies what the others hold."""


@dataclass(frozen=True)
class SearchRules:
    """What a search looks for; `n_best` hypotheses are returned, at most as many as `beam_size`.

    stop: `exact` goes on until provably no better hypothesis can come; `first_n` (fairseq) stops once `beam_size`
    hypotheses have finished.
    """

    beam_size: int
    penalty: LengthPenalty
    n_best: int = 1
    stop: Literal["exact", "first_n"] = "exact"
    bos_id: int = BOS_ID
    eos_id: int = EOS_ID
    impossible: tuple[int, ...] = IMPOSSIBLE
    # <unk> was an outcome in training and keeps its probability, but nobody can read it: it is never chosen.
    unwanted: tuple[int, ...] = (UNK_ID,)

    def __post_init__(self) -> None:
        assert 1 <= self.n_best <= self.beam_size

    @property
    def n_kept(self) -> int:
        """M: how many finished hypotheses are kept; to count `beam_size` of them takes as many."""
        return self.beam_size if self.stop == "first_n" else self.n_best


def beam_search(
    step: Step,
    max_lengths: Tensor,
    rules: SearchRules,
    restrictions: Sequence[Restriction] = (),
    choose: Choice | None = None,
    bonus: Callable[[], Tensor] | None = None,
    together: int = 1,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses found for each sentence, best first.

    Args:
        step: see the top of this module.
        max_lengths: (B,) the most pieces per sentence, </s> included, at least 1. Hypotheses that are cut there compete
            with the complete ones by their scores, and say so.
        rules: how hypotheses are compared, and when the search may stop.
        restrictions: applied in this order to the continuations of every step.
        choose: picks the candidates; None: the 2W of the highest log P.
        bonus: called after every step: (N,) to be added to the score of what ends now, at most 0.
        together: so many sentences in a row leave the batch together, once all of them are done.
    """
    choose = choose or (lambda continuations, _: best_continuations(continuations, 2 * rules.beam_size))
    state = start(max_lengths, rules)
    gone = torch.zeros_like(max_lengths, dtype=torch.bool)  # results are out; the rows wait to leave with others
    left = []
    while len(state.sentences):
        last = state.tokens[:, :, -1] if state.tokens.size(2) else torch.full_like(state.origin, rules.bos_id)
        logits = step(last.flatten(), state.origin.flatten())
        state = state if bonus is None else replace(state, bonus=bonus().view_as(state.bonus))
        continuations = expand(state, logits, rules)
        for restriction in restrictions:
            restriction(continuations, state)
        candidates = choose(continuations, state)
        state = select(finish(state, candidates, rules), candidates, rules)
        done = is_done(state, rules)
        newly = (done & ~gone).nonzero().flatten()  # waits for the device, as the look for ties does; nothing else does
        if len(newly):
            left.append(cut(state.take(newly), rules))
            gone |= done
            leave = gone.view(-1, together).all(1).repeat_interleave(together)
            if LEAVING * int(leave.sum()) >= len(leave):
                stay = (~leave).nonzero().flatten()
                state, gone = state.take(stay), gone[stay]
    results: list[list[Hypothesis]] = [[] for _ in range(len(max_lengths))]
    for part in left:
        for sentence, hypotheses in zip(part.sentences.tolist(), _hypotheses(part, rules), strict=True):
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
        bonus=torch.zeros(n, 1, device=device),
        finished=torch.empty(n, rules.n_kept, 0, dtype=torch.int64, device=device),
        scores=torch.full((n, rules.n_kept), -torch.inf, device=device),
    )


def log_distribution(logits: Tensor, impossible: Sequence[int] = IMPOSSIBLE) -> Tensor:
    """log P over the last axis, fp32; the impossible ids are left out before normalising, not after."""
    logits = logits.to(torch.float32, copy=True)
    for impossible_id in impossible:  # not one assignment with a list of ids: that copies the list to the device
        logits[..., impossible_id] = -torch.inf
    return logits.log_softmax(-1)


def expand(state: BeamState, logits: Tensor, rules: SearchRules) -> Continuations:
    """Every live hypothesis by every piece; logits (B·W, V) are overwritten.

    One pass normalises them in place, row by row while a row is in the cache of a core; W·V sums are not written.
    """
    logits = logits.float()
    for impossible_id in rules.impossible:  # before normalising: they are no outcomes
        logits[:, impossible_id] = -torch.inf
    torch.log_softmax(logits, -1, out=logits)
    for unwanted_id in rules.unwanted:
        logits[:, unwanted_id] = -torch.inf
    return Continuations(logits.view(*state.log_probs.shape, -1), state.log_probs)


def finish(state: BeamState, candidates: Candidates, rules: SearchRules) -> BeamState:
    """Candidates that end now join the finished ones, of which the best M stay; live ones are left as they are.

    Only the first W candidates may end, as in a search whose beam is W wide; so beam 1 ends where greedy search does.
    """
    beams, tokens = candidates.beams[:, : rules.beam_size], candidates.tokens[:, : rules.beam_size]
    ends = tokens == rules.eos_id
    if not bool(ends.any()):  # at most positions; waits for the device
        return state
    scores = candidates.log_probs[:, : rules.beam_size] / rules.penalty(torch.tensor(state.tokens.size(2) + 1))
    scores = (scores + state.bonus.gather(1, beams)).masked_fill(~ends, -torch.inf)
    return _join(state, _continued(state.tokens, beams, tokens), scores, rules)


def select(state: BeamState, candidates: Candidates, rules: SearchRules) -> BeamState:
    """The first W candidates that do not end live on: of 2W at most W end, one per beam (flax's wmt example)."""
    ends = candidates.tokens == rules.eos_id
    chosen = ends.int().sort(dim=1, stable=True).indices[:, : rules.beam_size]  # (B, W), still in their order
    beams = candidates.beams.gather(1, chosen)
    log_probs = candidates.log_probs.masked_fill(ends, -torch.inf).gather(1, chosen)  # fewer than W may be left
    n, width = state.log_probs.shape
    first_rows = torch.arange(n, device=beams.device)[:, None] * width  # (B, 1)
    return replace(
        state,
        tokens=_continued(state.tokens, beams, candidates.tokens.gather(1, chosen)),
        log_probs=log_probs,
        origin=first_rows + beams,
        bonus=state.bonus.gather(1, beams),
    )


def is_done(state: BeamState, rules: SearchRules) -> Tensor:
    """(B,) True where the search may stop: nothing lives, the length limit is reached, or the rule says so.

    exact: a live hypothesis can only lose log P, which is at most 0, the penalty never falls with the length, and a
    bonus is at most 0; so no descendant of it, complete or cut, scores above log P / penalty(max_length). Once the
    worst of the M finished ones reaches that of the best live one, going on cannot help. A beam of 1 is greedy search:
    it ends with its first finished hypothesis.
    """
    best = state.log_probs.amax(1)
    done = (state.tokens.size(2) >= state.max_lengths) | (best == -torch.inf)
    worst = state.scores[:, -1]
    if rules.beam_size == 1 or rules.stop == "first_n":
        return done | (worst > -torch.inf)
    return done | (worst >= best / rules.penalty(state.max_lengths))


def cut(state: BeamState, rules: SearchRules) -> BeamState:
    """For sentences that are done: live hypotheses at the length limit join the finished ones by their scores."""
    scores = state.log_probs / rules.penalty(torch.tensor(state.tokens.size(2))) + state.bonus
    at_limit = (state.tokens.size(2) >= state.max_lengths)[:, None]
    return _join(state, state.tokens, scores.masked_fill(~at_limit, -torch.inf), rules)


def _join(state: BeamState, tokens: Tensor, scores: Tensor, rules: SearchRules) -> BeamState:
    """The best M of the finished hypotheses and these, (B, R, T) and (B, R); of equal scores the earlier found."""
    n_kept = state.scores.size(1)
    older = F.pad(state.finished, (0, tokens.size(2) - state.finished.size(2)), value=rules.eos_id)
    scores, order = torch.cat([state.scores, scores], 1).sort(dim=1, descending=True, stable=True)
    finished = _rows(torch.cat([older, tokens], 1), order[:, :n_kept])
    return replace(state, finished=finished, scores=scores[:, :n_kept])


def _continued(tokens: Tensor, beams: Tensor, last: Tensor) -> Tensor:
    """Hypotheses `beams` (B, R) of tokens (B, W, T), each with its piece of `last` (B, R): (B, R, T+1)."""
    return torch.cat([_rows(tokens, beams), last[:, :, None]], 2)


def _rows(tokens: Tensor, rows: Tensor) -> Tensor:
    """Rows (B, R) of each sentence of tokens (B, W, T): (B, R, T)."""
    return tokens.gather(1, rows[:, :, None].expand(-1, -1, tokens.size(2)))


def _hypotheses(state: BeamState, rules: SearchRules) -> list[list[Hypothesis]]:
    """What is finished, as Python values, the best first, for each sentence of the state."""
    results = []
    for rows, scores in zip(state.finished.tolist(), state.scores.tolist(), strict=True):
        found = [(row, score) for row, score in zip(rows, scores, strict=True) if score != -torch.inf]
        results.append([_hypothesis(row, score, rules.eos_id) for row, score in found[: rules.n_best]])
    return results


def _hypothesis(row: list[int], score: float, eos_id: int) -> Hypothesis:
    complete = eos_id in row
    return Hypothesis(row[: row.index(eos_id) + 1] if complete else row, score, complete)
