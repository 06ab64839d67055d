"""What may follow what: restrictions of a search, each of which lowers logits of pieces that must or should not come.

`build_restrictions` puts them together. They act in this order:

    1. repetition penalty       lowers, while every log P is still the model's
    2. minimum length, no-repeat n-gram, avoided phrases, required phrases: each forbids
    3. forced prefix            overrules all of them: what the user has written stands
    4. way out                  where nothing is left for a sentence, it may end

A hypothesis after which nothing may come dies: its row of logits is -inf throughout, and the beam goes on without it.
Scores are sums of the log P that the search saw: those of forced pieces are in, and so is the repetition penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from data.vocabulary import EOS_ID, PAD_ID
from transformer.inference.search.required_phrases import RequiredPhrases, contains
from transformer.inference.search.search_state import BeamState, Continuations, Restriction

_NONE = -1  # fills up lists of ids: no piece


def build_restrictions(
    *,
    device: torch.device | str,
    min_length: int = 0,
    repetition_penalty: float = 1.0,
    no_repeat_ngram: int = 0,
    prefixes: Sequence[Sequence[int]] = (),
    avoided: Sequence[Sequence[Sequence[int]]] = (),
    required: RequiredPhrases | None = None,
) -> tuple[Restriction, ...]:
    """What is asked of the translations of a batch, in the right order; () if nothing is.

    Args:
        device: of the search.
        min_length: pieces before </s>; 0: off.
        repetition_penalty: see `RepetitionPenalty`; 1: off.
        no_repeat_ngram: n, see `NoRepeatNgram`; 0: off.
        prefixes: ids that each sentence begins with, possibly none; (): no sentence has any.
        avoided: phrases of ids that each sentence must not hold, possibly none; (): no sentence has any. One that lies
            within a phrase required of the same sentence is not avoided.
        required: of the same batch.
    """
    restrictions: list[Restriction] = []
    if repetition_penalty != 1:
        restrictions.append(RepetitionPenalty(repetition_penalty))
    if min_length:
        restrictions.append(MinimumLength(min_length))
    if no_repeat_ngram:
        restrictions.append(NoRepeatNgram(no_repeat_ngram))
    if required is not None:
        avoided = [
            [phrase for phrase in phrases if not any(contains(longer, phrase) for longer in required.sought[i])]
            for i, phrases in enumerate(avoided)
        ]
        restrictions.append(required.restriction)
    if any(avoided):
        restrictions.append(AvoidedPhrases.of(avoided, device))
    if any(prefixes):
        restrictions = [ForcedPrefix.of(prefixes, device, restrictions)]
    return (WayOut(tuple(restrictions)),) if restrictions else ()


@dataclass(frozen=True)
class RepetitionPenalty:
    """A piece that the hypothesis holds already is worth θ · log P, θ ≥ 1 (Keskar et al. 2019, §4.1).

    There logits are divided by θ, which lowers positive ones, raises negative ones, and depends on a constant that a
    softmax does not see; and the others are normalised anew. Here log P, never positive, is multiplied.
    """

    theta: float

    def __call__(self, continuations: Continuations, state: BeamState) -> None:
        """`Restriction`."""
        lowered = self.theta * continuations.logits.gather(2, state.tokens)  # (B, W, T)
        continuations.logits.scatter_(2, state.tokens, lowered)  # held twice: the same number twice


@dataclass(frozen=True)
class MinimumLength:
    """No </s> before `length` pieces; at a sentence's length limit it may come nevertheless."""

    length: int

    def __call__(self, continuations: Continuations, state: BeamState) -> None:
        """`Restriction`."""
        too_early = state.tokens.size(2) < (state.max_lengths - 1).clamp(max=self.length)
        continuations.logits[:, :, EOS_ID].masked_fill_(too_early[:, None], -torch.inf)


@dataclass(frozen=True)
class NoRepeatNgram:
    """No n pieces in a row that the hypothesis holds already (Paulus et al. 2018, §2.5, for n = 3); </s> is free."""

    n: int

    def __call__(self, continuations: Continuations, state: BeamState) -> None:
        """`Restriction`."""
        n_tokens = state.tokens.size(2)
        if n_tokens < self.n:
            return
        ngrams = state.tokens.unfold(2, self.n, 1)  # (B, W, T-n+1, n)
        last = state.tokens[:, :, None, n_tokens - self.n + 1 :]  # (B, W, 1, n-1)
        _forbid(continuations.logits, ngrams[..., -1], (ngrams[..., :-1] == last).all(3))


