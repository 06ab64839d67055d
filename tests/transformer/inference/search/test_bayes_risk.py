"""Minimum Bayes risk against sacrebleu's own scores, pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sacrebleu import sentence_bleu, sentence_chrf

from transformer.inference.search.bayes_risk import Utility, best_by_risk, shared_ngrams, utilities

WORDS = [
    "the",
    "cat",
    "the cat",
    "sat",
    "sat.",
    "on",
    "a",
    "mat,",
    "&quot;",
    "3.5",
    "Größe",
    "猫",
    "aaaa",
    "don't",
    "-",
]
SENTENCES = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
ANYTHING = st.text(st.characters(exclude_categories=["Cs"]), max_size=25)
LISTS = st.lists(SENTENCES | ANYTHING, min_size=1, max_size=7)
UTILITIES: list[Utility] = ["chrf", "bleu"]


def by_sacrebleu(utility: Utility, hypothesis: str, reference: str) -> float:
    score = {"chrf": sentence_chrf, "bleu": sentence_bleu}[utility]
    return float(score(hypothesis, [reference]).score)


def naive(candidates: list[str], weights: list[float], utility: Utility) -> list[float]:
    """The expected utility of every candidate: a double loop, copies and all."""
    total = sum(weights)
    return [
        sum(w * by_sacrebleu(utility, c, r) for r, w in zip(candidates, weights, strict=True)) / total
        for c in candidates
    ]


@pytest.mark.parametrize("utility", UTILITIES)
@settings(max_examples=80)
@given(texts=LISTS)
@example(texts=["", " ", "a", "a b", "b a", "aaaa", "aaaaaa aaa", "the the the the cat", "the cat"])
def test_every_pair_has_sacrebleus_score(utility: Utility, texts: list[str]) -> None:
    expected = [[by_sacrebleu(utility, hypothesis, reference) for reference in texts] for hypothesis in texts]
    np.testing.assert_allclose(utilities(texts, utility), expected, atol=1e-6)


@pytest.mark.parametrize("utility", UTILITIES)
@settings(max_examples=40)
@given(data=st.data(), weighted=st.booleans())
def test_the_order_is_that_of_a_double_loop(utility: Utility, data: st.DataObject, weighted: bool) -> None:
    candidates = data.draw(st.lists(st.sampled_from(data.draw(LISTS)), min_size=1, max_size=9))  # with copies
    sizes = st.lists(st.floats(0.01, 10), min_size=len(candidates), max_size=len(candidates))
    weights = data.draw(sizes) if weighted else None
    expected = naive(candidates, weights or [1.0] * len(candidates), utility)
    found = best_by_risk(candidates, utility, weights)
    assert sorted(place for place, _ in found) == sorted({candidates.index(text) for text in candidates})
    assert [value for _, value in found] == pytest.approx([expected[place] for place, _ in found], abs=1e-6)
    values = [value for _, value in found]
    assert values == pytest.approx(sorted(values, reverse=True), abs=1e-8)
    assert expected[found[0][0]] == pytest.approx(max(expected), abs=1e-6)


@pytest.mark.parametrize("utility", UTILITIES)
def test_copies_count_as_weights_do(utility: Utility) -> None:
    texts = ["the cat sat", "a cat sat down", "the mat"]
    copies = [texts[i] for i in (0, 1, 1, 2, 1, 0)]
    assert [(copies[place], value) for place, value in best_by_risk(copies, utility)] == [
        (texts[place], pytest.approx(value)) for place, value in best_by_risk(texts, utility, [2, 3, 1])
    ]


@pytest.mark.parametrize("utility", UTILITIES)
def test_of_equally_good_candidates_the_first_comes_first(utility: Utility) -> None:
    alike = ["one two six", "one ten two"]  # of one length: each is as good a reference of the other
    for candidates in (alike, alike[::-1], ["x", "y", "z"], [""], ["", " "]):
        assert [place for place, _ in best_by_risk(candidates, utility)] == list(range(len(candidates)))


@pytest.mark.parametrize("utility", UTILITIES)
def test_an_outlier_loses_even_if_it_is_the_most_probable(utility: Utility) -> None:
    candidates = ["no idea", "the cat sat on a mat", "the cat sat on the mat", "a cat sat on the mat"]
    (best, _), *_, (worst, _) = best_by_risk(candidates, utility, [0.28, 0.24, 0.24, 0.24])
    assert best == 2
    assert worst == 0


@given(st.lists(st.lists(st.integers(0, 3), max_size=15), min_size=1, max_size=5), st.integers(1, 6))
def test_shared_ngrams_are_the_sums_of_the_smaller_counts(sequences: list[list[int]], max_order: int) -> None:
    shared, totals = shared_ngrams([np.array(sequence, np.int64) for sequence in sequences], max_order)
    for n in range(1, max_order + 1):
        ngrams = [[tuple(s[i : i + n]) for i in range(len(s) - n + 1)] for s in sequences]
        assert totals[n - 1].tolist() == [len(found) for found in ngrams]
        expected = [[sum(min(a.count(g), b.count(g)) for g in set(a)) for b in ngrams] for a in ngrams]
        assert shared[n - 1].tolist() == expected
