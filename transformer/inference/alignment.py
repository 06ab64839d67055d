"""From attention between pieces to alignments between words, and unknown words copied where the attention points.

A word is what white space parts, as `str.split` does; a language without spaces has one word where it has no space.
Which word a piece belongs to is known from the characters that sentencepiece says it stands for, not from its
spelling: a joiner or a soft hyphen that normalisation turns into a space begins a piece "▁…" inside a word, and a
control character that it removes may be a word without any piece.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from data.vocabulary import UNK_ID
from transformer.inference.links import Links
from transformer.inference.word_bounds import is_unspaced, trim_signs

NO_WORD = -1

Span = tuple[int, int]

_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class SentencePieces:
    """A sentence, and the characters text[begin:end] that each of its pieces stands for.

    As sentencepiece gives them: the first bytes of a character stand for nothing, its last byte for all of it.
    """

    text: str
    ids: Sequence[int]
    spans: Sequence[Span]

    @cached_property
    def words(self) -> list[Span]:
        """Begin and end of each word."""
        return [word.span() for word in _WORD.finditer(self.text)]

    @cached_property
    def word_of_piece(self) -> list[int]:
        """The word each piece belongs to: that with most of its characters; without any, that of the next piece."""
        ends = [end for _, end in self.words]
        found: list[int] = []
        following = NO_WORD
        for begin, end in reversed(self.spans):
            word = bisect_right(ends, begin)
            shares = []
            while word < len(ends) and self.words[word][0] < end:
                shares.append((min(end, ends[word]) - max(begin, self.words[word][0]), -word))
                word += 1
            following = -max(shares)[1] if shares else following
            found.append(following)
        return found[::-1]


def word_attention(
    attention: Tensor, src: Sequence[SentencePieces], tgt: Sequence[SentencePieces], n_tags: int = 0
) -> list[Tensor]:
    """How the attention of each target word is shared among the source words; what </s> and tags get is left out.

    Summed over the pieces of a source word, and averaged over those of a target word: as rows are made to add up to 1
    in the end, a sum does the same.

    Args:
        attention: (B, T, S) of pieces; the source is `n_tags` tags, the sentence, </s>; what follows a sentence on
            either side is ignored.

    Returns:
        For each sentence (target words, source words), fp32; a row is all 0 where a word attends to no source word.
    """
    columns = _piece_to_word(src, attention.size(2), n_tags, attention.device)  # (B, S, source words)
    rows = _piece_to_word(tgt, attention.size(1), 0, attention.device)  # (B, T, target words)
    summed = rows.mT @ attention.float() @ columns
    shares = _normalise(summed)
    return [share[: len(t.words), : len(s.words)] for share, s, t in zip(shares, src, tgt, strict=True)]


def best_links(weights: Tensor) -> Links:
    """Each target word linked with the source word that it attends to most; the first of equals.

    Args:
        weights: (target words, source words).
    """
    if not weights.numel():
        return ()
    best, linked = weights.argmax(dim=1).tolist(), (weights.amax(dim=1) > 0).tolist()
    return tuple(sorted((src, tgt) for tgt, src in enumerate(best) if linked[tgt]))


def copy_unknown(tgt: SentencePieces, src: SentencePieces, attention: Tensor) -> SentencePieces:
    """Put words of the source in place of <unk>, as Luong et al. 2015, "Addressing the Rare Word Problem", section 3.3,
    and Jean et al. 2015, section 3.3: of the source word that is attended to most, summed over its pieces.

    With pieces, <unk> is a run of characters rather than a word. So if the source word holds such runs itself, the
    most attended of them is copied; else all of it but the signs at its ends, which have pieces of their own; of a
    script without spaces, where a word may be a sentence, the most attended piece.

    Args:
        attention: (T, S) with as many columns as the source has pieces, tags and </s> left out.
    """
    if UNK_ID not in tgt.ids or not src.words:
        return tgt
    text: list[str] = []
    spans: list[Span] = []
    copied_to, length = 0, 0  # how much of the old text is copied, and how long the new one is
    for place, (piece_id, (begin, end)) in enumerate(zip(tgt.ids, tgt.spans, strict=True)):
        begin, end = max(begin, copied_to), max(end, copied_to)
        between = tgt.text[copied_to:begin]
        new = _attended_text(src, attention[place]) if piece_id == UNK_ID else tgt.text[begin:end]
        text += between, new
        length += len(between) + len(new)
        spans.append((length - len(new), length))
        copied_to = end
    return SentencePieces("".join(text) + tgt.text[copied_to:], tgt.ids, spans)


def _attended_text(src: SentencePieces, attention: Tensor) -> str:
    """What to copy of the source, given the attention (S,) to its pieces."""
    weights = attention.tolist()
    shares = [0.0] * len(src.words)
    for weight, word in zip(weights, src.word_of_piece, strict=True):
        if word != NO_WORD:
            shares[word] += weight
    best = shares.index(max(shares))
    word_text = src.text[slice(*src.words[best])]
    pieces = [place for place, word in enumerate(src.word_of_piece) if word == best]
    unknown = [place for place in pieces if src.ids[place] == UNK_ID]
    candidates = unknown or (pieces if is_unspaced(word_text) else [])
    texts = {place: src.text[slice(*src.spans[place])].strip() for place in candidates}
    spelled = [place for place, text in texts.items() if text]  # not "▁", nor the first byte of a character
    return texts[max(spelled, key=weights.__getitem__)] if spelled else trim_signs(word_text)


def _piece_to_word(sentences: Sequence[SentencePieces], n_pieces: int, n_before: int, device: torch.device) -> Tensor:
    """(B, pieces, words): 1 where the piece belongs to the word; `n_before` pieces before a sentence to none."""
    numbers = torch.full((len(sentences), n_pieces), NO_WORD)
    for row, sentence in zip(numbers, sentences, strict=True):
        row[n_before : n_before + len(sentence.spans)] = torch.tensor(sentence.word_of_piece)
    n_words = max((len(sentence.words) for sentence in sentences), default=0)
    return (numbers.to(device).unsqueeze(-1) == torch.arange(n_words, device=device)).float()


def _normalise(weights: Tensor) -> Tensor:
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