@dataclass(frozen=True)
class AvoidedPhrases:
    """No hypothesis holds the pieces of one of these phrases side by side.

    Another cut into pieces of the same text is another phrase: give all that matter.
    """

    heads: Tensor  # (B0, P, L) all pieces of a phrase but the last, filled up with _NONE in front
    lasts: Tensor  # (B0, P)

    @classmethod
    def of(cls, phrases: Sequence[Sequence[Sequence[int]]], device: torch.device | str) -> AvoidedPhrases:
        """For each sentence, phrases of ids."""
        wanted = [[list(phrase) for phrase in of_sentence if phrase] for of_sentence in phrases]
        most = max(map(len, wanted), default=0)
        longest = max((len(phrase) for of_sentence in wanted for phrase in of_sentence), default=1)
        rows = [
            [[_NONE] * (longest - len(p)) + p for p in [*of_sentence, *[[PAD_ID]] * (most - len(of_sentence))]]
            for of_sentence in wanted  # <pad> never comes anyway
        ]
        padded = torch.tensor(rows, dtype=torch.int64, device=device).view(len(rows), most, longest)
        return cls(padded[:, :, :-1], padded[:, :, -1])

    def __call__(self, continuations: Continuations, state: BeamState) -> None:
        """`Restriction`."""
        heads = self.heads[state.sentences][:, None]  # (B, 1, P, L)
        n_tokens, length = state.tokens.size(2), heads.size(3)
        last = F.pad(state.tokens, (max(0, length - n_tokens), 0), value=PAD_ID)  # at least L long
        last = last[:, :, None, last.size(2) - length :]  # (B, W, 1, L)
        stands = ((heads == last) | (heads == _NONE)).all(3)  # (B, W, P)
        _forbid(continuations.logits, self.lasts[state.sentences][:, None].expand_as(stands), stands)


@dataclass(frozen=True)
class ForcedPrefix:
    """The first pieces of a sentence are given; what the others forbid there counts for nothing.

    A piece that cannot come at all (<unk>) is taken as certain, since it does: it costs no log P.
    """

    pieces: Tensor  # (B0, L), filled up with _NONE
    others: tuple[Restriction, ...]

    @classmethod
    def of(
        cls, prefixes: Sequence[Sequence[int]], device: torch.device | str, others: Sequence[Restriction] = ()
    ) -> ForcedPrefix:
        """For each sentence, ids; none where nothing is given."""
        longest = max(map(len, prefixes), default=0)
        rows = [[*prefix, *[_NONE] * (longest - len(prefix))] for prefix in prefixes]
        return cls(torch.tensor(rows, dtype=torch.int64, device=device).view(len(rows), longest), tuple(others))

    def __call__(self, continuations: Continuations, state: BeamState) -> None:
        """`Restriction`."""
        if state.tokens.size(2) >= self.pieces.size(1):
            _apply(self.others, continuations, state)
            return
        logits = continuations.logits
        pieces = self.pieces[state.sentences, state.tokens.size(2)][:, None, None]  # (B, 1, 1)
        forced = pieces != _NONE
        index = pieces.clamp(min=0).expand(-1, logits.size(1), 1)
        own = logits.gather(2, index)  # (B, W, 1), before anybody forbids it
        _apply(self.others, continuations, state)
        own = own.masked_fill(own == -torch.inf, 0.0)
        logits.masked_fill_(forced, -torch.inf)
        logits.scatter_reduce_(2, index, own.masked_fill(~forced, -torch.inf), "amax")


@dataclass(frozen=True)
class WayOut:
    """Lets a sentence of which nothing has finished end where the others together leave it no way to go on.

    A sentence so short of pieces is an accident of contradictory wishes; an end is better than no translation.
    """

    others: tuple[Restriction, ...]

    def __call__(self, continuations: Continuations, state: BeamState) -> None:
        """`Restriction`."""
        ends = continuations.logits[:, :, EOS_ID]
        before = ends.clone()
        _apply(self.others, continuations, state)
        best = continuations.logits.amax(2) + continuations.offset  # (B, W); a row that holds no hypothesis has none
        stuck = (best == -torch.inf).all(1) & (state.scores == -torch.inf).all(1)
        ends.copy_(torch.where(stuck[:, None], before, ends))


def _apply(restrictions: Sequence[Restriction], continuations: Continuations, state: BeamState) -> None:
    for restriction in restrictions:
        restriction(continuations, state)


def _forbid(logits: Tensor, pieces: Tensor, where: Tensor) -> None:
    """-inf for pieces (B, W, N) of each row of logits (B, W, V), where (B, W, N) says so; pieces may come twice."""
    limits = torch.full_like(pieces, torch.inf, dtype=logits.dtype).masked_fill_(where, -torch.inf)
    logits.scatter_reduce_(2, pieces, limits, "amin")
