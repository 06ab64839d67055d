"""What comes out for a line: its translation and what is known about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from transformer.inference.links import Links
from transformer.inference.long_input import first_words, join


@dataclass(frozen=True)
class Translation:
    """One translated line; `text` never holds a line break.

    The last four fields are filled in on request only. A blank line is blank again, with score 0.

    Attributes:
        score: log P / length penalty, in nats, and a coverage penalty if there is one; of parts, the sum.
        n_tokens: pieces with </s>.
        finished: False where the length limit cut the translation.
        truncated: only the beginning of the source was read.
        n_parts: the source was cut into so many parts, translated one by one.
        constraint_unmet: a phrase that was required is missing, or one that was to be avoided is there.
        alternatives: the other n_best - 1 translations, best first.
        pieces, token_log_probs: each piece and its log P, </s> included where it was written.
        alignment: (source word, target word), from 0; words are what white space parts.
        attention: target words × source words: how much of its attention each target word gave to each source word;
            None where the source was cut into parts: nearly all of a large matrix would be 0.
    """

    text: str
    score: float
    n_tokens: int
    finished: bool
    truncated: bool = False
    n_parts: int = 1
    constraint_unmet: bool = False
    alternatives: tuple[Translation, ...] = ()
    pieces: tuple[str, ...] | None = None
    token_log_probs: tuple[float, ...] | None = None
    alignment: Links | None = None
    attention: tuple[tuple[float, ...], ...] | None = None


BLANK = Translation("", 0.0, 0, True)


def blank(annotate: bool) -> Translation:
    """The translation of a blank line."""
    return replace(BLANK, pieces=(), token_log_probs=(), alignment=(), attention=()) if annotate else BLANK


def joined(source: str, source_parts: Sequence[str], parts: Sequence[Translation]) -> Translation:
    """The translation of a line out of those of its parts; the n-th alternative is that of the n-th of every part."""
    if len(parts) == 1:
        return parts[0]
    n_best = min(len(part.alternatives) for part in parts)
    alternatives = [_joined(source, source_parts, [part.alternatives[i] for part in parts]) for i in range(n_best)]
    return replace(_joined(source, source_parts, parts), alternatives=tuple(alternatives))


def _joined(source: str, source_parts: Sequence[str], parts: Sequence[Translation]) -> Translation:
    text = join([part.text for part in parts])
    whole = Translation(
        text,
        sum(part.score for part in parts),
        sum(part.n_tokens for part in parts),
        all(part.finished for part in parts),
        n_parts=len(parts),
        constraint_unmet=any(part.constraint_unmet for part in parts),
    )
    if parts[0].pieces is None:
        return whole
    firsts = zip(first_words(source_parts, source), first_words([part.text for part in parts], text), strict=True)
    links = [
        (src_first + src_word, tgt_first + tgt_word)
        for (src_first, tgt_first), part in zip(firsts, parts, strict=True)
        for src_word, tgt_word in part.alignment or ()
    ]
    return replace(
        whole,
        pieces=tuple(piece for part in parts for piece in part.pieces or ()),
        token_log_probs=tuple(log_prob for part in parts for log_prob in part.token_log_probs or ()),
        alignment=tuple(sorted(set(links))),
    )
