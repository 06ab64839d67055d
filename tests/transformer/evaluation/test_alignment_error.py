"""Alignment error rate is the formula of Och & Ney 2003, over all sentences."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.evaluation.alignment_error import LinkCounts, count_links
from transformer.evaluation.gold_alignments import Gold, Link

links = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)))
sentences = st.lists(st.tuples(links, links, links), max_size=4)  # alignment, sure, and what is only possible


@given(sentences=sentences)
def test_it_is_the_formula_counted_link_by_link(sentences: list[tuple[set[Link], set[Link], set[Link]]]) -> None:
    golds = [Gold(frozenset(sure), frozenset(sure | more)) for _, sure, more in sentences]
    error = sum((count_links(a, gold) for (a, _, _), gold in zip(sentences, golds, strict=True)), LinkCounts())
    n_a = n_s = n_as = n_ap = 0
    for found, sure, more in sentences:
        for s in range(4):
            for t in range(4):
                n_a += (s, t) in found
                n_s += (s, t) in sure
                n_as += (s, t) in found and (s, t) in sure
                n_ap += (s, t) in found and ((s, t) in sure or (s, t) in more)
    assert error.precision == pytest.approx(n_ap / n_a if n_a else math.nan, nan_ok=True)
    assert error.recall == pytest.approx(n_as / n_s if n_s else math.nan, nan_ok=True)
    assert error.error_rate == pytest.approx(1 - (n_as + n_ap) / (n_a + n_s) if n_a + n_s else math.nan, nan_ok=True)


@given(sure=links.filter(len), more=links)
def test_it_is_0_for_all_that_is_sure_with_anything_possible_and_1_for_nothing(
    sure: set[Link], more: set[Link]
) -> None:
    gold = Gold(frozenset(sure), frozenset(sure | more))
    assert count_links(gold.sure, gold).error_rate == 0
    assert count_links(gold.possible, gold).error_rate == 0
    assert count_links([], gold).error_rate == 1


@given(found=links, sure=links)
def test_where_all_links_are_sure_it_is_1_minus_f1(found: set[Link], sure: set[Link]) -> None:
    error = count_links(found, Gold(frozenset(sure), frozenset(sure)))
    if found & sure:
        f1 = 2 * error.precision * error.recall / (error.precision + error.recall)
        assert error.error_rate == pytest.approx(1 - f1)
