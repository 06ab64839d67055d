"""Buckets share out the lines, and each has the figures of its lines alone."""

from __future__ import annotations

import numpy as np
import pytest
import sacrebleu

from transformer.evaluation import breakdown
from transformer.evaluation.breakdown import by_domain, by_length, by_rarest_word
from transformer.evaluation.sentence_statistics import Statistics, count
from transformer.evaluation.tokenization import load_metrics

REFERENCE = [" ".join(f"w{i}" for i in range(n)) for n in (3, 9, 10, 19, 25, 60, 61)]
HYPOTHESIS = [line.replace("w2", "x") for line in REFERENCE]


@pytest.fixture(scope="module")
def statistics() -> dict[str, Statistics]:
    return count(load_metrics("13a", "en"), HYPOTHESIS, [REFERENCE])


def test_lines_are_shared_out_by_the_length_of_the_source(statistics: dict[str, Statistics]) -> None:
    buckets = by_length(REFERENCE, statistics)
    assert [(b.label, b.n_lines) for b in buckets] == [
        ("under 10 words", 2),
        ("10–19", 2),
        ("20–29", 1),
        ("60 or more", 2),
    ]
    expected = sacrebleu.corpus_bleu(HYPOTHESIS[2:4], [REFERENCE[2:4]]).score
    assert buckets[1].bleu == pytest.approx(expected)
    assert buckets[1].chrf == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESIS[2:4], [REFERENCE[2:4]]).score)


def test_two_chinese_characters_are_about_a_word(statistics: dict[str, Statistics]) -> None:
    src = ["猫" * 18, "猫" * 20, *[""] * 5]
    assert [(b.label, b.n_lines) for b in by_length(src, statistics)] == [("under 10 words", 6), ("10–19", 1)]


def test_lines_without_a_word_have_no_rarest_one(statistics: dict[str, Statistics]) -> None:
    times = np.array([-1, 0, 1, 9, 10, 999, 10**6])
    assert [(b.label, b.n_lines) for b in by_rarest_word(times, statistics)] == [
        ("never", 1),
        ("1–9 times", 2),
        ("10–99", 1),
        ("100–999", 1),
        ("1,000 or more", 1),
    ]


def test_domains_come_by_size_and_the_smallest_together(
    statistics: dict[str, Statistics], monkeypatch: pytest.MonkeyPatch
) -> None:
    domains = ["a", "b", "b", "", "c", "b", "a"]
    assert [(b.label, b.n_lines) for b in by_domain(domains, statistics)] == [
        ("b", 3),
        ("a", 2),
        ("(none)", 1),
        ("c", 1),
    ]
    monkeypatch.setattr(breakdown, "MOST_DOMAINS", 2)
    assert [(b.label, b.n_lines) for b in by_domain(domains, statistics)] == [("b", 3), ("a", 2), ("other", 2)]
