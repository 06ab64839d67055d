"""What is in a training corpus, counted batch by batch: words, pieces, lengths, use of the vocabulary.

Counts of batches, parts and corpora add up (`a + b`), in any order, so that workers can count apart. A batch costs a
few numpy passes over its text and its ids, no Python per word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from data.vocabulary import UNK_ID

Ints = npt.NDArray[np.int64]

N_BYTES = 256  # byte pieces: the ids right behind the special ones
_RARE = 100  # a piece seen less often is hardly learnt
_SHARES = (50, 90, 99)  # percent of the text
_NUMBERS = ("words", "pieces", "byte_pieces", "unknown", "broken", "first_piece")  # of Side


def length_edges(exact: int, largest: int) -> Ints:
    """Lower edges of bins of lengths: each length below `exact` has its own, then exact/2 bins for each doubling."""
    edges, start = list(range(exact)), exact
    while start < largest:
        edges.extend(range(start, 2 * start, 2 * start // exact))
        start *= 2
    return np.array([*edges, start], np.int64)


HISTOGRAM_EDGES = length_edges(64, 4096)  # pieces; the last bin is open
JOINT_EDGES = length_edges(16, 1024)


def _bins(edges: Ints) -> Ints:
    """The bin of each length from 0 to the last edge."""
    return np.searchsorted(edges, np.arange(edges[-1] + 1), side="right") - 1


_HISTOGRAM_BINS, _JOINT_BINS = _bins(HISTOGRAM_EDGES), _bins(JOINT_EDGES)

# What separates words, and the scripts written without blanks, whose words are counted by the character.
_BLANK: list[tuple[int, int]] = [
    *((0x0, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200B), (0x2028, 0x2029), (0x202F, 0x202F)),
    *((0x205F, 0x205F), (0x3000, 0x303F), (0xFEFF, 0xFEFF)),  # and the punctuation of Chinese and Japanese
    *((0xFF01, 0xFF0F), (0xFF1A, 0xFF20), (0xFF3B, 0xFF40), (0xFF5B, 0xFF65)),
]
_UNSPACED: list[tuple[int, int]] = [
    *((0xE00, 0xEFF), (0xF40, 0xFBC), (0x1000, 0x109F), (0x1780, 0x17FF)),  # Thai, Lao, Tibetan, Burmese, Khmer
    *((0x3041, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F)),  # kana
    *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF)),  # Han
]
_IS_BLANK, _IS_UNSPACED = 1, 2


def _character_classes() -> npt.NDArray[np.uint8]:
    classes = np.zeros(_UNSPACED[-1][1] + 2, np.uint8)
    for ranges, kind in ((_BLANK, _IS_BLANK), (_UNSPACED, _IS_UNSPACED)):
        for first, last in ranges:
            classes[first : last + 1] = kind
    return classes


_CLASSES = _character_classes()


def count_words(texts: Sequence[str]) -> int:
    """Words of all texts together: what blanks separate; in scripts without blanks between words, each character."""
    if not texts:
        return 0
    text = "\n".join(texts)
    if text.isascii():
        is_blank = np.frombuffer(text.encode("ascii"), np.uint8) <= ord(" ")
        return int(np.count_nonzero(is_blank[:-1] & ~is_blank[1:])) + int(len(is_blank) and not is_blank[0])
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    classes = _CLASSES[np.minimum(codes, len(_CLASSES) - 1)]
    is_letter = classes == 0
    begins = np.count_nonzero(is_letter[1:] & ~is_letter[:-1]) + int(is_letter[0])
    return int(begins) + int(np.count_nonzero(classes == _IS_UNSPACED))


@dataclass(frozen=True)
class Side:
    """One language of a corpus. `broken` counts runs of unknown and byte pieces: words that are spelled, not known."""

    words: int = 0
    pieces: int = 0
    byte_pieces: int = 0
    unknown: int = 0
    broken: int = 0
    first_piece: int = 0  # the first id that is neither special nor a byte
    lengths: Ints = field(default_factory=lambda: np.zeros(len(HISTOGRAM_EDGES), np.int64))
    piece_counts: Ints | None = field(default_factory=lambda: np.zeros(0, np.int64))  # (up to V,); None: not known
    summary: Mapping[str, Any] | None = None  # of the piece counts, where they themselves are not known

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        ids: npt.NDArray[Any],
        lengths: npt.NDArray[Any],
        n_special: int,
        byte_fallback: bool,
    ) -> Side:
        """Count one side of a batch, see `Statistics.of`."""
        first_piece = n_special + N_BYTES * byte_fallback
        counts = np.bincount(ids, minlength=first_piece).astype(np.int64)
        unknown, byte_pieces = int(counts[UNK_ID]), int(counts[n_special:first_piece].sum())
        return cls(
            words=count_words(texts),
            pieces=len(ids),
            byte_pieces=byte_pieces,
            unknown=unknown,
            broken=_count_runs(ids, lengths, n_special, first_piece) if unknown or byte_pieces else 0,
            first_piece=first_piece,
            lengths=_histogram(_HISTOGRAM_BINS, lengths, len(HISTOGRAM_EDGES)),
            piece_counts=counts,
        )

    def __add__(self, other: Side) -> Side:
        return Side(
            self.words + other.words,
            self.pieces + other.pieces,
            self.byte_pieces + other.byte_pieces,
            self.unknown + other.unknown,
            self.broken + other.broken,
            max(self.first_piece, other.first_piece),
            self.lengths + other.lengths,
            _add_counts(self.piece_counts, other.piece_counts),
        )


def _histogram(bin_of: Ints, lengths: npt.NDArray[Any], n_bins: int) -> Ints:
    return np.bincount(bin_of[np.minimum(lengths, len(bin_of) - 1)], minlength=n_bins).astype(np.int64)


def _count_runs(ids: npt.NDArray[Any], lengths: npt.NDArray[Any], n_special: int, first_piece: int) -> int:
    """Runs of unknown and byte pieces that stand side by side in one sentence."""
    is_spelled = (ids == UNK_ID) | ((ids >= n_special) & (ids < first_piece))
    begins = is_spelled.copy()
    begins[1:] &= ~is_spelled[:-1]
    starts = (np.cumsum(lengths) - lengths)[lengths > 0]  # of sentences
    begins[starts] = is_spelled[starts]
    return int(np.count_nonzero(begins))


def _add_counts(a: Ints | None, b: Ints | None) -> Ints | None:
    if a is None or b is None:
        return None
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total


@dataclass(frozen=True)
class Statistics:
    """Counts of the pairs kept from one corpus, or from several added; nothing counted yet: `Statistics()`."""

    pairs: int = 0
    src: Side = field(default_factory=Side)
    tgt: Side = field(default_factory=Side)
    # (bins of source lengths, of target lengths), in pieces, edges: JOINT_EDGES
    joint_lengths: Ints = field(default_factory=lambda: np.zeros((len(JOINT_EDGES),) * 2, np.int64))
    both_summary: Mapping[str, Any] | None = None  # see Side.summary

    @classmethod
    def of(
        cls,
        src_texts: Sequence[str],
        tgt_texts: Sequence[str],
        src_ids: npt.NDArray[Any],
        src_lengths: npt.NDArray[Any],
        tgt_ids: npt.NDArray[Any],
        tgt_lengths: npt.NDArray[Any],
        n_special: int,
        byte_fallback: bool,
        tgt_n_special: int | None = None,
    ) -> Statistics:
        """Count a batch of pairs: their text, all ids one after the other, and the number of ids of each sentence.

        The first `n_special` ids are special (in the target's vocabulary `tgt_n_special`, where that differs) and,
        given `byte_fallback`, the next 256 are bytes.
        """
        tgt_n_special = n_special if tgt_n_special is None else tgt_n_special
        n = len(JOINT_EDGES)
        src_bins, tgt_bins = (_JOINT_BINS[np.minimum(one, JOINT_EDGES[-1])] for one in (src_lengths, tgt_lengths))
        return cls(
            len(src_texts),
            Side.of(src_texts, src_ids, src_lengths, n_special, byte_fallback),
            Side.of(tgt_texts, tgt_ids, tgt_lengths, tgt_n_special, byte_fallback),
            np.bincount(src_bins * n + tgt_bins, minlength=n * n).reshape(n, n).astype(np.int64),
        )

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.pairs + other.pairs,
            self.src + other.src,
            self.tgt + other.tgt,
            self.joint_lengths + other.joint_lengths,
        )

    def to_json(self) -> dict[str, Any]:
        """A few kilobytes for a manifest. The count of each piece is only summed up: it does not survive `from_json`.

        Rows of numbers are strings: indented JSON would give each number a line.
        """
        both = None
        if self.src.first_piece == self.tgt.first_piece:
            both = _add_counts(self.src.piece_counts, self.tgt.piece_counts)
        return {
            "pairs": self.pairs,
            "src": _side_json(self.src),
            "tgt": _side_json(self.tgt),
            "joint_lengths": _trimmed([_row(counts) for counts in self.joint_lengths]),
            "vocabulary": _summary(both, self.src.first_piece, self.both_summary),
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Statistics:
        """What `to_json` wrote, missing parts as 0; sums of it know all but the use of the vocabulary."""
        joint = [_numbers(row, len(JOINT_EDGES)) for row in written.get("joint_lengths", [])]
        rest = [np.zeros(len(JOINT_EDGES), np.int64)] * (len(JOINT_EDGES) - len(joint))
        src, tgt = (_side_from_json(written.get(side, {})) for side in ("src", "tgt"))
        return cls(written.get("pairs", 0), src, tgt, np.stack([*joint, *rest]), written.get("vocabulary"))

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything, for `numpy.savez`: for parts that are added later, by another process or machine."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "pairs": np.array(self.pairs),
            "joint_lengths": self.joint_lengths,
        }
        for name, side in (("src", self.src), ("tgt", self.tgt)):
            assert side.piece_counts is not None, "statistics read from a manifest know too little"
            arrays[f"{name}.counts"] = np.array([getattr(side, number) for number in _NUMBERS], np.int64)
            arrays[f"{name}.lengths"] = side.lengths
            arrays[f"{name}.piece_counts"] = side.piece_counts
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Statistics:
        """What `to_arrays` gave."""

        def side(name: str) -> Side:
            numbers = dict(zip(_NUMBERS, arrays[f"{name}.counts"].tolist(), strict=True))
            return Side(**numbers, lengths=arrays[f"{name}.lengths"], piece_counts=arrays[f"{name}.piece_counts"])

        return cls(int(arrays["pairs"]), side("src"), side("tgt"), arrays["joint_lengths"])


def _side_json(side: Side) -> dict[str, Any]:
    numbers = {name: getattr(side, name) for name in _NUMBERS}
    summary = _summary(side.piece_counts, side.first_piece, side.summary)
    return {**numbers, "lengths": _row(side.lengths), "vocabulary": summary}


def _summary(counts: Ints | None, first_piece: int, known: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return dict(known) if known else None if counts is None else _summarise(counts[first_piece:])


def _side_from_json(written: Mapping[str, Any]) -> Side:
    numbers = {name: written.get(name, 0) for name in _NUMBERS}
    lengths = _numbers(written.get("lengths", ""), len(HISTOGRAM_EDGES))
    return Side(**numbers, lengths=lengths, piece_counts=None, summary=written.get("vocabulary"))


def _row(counts: Ints) -> str:
    return " ".join(map(str, np.trim_zeros(counts, "b").tolist()))


def _numbers(row: str, length: int) -> Ints:
    numbers = np.array(row.split(), np.int64)
    return np.pad(numbers, (0, length - len(numbers)))


def _trimmed(rows: list[str]) -> list[str]:
    while rows and not rows[-1]:
        rows.pop()
    return rows


def _summarise(counts: Ints) -> dict[str, Any]:
    """How the vocabulary is used; `curve` holds the frequencies of the pieces at some ranks, denser at both ends."""
    by_rank = np.sort(counts[counts > 0])[::-1]
    covered = np.cumsum(by_rank)
    total = int(covered[-1]) if len(covered) else 0
    ranks = _curve_ranks(len(by_rank))
    return {
        "used": len(by_rank),
        "used_often": int(np.count_nonzero(by_rank >= _RARE)),
        "pieces_for_percent": {
            str(share): int(np.searchsorted(covered, total * share / 100)) + 1 if total else 0 for share in _SHARES
        },
        "curve": {"ranks": _row(ranks), "counts": _row(by_rank[ranks - 1])},
    }


def _curve_ranks(n: int) -> Ints:
    if not n:
        return np.zeros(0, np.int64)
    from_top = np.geomspace(1, n, 36).round().astype(np.int64)
    return np.unique(np.concatenate([from_top, n + 1 - from_top[::2]]))
