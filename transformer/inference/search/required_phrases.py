"""Phrases that must appear: lexically constrained search by dynamic beam allocation (Post & Vilar 2018), vectorised.

A hypothesis has met a phrase if the phrase's pieces stand in it, side by side. As in Hu et al. 2019, §3, no trie is
carried along with the beam and reordered with it; unlike there, nothing is: what is met, what is begun and what is
still needed are pure functions of a hypothesis' pieces, computed by comparing them with all phrases at all places.

    pieces          x a b a b          phrases  [a b c]  [d]
    begun           [a b c] at place 3, with two pieces; a place later with none, as anywhere
    needed          2: c, then d; x in their place would make it 4

Two things follow from it. `restriction` keeps every hypothesis able to meet its phrases before its length limit, so
phrases that fit side by side below the limit are met, whatever the model thinks of them and however small the beam.
`choose` divides the beam among hypotheses by what they still need, so that one that has met more, and paid for it in
log P, is not driven out by those that put it off.

Phrases that do not fit are given up, the longest first, and the rest is translated as usual: see `unmet`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from data.vocabulary import EOS_ID
from transformer.inference.search.best import best_continuations
from transformer.inference.search.search_state import BeamState, Candidates, Continuations

_FUTURE = -1  # stands behind the pieces of a hypothesis: anything may come
_END = -2  # stands behind the pieces of a phrase: its last word must not go on
_ANY = -3  # stands behind the pieces of a phrase: what comes does not matter
_NEVER = -(10**9)  # the gain of a continuation that there is not


@dataclass(frozen=True)
class Standing:
    """How hypotheses stand with their phrases. R counts them, L the pieces of the longest phrase.

    A phrase is sought if it is not met and still fits, together with the shorter ones that are not met.
    """

    sought: Tensor  # (B, R, P) bool
    pieces: Tensor  # (B, 1, P, L) ids of the phrases; negative behind their ends
    gains: Tensor  # (B, R, P, L) pieces of a sought phrase that are there already, to be continued by this one of it
    needed: Tensor  # (B, R) so many pieces are enough to meet all that is sought
    slack: Tensor  # (B, R) pieces that may come besides those and </s>
    at_risk: Tensor  # (B, R) pieces of phrases that a last word which goes on would undo

    @property
    def gain(self) -> Tensor:
        """(B, R) the greatest: `needed` is the length of all that is sought, less this."""
        return self.gains.flatten(2).amax(2).clamp(min=0)


@dataclass(frozen=True)
class RequiredPhrases:
    """What must appear in the translations of a batch: a `Restriction` and a `Choice` for its search. See `of`."""

    beam_size: int
    sought: tuple[list[tuple[int, ...]], ...]  # for each sentence of the batch, what `sought_phrases` gives
    phrases: Tensor  # (B0, P, L+1) the same, filled up by signs
    lengths: Tensor  # (B0, P); 0: no phrase
    continues_word: Tensor | None  # (V,) bool

    @classmethod
    def of(
        cls,
        phrases: Sequence[Sequence[Sequence[int]]],
        beam_size: int,
        device: torch.device | str,
        continues_word: Tensor | None = None,
    ) -> RequiredPhrases:
        """For each sentence, phrases of ids; sentences may have none.

        continues_word (V,): pieces that go on with the word before them, see `word_continuations`. A phrase that is
        followed by one does not count as met: `Haus` is not in `Haus|tür`. A phrase that begins with such a piece means
        parts of words; with its whole sentence it is taken as it stands.
        """
        wanted = [sought_phrases(of_sentence, continues_word) for of_sentence in phrases]
        most = max([1, *map(len, wanted)])  # no dimension is empty
        longest = max([1, *(len(of_sentence[-1]) for of_sentence in wanted if of_sentence)])
        ends = [_END if _whole_words(of_sentence, continues_word) else _ANY for of_sentence in phrases]
        rows = [
            [[*phrase, end, *[_ANY] * (longest - len(phrase))] for phrase in of_sentence]
            + [[_ANY] * (longest + 1)] * (most - len(of_sentence))
            for of_sentence, end in zip(wanted, ends, strict=True)
        ]
        padded = torch.tensor(rows, dtype=torch.int64, device=device)
        return cls(
            beam_size,
            tuple(wanted),
            padded,
            (padded >= 0).sum(2),
            None if continues_word is None else continues_word.to(device),
        )

    def restriction(self, continuations: Continuations, state: BeamState) -> None:
        """Forbids </s> while a phrase is sought, and every piece after which there would be too little room for them.

        A piece that continues no phrase loses what was begun, at most `gain`, and itself. One that goes on with the
        last word may undo a phrase besides. A piece that continues a begun phrase costs what another one has more.
        """
        standing = self.standing(state.tokens, state)
        logits, gain, slack = continuations.logits, standing.gain, standing.slack
        seeking = standing.sought.any(2)
        logits[:, :, EOS_ID].masked_fill_(seeking, -torch.inf)
        pieces = standing.pieces.expand_as(standing.gains).flatten(2).clamp(min=0)
        fits = (standing.gains + slack[:, :, None, None] >= gain[:, :, None, None]).flatten(2)
        kept = logits.gather(2, pieces).masked_fill_(~fits, -torch.inf)
        closed = seeking & (slack < 1 + gain)
        undone = (standing.at_risk > 0) & (slack < 1 + gain + standing.at_risk)
        rows = (closed | undone).nonzero(as_tuple=True)  # waits for the device, but few rows are so far, and V is long
        forbidden = closed[rows][:, None]
        if self.continues_word is not None:
            forbidden = forbidden | (undone[rows][:, None] & self.continues_word)
        logits[rows] = logits[rows].masked_fill_(forbidden, -torch.inf)
        logits.scatter_reduce_(2, pieces, kept, "amax")

    def choose(self, continuations: Continuations, state: BeamState) -> Candidates:
        """2W candidates, in the order in which the beam is dealt out to banks; log P as ever.

        Looked at are the 2W best of all, the best of each hypothesis, and for each hypothesis and phrase the piece that
        continues it. They are in one bank if they need equally many pieces more (Post & Vilar count those that are
        met: the same). The best of each bank come first, beginning with the bank that needs fewest; then the second of
        each, and so on, so every bank has an equal share as long as it has candidates. The search takes from this order
        as from any: those of the first W that end are finished, and the first W that do not end live on; so an end is
        a candidate of the last bank, and finishes if its turn comes within W. A sentence without phrases gets the 2W
        best.
        """
        best = best_continuations(continuations, 2 * self.beam_size)
        beams, tokens = self._looked_at(best, continuations, state)
        candidates = _distinct(beams, tokens, continuations)
        continued = state.tokens.gather(1, candidates.beams[:, :, None].expand(-1, -1, state.tokens.size(2)))
        needed = self.standing(torch.cat([continued, candidates.tokens[:, :, None]], 2), state).needed
        dealt = _dealt(candidates, needed, best.tokens.size(1))
        has_phrases = (self.lengths[state.sentences] > 0).any(1, keepdim=True)
        return Candidates(
            torch.where(has_phrases, dealt.log_probs, best.log_probs),
            torch.where(has_phrases, dealt.beams, best.beams),
            torch.where(has_phrases, dealt.tokens, best.tokens),
        )

    def standing(self, tokens: Tensor, state: BeamState) -> Standing:
        """How hypotheses of these pieces (B, R, T) stand, of the sentences of the state, within their length limits.

        `needed` counts all pieces of what is sought, less those of one phrase that is begun: going on with that phrase
        and then writing the others one after the other is always possible. So each step can lower it by one. Phrases
        that share pieces (a b, b c) may need fewer; they are met without that being foreseen.
        """
        phrases, lengths = self.phrases[state.sentences], self.lengths[state.sentences][:, None]  # (B, 1, P)
        n_tokens, longest = tokens.size(2), phrases.size(2) - 1
        begins = self._begins(tokens, phrases)
        present = torch.arange(n_tokens, -1, -1, device=tokens.device)  # (T+1,) pieces from there on
        missing = lengths[..., None] - present  # (B, 1, P, T+1) pieces of the phrase that would come after the last one
        met = (begins & (missing <= 0)).any(3)  # (B, R, P)
        followed = (begins & (missing < 0)).any(3)  # … and whatever comes next changes nothing
        ends_word = (phrases == _END).any(2)[:, None]  # (B, 1, P)
        at_risk = (lengths * (met & ~followed & ends_word)).sum(2)
        # Place j along L: the last j pieces are the first j of the phrase, which piece j would continue.
        begun = (begins & (missing > 0)).flip(3)[..., :longest]  # (B, R, P, ≤ L)
        begun = F.pad(begun, (0, longest - begun.size(3))) & ~met[..., None]
        pieces = phrases[:, None, :, :longest]
        gains = torch.arange(longest, device=tokens.device).expand_as(begun)
        if self.continues_word is not None:
            gains = gains - self.continues_word[pieces.clamp(min=0)] * at_risk[:, :, None, None]
        gains = gains.masked_fill(~begun, _NEVER)
        # The shortest first: what all phrases up to this one need; this never falls from one to the next.
        costs = (lengths * ~met).cumsum(2) - gains.amax(3).cummax(2).values.clamp(min=0)
        room = state.max_lengths[:, None] - n_tokens - 1  # (B, 1) without </s>
        sought = ~met & (costs <= room[:, :, None])
        needed = costs.masked_fill(~sought, 0).amax(2)
        return Standing(sought, pieces, gains.masked_fill(~sought[..., None], _NEVER), needed, room - needed, at_risk)

    def _begins(self, tokens: Tensor, phrases: Tensor) -> Tensor:
        """(B, R, P, T+1) whether the pieces (B, R, T) from each place on are those of each phrase, as far as they go.

        Where they go on, the phrase's last word must be over. Behind the last piece, every phrase begins.
        """
        (n, n_rows, n_tokens), (_, n_phrases, size) = tokens.shape, phrases.shape
        tokens = F.pad(tokens, (0, size), value=_FUTURE)[:, :, None]  # (B, R, 1, T+L+1)
        future = tokens == _FUTURE
        word_over = None if self.continues_word is None else ~self.continues_word[tokens.clamp(min=0)]
        begins = future.new_ones(n, n_rows, n_phrases, n_tokens + 1)
        for place in range(size):  # a loop, and the longest axis last: seven times as fast as comparing windows
            there = slice(place, place + n_tokens + 1)
            piece = phrases[:, None, :, place, None]  # (B, 1, P, 1)
            agrees = (tokens[..., there] == piece) | future[..., there] | (piece == _ANY)
            begins &= agrees if word_over is None else agrees | ((piece == _END) & word_over[..., there])
        return begins

    def _looked_at(self, best: Candidates, continuations: Continuations, state: BeamState) -> tuple[Tensor, Tensor]:
        """(B, C) twice: hypotheses and pieces worth a look, some of them several times; C = 2W + W·P + W."""
        n, width, vocab_size = continuations.logits.shape
        standing = self.standing(state.tokens, state)
        places = standing.gains.max(3, keepdim=True).indices  # (B, W, P, 1)
        next_pieces = standing.pieces.expand_as(standing.gains).gather(3, places).clamp(min=0).flatten(1)
        alone = Continuations(continuations.logits.view(-1, 1, vocab_size), continuations.offset.view(-1, 1))
        favourites = best_continuations(alone, 1).tokens
        rows = torch.arange(width, device=best.beams.device)
        of_phrases = rows.repeat_interleave(self.lengths.size(1))
        return (
            torch.cat([best.beams, of_phrases.expand(n, -1), rows.expand(n, -1)], 1),
            torch.cat([best.tokens, next_pieces, favourites.view(n, width)], 1),
        )


def _distinct(beams: Tensor, tokens: Tensor, continuations: Continuations) -> Candidates:
    """Candidates (B, C), best first, equal ones by beam, then by id; the second time one comes, it is worth -inf."""
    vocab_size = continuations.logits.size(2)
    places = (beams * vocab_size + tokens).sort(1).values
    beams = places // vocab_size
    log_probs = continuations.logits.flatten(1).gather(1, places) + continuations.offset.gather(1, beams)
    log_probs[:, 1:].masked_fill_(places[:, 1:] == places[:, :-1], -torch.inf)
    log_probs, order = log_probs.sort(dim=1, descending=True, stable=True)
    places = places.gather(1, order)
    return Candidates(log_probs, places // vocab_size, places % vocab_size)


def _dealt(candidates: Candidates, needed: Tensor, n: int) -> Candidates:
    """The first n of candidates (B, C), which come best first, if banks of equal `needed` (B, C) take turns."""
    earlier = needed.new_ones(needed.size(1), needed.size(1), dtype=torch.bool).tril(-1)
    ahead = (needed[:, :, None] == needed[:, None, :]) & earlier  # (B, C, C) in the same bank
    turns = ahead.sum(2).masked_fill(candidates.log_probs == -torch.inf, needed.size(1))  # (B, C)
    by_bank = needed.sort(dim=1, stable=True).indices
    order = by_bank.gather(1, turns.gather(1, by_bank).sort(dim=1, stable=True).indices)[:, :n]
    return Candidates(
        candidates.log_probs.gather(1, order), candidates.beams.gather(1, order), candidates.tokens.gather(1, order)
    )


# --- phrases ---


def contains(tokens: Sequence[int], phrase: Sequence[int], continues_word: Tensor | None = None) -> bool:
    """Whether the pieces of the phrase stand side by side in the tokens, no piece behind them going on with a word."""
    wanted, n = list(phrase), len(phrase)
    return any(
        list(tokens[end - n : end]) == wanted and not _continues(tokens[end : end + 1], continues_word)
        for end in range(n, len(tokens) + 1)
    )


def unmet(tokens: Sequence[int], phrases: Sequence[Sequence[int]], continues_word: Tensor | None = None) -> bool:
    """Whether an output lacks one of the phrases required of it; `RequiredPhrases.of` says how words are treated."""
    whole = continues_word if _whole_words(phrases, continues_word) else None
    return not all(contains(tokens, phrase, whole) for phrase in phrases)


def sought_phrases(phrases: Sequence[Sequence[int]], continues_word: Tensor | None = None) -> list[tuple[int, ...]]:
    """The phrases of a sentence that the search has to look after, the shortest first.

    Each once, and none that lies in another one. None with a special id: the search never chooses <unk>, so it would
    go on in vain until the limit.
    """
    whole = continues_word if _whole_words(phrases, continues_word) else None
    possible = sorted(dict.fromkeys(tuple(p) for p in phrases if p and min(p) > EOS_ID), key=len)
    return [p for i, p in enumerate(possible) if not any(contains(longer, p, whole) for longer in possible[i + 1 :])]


def word_continuations(pieces: Sequence[str]) -> Tensor:
    """(V,) which pieces of a sentencepiece vocabulary go on with the word before them: `tür`, but not `▁Tür` or `,`.

    They begin with a letter, a digit or a combining mark. Never of a script that writes words without spaces, or their
    endings onto them without being part of them (Chinese, Japanese, Thai, Korean …): there, everything would.
    """
    return torch.tensor([_goes_on(piece[:1]) for piece in pieces], dtype=torch.bool)


_UNSPACED = (
    *("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "BOPOMOFO", "HANGUL"),
    *("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "JAVANESE"),
)


def _goes_on(character: str) -> bool:
    word = bool(character) and unicodedata.category(character)[0] in "LNM"
    return word and not unicodedata.name(character, "").startswith(_UNSPACED)


def _continues(piece: Sequence[int], continues_word: Tensor | None) -> bool:
    """Whether the first of these pieces goes on with a word; False if there is none."""
    return len(piece) > 0 and continues_word is not None and bool(continues_word[piece[0]])


def _whole_words(phrases: Sequence[Sequence[int]], continues_word: Tensor | None) -> bool:
    """Whether the phrases of a sentence are words, so that they end where words end."""
    return continues_word is not None and not any(_continues(phrase, continues_word) for phrase in phrases)
