"""Where words begin and end in running text of any script: what phrases are looked for by.

A word is a run of letters, marks and digits. Where a script writes no spaces between words (Han, Hiragana, Thai, Lao,
Myanmar, Khmer) each letter with its marks is one, so that a phrase can be found anywhere; Katakana, which spells
foreign words, is taken in runs: テスト (test) is not in コンテスト (contest). Every other character that is not white
space, such as a punctuation mark, stands for itself. (`data.words` compares lines and forgets what is between words;
here nothing may be forgotten.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from unicodedata import category

SPACED, KATAKANA, UNSPACED, SIGN = 1, 2, 3, 4  # kinds of words: the groups of `_words`

# Both ends belong to a range.
_KATAKANA = ((0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F))
_UNSPACED = (
    *((0xE00, 0xEFF), (0x1000, 0x109F), (0x1780, 0x17FF)),  # Thai and Lao, Myanmar, Khmer
    *((0x3005, 0x3007), (0x3041, 0x309F)),  # 々, Hiragana
    *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF)),  # Han
)
_ASSIGNED = (range(0x323B0), range(0xE0100, 0xE01F0))  # the planes above hold no letters; variation selectors are marks


def words(text: str) -> Iterator[tuple[int, int, int]]:
    """(begin, end, kind) of every word and sign of a text, in order."""
    return ((*found.span(), found.lastindex or SIGN) for found in _words().finditer(text))


def occurs(phrase: str, text: str) -> bool:
    """Whether a text holds a phrase, letter by letter, that neither begins nor ends inside a word of the text."""
    if phrase not in text:
        return False
    bounds = {place for begin, end, _ in words(text) for place in (begin, end)}
    places = (found.start() for found in re.finditer(f"(?={re.escape(phrase)})", text))
    return any(place in bounds and place + len(phrase) in bounds for place in places)


def is_unspaced(text: str) -> bool:
    """Whether a text has letters of a script that writes no spaces between words."""
    return any(kind in (KATAKANA, UNSPACED) for _, _, kind in words(text))


def trim_signs(text: str) -> str:
    """A text without the signs at its ends, such as brackets and full stops; itself where it is all signs."""
    inner = [(begin, end) for begin, end, kind in words(text) if kind != SIGN]
    return text[inner[0][0] : inner[-1][1]] if inner else text


@cache
def _words() -> re.Pattern[str]:
    """One pattern for all kinds, made when it is first needed: a look at 200,000 characters.

    Python's `re` has a table for a class of characters up to U+FFFF, and goes through ranges above: those are apart.
    """
    kinds = {code: category(chr(code))[0] for block in _ASSIGNED for code in block}
    in_words = [code for code, kind in kinds.items() if kind in "LMN"]
    mark = _class_of(code for code, kind in kinds.items() if kind == "M")
    apart = {code for first, last in (*_KATAKANA, *_UNSPACED) for code in range(first, last + 1)}
    letters = {code for first, last in _UNSPACED for code in range(first, last + 1)}
    low = _class_of(code for code in in_words if code not in apart and code <= 0xFFFF)
    high = _class_of(code for code in in_words if code not in apart and code > 0xFFFF)
    spaced = f"(?:[{low}]+|(?=[\U00010000-\U0010ffff])[{high}]+)+"
    katakana = _class_of(code for first, last in _KATAKANA for code in range(first, last + 1))
    unspaced = _class_of(code for code in in_words if code in letters)
    return re.compile(f"(?!\\s)(?:({spaced})|([{katakana}]+)|([{unspaced}][{mark}]*)|(.))", re.DOTALL)


def _class_of(codes: Iterable[int]) -> str:
    """The inside of a character class for ascending code points."""
    ranges: list[tuple[int, int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
