"""What a search gets of a line: ids, and phrases as ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from data.vocabulary import UNK_ID, Vocabulary
from transformer.inference.word_bounds import is_unspaced

Phrases = tuple[list[int], ...]


@dataclass(frozen=True)
class Sentence:
    """What the search gets of a line, or of a part of one: ids without special ones."""

    number: int  # keys what is drawn for it, so no two of an input have the same
    src: list[int]
    prefix: list[int] = field(default_factory=list)
    required: Phrases = ()
    avoided: Phrases = ()


def phrase_ids(phrases: Sequence[str], vocabulary: Vocabulary) -> list[list[int]]:
    """Ids of phrases, cut into pieces as they are inside a sentence.

    sentencepiece puts a space in front of every text: right for words, but in a script without spaces a phrase would
    be written, and looked for, behind a space alone. There it is cut as behind a full stop.
    """
    alone, behind = vocabulary.encode(phrases), vocabulary.encode([_FULL_STOP + phrase for phrase in phrases])
    [stop] = vocabulary.encode([_FULL_STOP])
    return [
        # Unknown characters side by side become one <unk>; what has one cannot be met in any case.
        after[len(stop) :] if is_unspaced(phrase[:1]) and UNK_ID not in ids and after[: len(stop)] == stop else ids
        for phrase, ids, after in zip(phrases, alone, behind, strict=True)
    ]


_FULL_STOP = "。"
