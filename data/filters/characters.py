"""The characters of some thousand texts at once, and filters that only count them: control characters, letters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from sys import maxunicode
from unicodedata import category

import numpy as np
import numpy.typing as npt

from data.filters.filter import Filter, Kept
from data.pairs import Texts

Counts = npt.NDArray[np.int64]

# U+0085 and the separators U+2028 and U+2029 are white space, as tab and form feed are. The rest has no place in text.
_GARBAGE = ((0x00, 0x08), (0x0E, 0x1F), (0x7F, 0x84), (0x86, 0x9F), (0xD800, 0xDFFF), (0xFFFD, 0xFFFF))


@dataclass(frozen=True)
class Characters:
    """The code points of many texts in one array; those of text i are points[begins[i] : begins[i] + lengths[i]]."""

    points: npt.NDArray[np.uint32]
    begins: Counts
    lengths: Counts

    @classmethod
    def of(cls, texts: Sequence[str]) -> Characters:
        """Decode once, for all counts."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        encoded = "".join(texts).encode("utf-32-le", "surrogatepass")
        return cls(np.frombuffer(encoded, np.uint32), np.cumsum(lengths) - lengths, lengths)

    def count(self, table: npt.NDArray[np.bool_]) -> Counts:
        """How many characters of each text are marked in a table of all code points."""
        marked = np.cumsum(np.take(table, self.points, mode="clip"), dtype=np.int64)
        before = np.concatenate([[0], marked])
        counts: Counts = before[self.begins + self.lengths] - before[self.begins]
        return counts


def table_of(ranges: Iterable[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """Mark all code points of ranges; both ends belong to a range."""
    table = np.zeros(maxunicode + 1, np.bool_)
    for first, last in ranges:
        table[first : last + 1] = True
    return table


@cache
def letters() -> npt.NDArray[np.bool_]:
    """Which code points are letters, or marks on letters such as the vowels of Indian scripts."""
    basic = np.fromiter((category(chr(point))[0] in "LM" for point in range(0x3400)), np.bool_, 0x3400)
    # Above, letters are Han, Hangul and what follows them; symbols there are emoji, private use, and forms of width.
    above = table_of([(0x3400, 0x4DBF), (0x4E00, 0xDFFF), (0xF900, 0xFDFB), (0xFE70, 0xFEFC), (0x10000, 0x1CFFF)])
    above |= table_of([(0xFF21, 0xFF3A), (0xFF41, 0xFF5A), (0xFF66, 0xFFDC), (0x1E000, 0x1EFFF), (0x20000, 0x3FFFF)])
    above[:0x3400] = basic
    return above


def garbage(max_letter_difference: float = 0.35, min_characters: int = 20) -> Filter:
    """Drop control characters and what cannot be text, and lines of signs opposite lines of letters.

    `max_letter_difference`: between the sides' shares of letters among their characters, where both have
    `min_characters`.
    """
    never = table_of(_GARBAGE)

    def keep(texts: Texts) -> Kept:
        src, tgt = Characters.of(texts.src), Characters.of(texts.tgt)
        clean = (src.count(never) == 0) & (tgt.count(never) == 0)
        shares = [side.count(letters()) / np.maximum(side.lengths, 1) for side in (src, tgt)]
        long = np.minimum(src.lengths, tgt.lengths) >= min_characters
        kept: Kept = clean & ~(long & (np.abs(shares[0] - shares[1]) > max_letter_difference))
        return kept

    return keep
