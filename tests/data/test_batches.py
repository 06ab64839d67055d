"""Batching: every sentence once, never more than the budget, the same for the same seed and epoch, little padding."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data.batches import (
    Batch,
    EpochPlan,
    Epochs,
    collate,
    cut_evenly,
    cut_micro_batches,
    halve,
    over_budget,
    without_targets,
)
from data.lines import read_lines
from data.prepared import IdSequences, ParallelIds
from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, Vocabulary

Sentence = list[int]


def sequences(sentences: list[Sentence]) -> IdSequences:
    ids = [i for sentence in sentences for i in sentence]
    offsets = np.cumsum([0, *map(len, sentences)])
    return IdSequences(np.array(ids, np.uint16), offsets.astype(np.int64))


def corpus_of(pairs: list[tuple[Sentence, Sentence]]) -> ParallelIds:
    return ParallelIds(sequences([src for src, _ in pairs]), sequences([tgt for _, tgt in pairs]))


def corpus_of_lengths(lengths: list[tuple[int, int]]) -> ParallelIds:
    return corpus_of([([5] * src, [6] * tgt) for src, tgt in lengths])


def corpus_like_captions(n: int = 3000) -> ParallelIds:
    """Lengths like those of captions: 13 ± 4 pieces, a translation about as long as its source."""
    random = np.random.default_rng(1)
    src = np.maximum(random.normal(13, 4, n), 1)
    tgt = np.maximum(src + random.normal(0, 2, n), 1)
    return corpus_of_lengths(list(zip(src.astype(int), tgt.astype(int), strict=True)))


def all_sentences(plan: EpochPlan) -> list[int]:
    return [int(i) for update in range(len(plan)) for part in plan.micro_batches(update) for i in part]


def padding_share(corpus: ParallelIds, plan: EpochPlan) -> float:
    batches = [collate(corpus, part) for update in range(len(plan)) for part in plan.micro_batches(update)]
    n_real = sum(batch.n_src_tokens + batch.n_tokens for batch in batches)
    return 1 - n_real / sum(batch.src.numel() + batch.tgt_out.numel() for batch in batches)


LENGTHS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60)
PLANS = {
    "lengths": LENGTHS,
    "batch_tokens": st.integers(1, 200),
    "max_tokens": st.integers(1, 80),
    "seed": st.integers(0, 2**32 - 1),
    "epoch": st.integers(0, 1000),
}


@settings(deadline=None)
@given(**PLANS)
def test_each_sentence_that_fits_comes_exactly_once_and_the_others_are_known(
    lengths: list[tuple[int, int]], batch_tokens: int, max_tokens: int, seed: int, epoch: int
) -> None:
    corpus = corpus_of_lengths(lengths)
    left_out = [i for i, (src, tgt) in enumerate(lengths) if max(src + 1, tgt + 1) > max_tokens]  # + 1: eos
    assert over_budget(corpus, max_tokens).tolist() == left_out
    plan = EpochPlan(corpus, batch_tokens=batch_tokens, max_tokens=max_tokens, seed=seed, epoch=epoch)
    assert sorted(all_sentences(plan) + left_out) == list(range(len(lengths)))


@settings(deadline=None)
@given(**PLANS)
def test_no_micro_batch_exceeds_the_budget_with_its_padding_and_none_is_split_without_need(
    lengths: list[tuple[int, int]], batch_tokens: int, max_tokens: int, seed: int, epoch: int
) -> None:
    corpus = corpus_of_lengths(lengths)
    plan = EpochPlan(corpus, batch_tokens=batch_tokens, max_tokens=max_tokens, seed=seed, epoch=epoch)
    for update in range(len(plan)):
        parts = plan.micro_batches(update)
        for part in parts:
            batch = collate(corpus, part)
            assert 0 < max(batch.src.numel(), batch.tgt_out.numel()) <= max_tokens
        longest = [max(max(lengths[i]) + 1 for i in part) for part in parts]
        assert longest == sorted(longest, reverse=True)
        whole = np.concatenate(parts)
        for n in range(1, len(parts)):  # fewer parts of equal size would not do
            fewer = np.array_split(whole, n)
            assert any(len(part) * max(max(lengths[i]) + 1 for i in part) > max_tokens for part in fewer)


@settings(deadline=None)
@given(**PLANS)
def test_updates_have_nearly_equal_numbers_of_target_tokens(
    lengths: list[tuple[int, int]], batch_tokens: int, max_tokens: int, seed: int, epoch: int
) -> None:
    corpus = corpus_of_lengths(lengths)
    plan = EpochPlan(corpus, batch_tokens=batch_tokens, max_tokens=max_tokens, seed=seed, epoch=epoch)
    sizes = [sum(lengths[i][1] + 1 for part in plan.micro_batches(u) for i in part) for u in range(len(plan))]
    if sizes:
        share = sum(sizes) / min(-(-sum(sizes) // batch_tokens), len(all_sentences(plan)))
        longest = max(lengths[i][1] + 1 for i in all_sentences(plan))
        assert share <= batch_tokens or share <= longest
        assert max(sizes) < share + longest
        assert len(sizes) == 1 or min(sizes) > share - longest


def test_an_epoch_has_as_many_updates_as_its_tokens_need() -> None:
    corpus = corpus_like_captions()
    n_tokens = int(corpus.tgt_lengths.sum()) + len(corpus)
    assert len(EpochPlan(corpus, batch_tokens=1000, max_tokens=500, seed=1, epoch=0)) == -(-n_tokens // 1000)


def test_the_plan_is_a_function_of_seed_and_epoch_and_both_matter() -> None:
    corpus = corpus_like_captions(300)

    def order(seed: int, epoch: int) -> list[int]:
        return all_sentences(EpochPlan(corpus, batch_tokens=400, max_tokens=300, seed=seed, epoch=epoch))

    places = [(1, 2), (2, 1), (1, 1), (1, 3), (12, 0), (1, 20)]
    orders = {place: order(*place) for place in places}
    np.random.seed(99)  # no other source of chance has a part in it
    torch.manual_seed(99)
    assert all(order(*place) == orders[place] for place in reversed(places))
    assert all(orders[one] != orders[other] for one in places for other in places if one < other)


def test_neither_the_updates_nor_what_is_in_them_comes_again_in_the_next_epoch() -> None:
    corpus = corpus_of_lengths([(4, 4)] * 100 + [(9, 9)] * 100)
    one, other = (EpochPlan(corpus, batch_tokens=100, max_tokens=100, seed=1, epoch=epoch) for epoch in (0, 1))

    def contents(plan: EpochPlan) -> list[set[int]]:
        return [{int(i) for part in plan.micro_batches(u) for i in part} for u in range(len(plan))]

    assert not any(update in contents(other) for update in contents(one))
    lengths = [[int(plan.longer[next(iter(update))]) for update in contents(plan)] for plan in (one, other)]
    assert lengths[0] != lengths[1] != sorted(lengths[1])  # short and long updates alternate by chance


def test_updates_are_cut_before_micro_batches() -> None:
    """Less memory means smaller micro-batches, not other updates."""
    corpus = corpus_like_captions(300)
    large, small = (EpochPlan(corpus, batch_tokens=400, max_tokens=m, seed=1, epoch=5) for m in (1000, 60))
    assert len(large) == len(small)
    for update in range(len(large)):
        assert len(small.micro_batches(update)) > len(large.micro_batches(update))
        one, other = (np.sort(np.concatenate(plan.micro_batches(update))) for plan in (large, small))
        assert one.tolist() == other.tolist()


def test_neighbours_in_length_are_together() -> None:
    """From one target length to the next the source length stays where it is: little padding on either side."""
    corpus = corpus_like_captions()
    plan = EpochPlan(corpus, batch_tokens=1000, max_tokens=1000, seed=1, epoch=0)
    lengths = list(zip(corpus.tgt_lengths[plan.order], corpus.src_lengths[plan.order], strict=True))
    for (tgt, src), (next_tgt, next_src) in pairwise(lengths):
        assert tgt <= next_tgt
        if tgt == next_tgt:
            assert (src <= next_src) if tgt % 2 == 0 else (src >= next_src)
    assert padding_share(corpus, plan) < 0.08


def test_padding_is_under_8_percent_on_multi30k(corpora: Path) -> None:
    """1 − real / padded, both sides together, with the batch sizes of configs/multi30k.yaml."""
    src, tgt = (list(read_lines(corpora / "multi30k" / f"train.{language}.gz")) for language in ("en", "de"))
    vocabulary = Vocabulary.learn([*src[::10], *tgt[::10]], size=4000)
    corpus = ParallelIds(sequences(vocabulary.encode(src)), sequences(vocabulary.encode(tgt)))
    plan = EpochPlan(corpus, batch_tokens=4096, max_tokens=4096, seed=1, epoch=0)
    share = padding_share(corpus, plan)
    print(f"padding on Multi30k: {share:.2%}")
    assert share < 0.08


def test_case_f3_a_pair_over_the_budget_is_known_and_the_others_stay() -> None:
    corpus = corpus_of_lengths([(8, 9)] * 500 + [(201, 9)] + [(8, 9)] * 499)
    assert over_budget(corpus, 200).tolist() == [500]
    plan = EpochPlan(corpus, batch_tokens=1000, max_tokens=200, seed=1, epoch=0)
    assert sorted(all_sentences(plan)) == [*range(500), *range(501, 1000)]


@pytest.mark.parametrize("lengths", [[], [(9, 9)]])
def test_where_nothing_fits_there_are_no_updates(lengths: list[tuple[int, int]]) -> None:
    assert len(EpochPlan(corpus_of_lengths(lengths), batch_tokens=10, max_tokens=9, seed=1, epoch=0)) == 0


def test_epochs_follow_each_other_and_any_place_can_be_asked_for() -> None:
    corpus = corpus_like_captions(300)
    sizes = {"batch_tokens": 400, "max_tokens": 300, "seed": 3}
    epochs, place = Epochs(corpus, **sizes), (0, 0)
    for epoch in range(3):
        plan = EpochPlan(corpus, epoch=epoch, **sizes)
        for update in range(len(plan)):
            place = epochs.place(*place)
            assert place == (epoch, update)
            expected = np.sort(np.concatenate(plan.micro_batches(update))).tolist()
            assert sorted(epochs.sentences(*place).tolist()) == expected
            assert sorted(Epochs(corpus, **sizes).sentences(*place).tolist()) == expected
            place = epoch, update + 1


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.data())
def test_a_fixed_number_of_updates_is_cut_evenly_and_none_is_empty(lengths: list[int], data: st.DataObject) -> None:
    n_updates = data.draw(st.integers(1, len(lengths)))
    bounds = cut_evenly(np.cumsum(lengths), n_updates)
    assert (bounds[0], bounds[-1], len(bounds)) == (0, len(lengths), n_updates + 1)
    assert (np.diff(bounds) > 0).all()
    share = sum(lengths) / n_updates
    if max(lengths) <= share:  # else one of them has no room in an update
        sizes = [sum(lengths[a:b]) for a, b in pairwise(bounds)]
        assert share - max(lengths) <= min(sizes) <= max(sizes) <= share + max(lengths)


# --- one batch ---


def test_the_decoder_reads_the_target_shifted_right() -> None:
    """§3.1: to learn [a, b, eos] it reads [bos, a, b]."""
    a, b = 7, 8
    batch = collate(corpus_of([([5], [a, b])]), np.array([0]))
    assert batch.tgt_out.tolist() == [[a, b, EOS_ID]]
    assert batch.tgt_in.tolist() == [[BOS_ID, a, b]]
    assert batch.src.tolist() == [[5, EOS_ID]]


SENTENCES = st.lists(st.integers(4, 65_535), max_size=7)


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=6), data=st.data())
def test_a_batch_is_its_sentences_padded(pairs: list[tuple[Sentence, Sentence]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, unique=True))
    batch = collate(corpus_of(pairs), np.array(chosen))

    def padded(rows: list[Sentence]) -> list[Sentence]:
        return [row + [PAD_ID] * (max(map(len, rows)) - len(row)) for row in rows]

    src = [[*pairs[i][0], EOS_ID] for i in chosen]
    tgt_in, tgt_out = [[BOS_ID, *pairs[i][1]] for i in chosen], [[*pairs[i][1], EOS_ID] for i in chosen]
    assert batch.src.tolist() == padded(src)
    assert batch.tgt_in.tolist() == padded(tgt_in)
    assert batch.tgt_out.tolist() == padded(tgt_out)
    assert batch.tgt_out.flatten()[batch.targets].tolist() == [i for row in tgt_out for i in row]
    assert (batch.n_src_tokens, batch.n_tokens) == (sum(map(len, src)), sum(map(len, tgt_out)))
    assert {tensor.dtype for tensor in (batch.src, batch.tgt_in, batch.tgt_out, batch.targets)} == {torch.int64}
    n_padded = batch.src.numel() + batch.tgt_out.numel()
    assert batch.padding_share == pytest.approx(1 - sum(map(len, src + tgt_out)) / n_padded)


def test_the_largest_id_of_two_bytes_survives() -> None:
    batch = collate(corpus_of([([65_535], [65_534])]), np.array([0]))
    assert (batch.src[0, 0].item(), batch.tgt_out[0, 0].item()) == (65_535, 65_534)


@pytest.mark.gpu
def test_a_batch_moves_to_the_device_whole() -> None:
    batch = collate(corpus_of([([5], [7, 8])]), np.array([0]))
    moved: Batch = batch.to(torch.device("cuda"))
    for name in ("src", "tgt_in", "tgt_out", "targets"):
        assert getattr(moved, name).is_cuda
        assert torch.equal(getattr(moved, name).cpu(), getattr(batch, name))


@given(
    longer=st.lists(st.integers(1, 40), min_size=1, max_size=60), budget=st.integers(40, 300), size=st.integers(1, 9)
)
def test_processes_get_equally_many_micro_batches_within_the_budget(longer: list[int], budget: int, size: int) -> None:
    columns = np.array(longer)
    parts = cut_micro_batches(columns, budget, multiple_of=size)
    assert len(parts) % size == 0
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(longer)))
    assert all(len(part) * columns[part].max() <= budget for part in parts if len(part))
    if len(parts) > size:  # the fewest: with a round less, some would exceed it
        fewer = np.array_split(np.argsort(-columns, kind="stable"), len(parts) - size)
        assert any(len(part) * columns[part].max() > budget for part in fewer if len(part))


@given(lengths=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=9))
def test_two_halves_are_the_batch(lengths: list[tuple[int, int]]) -> None:
    corpus = corpus_of_lengths(lengths)
    batch = collate(corpus, np.arange(len(lengths)))
    halves = halve(batch)
    assert sum(half.n_tokens for half in halves) == batch.n_tokens
    assert sum(half.n_src_tokens for half in halves) == batch.n_src_tokens
    for name in ("src", "tgt_in", "tgt_out"):
        assert torch.equal(torch.cat([getattr(half, name) for half in halves]), getattr(batch, name))
    learnt = torch.cat([half.tgt_out.flatten()[half.targets] for half in halves])
    assert torch.equal(learnt, batch.tgt_out.flatten()[batch.targets])


def test_a_batch_without_targets_has_its_rows_and_nothing_to_learn() -> None:
    batch = collate(corpus_of_lengths([(3, 4), (2, 5)]), np.arange(2))
    idle = without_targets(batch)
    assert torch.equal(idle.src, batch.src) and torch.equal(idle.tgt_in, batch.tgt_in)
    assert (len(idle.targets), idle.n_tokens, idle.n_src_tokens) == (0, 0, 0)
