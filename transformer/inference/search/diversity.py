"""Diverse beam search (Vijayakumar et al. 2018): groups of beams, each kept away from what the ones before it chose.

Every group is a beam search of its own: with its width, its finished hypotheses and its end. To the search, the groups
of a sentence are sentences that lie together and leave together:

    places that the search counts    0 1 2 3      with two groups per sentence
    sentences of the batch           0 0 1 1      place // 2: where to find what is known per sentence
    rows of the step's first call    0   1        one per sentence, for groups begin alike
    rows of its later calls          0 … W-1 W …  W = groups · width per sentence, those of its first group first
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transformer.inference.search.beam_search import SearchRules, beam_search, is_done
from transformer.inference.search.best import best_continuations
from transformer.inference.search.search_state import (
    BeamState,
    Candidates,
    Continuations,
    Hypothesis,
    Restriction,
    Step,
)


@dataclass(frozen=True)
class Diversity:
    """Hamming diversity (§4.2 there), as a `Choice` over the groups of all sentences, groups of a sentence in a row.

    A continuation of group g is worth log P - strength · n, where n counts the best `width` continuations of the
    groups before g, of the same sentence and at the same position, with the same piece. So the groups choose one after
    the other, and the first does as plain beam search does. This worth is forgotten at once: log P is what candidates
    carry on, and what hypotheses are compared by in the end. A group that is done dies, or it would go on counting for
    as long as its sentence stays.
    """

    groups: int
    strength: float
    rules: SearchRules  # of the search of each group

    def __call__(self, continuations: Continuations, state: BeamState) -> Candidates:
        """The 2 · width most worthy continuations of each group."""
        width = self.rules.beam_size
        offset = continuations.offset.masked_fill(is_done(state, self.rules)[:, None], -torch.inf)
        offset = offset.view(-1, self.groups, offset.size(1))  # (B, G, width), or (B, G, 1) at the first step
        logits = continuations.logits.view(*offset.shape, -1)  # (B, G, width, V)
        counts = logits.new_zeros(logits.size(0), 1, logits.size(3))  # (B, 1, V)
        chosen = []
        for group in range(self.groups):
            worth = Continuations(logits[:, group] - self.strength * counts, offset[:, group])
            best = best_continuations(worth, 2 * width)
            candidates = _as_given(best, Continuations(logits[:, group], offset[:, group]))
            exist = (candidates.log_probs > -torch.inf).to(counts.dtype)
            counts.scatter_add_(2, candidates.tokens[:, None, :width], exist[:, None, :width])
            chosen.append(candidates)
        log_probs, beams, tokens = (
            torch.stack([getattr(candidates, name) for candidates in chosen], 1).flatten(0, 1)  # (B · G, 2 · width)
            for name in ("log_probs", "beams", "tokens")
        )
        return Candidates(log_probs, beams, tokens)


def _as_given(candidates: Candidates, continuations: Continuations) -> Candidates:
    """The same candidates with the log P of these continuations; -inf where there are none."""
    vocab_size = continuations.logits.size(2)
    logits = continuations.logits.flatten(1).gather(1, candidates.beams * vocab_size + candidates.tokens)
    log_probs = logits + continuations.offset.gather(1, candidates.beams)
    return replace(candidates, log_probs=log_probs.masked_fill(candidates.log_probs == -torch.inf, -torch.inf))


def diverse_beam_search(
    step: Step,
    max_lengths: Tensor,
    rules: SearchRules,
    groups: int,
    strength: float,
    restrictions: Sequence[Restriction] = (),
    bonus: Callable[[], Tensor] | None = None,
) -> list[list[Hypothesis]]:
    """As `beam_search`, with the beam of `rules` dealt out to the groups; they must divide it.

    Of the `n_best` hypotheses, all different, the first are the best of each group, then come the second ones, until
    there are enough; so four of four groups are one of each. They are returned by score, and the best of all groups is
    among them. Fewer than `n_best` are found where groups agree.
    """
    assert rules.beam_size % groups == 0
    width = rules.beam_size // groups
    group_rules = replace(rules, beam_size=width, n_best=min(width, rules.n_best))
    shared = SharedStart(step, groups)
    found = beam_search(
        shared,
        max_lengths.repeat_interleave(groups),
        group_rules,
        [_per_sentence(restriction, groups) for restriction in restrictions],
        Diversity(groups, strength, group_rules),
        None if bonus is None else lambda: shared.rows_of_groups(bonus()),
        together=groups,
    )
    return [merged(found[first : first + groups], rules.n_best) for first in range(0, len(found), groups)]


class SharedStart:
    """A step for groups out of a step for sentences: at the first call, the groups of a sentence share its one row."""

    def __init__(self, step: Step, groups: int) -> None:
        self.step = step
        self.groups = groups
        self.n_calls = 0

    def __call__(self, tokens: Tensor, origin: Tensor) -> Tensor:
        """tokens and origin (N,), rows of groups → logits (N, V); `Step`."""
        self.n_calls += 1
        if self.n_calls == 1:
            tokens, origin = tokens[:: self.groups], origin[: len(origin) // self.groups]
        if self.n_calls == 2:
            origin = origin // self.groups  # rows of call 1 as the search counts them → rows of the step
        return self.rows_of_groups(self.step(tokens, origin))

    def rows_of_groups(self, values: Tensor) -> Tensor:
        """What the step's last call gave, (N', …), for the rows of the search: (N, …)."""
        return values.repeat_interleave(self.groups, 0) if self.n_calls == 1 else values


def merged(found: Sequence[Sequence[Hypothesis]], n_best: int) -> list[Hypothesis]:
    """The hypotheses of one sentence out of those of its groups; see `diverse_beam_search`."""
    ranked = [(rank, hypothesis) for hypotheses in found for rank, hypothesis in enumerate(hypotheses)]
    distinct: dict[tuple[int, ...], Hypothesis] = {}
    for _, hypothesis in sorted(ranked, key=lambda entry: (entry[0], -entry[1].score)):
        distinct.setdefault(tuple(hypothesis.tokens), hypothesis)
    return sorted(list(distinct.values())[:n_best], key=lambda hypothesis: -hypothesis.score)


def _per_sentence(restriction: Restriction, groups: int) -> Restriction:
    """A restriction that knows sentences, for a search that counts groups."""
    return lambda continuations, state: restriction(continuations, replace(state, sentences=state.sentences // groups))
