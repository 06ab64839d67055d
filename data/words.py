"""The words of many lines at once, as 64-bit keys in numpy arrays: what looks for repeated or related words needs.

A word is a run of letters, marks and digits after NFKC and case folding. Invisible format characters (soft hyphen,
joiners, direction marks) are as if they were not there; everything else separates words. Where the script writes no
spaces between words (Han, Kana, Thai, Lao, Khmer, Myanmar), each character is a word of its own, and a small one:
`n_words` counts two of them as one.

The same word has the same key on every machine and in every run. Two different words of one corpus share a key with a
chance of about n²/2⁶⁵: 3e-8 for a million words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]

_SEPARATOR, _LETTER, _WHOLE_WORD, _NOTHING = 0, 1, 2, 3  # what a character does
_N_CODES = 0x40000  # planes above hold tags and private use: no words
_UNSPACED = (
    (0x0E00, 0x0F00),  # Thai, Lao
    (0x1000, 0x10A0),  # Myanmar
    (0x1780, 0x1800),  # Khmer
    (0x3040, 0x3100),  # Kana
    (0x31F0, 0x3200),
    (0x3400, 0x4DC0),  # Han
    (0x4E00, 0xA000),
    (0xF900, 0xFB00),
    (0x20000, 0x40000),
)
_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no power of it vanishes


@dataclass(frozen=True)
class Words:
    """The words of N lines, one after the other; those of line i are keys[starts[i] : starts[i + 1]]."""

    keys: Keys
    starts: Numbers  # (N + 1)
    small: npt.NDArray[np.bool_]  # a character of a script without spaces

    @property
    def lines(self) -> Numbers:
        """The line each word is in."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @property
    def n_words(self) -> npt.NDArray[np.float64]:
        """How long each line is, in words; two characters of a script without spaces are about one."""
        before: npt.NDArray[np.float64] = np.concatenate([[0.0], np.cumsum(np.where(self.small, 0.5, 1.0))])
        return before[self.starts[1:]] - before[self.starts[:-1]]

    def take(self, lines: Numbers) -> Words:
        """The words of these lines, in this order."""
        lengths = np.diff(self.starts)[lines]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[lines] - starts[:-1], lengths)
        return Words(self.keys[places], starts, self.small[places])

    def cut(self, n: int) -> Words:
        """The first n words of each line."""
        lengths = np.diff(self.starts)
        kept = np.arange(len(self.keys)) - np.repeat(self.starts[:-1], lengths) < n
        starts = np.concatenate([[0], np.cumsum(np.minimum(lengths, n))])
        return Words(self.keys[kept], starts, self.small[kept])

    def line_keys(self) -> Keys:
        """A key for each line: that of its sequence of words; 0 where there is none."""
        return np.where(np.diff(self.starts) > 0, sequence_keys(self.keys, self.starts), np.uint64(0))

    def ngrams(self, n: int) -> tuple[Keys, Numbers]:
        """Keys of all runs of n words inside a line, and the line each is in."""
        lines = self.lines
        if len(lines) < n:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        first = np.flatnonzero(lines[: len(lines) - n + 1] == lines[n - 1 :])
        keys = np.zeros(len(first), np.uint64)
        for place in range(n):
            keys = keys * _BASE + self.keys[first + place]
        return mix(keys), lines[first]


def mix(keys: Keys) -> Keys:
    """Every bit of the result depends on every bit of the key: the finaliser of splitmix64 (Steele et al. 2014)."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def words_of(lines: Sequence[str]) -> Words:
    """The words of each line. A line must not hold a line feed."""
    codes = _fold(lines)
    kinds = _kinds()[codes]
    if (hidden := kinds == _NOTHING).any():
        codes, kinds = codes[~hidden], kinds[~hidden]
    places = np.flatnonzero(kinds)  # of all characters of words
    kinds, values = kinds[places], _values()[codes[places]]
    begins = np.ones(len(places), np.bool_)  # a word begins after a separator, and before and after each small one
    begins[1:] = (np.diff(places) > 1) | (np.maximum(kinds[1:], kinds[:-1]) == _WHOLE_WORD)
    first = np.flatnonzero(begins)
    line_ends = np.flatnonzero(codes == ord("\n"))
    starts = np.concatenate([[0], np.searchsorted(places[first], line_ends)])
    keys = sequence_keys(values, np.append(first, len(places)))
    return Words(keys, starts, kinds[first] == _WHOLE_WORD)


def _fold(lines: Sequence[str]) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint32]:
    """The characters of all lines, each ended by a line feed, NFKC, case folded."""
    folded = [line if line.isascii() else unicodedata.normalize("NFKC", line) for line in lines]
    text = "\n".join([*folded, ""]).casefold()
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)  # JSON may hold half a character
    return np.minimum(codes, _N_CODES - 1)


def sequence_keys(values: Keys, starts: Numbers) -> Keys:
    """One key for each run values[starts[i] : starts[i + 1]]: a polynomial in the place, then mixed."""
    if not len(values):
        return np.zeros(len(starts) - 1, np.uint64)
    lengths = np.diff(starts)
    places = np.arange(len(values)) - np.repeat(starts[:-1], lengths)
    terms = values * _powers(int(lengths.max()))[places]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms)])
    return mix(sums[starts[1:]] - sums[starts[:-1]])


def _powers(n: int) -> Keys:
    powers = np.full(n, _BASE, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


@cache
def _kinds() -> npt.NDArray[np.uint8]:
    """What each character does."""
    kind_of = {"L": _LETTER, "M": _LETTER, "N": _LETTER, "Cf": _NOTHING}
    categories = [unicodedata.category(chr(code)) for code in range(_N_CODES - 1)]
    kinds = np.array([kind_of.get(name, kind_of.get(name[0], _SEPARATOR)) for name in categories], np.uint8)
    for first, end in _UNSPACED:
        kinds[first:end][kinds[first:end] == _LETTER] = _WHOLE_WORD
    return np.append(kinds, np.uint8(_SEPARATOR))


@cache
def _values() -> Keys:
    """A random-looking number for each character."""
    return mix(np.arange(1, _N_CODES + 1, dtype=np.uint64) * _BASE)
