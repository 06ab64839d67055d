"""What remains in memory of each line of a side, so that drift can be sought without the text: about 30 bytes a line.

A trace is the line's length in characters and its rarest words, each as a number of 16 bits. Two words in a hundred
share their number with another one of the same rarity; a statistic over thousands of lines does not mind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from data.words import Words

N_WORDS = 10  # kept of a line
N_IDS = 1 << 16
NO_WORD = 0

Ids = npt.NDArray[np.uint16]
Lengths = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Traces:
    """N lines of one side."""

    words: Ids  # (N, N_WORDS), filled up with NO_WORD
    lengths: Lengths  # (N), characters, at most 65,535
    counts: npt.NDArray[np.int64]  # (N_IDS), in how many places of the corpus each word is

    def __len__(self) -> int:
        return len(self.lengths)


class Tracer:
    """Makes traces, some thousand lines at a time."""

    def __init__(self) -> None:
        self._words: list[Ids] = []
        self._lengths: list[Lengths] = []
        self._counts = np.zeros(N_IDS, np.int64)

    def add(self, words: Words, lengths: Sequence[int] | npt.NDArray[np.int64]) -> None:
        """The next lines of the side: their words, and their lengths in characters."""
        ids = (words.keys >> np.uint64(48)).astype(np.uint16)
        ids[ids == NO_WORD] = 1
        self._counts += np.bincount(ids, minlength=N_IDS)
        self._words.append(self._rarest(ids, words.starts))
        self._lengths.append(np.minimum(lengths, 0xFFFF).astype(np.uint16))

    def traces(self) -> Traces:
        """Of all lines so far."""
        words = np.concatenate([np.zeros((0, N_WORDS), np.uint16), *self._words])
        return Traces(words, np.concatenate([np.zeros(0, np.uint16), *self._lengths]), self._counts)

    def _rarest(self, ids: Ids, starts: npt.NDArray[np.int64]) -> Ids:
        """The words of each line that are rarest by what has been read so far; no row has one twice."""
        lines = np.repeat(np.arange(len(starts) - 1, dtype=np.uint64), np.diff(starts))
        rarity = np.minimum(self._counts[ids], 0xFFFFF).astype(np.uint64)
        keys = np.sort(lines << np.uint64(36) | rarity << np.uint64(16) | ids)  # by line, then by rarity
        keys = keys[np.diff(keys, prepend=~keys[:1]) != 0]
        line_of_key = (keys >> np.uint64(36)).astype(np.int64)
        rank = np.arange(len(keys)) - np.searchsorted(line_of_key, np.arange(len(starts) - 1))[line_of_key]
        kept = rank < N_WORDS
        found = np.full((len(starts) - 1, N_WORDS), NO_WORD, np.uint16)
        found[line_of_key[kept], rank[kept]] = keys[kept].astype(np.uint16)
        return found
