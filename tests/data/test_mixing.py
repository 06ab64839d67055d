"""Mixing: shares are kept over time, nothing is used oftener than its neighbour, the place is all there is to know."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.batches import EpochPlan, Integers
from data.errors import DataError
from data.mixing import (
    CorpusRange,
    Mixture,
    Stage,
    apportion,
    corpus_ranges,
    shares_by_size,
    shares_by_weight,
)
from data.prepared import IdSequences, ParallelIds


def pairs_of_lengths(src: Integers, tgt: Integers) -> ParallelIds:
    sides = [
        IdSequences(np.full(int(lengths.sum()), 7, np.uint16), np.cumsum([0, *lengths], dtype=np.int64))
        for lengths in (src, tgt)
    ]
    return ParallelIds(*sides)


def captions(n: int) -> ParallelIds:
    random = np.random.default_rng(1)
    src = np.maximum(random.normal(13, 4, n), 1).astype(int)
    return pairs_of_lengths(src, np.maximum(src + random.normal(0, 2, n), 1).astype(int))


def ranges(*sizes: int) -> list[CorpusRange]:
    ends = np.cumsum([0, *sizes]).tolist()
    return [CorpusRange(name, a, b) for name, (a, b) in zip("abcdefgh", pairwise(ends), strict=False)]


def mixture(
    sizes: tuple[int, ...], stages: list[Stage], batch_tokens: int = 300, max_tokens: int = 1000, seed: int = 1
) -> Mixture:
    corpus = captions(sum(sizes))
    return Mixture(corpus, ranges(*sizes), stages, batch_tokens=batch_tokens, max_tokens=max_tokens, seed=seed)


def updates(order: Mixture, n: int, stage: int = 0, update: int = 0) -> Iterator[list[int]]:
    for _ in range(n):
        stage, update = order.place(stage, update)
        yield order.sentences(stage, update).tolist()
        update += 1


SHARES = st.lists(st.integers(0, 1000), min_size=1, max_size=8).filter(any)


@given(SHARES, st.integers(0, 5000), st.integers(0, 300))
def test_portions_are_rounded_shares_that_are_never_taken_back(weights: list[int], n: int, more: int) -> None:
    shares = np.array(weights) / sum(weights)
    counts, later = apportion(shares, n), apportion(shares, n + more)
    assert (counts.sum(), later.sum()) == (n, n + more)
    assert (later >= counts).all()
    assert (np.abs(counts - shares * n) <= 0.5 + shares * len(weights) / 2 + 1e-6).all()
    assert not counts[shares == 0].any()


@given(SHARES, st.integers(0, 300))
def test_portions_are_those_given_one_pair_at_a_time(weights: list[int], n: int) -> None:
    """Sainte-Laguë: the next pair is of the corpus with the largest weight / (2 · given + 1)."""
    given_so_far = [0] * len(weights)
    for _ in range(n):
        quotients = [weight / (2 * there + 1) for weight, there in zip(weights, given_so_far, strict=True)]
        given_so_far[quotients.index(max(quotients))] += 1
    found = apportion(np.array(weights) / sum(weights), n).tolist()
    one, other = (
        sorted(weight / (2 * k + 1) for weight, count in zip(weights, counts, strict=True) for k in range(count))
        for counts in (found, given_so_far)
    )
    assert one == pytest.approx(other)  # the same but for the order of ties


STAGES = [Stage((0.5, 0.3, 0.2), 100), Stage((0.1, 0.9, 0.0), 203), Stage((0.0, 0.0, 1.0))]


def test_over_time_each_corpus_has_its_share() -> None:
    sizes = (3000, 500, 40)
    order = mixture(sizes, STAGES)
    everything = list(updates(order, 1000))
    for stage, part in zip(STAGES, (everything[:100], everything[100:203], everything[203:]), strict=True):
        used = [i for sentences in part for i in sentences]
        counts = np.histogram(used, bins=np.cumsum([0, *sizes]))[0]
        assert np.abs(counts / len(used) - stage.shares).max() < 2 / len(used)


def test_at_the_end_of_a_stage_no_pair_of_a_corpus_has_come_more_than_once_oftener_than_another() -> None:
    """Also over the border of stages that end within a round: what the first stage left over the second begins with."""
    sizes = (3000, 500, 40)
    for steps in (100, 203):
        order = mixture(sizes, STAGES)
        times = Counter(i for sentences in updates(order, steps) for i in sentences)
        for corpus in ranges(*sizes):
            counts = {times[i] for i in range(corpus.first, corpus.end)}
            assert max(counts) - min(counts) <= 1


def test_a_small_corpus_is_used_often_and_in_another_order_each_time() -> None:
    order = mixture((2000, 30), [Stage((0.5, 0.5))], batch_tokens=100)
    small = [i for sentences in updates(order, 400) for i in sentences if i >= 2000]
    passes = len(small) / 30
    assert passes > 20
    assert set(Counter(small).values()) <= {int(passes) - 1, int(passes), int(passes) + 1, int(passes) + 2}
    assert len({tuple(small[i : i + 30]) for i in range(0, 600, 30)}) == 20


def test_the_order_is_a_function_of_seed_and_place() -> None:
    sizes = (3000, 500, 40)
    whole = list(updates(mixture(sizes, STAGES), 300))
    for begin, place in ((0, (0, 0)), (99, (0, 99)), (100, (0, 100)), (100, (1, 0)), (203, (1, 103)), (250, (2, 47))):
        np.random.seed(begin)  # no other source of chance has a part in it
        assert list(updates(mixture(sizes, STAGES), 20, *place)) == whole[begin : begin + 20]
    held = mixture(sizes, STAGES)
    for step in (250, 3, 150, 99):
        stage, first = max((i, first) for i, first in enumerate((0, 100, 203)) if first <= step)
        assert held.sentences(stage, step - first).tolist() == whole[step]
    assert list(updates(mixture(sizes, STAGES, seed=2), 300)) != whole
    assert len({tuple(sorted(sentences)) for sentences in whole[:203]}) == 203


def test_memory_has_no_part_in_which_sentences_make_an_update() -> None:
    one, other = (mixture((800, 100), [Stage((0.5, 0.5))], max_tokens=m) for m in (100, 10_000))
    assert list(updates(one, 50)) == list(updates(other, 50))


def test_stages_follow_each_other_at_their_steps() -> None:
    order, place, places = mixture((300, 100, 50), STAGES), (0, 0), []
    for _ in range(300):
        stage, update = order.place(*place)
        places.append((stage, update))
        place = stage, update + 1
    assert places == [(0, i) for i in range(100)] + [(1, i) for i in range(103)] + [(2, i) for i in range(97)]


def test_pairs_over_the_budget_never_come() -> None:
    corpus = captions(1000)
    fits = np.maximum(corpus.src_lengths, corpus.tgt_lengths) + 1 <= 12
    order = Mixture(corpus, ranges(600, 400), [Stage((0.3, 0.7))], batch_tokens=200, max_tokens=12, seed=1)
    used = {i for sentences in updates(order, 300) for i in sentences}
    assert used == set(np.flatnonzero(fits).tolist())


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    weights=st.lists(st.integers(1, 50), min_size=4, max_size=4),
    untils=st.lists(st.integers(1, 80), max_size=3, unique=True),
    batch_tokens=st.integers(1, 400),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_update_is_empty_whatever_the_sizes(
    sizes: list[int], weights: list[int], untils: list[int], batch_tokens: int, seed: int
) -> None:
    shares = np.array(weights[: len(sizes)]) / sum(weights[: len(sizes)])
    stages = [Stage(tuple(np.roll(shares, i)), until) for i, until in enumerate([*sorted(untils), None])]
    order = mixture(tuple(sizes), stages, batch_tokens=batch_tokens, seed=seed)
    for sentences in updates(order, 100):
        assert sentences
        assert 0 <= min(sentences) <= max(sentences) < sum(sizes)


def test_updates_are_of_about_the_size_asked_for_and_of_little_padding() -> None:
    sizes = (6000, 3000)
    corpus = captions(sum(sizes))
    order = mixture(sizes, [Stage((0.5, 0.5))])
    n_tokens = [int((corpus.tgt_lengths[sentences] + 1).sum()) for sentences in updates(order, 500)]
    assert np.mean(n_tokens) == pytest.approx(300, rel=0.02)
    assert max(n_tokens) < 300 * 1.05 + corpus.tgt_lengths.max() + 1

    def padding(batches: list[list[int]]) -> float:
        lengths = [corpus.tgt_lengths[sentences] + 1 for sentences in batches]
        return 1 - sum(int(each.sum()) for each in lengths) / sum(len(each) * int(each.max()) for each in lengths)

    plan = EpochPlan(corpus, batch_tokens=300, max_tokens=1000, seed=1, epoch=0)
    epoch = [plan.sentences(update).tolist() for update in range(len(plan))]
    assert padding(list(updates(order, 500))) < padding(epoch) + 0.03


def test_a_pair_seldom_meets_itself_in_an_update_where_that_can_be_helped() -> None:
    """A round is no longer than a pass of any corpus, so that it holds parts of two passes at most."""
    pairs = list(updates(mixture((5000, 600), [Stage((0.5, 0.5))]), 500))
    assert max(max(Counter(sentences).values()) for sentences in pairs) <= 2
    assert sum(len(sentences) - len(set(sentences)) for sentences in pairs) < 0.02 * sum(map(len, pairs))


def test_memory_is_at_most_16_bytes_a_pair() -> None:
    """Lengths included, which are 8 of them."""
    n = 400_000
    corpus = captions(n)
    tracemalloc.start()
    order = Mixture(corpus, ranges(n // 2, n // 2), [Stage((0.9, 0.1))], batch_tokens=500, max_tokens=1000, seed=1)
    for _ in updates(order, 300):
        pass
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held / n <= 16


def test_weights_are_shares_once_divided_by_their_sum() -> None:
    assert shares_by_weight(ranges(10, 90, 5), {"b": 3, "a": 1, "c": 0}, "w") == (0.25, 0.75, 0)


@pytest.mark.parametrize("temperature", [1.0, 1.5, 5.0, 1000.0])
def test_shares_by_temperature_are_powers_of_the_sizes(temperature: float) -> None:
    sizes = [10, 90, 100_000]
    powers = [size ** (1 / temperature) for size in sizes]
    assert shares_by_size(ranges(*sizes), temperature) == pytest.approx([power / sum(powers) for power in powers])
    assert shares_by_size(ranges(0, 5), temperature) == (0, 1)


def test_every_fault_of_the_weights_is_named_at_once() -> None:
    with pytest.raises(DataError) as refusal:
        shares_by_weight([*ranges(10, 20), CorpusRange("empty", 30, 30)], {"a": 1, "x": 2, "empty": 1}, "data.mixing.w")
    unknown, missing, empty = str(refusal.value).splitlines()
    assert unknown == "data.mixing.w: x: no training corpus has this name; they are a, b, empty"
    assert "b has no weight" in missing
    assert "empty: 1: no pair of this corpus" in empty
    with pytest.raises(DataError, match="every weight is 0"):
        shares_by_weight(ranges(1, 1), {"a": 0, "b": 0}, "w")


def test_a_corpus_that_cannot_have_its_share_is_named() -> None:
    with pytest.raises(DataError, match=r"each of the 20 pairs of corpus b is longer than train\.max_tokens=1"):
        mixture((10, 20), [Stage((0, 1.0))], max_tokens=1)


def test_the_manifest_says_where_each_corpus_lies() -> None:
    found = corpus_ranges([{"name": "a", "kept": 3}, {"name": "b", "kept": 0}, {"name": "c", "kept": 2}], 5)
    assert found == [CorpusRange("a", 0, 3), CorpusRange("b", 3, 3), CorpusRange("c", 3, 5)]
    for counts, n in (([{"kept": 3}], 3), ([{"name": "a", "kept": 3}], 4), ([], 4)):
        with pytest.raises(DataError, match=r"run preprocess\.py again"):
            corpus_ranges(counts, n)
    with pytest.raises(DataError, match="more than one is called a"):
        corpus_ranges([{"name": "a", "kept": 3}, {"name": "a", "kept": 2}], 5)
