"""From memory-mapped ids to batches: which sentences make an update, and how they are padded.

An epoch is cut into updates first (how many tokens the optimizer sees at once: a hyper-parameter), and each update
into micro-batches second (what fits into memory). Both are a pure function of lengths, seed and epoch, so the place in
the training data is two integers: epoch and update.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from data.prepared import IdSequences, ParallelIds
from data.vocabulary import BOS_ID, EOS_ID, PAD_ID

Integers = npt.NDArray[np.integer]


class TensorFields:
    """A frozen dataclass of which some fields are tensors: moved together."""

    def to(self, device: torch.device) -> Self:
        """Copy the tensors to a device; not waited for where they are pinned."""
        return self if device.type == "cpu" else self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> Self:
        """The same in memory from which a GPU fetches it by itself."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed = copy.copy(self)
        vars(changed).update((name, change(each)) for name, each in vars(self).items() if isinstance(each, Tensor))
        return changed


@dataclass(frozen=True)
class Batch(TensorFields):
    """Sentence pairs padded to one length per side.

    The target is shifted (§3.1): of [a, b] the decoder reads tgt_in = [bos, a, b] and learns tgt_out = [a, b, eos].
    """

    src: Tensor  # (B, S) int64: pieces, eos, padding
    tgt_in: Tensor  # (B, T) int64: bos, pieces, padding
    tgt_out: Tensor  # (B, T) int64: pieces, eos, padding
    targets: Tensor  # (n_tokens,) int64: places of the real tokens in the flattened tgt_out, row by row
    n_src_tokens: int  # real source tokens, eos included
    n_tokens: int  # real target tokens, eos included

    @property
    def padding_share(self) -> float:
        """1 − real / padded, both sides together."""
        return 1 - (self.n_src_tokens + self.n_tokens) / self.n_padded

    @property
    def n_padded(self) -> int:
        """Tokens with padding, both sides together."""
        return self.src.numel() + self.tgt_out.numel()

    @property
    def n_pairs(self) -> int:
        """Rows."""
        return len(self.src)


def over_budget(corpus: ParallelIds, max_tokens: int) -> Integers:
    """Indices of the pairs of which one alone, with its eos, exceeds the budget of a micro-batch; they are left out."""
    return np.flatnonzero(longer_side(corpus) > max_tokens)


class Plan:
    """Some sentences, neighbours in length together, cut into updates that come in random order.

    `order` holds the sentences, `updates` the first and last + 1 place in it of each update.
    """

    def __init__(self, order: Integers, bounds: Integers, random: np.random.Generator) -> None:
        self.order = order
        self.updates = random.permutation(np.stack([bounds[:-1], bounds[1:]], axis=1))  # (n_updates, 2)

    def __len__(self) -> int:
        return len(self.updates)

    def sentences(self, update: int) -> Integers:
        """The sentences of an update, in an order that does not depend on the budget."""
        first, last = self.updates[update]
        return self.order[first:last]


