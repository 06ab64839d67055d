from __future__ import annotations

import io
import json
import random
import time
from collections import Counter
from itertools import chain, pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from data.statistics import HISTOGRAM_EDGES, JOINT_EDGES, Statistics, count_words, length_edges
from data.vocabulary import Vocabulary

N_SPECIAL, FIRST = 4, 260
Batch = tuple[list[str], list[str], list[list[int]], list[list[int]]]


def statistics(batch: Batch, byte_fallback: bool = True) -> Statistics:
    src, tgt, src_ids, tgt_ids = batch
    flat = [np.array([*chain.from_iterable(ids)], np.uint16) for ids in (src_ids, tgt_ids)]
    lengths = [np.array([len(one) for one in ids], np.int64) for ids in (src_ids, tgt_ids)]
    return Statistics.of(src, tgt, flat[0], lengths[0], flat[1], lengths[1], N_SPECIAL, byte_fallback)


def draw_batch(n: int, seed: int = 1, longest: int = 30) -> Batch:
    draw = random.Random(seed)

    def ids() -> list[int]:
        return [draw.choice((1, 5, 200, 300, 301, 302, 400)) for _ in range(draw.randint(0, longest))]

    text = [" ".join("w" * draw.randint(1, 3) for _ in range(draw.randint(0, 9))) for _ in range(2 * n)]
    return text[:n], text[n:], [ids() for _ in range(n)], [ids() for _ in range(n)]


def as_plain(value: Statistics) -> Any:
    return {name: array.tolist() for name, array in value.to_arrays().items()}


def test_counts_are_those_of_a_walk_over_every_sentence() -> None:
    batch = draw_batch(200)
    found = statistics(batch)
    for side, texts, sentences in ((found.src, batch[0], batch[2]), (found.tgt, batch[1], batch[3])):
        ids = [*chain.from_iterable(sentences)]
        assert side.words == sum(len(text.split()) for text in texts)
        assert side.pieces == len(ids)
        assert side.unknown == ids.count(1)
        assert side.byte_pieces == sum(4 <= i < FIRST for i in ids)
        runs = ["".join("x" if i < FIRST else " " for i in sentence).split() for sentence in sentences]
        assert side.broken == sum(map(len, runs))
        assert side.piece_counts is not None
        assert {i: n for i, n in enumerate(side.piece_counts.tolist()) if n} == Counter(ids)
        assert side.lengths[:64].tolist() == [sum(len(one) == n for one in sentences) for n in range(64)]
    assert found.joint_lengths.sum() == found.pairs == 200
    pairs = Counter(zip(map(len, batch[2]), map(len, batch[3]), strict=True))
    for (m, n), count in pairs.items():
        if max(m, n) < 16:
            assert found.joint_lengths[m, n] == count


def test_without_byte_pieces_the_low_ids_are_ordinary() -> None:
    found = statistics((["a b"], ["c"], [[4, 1, 5]], [[5]]), byte_fallback=False)
    assert (found.src.byte_pieces, found.src.unknown, found.src.broken) == (0, 1, 1)
    assert found.to_json()["src"]["vocabulary"]["used"] == 2


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.randoms())
@settings(max_examples=25, deadline=None)
def test_statistics_of_parts_in_any_order_add_up_to_those_of_the_whole(sizes: list[int], order: random.Random) -> None:
    batch = draw_batch(sum(sizes))
    ends = np.cumsum([0, *sizes])
    parts = [statistics(tuple(one[a:b] for one in batch)) for a, b in pairwise(ends)]  # type: ignore[arg-type]
    order.shuffle(parts)
    assert as_plain(sum(parts, Statistics())) == as_plain(statistics(batch))


def test_a_batch_of_nothing_changes_nothing() -> None:
    some = statistics(draw_batch(20))
    assert as_plain(some + statistics(([], [], [], []))) == as_plain(some)


def test_arrays_keep_everything_through_a_file() -> None:
    some = statistics(draw_batch(50))
    stream = io.BytesIO()
    np.savez(stream, **some.to_arrays())  # type: ignore[arg-type]
    stream.seek(0)
    again = Statistics.from_arrays(np.load(stream, allow_pickle=False))
    assert as_plain(again) == as_plain(some)
    assert (again + some).to_json() == (some + some).to_json()


