"""Pairs that occur more than once, found in memory that does not grow with the corpus.

Each pair leaves a key of 64 bits in a file. The keys are then looked at a range at a time, small enough to sort in
memory: 8 bytes a pair on disk, no set of strings. Among 50 million pairs the chance that any two different ones share
a key is 7e-5; it would cost one pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from data.pairs import Texts
from data.words import words_of

Keys = npt.NDArray[np.uint64]

_KEYS_AT_A_TIME = 1 << 22  # 32 MB of keys, and as much again to sort them


@dataclass(frozen=True)
class DuplicateRule:
    """What makes two pairs the same: `of` names the side or sides that are compared."""

    of: Literal["pair", "src", "tgt"] = "pair"
    normalised: bool = False  # compare words only, see `data.words`: without case, punctuation, spaces, width

    @property
    def reason(self) -> str:
        """The name under which such pairs are counted."""
        return "duplicate" if self.of == "pair" else f"duplicate_{self.of}"


def duplicate_keys(texts: Texts, rule: DuplicateRule) -> Keys:
    """A key for each pair; equal for pairs that are the same under the rule."""
    src, tgt = texts.src, texts.tgt
    if rule.normalised:
        src, tgt = _spell(src), _spell(tgt)
    if rule.of == "pair":
        lines = [f"{one}\n{other}" for one, other in zip(src, tgt, strict=True)]
    else:
        lines = src if rule.of == "src" else tgt
    digests = b"".join([hashlib.blake2b(line.encode(), digest_size=8).digest() for line in lines])
    return np.frombuffer(digests, "<u8")


def _spell(lines: list[str]) -> list[str]:
    """What is the same for lines that differ in typing only: the key of their words, or a line that has no word."""
    keys = words_of(lines).line_keys().tolist()
    return [f"{key:x}" if key else line for key, line in zip(keys, lines, strict=True)]


def mark_repeats(keys: Keys, marked: npt.NDArray[np.bool_]) -> None:
    """Mark every pair whose key occurred before, among those not marked yet; both arrays may be memory maps."""
    n_ranges = 1
    while len(keys) / n_ranges > _KEYS_AT_A_TIME:
        n_ranges *= 2
    for number in range(n_ranges):
        places = np.concatenate([*_places_in_range(keys, marked, number, n_ranges), np.empty(0, np.int64)])
        order = np.argsort(keys[places], kind="stable")  # equal keys stay in the order of the corpus
        same_as_before = np.diff(keys[places[order]]) == 0
        marked[places[order[1:][same_as_before]]] = True


def _places_in_range(
    keys: Keys, marked: npt.NDArray[np.bool_], number: int, n_ranges: int
) -> Sequence[npt.NDArray[np.int64]]:
    """Where the unmarked keys are whose leading bits spell `number`."""
    shift = np.uint64(64 - (n_ranges - 1).bit_length()) if n_ranges > 1 else None
    found = []
    for start in range(0, len(keys), _KEYS_AT_A_TIME):
        block = keys[start : start + _KEYS_AT_A_TIME]
        wanted = ~marked[start : start + _KEYS_AT_A_TIME]
        if shift is not None:
            wanted &= (block >> shift) == number
        found.append(np.flatnonzero(wanted) + start)
    return found


def disk_array(path: Path, length: int, dtype: npt.DTypeLike, value: int) -> npt.NDArray[Any]:
    """An array in a file, all `value`: memory that the system may take back.

    The file is written first: a hole in it, on a disk that is full, would end the process when it is filled.
    """
    kind = np.dtype(dtype)
    with path.open("wb") as stream:
        for start in range(0, length, _KEYS_AT_A_TIME):
            stream.write(np.full(min(_KEYS_AT_A_TIME, length - start), value, kind).tobytes())
    return np.memmap(path, kind, "r+", shape=(length,)) if length else np.zeros(0, kind)  # nothing cannot be mapped


class KeyFile:
    """Keys on disk, one after the other, memory-mapped when complete."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream = path.open("wb")

    def append(self, keys: Keys) -> None:
        """Add keys behind those already there."""
        self._stream.write(keys.astype("<u8", copy=False).tobytes())

    def read(self) -> Keys:
        """All keys, on disk."""
        self._stream.close()
        if not self.path.stat().st_size:  # nothing cannot be mapped
            return np.empty(0, np.uint64)
        return np.memmap(self.path, "<u8", "r")
