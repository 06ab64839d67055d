"""Filters that only look at how long the two sides are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from data.filters.characters import Characters, table_of
from data.filters.filter import Filter, Kept, primary
from data.pairs import Texts

_EAST_ASIAN = {"zh", "ja", "ko", "yue", "wuu"}
# Kana, Han, Hangul, and the wide forms of punctuation
_WIDE = ((0x1100, 0x11FF), (0x2E80, 0xA4CF), (0xAC00, 0xD7FF), (0xF900, 0xFAFF), (0xFF00, 0xFF60), (0x20000, 0x3FFFF))
_WIDE_IS = 3  # letters of an alphabet that one of them says about as much as; in UTF-8 it also has three bytes
_SMOOTHING = 15  # characters; `OK` may well be `Einverstanden`


def length(max_words: int = 250, max_characters: int = 2000, max_word_characters: int = 1000) -> Filter:
    """Drop pairs with a side of more words or characters, or with a longer word."""

    def short(text: str) -> bool:
        if len(text) > max_characters:
            return False
        words = text.split()
        return len(words) <= max_words and max(map(len, words), default=0) <= max_word_characters

    # A text of n characters has neither more than n words nor a longer word: most are short, and not looked at.
    harmless = min(max_words, max_characters, max_word_characters)

    def keep(texts: Texts) -> Kept:
        kept = np.ones(len(texts), np.bool_)
        for side in (texts.src, texts.tgt):
            lengths = np.fromiter(map(len, side), np.int64, len(side))
            for place in np.flatnonzero(lengths > harmless).tolist():
                kept[place] &= short(side[place])
        return kept

    return keep


def ratio(src_lang: str, tgt_lang: str, max_ratio: float = 3.0) -> Filter:
    """Drop pairs of which one side has `max_ratio` times as many characters as the other.

    15 are added to both first, so that short lines may differ as they do. A character of Chinese, Japanese or Korean
    counts as three.
    """

    def sizes(side: Sequence[str], language: str) -> npt.NDArray[np.int64]:
        if primary(language) not in _EAST_ASIAN:
            return np.fromiter(map(len, side), np.int64, len(side)) + _SMOOTHING
        characters = Characters.of(side)
        return characters.lengths + (_WIDE_IS - 1) * characters.count(wide) + _SMOOTHING

    wide = table_of(_WIDE)

    def keep(texts: Texts) -> Kept:
        src, tgt = sizes(texts.src, src_lang), sizes(texts.tgt, tgt_lang)
        kept: Kept = np.maximum(src, tgt) <= max_ratio * np.minimum(src, tgt)
        return kept

    return keep
