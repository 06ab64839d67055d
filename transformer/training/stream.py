"""The batches of a run, one update after the other: which sentences, what is made of them, how they are padded.

An update is a pure function of the settings and its place: (epoch, update), or (stage, update) where corpora are mixed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np
from tqdm import tqdm

from data.augmentation import Augmentation, Rates, Side
from data.batches import Epochs, Integers, collate, cut_micro_batches, longer_side, without_targets
from data.errors import DataError
from data.mixing import CorpusRange, Mixture, Stage, corpus_ranges, shares_by_size, shares_by_weight
from data.packing import AnyBatch, PackedShape, filler_batch, fit_shape, pack
from data.prepared import ParallelIds, Prepared
from transformer.config import Settings
from transformer.config_augmentation import AugmentationSettings, SubwordSampling
from transformer.config_mixing import MixingSettings, MixingStage
from transformer.training.choices import Batching
from transformer.training.group import ALONE, Group

_N_SAMPLED = 32  # updates by which the shape of packed micro-batches is chosen


class Order(Protocol):
    """Which sentences make which update: `Epochs` or `Mixture`."""

    @property
    def name(self) -> str:
        """What a part of it is called: epoch or stage."""

    def place(self, part: int, update: int, /) -> tuple[int, int]:
        """Where the update stands that follows the first `update` ones of a part."""

    def sentences(self, part: int, update: int, /) -> Integers:
        """The sentences of an update."""


class Update(NamedTuple):
    """The micro-batches of an update that are this process's, its place, and its tokens."""

    part: int  # epoch or stage
    update: int
    batches: list[AnyBatch]  # equally many for every process
    n_tokens: int  # real target tokens of all processes


class UpdateStream:
    """Makes updates; while one is trained on, a thread prepares the next.

    Padded, in micro-batches of at most `max_tokens`; or packed, all of one `shape`. `pin`: in memory from which a GPU
    fetches them while it computes. Of the micro-batches of an update, each process of `group` takes every `size`-th:
    together they are the update that one process alone would train on.
    """

    def __init__(
        self,
        corpus: ParallelIds,
        order: Order,
        max_tokens: int,
        augmentation: Augmentation | None = None,
        group: Group = ALONE,
        shape: PackedShape | None = None,
        pin: bool = False,
    ) -> None:
        self._corpus, self._order, self._max_tokens, self._augmentation = corpus, order, max_tokens, augmentation
        self._group, self.shape, self._pin = group, shape, pin
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="next update")
        self._next: tuple[tuple[int, int], Future[Update]] | None = None

    @property
    def name(self) -> str:
        """What a part of it is called: epoch or stage."""
        return self._order.name

    def take(self, part: int, update: int) -> Update:
        """The update that follows the first `update` ones of an epoch or stage."""
        wanted = (part, update)
        ahead = self._next
        if ahead is None or ahead[0] != wanted:
            self._forget()
            ahead = (wanted, self._executor.submit(self.make, part, update))
        made = ahead[1].result()
        following = (made.part, made.update + 1)
        self._next = (following, self._executor.submit(self.make, *following))
        return made

    def sentences(self, part: int, update: int) -> list[int]:
        """Which of the prepared pairs an update is made of."""
        place = self._executor.submit(self._order.sentences, part, update)  # by the thread that holds the order
        found: list[int] = place.result().tolist()
        return found

    def close(self) -> None:
        """Leave the next update unmade."""
        self._forget()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _forget(self) -> None:
        if self._next is not None:
            self._next[1].cancel()
            self._next = None

    def make(self, part: int, update: int) -> Update:
        """The same, made here and now; `take` has it done ahead."""
        part, update = self._order.place(part, update)
        corpus, sentences = _contents(self._corpus, self._order, self._augmentation, part, update)
        batches = self._padded(corpus, sentences) if self.shape is None else self._packed(corpus, sentences, self.shape)
        if self._pin:
            batches = [batch.pin() for batch in batches]
        n_tokens = int(corpus.tgt_lengths[sentences].sum(dtype=np.int64)) + len(sentences)
        return Update(part, update, batches, n_tokens)

    def _padded(self, corpus: ParallelIds, sentences: Integers) -> list[AnyBatch]:
        rank, size = self._group.rank, self._group.size
        columns = np.maximum(corpus.src_lengths[sentences], corpus.tgt_lengths[sentences]) + 1
        own = cut_micro_batches(columns, self._max_tokens, multiple_of=size)[rank::size]
        return [
            collate(corpus, sentences[places]) if len(places) else without_targets(collate(corpus, sentences[-1:]))
            for places in own
        ]

    def _packed(self, corpus: ParallelIds, sentences: Integers, shape: PackedShape) -> list[AnyBatch]:
        rank, size = self._group.rank, self._group.size
        packed = pack(corpus, sentences, shape)
        packed += [filler_batch(shape)] * (-len(packed) % size)
        return [*packed[rank::size]]


