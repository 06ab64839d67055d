"""Filters for texts that are more than one: many segments in a row, or one over and over."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from data.filters.filter import Filter, Kept
from data.pairs import Texts

# Where something seems to begin: behind a sign that ends or opens one, or a capital behind a word without such a sign.
_CAPITAL = r"A-Z\u00C0-\u00DE\u0391-\u03AB\u0400-\u042F"
_BEGINNING = re.compile(rf"""[.!?…:]+["')»“]*[ ]+(?=\S) | [。！？] | [\w)\]%>][ ]+[~_&]?(?=[{_CAPITAL}])""", re.VERBOSE)
_FEWEST_CHARACTERS = 100  # shorter texts are not looked at, for speed

_LONGEST_LOOKED_AT = 400  # words
_EDGE = 6  # characters; what is said over and over goes on to the end


def concatenated(max_segments: int = 11) -> Filter:
    """Drop pairs of which both sides seem to hold more than `max_segments` sentences, headings or list entries.

    They are counted by their beginnings: what follows `.`, `!`, `?`, `…` or `:`, and capitals inside the line. German
    writes its nouns so; the side with fewer decides.
    """

    def keep(texts: Texts) -> Kept:
        kept = np.ones(len(texts), np.bool_)
        lengths = [np.fromiter(map(len, side), np.int64, len(side)) for side in (texts.src, texts.tgt)]
        for place in np.flatnonzero(np.minimum(*lengths) >= max(_FEWEST_CHARACTERS, 3 * max_segments)).tolist():
            kept[place] = _segments(texts.src[place]) <= max_segments or _segments(texts.tgt[place]) <= max_segments
        return kept

    return keep


def _segments(text: str) -> int:
    return 1 + len(_BEGINNING.findall(text))


def repeats(max_repeats: int = 2, min_share: float = 0.5) -> Filter:
    """Drop pairs of which one side says the same more than `max_repeats` times in a row, and the other does not.

    Counted are words and sequences of words that fill at least `min_share` of the side.
    """

    def keep(texts: Texts) -> Kept:
        suspects = {place for side in (texts.src, texts.tgt) for place in _suspects(side, max_repeats)}
        kept = np.ones(len(texts), np.bool_)
        for place in suspects:
            src, tgt = (_repeats(side[place].split(), min_share) for side in (texts.src, texts.tgt))
            kept[place] = (src > max_repeats) == (tgt > max_repeats)
        return kept

    return keep


def _suspects(side: Sequence[str], max_repeats: int) -> list[int]:
    return [place for place, text in enumerate(side) if text.count(text[-_EDGE:]) >= max_repeats]


def _repeats(words: list[str], min_share: float) -> int:
    """How often the sequence that is repeated most comes in a row, if all that fills `min_share` of the words."""
    words = words[:_LONGEST_LOOKED_AT]
    most = 1
    for size in range(1, len(words) // 2 + 1):
        # A run of n words that each equal the one `size` before is n / size + 1 times the same.
        run = longest = 0
        for one, other in zip(words[size:], words, strict=False):
            run = run + 1 if one == other else 0
            longest = max(longest, run)
        if longest + size >= min_share * len(words):
            most = max(most, longest // size + 1)
    return most
