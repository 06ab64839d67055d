"""Packed batches: sentences one behind the other without padding, in tensors of one shape for a whole run.

A GPU spends no time on padding then, and what is compiled for it, or captured as a CUDA graph, is never made again.
What sentences leave free is filled with others of padding ids, which count for nothing: little, where an update is of
sentences of all lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from data.batches import Batch, Integers, TensorFields
from data.errors import DataError
from data.prepared import IdSequences, ParallelIds
from data.vocabulary import BOS_ID, EOS_ID, PAD_ID

_MULTIPLE = 64  # GPUs multiply matrices in tiles: sizes are rounded up to whole ones
_PARTS_TRIED = 8  # numbers of micro-batches in an update
_SHARES = (0.6, 0.9, 1.0)  # of updates that are not to need one more
# What a target token, a room for a pair, a micro-batch cost, in source tokens: the first by the sizes of base, where
# the decoder with its projection does twice as much as the encoder; the others estimated, as kernels start for each.
_TGT_COST, _ROOM_COST, _BATCH_COST = 2, 3, 750


@dataclass(frozen=True)
class PackedShape:
    """What all packed batches of a run have in common; tokens count eos."""

    n_src: int  # N: source tokens, filler included
    n_tgt: int  # M: target tokens, filler included
    n_pairs: int  # at most so many real pairs
    longest: int  # tokens of the longest sentence there may be

    def __post_init__(self) -> None:
        if not 1 <= self.longest <= min(self.n_src, self.n_tgt) or self.n_pairs < 1:
            raise ValueError(f"{self} has no room for one longest pair")

    @property
    def n_fillers(self) -> int:
        """Sentences of filler, so many that none is longer than the longest."""
        return -(-max(self.n_src, self.n_tgt) // self.longest)

    @property
    def n_rooms(self) -> int:
        """B: sentences on each side, filler and empty ones included."""
        return self.n_pairs + self.n_fillers


@dataclass(frozen=True)
class PackedBatch(TensorFields):
    """Sentence pairs one behind the other, then filler, then empty sentences up to B; shifted as in `Batch`.

    Offsets [0, 3, 7, 9, 9] of one real pair and three rooms more: it has tokens 0, 1, 2; tokens 3 to 6 and 7, 8 are
    filler, of PAD_ID; the last room is empty. Positions begin at 0 in each sentence.
    """

    src: Tensor  # (N,) int64
    src_positions: Tensor  # (N,) int64
    src_offsets: Tensor  # (B + 1,) int32, from 0 to N
    tgt_in: Tensor  # (M,) int64
    tgt_out: Tensor  # (M,) int64
    tgt_positions: Tensor  # (M,) int64
    tgt_offsets: Tensor  # (B + 1,) int32, from 0 to M
    longest: int  # of the run, not of this batch
    n_pairs: int  # real ones
    n_src_tokens: int  # real source tokens, eos included
    n_tokens: int  # real target tokens, eos included

    @property
    def n_padded(self) -> int:
        """Tokens with filler, both sides together."""
        return self.src.numel() + self.tgt_out.numel()


AnyBatch = Batch | PackedBatch


def fit_shape(
    updates: Sequence[tuple[Integers, Integers]], max_tokens: int, longest: int, n_processes: int = 1
) -> PackedShape:
    """The shape in which updates like these cost least, what is not filled included.

    Args:
        updates: source and target tokens of each sentence of some updates, eos included.
        max_tokens: most tokens of a micro-batch, on either side.
        longest: tokens of the longest sentence of all.
        n_processes: that share out the micro-batches of an update.
    """
    fewest = max(-(-int(side.sum()) // (max_tokens * n_processes)) for update in updates for side in update)
    shapes = {
        _shape_of(updates, n * n_processes, shares, max_tokens, longest)
        for n in range(fewest, fewest + _PARTS_TRIED)
        for shares in product(_SHARES, repeat=3)
    }

    def cost(shape: PackedShape) -> tuple[int, ...]:
        n_batches = sum(-(-len(cut_packs(*update, shape)) // n_processes) for update in updates)
        of_one = shape.n_src + _TGT_COST * shape.n_tgt + _ROOM_COST * shape.n_rooms + _BATCH_COST
        return n_batches * of_one, shape.n_src, shape.n_tgt, shape.n_pairs  # of equal ones always the same

    return min(shapes, key=cost)


def _shape_of(
    updates: Sequence[tuple[Integers, Integers]],
    n_parts: int,
    shares: tuple[float, ...],
    max_tokens: int,
    longest: int,
) -> PackedShape:
    """With room for the source tokens, target tokens, pairs of so many parts, for these shares of all updates."""
    sizes: list[int] = []
    for side, share in zip(zip(*updates, strict=True), shares, strict=False):
        # A part ends where a sentence does, which leaves less than one sentence free.
        needed = [each.sum() / n_parts + (each.max() - 1 if n_parts > 1 else 0) for each in side]
        n = math.ceil(np.quantile(needed, share))
        sizes.append(min(max_tokens, max(longest, -(-n // _MULTIPLE) * _MULTIPLE)))
    n_pairs = int(np.quantile([len(src) / n_parts for src, _ in updates], shares[2])) + 1
    return PackedShape(n_src=sizes[0], n_tgt=sizes[1], n_pairs=n_pairs, longest=longest)


def pack(corpus: ParallelIds, sentences: Integers, shape: PackedShape) -> list[PackedBatch]:
    """These pairs in their order, each micro-batch as full as the next pair allows.

    Raises:
        DataError: a pair is longer than the longest that the shape has room for.
    """
    parts = cut_packs(corpus.src_lengths[sentences] + 1, corpus.tgt_lengths[sentences] + 1, shape)
    return [pack_one(corpus, sentences[part], shape) for part in parts]


def cut_packs(src: Integers, tgt: Integers, shape: PackedShape) -> list[slice]:
    """Which neighbours make a micro-batch, by the tokens of each sentence; raises what `pack` does."""
    too_long = np.flatnonzero(np.maximum(src, tgt) > shape.longest)
    if len(too_long):
        first = too_long[0]
        raise DataError(
            f"a pair of {src[first]:,} source and {tgt[first]:,} target tokens does not fit into packed micro-batches, "
            f"whose longest sentence has {shape.longest:,}"
        )
    src_ends, tgt_ends = (np.concatenate([[0], np.cumsum(side, dtype=np.int64)]) for side in (src, tgt))
    parts, first = [], 0
    while first < len(src):
        last = min(
            int(np.searchsorted(src_ends, src_ends[first] + shape.n_src, side="right")) - 1,
            int(np.searchsorted(tgt_ends, tgt_ends[first] + shape.n_tgt, side="right")) - 1,
            first + shape.n_pairs,
        )
        parts.append(slice(first, last))
        first = last
    return parts


def pack_one(corpus: ParallelIds, sentences: Integers, shape: PackedShape) -> PackedBatch:
    """One micro-batch of pairs that fit into it; no loop over sentences or tokens. Without any, all is filler."""
    src, src_positions, src_offsets, n_src_tokens = _one_row(corpus.src, sentences, shape.n_src, shape)
    tgt, tgt_positions, tgt_offsets, n_tokens = _one_row(corpus.tgt, sentences, shape.n_tgt, shape)
    tgt_in = np.roll(tgt, 1)
    tgt_in[tgt_offsets[: len(sentences)]] = BOS_ID
    tgt_in[n_tokens:] = PAD_ID
    return PackedBatch(
        src=torch.from_numpy(src),
        src_positions=torch.from_numpy(src_positions),
        src_offsets=torch.from_numpy(src_offsets),
        tgt_in=torch.from_numpy(tgt_in),
        tgt_out=torch.from_numpy(tgt),
        tgt_positions=torch.from_numpy(tgt_positions),
        tgt_offsets=torch.from_numpy(tgt_offsets),
        longest=shape.longest,
        n_pairs=len(sentences),
        n_src_tokens=n_src_tokens,
        n_tokens=n_tokens,
    )


def filler_batch(shape: PackedShape) -> PackedBatch:
    """A micro-batch without a pair: as dear as any."""
    nothing = IdSequences(np.zeros(0, np.uint16), np.zeros(1, np.int64))
    return pack_one(ParallelIds(nothing, nothing), np.zeros(0, np.int64), shape)


def _one_row(
    side: IdSequences, sentences: Integers, n: int, shape: PackedShape
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32], int]:
    """Tokens (n,), their positions (n,), the offsets of sentences (B + 1,), and how many tokens are real."""
    starts = side.offsets[sentences]
    lengths = side.offsets[sentences + 1] - starts + 1
    n_real = int(lengths.sum())
    fillers = np.diff(np.arange(shape.n_fillers + 1) * (n - n_real) // shape.n_fillers)
    lengths = np.concatenate([lengths, fillers, np.zeros(shape.n_pairs - len(sentences), np.int64)]).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    positions = np.arange(n) - np.repeat(offsets[:-1], lengths)
    ends = offsets[1 : len(sentences) + 1] - 1
    row = np.full(n, PAD_ID, dtype=np.int64)
    pieces = np.ones(n_real, dtype=np.bool_)
    pieces[ends] = False
    places = np.repeat(starts, lengths[: len(sentences)]) + positions[:n_real]
    row[:n_real][pieces] = side.ids[places[pieces]]
    row[ends] = EOS_ID
    return row, positions, offsets.astype(np.int32), n_real
