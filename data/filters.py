"""Which training pairs are left out, and how many for which reason."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

REASONS = ("empty", "duplicate", "too_long", "length_ratio")  # a pair is counted under the first that holds


@dataclass(frozen=True)
class Filters:
    """The limits for training pairs."""

    max_length: int = 256  # pieces, on either side
    max_length_ratio: float = 9.0  # longest side / shortest side, in pieces
    remove_duplicates: bool = True  # all but the first of identical pairs


@dataclass
class Counts:
    """How many pairs of one corpus were read, and dropped by reason; read = kept + dropped."""

    read: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))

    @property
    def kept(self) -> int:
        """Pairs not dropped."""
        return self.read - sum(self.dropped.values())

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.read + other.read, {r: self.dropped[r] + other.dropped[r] for r in REASONS})


class TextFilter:
    """Judges pairs before they are encoded: a blank side, or a pair seen before."""

    def __init__(self, filters: Filters) -> None:
        self._remove_duplicates = filters.remove_duplicates
        self._seen: set[bytes] = set()  # about 100 bytes a pair: 0.5 GB for WMT14 en-de's 4.5 million

    def judge(self, src: str, tgt: str) -> str | None:
        """The reason to drop this pair, or None; remembers the pair."""
        if not src.strip() or not tgt.strip():
            return "empty"
        if self._remove_duplicates:
            # 128 bits: among a billion pairs, the chance of one false duplicate is 1e-21.
            key = hashlib.blake2b(f"{src}\n{tgt}".encode(), digest_size=16).digest()
            if key in self._seen:
                return "duplicate"
            self._seen.add(key)
        return None


def judge_lengths(
    src_lengths: npt.NDArray[np.int64], tgt_lengths: npt.NDArray[np.int64], filters: Filters
) -> npt.NDArray[np.int8]:
    """For each pair of lengths in pieces: -1 to keep it, else the reason to drop it as an index into REASONS.

    Text without a single piece, such as control characters only, is as empty as a blank line.
    """
    longer, shorter = np.maximum(src_lengths, tgt_lengths), np.minimum(src_lengths, tgt_lengths)
    return np.select(
        [shorter == 0, longer > filters.max_length, longer > filters.max_length_ratio * shorter],
        [np.int8(REASONS.index(reason)) for reason in ("empty", "too_long", "length_ratio")],
        np.int8(-1),
    )