def test_json_is_small_and_gives_the_same_json_again() -> None:
    draw = np.random.default_rng(1)
    n = 50_000
    lengths = [np.minimum(draw.lognormal(3, 0.8, n).astype(np.int64), 256) for _ in range(2)]
    ids = [(draw.zipf(1.3, int(one.sum())) % 32_000).astype(np.uint16) for one in lengths]
    some = Statistics.of(["a"] * n, ["b"] * n, ids[0], lengths[0], ids[1], lengths[1], N_SPECIAL, True)
    written = json.dumps(some.to_json(), indent=2)
    assert len(written) < 20_000
    again = Statistics.from_json(json.loads(written))
    assert again.to_json() == some.to_json()
    assert (again + again).src.words == 2 * some.src.words
    assert (again + again).to_json()["src"]["vocabulary"] is None  # unknown, rather than wrong


def test_vocabularies_may_have_different_numbers_of_special_pieces() -> None:
    ids = np.array([1, 4, 5, 259, 260, 261], np.uint32)
    found = Statistics.of(["a"], ["b"], ids, np.array([6]), ids, np.array([6]), 5, True, tgt_n_special=4)
    assert (found.src.byte_pieces, found.tgt.byte_pieces) == (3, 3)
    assert (found.src.first_piece, found.tgt.first_piece) == (261, 260)
    assert found.to_json()["vocabulary"] is None  # no piece is the same on both sides


def test_the_summary_of_a_vocabulary_is_that_of_its_counts() -> None:
    ids = [300] * 500 + [301] * 100 + [302] * 99 + [5] * 1000 + [1] * 7
    found = statistics((["a"], ["b"], [ids], [[303]])).to_json()
    summary = found["src"]["vocabulary"]
    assert (summary["used"], summary["used_often"]) == (3, 2)
    assert summary["pieces_for_percent"] == {"50": 1, "90": 3, "99": 3}
    assert summary["curve"] == {"ranks": "1 2 3", "counts": "500 100 99"}
    assert found["vocabulary"]["used"] == 4


@given(st.lists(st.text(st.sampled_from("aбé -'.,\n\t🎃«"), max_size=20), max_size=8))
def test_words_of_scripts_with_spaces_are_what_stands_between_blanks(texts: list[str]) -> None:
    assert count_words(texts) == sum(len(text.split()) for text in texts)


def test_words_of_scripts_without_spaces_are_characters() -> None:
    assert count_words(["今天天气好。"]) == 5
    assert count_words(["今天 Linux 好", "ひらカナ"]) == 3 + 1 + 4
    assert count_words(["สวัสดี"]) == 6
    assert count_words(["오늘 날씨가"]) == 2  # Korean has spaces
    assert count_words(["", " ", "　"]) == 0


def test_text_that_is_no_valid_unicode_is_counted_too() -> None:
    assert count_words(["a\ud800 b", "\U0010ffff"]) == 3


def test_every_length_has_a_bin_that_begins_at_or_below_it() -> None:
    assert np.array_equal(length_edges(4, 16), [0, 1, 2, 3, 4, 6, 8, 12, 16])
    for edges in (HISTOGRAM_EDGES, JOINT_EDGES):
        assert (np.diff(edges) >= 1).all()
    lengths = np.array([0, 1, 63, 64, 65, 1023, 1024, 5000, 10**6])
    ids = np.zeros(0, np.uint16)
    for n in lengths.tolist():
        one = Statistics.of(["a"], ["b"], ids, np.array([n]), ids, np.array([n]), N_SPECIAL, True)
        for edges, where in ((HISTOGRAM_EDGES, one.src.lengths), (JOINT_EDGES, one.joint_lengths.diagonal())):
            bin_ = int(np.flatnonzero(where)[0])
            assert edges[bin_] <= n and (bin_ == len(edges) - 1 or n < edges[bin_ + 1])


def test_unknown_words_show_as_broken_in_real_text() -> None:
    text = ["a man in a boat", "a dog in the snow"] * 50
    vocabulary = Vocabulary.learn(text, size=300)
    sentences = ["a man in a bóat", "a dög in the snöw 🎃", "a dog"]
    ids = vocabulary.encode(sentences)
    found = statistics((sentences, sentences, ids, ids))
    assert found.src.broken == 4
    assert "".join(vocabulary.decode([[i for i in one if i >= FIRST] for one in ids])).isascii()


def test_a_pair_costs_microseconds() -> None:
    """The figure of the report is about 0.5; the bound only catches a loop over words."""
    batch = draw_batch(5_000, longest=20)
    flat = [np.array([*chain.from_iterable(ids)], np.uint16) for ids in batch[2:]]
    lengths = [np.array([len(one) for one in ids], np.int64) for ids in batch[2:]]
    best = np.inf
    for _ in range(5):
        begin = time.perf_counter()
        Statistics.of(batch[0], batch[1], flat[0], lengths[0], flat[1], lengths[1], N_SPECIAL, True)
        best = min(best, time.perf_counter() - begin)
    assert best / 5_000 < 5e-6
