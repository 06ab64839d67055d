"""Lines and pairs that occur again, told by their hashes: 8 bytes a line of each side.

Two different lines share a hash with a chance of n²/2⁶⁵: 3e-6 in a corpus of ten million lines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from data.words import mix

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Repeats:
    """Numbers of lines, from 0."""

    again: npt.NDArray[np.int64]  # every one that occurred before, in order
    often: npt.NDArray[np.int64]  # the first of each that occurs more often than the limit, most frequent first
    often_counts: npt.NDArray[np.int64]  # how often


def hash_lines(texts: list[str]) -> Hashes:
    """The same for the same text, within this process."""
    return np.fromiter(map(hash, texts), np.int64, len(texts)).view(np.uint64)


def hash_pairs(src: Hashes, tgt: Hashes) -> Hashes:
    """One for each pair."""
    return mix(src * np.uint64(3) + mix(tgt))


def find_repeats(hashes: Hashes, limit: int, wanted: npt.NDArray[np.bool_]) -> Repeats:
    """Among those wanted, what occurs again, and what occurs more than `limit` times."""
    lines = np.flatnonzero(wanted)
    order = np.argsort(hashes[lines], kind="stable")  # equal ones stay in their order
    hashes, lines = hashes[lines[order]], lines[order]
    begins = np.flatnonzero(np.diff(hashes, prepend=~hashes[:1]))
    counts = np.diff(begins, append=len(lines))
    again = np.delete(lines, begins)
    often = np.flatnonzero(counts > limit)
    often = often[np.argsort(-counts[often], kind="stable")]
    return Repeats(np.sort(again), lines[begins[often]], counts[often])