class EpochPlan(Plan):
    """One epoch: each sentence that fits the budget exactly once, neighbours in length together, updates shuffled.

    Costs 8 bytes a pair. Updates have nearly equal numbers of real target tokens, at most about `batch_tokens`. Without
    `by_length` neighbours are of any length, so that updates have nearly equal numbers of source tokens and pairs too.
    """

    def __init__(
        self,
        corpus: ParallelIds,
        *,
        batch_tokens: int,
        max_tokens: int,
        seed: int,
        epoch: int,
        by_length: bool = True,
    ) -> None:
        self.longer = longer_side(corpus)
        self.max_tokens = max_tokens
        random = np.random.default_rng([seed, epoch])
        fits = self.longer <= max_tokens
        order = (
            order_by_length(corpus.src_lengths, corpus.tgt_lengths, fits, random)
            if by_length
            else random_order(fits, random)
        )
        tokens = np.cumsum(corpus.tgt_lengths[order] + 1, dtype=np.int64)
        total = int(tokens[-1]) if len(tokens) else 0
        super().__init__(order, np.unique(_bounds(tokens, min(-(-total // batch_tokens), len(order)))), random)

    def micro_batches(self, update: int) -> list[Integers]:
        """The sentence indices of each micro-batch of an update: the fewest equal parts that all keep to the budget."""
        sentences = self.sentences(update)
        return [sentences[part] for part in cut_micro_batches(self.longer[sentences], self.max_tokens)]


class Epochs:
    """The order of a run without mixing: one epoch after the other. Holds the plan of one of them."""

    name = "epoch"

    def __init__(
        self, corpus: ParallelIds, *, batch_tokens: int, max_tokens: int, seed: int, by_length: bool = True
    ) -> None:
        sizes = {"batch_tokens": batch_tokens, "max_tokens": max_tokens, "seed": seed}
        self._make = partial(EpochPlan, corpus, by_length=by_length, **sizes)
        self._held: tuple[int, EpochPlan] | None = None

    def place(self, epoch: int, update: int) -> tuple[int, int]:
        """Where the update stands that follows the first `update` ones of an epoch."""
        return (epoch + 1, 0) if update == len(self._plan(epoch)) else (epoch, update)

    def sentences(self, epoch: int, update: int) -> Integers:
        """The sentences of an update."""
        return self._plan(epoch).sentences(update)

    def _plan(self, epoch: int) -> EpochPlan:
        if self._held is None or self._held[0] != epoch:
            self._held = None  # its memory, before that of the next
            self._held = (epoch, self._make(epoch=epoch))
        return self._held[1]


def longer_side(corpus: ParallelIds, part: slice = slice(None)) -> npt.NDArray[np.int32]:
    """Pieces of the longer side of each pair, or of some, eos included: the columns it needs in a batch."""
    longer = np.maximum(corpus.src_lengths[part], corpus.tgt_lengths[part])
    longer += 1
    return longer


def cut_evenly(tokens: Integers, n_updates: int) -> Integers:
    """Where exactly `n_updates` of nearly equal tokens begin and end, none without a sentence.

    `tokens`: cumulative sum over the sentences, of which there are at least `n_updates`.
    """
    places = np.arange(n_updates + 1)
    bounds = np.maximum.accumulate(_bounds(tokens, n_updates) - places) + places  # a long sentence may fill several
    return np.minimum(bounds, len(tokens) - n_updates + places)


def _bounds(tokens: Integers, n_updates: int) -> Integers:
    """Equal shares instead of full updates and a rest: update u ends where (u + 1) / n_updates of the tokens do."""
    total = int(tokens[-1]) if len(tokens) else 0
    ends = np.searchsorted(tokens, np.arange(1, n_updates + 1) * (total / max(n_updates, 1)), side="left") + 1
    return np.concatenate([[0], np.minimum(ends, len(tokens))])


def cut_micro_batches(longer: Integers, max_tokens: int, multiple_of: int = 1) -> list[Integers]:
    """The fewest equal parts that all keep to the budget, longest first: places in `longer`, see `longer_side`.

    Their number is a multiple of `multiple_of`, so that as many processes get equally many. Where there are fewer
    sentences than parts, the last parts are empty.
    """
    order: Integers = np.argsort(-longer, kind="stable")
    n_parts = -(-int(longer.sum()) // (max_tokens * multiple_of)) * multiple_of
    while True:
        parts = np.array_split(order, n_parts)
        if all(len(part) * longer[part[0]] <= max_tokens for part in parts if len(part)):  # the longest stands first
            return parts
        n_parts += multiple_of


def random_order(fits: npt.NDArray[np.bool_], random: np.random.Generator) -> Integers:
    """The places where `fits` is true, shuffled."""
    order: Integers = np.flatnonzero(fits).astype(np.int32 if len(fits) < 2**31 else np.int64)
    return random.permutation(order)


def order_by_length(src: Integers, tgt: Integers, fits: npt.NDArray[np.bool_], random: np.random.Generator) -> Integers:
    """Random order, then sorted by target and source length, so that only pairs of equal lengths stay shuffled.

    Source lengths rise within even target lengths and fall within odd ones: at each step from one target length to
    the next, the source length then stays where it is. Two stable sorts of 16-bit keys are radix sorts: linear time.
    """
    small = np.uint16 if max(int(src.max(initial=0)), int(tgt.max(initial=0))) < 2**16 else np.uint32
    order = random_order(fits, random)
    snake = np.where(tgt % 2 == 0, src, src.max(initial=0) - src).astype(small)
    order = order[np.argsort(snake[order], kind="stable")]
    return order[np.argsort(tgt.astype(small)[order], kind="stable")]


def halve(batch: Batch) -> tuple[Batch, Batch]:
    """The first rows and the others, which keep the padding; of two rows or more."""
    middle = len(batch.src) // 2
    return _rows(batch, slice(None, middle)), _rows(batch, slice(middle, None))


def without_targets(batch: Batch) -> Batch:
    """The same rows with nothing to learn: what a process goes through when there is no sentence for it."""
    return replace(batch, targets=batch.targets[:0], n_src_tokens=0, n_tokens=0)


def _rows(batch: Batch, rows: slice) -> Batch:
    src, tgt_in, tgt_out = batch.src[rows], batch.tgt_in[rows], batch.tgt_out[rows]
    real = tgt_out != PAD_ID
    targets = real.flatten().nonzero().squeeze(1)
    return Batch(src, tgt_in, tgt_out, targets, int((src != PAD_ID).sum()), int(real.sum()))


def collate(corpus: ParallelIds, sentences: Integers) -> Batch:
    """Read these pairs and pad them; no loop over sentences or tokens."""
    src, src_real = _pad(corpus.src, sentences)
    tgt, tgt_real = _pad(corpus.tgt, sentences)
    tgt_out = torch.from_numpy(tgt)
    tgt_in = torch.empty_like(tgt_out)
    tgt_in[:, 0] = BOS_ID
    tgt_in[:, 1:] = tgt_out[:, :-1].masked_fill(tgt_out[:, :-1] == EOS_ID, PAD_ID)
    return Batch(
        src=torch.from_numpy(src),
        tgt_in=tgt_in,
        tgt_out=tgt_out,
        targets=torch.from_numpy(np.flatnonzero(tgt_real)),
        n_src_tokens=int(src_real.sum()),
        n_tokens=int(tgt_real.sum()),
    )


def _pad(side: IdSequences, sentences: Integers) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Rows of pieces, eos, padding, and where a row is real: both (B, longest + 1)."""
    starts = side.offsets[sentences]
    lengths = side.offsets[sentences + 1] - starts
    columns = np.arange(int(lengths.max(initial=0)) + 1)
    pieces = columns < lengths[:, None]
    places = np.where(pieces, starts[:, None] + columns, 0)
    rows = np.full(places.shape, PAD_ID, dtype=np.int64)
    rows[pieces] = side.ids[places[pieces]]
    rows[np.arange(len(rows)), lengths] = EOS_ID
    return rows, columns <= lengths[:, None]
