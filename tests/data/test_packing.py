"""Packed batches: every pair once and in order, constant shapes, offsets that say where sentences are, idle filler."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data.batches import EpochPlan
from data.errors import DataError
from data.packing import PackedBatch, PackedShape, cut_packs, filler_batch, fit_shape, pack
from data.prepared import IdSequences, ParallelIds
from data.vocabulary import BOS_ID, EOS_ID, PAD_ID

LONGEST = 9  # tokens, eos included
Pairs = list[tuple[list[int], list[int]]]

sentences = st.lists(st.integers(4, 99), max_size=LONGEST - 1)
corpora = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=40)
shapes = st.builds(
    PackedShape, st.integers(LONGEST, 60), st.integers(LONGEST, 60), st.integers(1, 30), st.just(LONGEST)
)


def corpus_of(pairs: Pairs) -> ParallelIds:
    return ParallelIds(*(sequences([pair[side] for pair in pairs]) for side in (0, 1)))


def sequences(rows: Sequence[Sequence[int]]) -> IdSequences:
    ids = np.array([i for row in rows for i in row], dtype=np.uint16)
    return IdSequences(ids, np.cumsum([0, *map(len, rows)]))


def rows_of(tokens: torch.Tensor, offsets: torch.Tensor) -> list[list[int]]:
    bounds = offsets.tolist()
    return [tokens[first:last].tolist() for first, last in pairwise(bounds)]


@settings(deadline=None)
@given(pairs=corpora, shape=shapes, seed=st.integers(0, 9))
def test_every_pair_is_there_once_and_in_order(pairs: Pairs, shape: PackedShape, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(pairs))
    batches = pack(corpus_of(pairs), order, shape)
    found: list[tuple[list[int], list[int], list[int]]] = []
    for batch in batches:
        sides = zip(
            rows_of(batch.src, batch.src_offsets),
            rows_of(batch.tgt_in, batch.tgt_offsets),
            rows_of(batch.tgt_out, batch.tgt_offsets),
            strict=True,
        )
        found += list(sides)[: batch.n_pairs]
    expected = [pairs[i] for i in order]
    assert found == [([*src, EOS_ID], [BOS_ID, *tgt], [*tgt, EOS_ID]) for src, tgt in expected]


@settings(deadline=None)
@given(pairs=corpora, shape=shapes)
def test_all_tensors_have_the_shape_of_the_run_and_nothing_is_longer_than_the_longest(
    pairs: Pairs, shape: PackedShape
) -> None:
    for batch in [*pack(corpus_of(pairs), np.arange(len(pairs)), shape), filler_batch(shape)]:
        for side, n in (("src", shape.n_src), ("tgt", shape.n_tgt)):
            offsets = getattr(batch, f"{side}_offsets")
            assert (offsets.dtype, offsets.shape) == (torch.int32, (shape.n_rooms + 1,))
            assert (int(offsets[0]), int(offsets[-1])) == (0, n)
            lengths = offsets.diff()
            assert 0 <= int(lengths.min()) <= int(lengths.max()) <= shape.longest == batch.longest
            expected = [i for length in lengths.tolist() for i in range(length)]
            assert getattr(batch, f"{side}_positions").tolist() == expected
        assert (len(batch.src), len(batch.tgt_in), len(batch.tgt_out)) == (shape.n_src, shape.n_tgt, shape.n_tgt)
        assert {batch.src.dtype, batch.tgt_in.dtype, batch.tgt_out.dtype} == {torch.int64}


@settings(deadline=None)
@given(pairs=corpora, shape=shapes)
def test_filler_is_padding_behind_all_that_is_real_and_is_not_counted(pairs: Pairs, shape: PackedShape) -> None:
    batches = pack(corpus_of(pairs), np.arange(len(pairs)), shape)
    assert sum(batch.n_pairs for batch in batches) == len(pairs)
    assert sum(batch.n_src_tokens for batch in batches) == sum(len(src) + 1 for src, _ in pairs)
    assert sum(batch.n_tokens for batch in batches) == sum(len(tgt) + 1 for _, tgt in pairs)
    for batch in batches:
        for tokens, n_real in ((batch.src, batch.n_src_tokens), (batch.tgt_in, batch.n_tokens)):
            assert bool((tokens[:n_real] != PAD_ID).all())
            assert bool((tokens[n_real:] == PAD_ID).all())
        assert int((batch.tgt_out != PAD_ID).sum()) == batch.n_tokens
        assert batch.n_padded == shape.n_src + shape.n_tgt


@settings(deadline=None)
@given(pairs=corpora, shape=shapes)
def test_a_micro_batch_ends_only_where_the_next_pair_finds_no_room(pairs: Pairs, shape: PackedShape) -> None:
    src, tgt = (np.array([len(pair[side]) + 1 for pair in pairs]) for side in (0, 1))
    parts = cut_packs(src, tgt, shape)
    for part, following in pairwise(parts):
        one_more = slice(part.start, following.start + 1)
        too_long = src[one_more].sum() > shape.n_src or tgt[one_more].sum() > shape.n_tgt
        assert too_long or following.start - part.start == shape.n_pairs


def test_packing_is_a_function_of_its_arguments() -> None:
    random = np.random.default_rng(3)
    pairs = [([5] * random.integers(0, 8), [6] * random.integers(0, 8)) for _ in range(30)]
    corpus, shape = corpus_of(pairs), PackedShape(40, 36, 8, LONGEST)
    first, second = (pack(corpus, np.arange(30), shape) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(tensors(one), tensors(other), strict=True))


def tensors(batch: PackedBatch) -> list[torch.Tensor]:
    return [value for value in vars(batch).values() if isinstance(value, torch.Tensor)]


def test_a_pair_that_is_too_long_is_refused_with_its_length() -> None:
    corpus = corpus_of([([4], [4]), ([4] * 9, [4] * 3)])
    with pytest.raises(DataError, match=r"a pair of 10 source and 4 target tokens does not fit .* has 9"):
        pack(corpus, np.arange(2), PackedShape(20, 20, 4, LONGEST))


@pytest.mark.parametrize("sizes", [(8, 20, 4), (20, 8, 4), (20, 20, 0)])
def test_a_shape_has_room_for_the_longest_pair(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="no room"):
        PackedShape(*sizes, longest=LONGEST)


def test_updates_of_any_lengths_leave_little_to_fill() -> None:
    """Lengths as in news: of about one length, one in seven tokens would be filler."""
    random = np.random.default_rng(4)
    src = np.clip(random.lognormal(3.2, 0.5, 40_000), 1, 200).astype(np.int64)
    tgt = np.clip(src * random.lognormal(0.0, 0.2, len(src)), 1, 200).astype(np.int64)
    corpus = ParallelIds(*(IdSequences(np.zeros(side.sum(), np.uint16), np.cumsum([0, *side])) for side in (src, tgt)))
    shares = []
    for by_length in (True, False):
        plan = EpochPlan(corpus, batch_tokens=25_000, max_tokens=30_000, seed=1, epoch=0, by_length=by_length)
        updates = [plan.sentences(update) for update in range(len(plan))]
        assert sorted(np.concatenate(updates).tolist()) == list(range(len(src)))
        sizes = [(src[update] + 1, tgt[update] + 1) for update in updates]
        shape = fit_shape(sizes[:32], 30_000, 201)
        n_real = sum(int(side.sum()) for update in sizes for side in update)
        shares.append(
            1 - n_real / (sum(len(cut_packs(*update, shape)) for update in sizes) * (shape.n_src + shape.n_tgt))
        )
    by_length, any_length = shares
    assert any_length < 0.04 < 0.08 < by_length


@pytest.mark.parametrize(("max_tokens", "n_processes"), [(30_000, 1), (9_000, 1), (9_000, 4), (1_000, 2)])
def test_the_shape_of_a_run_keeps_to_the_budget_and_leaves_little_filler(max_tokens: int, n_processes: int) -> None:
    """Updates of about 25,000 target tokens, of sentences of one length to 100; 9,000 is no divisor of that."""
    random = np.random.default_rng(1)
    updates = []
    for length in random.integers(5, 100, size=32):
        tgt = np.full(25_000 // length, length)
        updates.append((np.clip(tgt + random.integers(-3, 4, len(tgt)), 1, 100), tgt))
    shape = fit_shape(updates, max_tokens, longest=100, n_processes=n_processes)
    assert max(shape.n_src, shape.n_tgt) <= max_tokens
    n_batches = sum(-(-len(cut_packs(*update, shape)) // n_processes) * n_processes for update in updates)
    real = sum(int(src.sum() + tgt.sum()) for src, tgt in updates)
    filler = 1 - real / (n_batches * (shape.n_src + shape.n_tgt))
    assert filler < 0.07
