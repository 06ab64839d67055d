"""Every training pair is kept, or dropped for one counted reason."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.filters import REASONS, Counts, Filters, TextFilter, judge_lengths

pairs = st.lists(st.tuples(st.sampled_from(["a", "b", "", " ", "\xa0", "a\tb"]), st.sampled_from(["x", "y", "", "\t"])))


@given(pairs)
def test_the_first_of_identical_pairs_is_kept_and_no_blank_one(text: list[tuple[str, str]]) -> None:
    text_filter = TextFilter(Filters())
    kept = [pair for pair in text if text_filter.judge(*pair) is None]
    assert kept == [pair for pair in dict.fromkeys(text) if pair[0].strip() and pair[1].strip()]


@given(pairs)
def test_duplicates_stay_where_they_are_wanted(text: list[tuple[str, str]]) -> None:
    text_filter = TextFilter(Filters(remove_duplicates=False))
    kept = [pair for pair in text if text_filter.judge(*pair) is None]
    assert kept == [pair for pair in text if pair[0].strip() and pair[1].strip()]


def test_pairs_that_join_to_the_same_text_are_not_duplicates() -> None:
    text_filter = TextFilter(Filters())
    assert [text_filter.judge(*pair) for pair in [("a b", "c"), ("a", "b c"), ("a b c", "x"), ("b c", "a")]] == [
        None
    ] * 4


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1),
    st.integers(1, 25),
    st.sampled_from([1.0, 1.5, 2.0, 9.0]),
)
def test_lengths_are_judged_as_the_settings_say(
    lengths: list[tuple[int, int]], max_length: int, max_length_ratio: float
) -> None:
    def expected(src: int, tgt: int) -> str | None:
        if src == 0 or tgt == 0:
            return "empty"
        if src > max_length or tgt > max_length:
            return "too_long"
        return "length_ratio" if src / tgt > max_length_ratio or tgt / src > max_length_ratio else None

    src, tgt = np.array(lengths, np.int64).T
    verdicts = judge_lengths(src, tgt, Filters(max_length=max_length, max_length_ratio=max_length_ratio))
    found = [REASONS[verdict] if verdict >= 0 else None for verdict in verdicts]
    assert found == [expected(*pair) for pair in lengths]


@pytest.mark.parametrize(("read", "dropped"), [(10, [1, 2, 3, 4]), (0, [0, 0, 0, 0])])
def test_read_is_kept_plus_dropped(read: int, dropped: list[int]) -> None:
    counts = Counts(read, dict(zip(REASONS, dropped, strict=True)))
    assert counts.kept + sum(dropped) == read
    assert counts + counts == Counts(2 * read, {reason: 2 * n for reason, n in counts.dropped.items()})