def _contents(
    corpus: ParallelIds, order: Order, augmentation: Augmentation | None, part: int, update: int
) -> tuple[ParallelIds, Integers]:
    """Which sentences of which corpus an update is made of, with what is changed on the fly."""
    sentences = order.sentences(part, update)
    if augmentation is None:
        return corpus, sentences
    corpus = augmentation.apply(corpus, sentences, part, update)
    return corpus, np.arange(len(corpus))


def open_stream(
    settings: Settings,
    prepared: Prepared,
    max_tokens: int,
    group: Group = ALONE,
    *,
    batching: Batching = "padded",
    pin: bool = False,
) -> UpdateStream:
    """The stream that the settings describe, in micro-batches of `max_tokens`.

    The shape of packed ones follows from the first updates of the run: a run that goes on has the same.

    Raises:
        DataError: data.mixing names corpora that are not there, or does not name one that is.
    """
    order = _order(settings, prepared, max_tokens, by_length=batching == "padded")
    if settings.data.mixing is not None and group.is_first:
        _announce_mixing(settings.data.mixing, prepared)
    augmentation = _augmentation(settings, prepared, max_tokens)
    shape = None
    if batching == "packed":
        longest = min(int(longer_side(prepared.train).max(initial=1)), max_tokens)
        shape = fit_shape(list(_lengths(prepared.train, order, augmentation)), max_tokens, longest, group.size)
    return UpdateStream(prepared.train, order, max_tokens, augmentation, group, shape, pin)


def _lengths(
    corpus: ParallelIds, order: Order, augmentation: Augmentation | None
) -> Iterator[tuple[Integers, Integers]]:
    """Source and target tokens of each sentence of the first updates of a run."""
    part = update = 0
    for _ in range(_N_SAMPLED):
        part, update = order.place(part, update)
        some, sentences = _contents(corpus, order, augmentation, part, update)
        yield some.src_lengths[sentences] + 1, some.tgt_lengths[sentences] + 1
        update += 1


def refuse_impossible_mixing(settings: Settings, prepared: Prepared) -> None:
    """Before there is a run of it. Raises DataError as `open_stream`."""
    if settings.data.mixing is not None:
        budget = settings.train.max_tokens
        _order(settings, prepared, int(longer_side(prepared.train).max(initial=1)) if budget == "auto" else budget)


def _order(settings: Settings, prepared: Prepared, max_tokens: int, *, by_length: bool = True) -> Order:
    """By length, neighbours need little padding; in any order, all updates fill one shape of packed batches equally."""
    sizes = {"batch_tokens": settings.train.batch_tokens, "max_tokens": max_tokens, "seed": settings.seed}
    mixing = settings.data.mixing
    if mixing is None:
        return Epochs(prepared.train, **sizes, by_length=by_length)
    corpora = corpus_ranges(prepared.manifest["counts"]["train"], len(prepared.train))
    return Mixture(prepared.train, corpora, _stages(mixing, corpora), **sizes, by_length=by_length)


def _announce_mixing(mixing: MixingSettings, prepared: Prepared) -> None:
    corpora = corpus_ranges(prepared.manifest["counts"]["train"], len(prepared.train))
    stages = _stages(mixing, corpora)
    for number, stage in enumerate(stages, 1):
        shares = ", ".join(f"{corpus.name} {share:.1%}" for corpus, share in zip(corpora, stage.shares, strict=True))
        until = f"until step {stage.until:,}" if stage.until is not None else "to the end"
        tqdm.write(f"mixing, stage {number} of {len(stages)}, {until}: {shares}", file=sys.stderr)


def _stages(mixing: MixingSettings, corpora: Sequence[CorpusRange]) -> list[Stage]:
    """The shares of each stage; every problem of them in one message."""
    stages, problems = [], []
    for number, stage in enumerate(mixing.stages or [MixingStage()]):
        own = stage if stage.weights is not None or stage.temperature is not None else mixing
        setting = "data.mixing." + (f"stages[{number}].weights" if own is stage else "weights")
        try:
            shares = (
                shares_by_weight(corpora, own.weights, setting)
                if own.weights is not None
                else shares_by_size(corpora, own.temperature or 1.0)
            )
        except DataError as error:
            problems.append(str(error))
        else:
            stages.append(Stage(shares, stage.until))
    if problems:
        raise DataError("\n".join(dict.fromkeys(problems)))
    return stages


def _augmentation(settings: Settings, prepared: Prepared, max_tokens: int) -> Augmentation | None:
    """None where nothing is to be changed: then nothing is decoded either."""
    wanted = settings.train.augmentation
    if wanted is None or wanted == AugmentationSettings():
        return None
    longest = int(longer_side(prepared.train).max(initial=1))
    return Augmentation(
        Side(prepared.src_vocabulary, _sampling(wanted.src)),
        Side(prepared.tgt_vocabulary, _sampling(wanted.tgt)),
        Rates(**wanted.model_dump(exclude={"src", "tgt"})),
        max_tokens=min(longest, max_tokens),  # no pair outgrows the longest: the budget is memory only
        seed=settings.seed,
    )


def _sampling(side: SubwordSampling) -> float | None:
    return side.bpe_dropout or side.unigram_alpha
