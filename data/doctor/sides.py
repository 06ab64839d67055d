"""Checks of the lines of one side, some thousand at a time: odd characters by a table, odd strings by patterns."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

from data.doctor.findings import N_LINES, Tally

LONG = 2000  # characters
LONG_WORD = 100
_MOST_TOKENISED = 0.5  # of the lines; ordinary text hardly ever has a blank before a full stop
_CASE_SAMPLE = 10_000  # characters
_MEASURABLE = 20  # lines, before a share of them means anything

# One bit a character, so that a line can be found by what it holds.
_ODD = {"nul": 1, "control": 2, "line_separators": 4, "invisible": 8, "replacement": 16, "private_use": 32, "tabs": 64}
_LINE_ENDS = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_BLANK = re.compile(r"[\s\u00ad\u200b-\u200f\u2060\ufeff]*")

# The bytes 80–BF as Latin-1 and as Windows-1252 show them.
_LATE = "\x80-\xbf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013\u2014\u2018-\u201e\u2020-\u2022"
_LATE += "\u2026\u2030\u2039\u203a\u20ac\u2122"
_SPECIAL = r"/?s|unk|pad|mask|bos|eos|0x[0-9A-F]{2}"

# Each begins with a fixed character, or one of few: then Python looks for that at a third of a nanosecond a character,
# and not at ten. What must stand before it is looked for afterwards, by looking back.
_PATTERNS = {
    "mojibake": (
        rf"[ÃÂ][{_LATE}]",
        rf"â[€\x80][{_LATE}]",
        rf"[ÐÑ][{_LATE}][ÐÑ][{_LATE}]",
        rf"[ã-é][{_LATE}]{{2}}[ã-é][{_LATE}]{{2}}",
    ),
    "special_tokens": (rf"<(?:{_SPECIAL})>", r"\[(?:CLS|SEP|PAD|UNK|MASK)\]", r"[▁￭⁇]", r"@@(?=\s|$)"),
    "markup": (rf"<(?!(?:{_SPECIAL})>)/?[A-Za-z][\w:.-]*(?:\s[^<>\n]*)?/?>",),
    "entities": (r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]{1,31});",),
    "roff": (r"\\f[BIRPC(]|\\[-(&]", r"\.(?<=^\.)[A-Z]{2}\b", r"<(?<=\b[BICLFSE]<)[^<>\n]*>"),
    "accelerators": (
        r"&(?<![\w&;]&)[A-Za-zÀ-ž](?!\w*;)",
        r"~(?<!\S~)\w",
        r"~(?<=\w~)\w",
        r"_(?<![\w.]_)[A-Z][a-zß-ž]",
    ),
    "tokenised": (r" [.,](?=\s|$)",),
}


class SideChecks:
    """Looks at the lines of one side and remembers what it found."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = defaultdict(Tally)  # by kind
        self._n_lines = 0
        self._has_case = self._has_capitals = False

    def add(self, texts: list[str], lengths: npt.NDArray[np.int64], places: npt.NDArray[np.int64]) -> None:
        """The next lines, their lengths in characters, and where they stand."""
        if not texts:
            return
        joined = "\n".join(texts)
        starts = np.concatenate([[0], np.cumsum(lengths + 1)])
        for kind, found in (*_find_characters(joined), *_find_patterns(joined)):
            lines = np.searchsorted(starts, found, "right") - 1
            new = np.flatnonzero(np.diff(lines, prepend=-1))
            self._note(kind, texts, places, lines[new], found[new] - starts[lines[new]])
        long = [number for number in np.flatnonzero(lengths >= LONG_WORD).tolist() if _has_long_word(texts[number])]
        self._note("long_words", texts, places, np.array(long, np.int64))
        blank = [number for number, text in enumerate(texts) if len(text) < 50 and _BLANK.fullmatch(text)]
        self._note("empty", texts, places, np.array(blank, np.int64))
        self._note("long_lines", texts, places, np.flatnonzero(lengths > LONG))
        self._n_lines += len(texts)
        self._look_at_case(joined)

    def finish(self) -> None:
        """Judge what only the whole can tell."""
        if self._n_lines < _MEASURABLE or self.tallies["tokenised"].count < _MOST_TOKENISED * self._n_lines:
            self.tallies.pop("tokenised", None)
        if self._n_lines >= _MEASURABLE and self._has_case and not self._has_capitals:
            self.tallies["lower_cased"].count = self._n_lines

    def _note(
        self,
        kind: str,
        texts: list[str],
        places: npt.NDArray[np.int64],
        lines: npt.NDArray[np.int64],
        at: npt.NDArray[np.int64] | None = None,
    ) -> None:
        if len(lines):
            tally, first = self.tallies[kind], lines[:N_LINES].tolist()
            columns = [0] * len(first) if at is None else at[:N_LINES].tolist()
            for line, column in zip(first, columns, strict=True):
                tally.add(int(places[line]), texts[line], column)
            tally.count += len(lines) - len(first)

    def _look_at_case(self, joined: str) -> None:
        if not self._has_capitals:
            self._has_capitals = joined.lower() != joined
            sample = joined[:_CASE_SAMPLE]
            self._has_case = self._has_case or sum(map(str.islower, sample)) > len(sample) / 3


def _find_characters(joined: str) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    if joined.isascii():
        flags = _flags()[np.frombuffer(joined.encode("ascii"), np.uint8)]
    else:
        flags = _flags()[np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)]
    places = np.flatnonzero(flags)
    if len(places):
        for kind, bit in _ODD.items():
            if len(found := places[flags[places] & bit != 0]):
                yield kind, found


def _find_patterns(joined: str) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    for kind, patterns in _compiled().items():
        found = [match.start() for pattern in patterns for match in pattern.finditer(joined)]
        if found:
            yield kind, np.sort(np.array(found, np.int64))


def _has_long_word(text: str) -> bool:
    longest = max(text.split(), key=len, default="")
    return len(longest) >= LONG_WORD and longest.isascii()  # not in scripts without blanks


@cache
def _compiled() -> dict[str, tuple[re.Pattern[str], ...]]:
    return {kind: tuple(re.compile(one, re.MULTILINE) for one in patterns) for kind, patterns in _PATTERNS.items()}


@cache
def _flags() -> npt.NDArray[np.uint8]:
    """What is odd about each character."""
    of_category = {"Cc": "control", "Cf": "invisible", "Cs": "control", "Co": "private_use", "Cn": "private_use"}
    flags = np.zeros(0x110000, np.uint8)
    for code in range(0x20000):
        if kind := of_category.get(unicodedata.category(chr(code))):
            flags[code] = _ODD[kind]
    flags[0xE0000:0xE1000] = _ODD["invisible"]
    flags[0xF0000:] = _ODD["private_use"]
    flags[[ord(character) for character in _LINE_ENDS]] = _ODD["line_separators"]
    flags[[ord("\0"), ord("\t"), 0xFFFD]] = _ODD["nul"], _ODD["tabs"], _ODD["replacement"]
    flags[ord("\n")] = 0  # between the lines
    flags[[0x200C, 0x200D]] = 0  # Persian, Indic scripts and emoji need them
    return flags
