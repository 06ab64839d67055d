"""The filter for text that was decoded with another encoding than it was written in."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from data.filters.characters import Characters, table_of
from data.filters.filter import Filter, Kept
from data.pairs import Texts


def mojibake() -> Filter:
    """Drop UTF-8 that was read as Latin-1 or Windows-1252: `fÃ¼r`, `donâ€™t`, `Ð¿Ñ€Ð¸`."""

    def keep(texts: Texts) -> Kept:
        kept = np.ones(len(texts), np.bool_)
        for side in (texts.src, texts.tgt):
            kept[_broken(side)] = False
        return kept

    return keep


def _broken(side: Sequence[str]) -> list[int]:
    other = np.flatnonzero(~np.fromiter(map(str.isascii, side), np.bool_, len(side)))
    characters = Characters.of([side[place] for place in other.tolist()])
    # Quick, and rarely true: one of the characters that begin it, and behind it one that is not of ASCII.
    begins = np.take(_BEGINS, characters.points, mode="clip")
    begins[:-1] &= characters.points[1:] > 0x7F
    begins[-1:] = False
    lines = np.unique(np.searchsorted(characters.begins, np.flatnonzero(begins), "right") - 1)
    return [place for place in other[lines].tolist() if _BROKEN.search(side[place])]


def _misread(first: int, last: int, *, also: str = "") -> str:
    """Characters that bytes from `first` to `last` become under Latin-1 or Windows-1252, for a character class."""
    found = {bytes([byte]).decode("latin-1") for byte in range(first, last + 1)}
    found |= {bytes([byte]).decode("cp1252", "ignore") for byte in range(first, last + 1)}
    return "".join(re.escape(character) for character in sorted(found | set(also)) if character)


# Two bytes of Latin letters and of Cyrillic, three of typographic signs. `Ä»`, `Ü»` and `É»` are letters before a
# closing mark, so the capitals of German and French do not count.
_BROKEN = re.compile(
    f"[ÂÃ][{_misread(0x80, 0xBF)}]"
    f"|[ÅÄ][{_misread(0x80, 0x9F)}]"
    f"|(?:[ÐÑ][{_misread(0x80, 0xBF)}]){{2}}"
    f"|[âï][{_misread(0x80, 0x84)}{_misread(0xBB, 0xBC)}][{_misread(0x80, 0xBF)}]"
)
_BEGINS = table_of((ord(character), ord(character)) for character in "ÂÃÅÄÐÑâï")
