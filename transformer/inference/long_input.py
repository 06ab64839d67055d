"""Lines with more pieces than the network has seen in training: cut into parts that are translated one by one.

A part ends where the line has, of what fits, the best place: the last sentence end; else the last clause mark
(; : , 、), if the part is more than half full there; else the last space; else anywhere, as in a run without spaces.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from unicodedata import category

import numpy as np
import numpy.typing as npt

CountPieces = Callable[[list[str]], list[int]]

_WIDE = "。！？｡．、，；："  # no space follows them
_ENDS = ".!?…‥؟۔।॥։።‽。！？｡．"
_CLAUSES = ";:,؛،፤፣—、，；："
_MARKS = re.compile(f"([{_ENDS}{_CLAUSES}]+)[\"'”’»›)\\]}}」』】）》〉]*")
_INITIAL = re.compile(r"(?<!\w)\w$")  # before a full stop: J. S. Bach, z. B.
_WORD, _NO_SPACE = re.compile(r"\S+"), re.compile(r"\S")
_CHUNK = re.compile(r"\S{1,32}")  # whole words, mostly; what is longer is estimated by such chunks
_TOGETHER = re.compile("[\u2e80-\u312f\u31a0-\u9fff\uf900-\ufaff\uff01-\uff9f\U00020000-\U000323af]")  # no spaces there
_WIDE_MARK = re.compile("[\u3001-\u3003\u3008-\u301f\u30fb\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]")

_NOTHING = 1e-9  # pieces of a space: not 0, so that estimates grow with every character
_ROUNDING = 1e-3  # pieces
_CAUTION = 0.99  # an estimate that was too low is corrected by a little more than it was wrong


def split(text: str, count_pieces: CountPieces, limit: int) -> list[str]:
    """Cut a line into few parts of at most `limit` pieces, none of them blank; a blank line has none.

    Put together again, the parts are the text up to the spaces at the cuts. Pieces are counted twice at most, or a
    little more often in runs without spaces: the time grows with the length of the line.

    Args:
        count_pieces: the number of pieces of each text, special ones left out.
        limit: at least 1. Only a part of a single character may exceed it, if that character is spelled in more bytes.
    """
    assert limit >= 1
    line = _Line.measure(text, count_pieces)
    parts = []
    begin = _skip_spaces(text, 0)
    while begin < len(text):
        end, budget = line.end_of_part(begin, limit), float(limit)
        while end - begin > 1 and (n_pieces := count_pieces([text[begin:end]])[0]) > limit:
            budget = min(budget, line.estimate(begin, end)) * limit / n_pieces * _CAUTION
            end = min(line.end_of_part(begin, budget), end - 1)
        parts.append(text[begin:end].rstrip())
        begin = _skip_spaces(text, end)
    return parts


def join(parts: Sequence[str]) -> str:
    """The translations of the parts of a line as one; a space between them where their script writes one."""
    texts = [text for part in parts if (text := part.strip())]
    spaces = ["" if _are_together(before[-1], after[0]) else " " for before, after in pairwise(texts)]
    return "".join(chain.from_iterable(zip(texts, [*spaces, ""], strict=False)))


def truncate(ids: Sequence[int], limit: int) -> list[int]:
    """The first `limit` pieces of a line, for those who would rather lose the rest than have it cut."""
    return list(ids[:limit])


def first_words(parts: Sequence[str], text: str) -> list[int]:
    """Which word of a text (numbers from 0, words parted by white space) each of its parts begins in.

    Args:
        parts: of `split(text, …)`, or those whose `join` is the text.
    """
    begins = [word.start() for word in _WORD.finditer(text)]
    words, at = [], 0
    for part in map(str.strip, parts):
        at = text.index(part, at)
        words.append(max(bisect_right(begins, at) - 1, 0))
        at += len(part)
    return words


def _are_together(last: str, first: str) -> bool:
    return bool(_WIDE_MARK.match(last) or (_TOGETHER.match(last) and _TOGETHER.match(first)))


@dataclass(frozen=True)
class _Line:
    """A text of N characters, and where it may be cut."""

    text: str
    n_pieces_before: npt.NDArray[np.float64]  # (N + 1) an estimate; exact between words
    sentence_ends: list[int]
    clause_ends: list[int]
    word_ends: list[int]

    @classmethod
    def measure(cls, text: str, count_pieces: CountPieces) -> _Line:
        sentence_ends, clause_ends = _marked_ends(text)
        word_ends = [word.end() for word in _WORD.finditer(text)]
        return cls(text, _estimate(text, count_pieces), sentence_ends, clause_ends, word_ends)

    def estimate(self, begin: int, end: int) -> float:
        """About how many pieces a part would have."""
        return float(self.n_pieces_before[end] - self.n_pieces_before[begin])

    def end_of_part(self, begin: int, budget: float) -> int:
        """Where a part of at most `budget` estimated pieces ends; it has a character at least."""
        reach = max(self._place(begin, budget), begin + 1)
        if reach == len(self.text):
            return reach
        half = self._place(begin, budget / 2)
        for ends, least in ((self.sentence_ends, begin), (self.clause_ends, half), (self.word_ends, begin)):
            last = bisect_right(ends, reach)
            if last and ends[last - 1] > least:
                return ends[last - 1]
        return _before_character(self.text, begin, reach)

    def _place(self, begin: int, budget: float) -> int:
        most = self.n_pieces_before[begin] + budget + _ROUNDING
        return int(np.searchsorted(self.n_pieces_before, most, side="right")) - 1


def _estimate(text: str, count_pieces: CountPieces) -> npt.NDArray[np.float64]:
    """How many pieces stand before each place: those of a chunk, counted alone, spread over its characters."""
    spans = [chunk.span() for chunk in _CHUNK.finditer(text)]
    counts = np.array(count_pieces([text[begin:end] for begin, end in spans]), np.float64)
    begins, ends = np.array(spans, np.int64).reshape(-1, 2).T
    # What goes on inside a word lacks the mark of a beginning (▁), which counts as a piece where it stands alone.
    counts[1:] -= begins[1:] == ends[:-1]
    lengths = ends - begins
    shares = np.full(len(text), _NOTHING)
    places = np.arange(lengths.sum()) + np.repeat(begins - (np.cumsum(lengths) - lengths), lengths)
    shares[places] = np.repeat(np.maximum(counts, _NOTHING) / np.maximum(lengths, 1), lengths)
    return np.concatenate([[0.0], np.cumsum(shares)])


def _marked_ends(text: str) -> tuple[list[int], list[int]]:
    """Where sentences end, and clauses: behind the mark and the quotes and brackets that close after it."""
    sentences: list[int] = []
    clauses: list[int] = []
    for found in _MARKS.finditer(text):
        mark, end = found[1][-1], found.end()
        after = text[end : end + 1]
        if mark not in _WIDE and not after.isspace() and not _TOGETHER.match(after):
            continue  # 3.14, 10:30, the end of the line
        if mark in _CLAUSES:
            clauses.append(end)
        elif mark == "." and _INITIAL.search(text, max(found.start() - 2, 0), found.start()):
            continue
        else:
            following = _skip_spaces(text, end)
            abbreviation = text[following : following + 1].islower()  # etc. and so on
            (clauses if abbreviation else sentences).append(end)
    return sentences, clauses


def _skip_spaces(text: str, at: int) -> int:
    found = _NO_SPACE.search(text, at)
    return found.start() if found else len(text)


def _before_character(text: str, begin: int, end: int) -> int:
    """The nearest place before `end` that parts no letter from its marks; `end` where there is none."""
    for place in range(end, max(end - 8, begin), -1):
        if category(text[place])[0] != "M" and "\u200d" not in text[place - 1 : place + 1]:  # joins emoji
            return place
    return end
