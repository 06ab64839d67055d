"""Every training pair is kept, or dropped for the first reason that holds."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data.contamination import HeldOut
from data.pairs import Texts
from data.selection import KEPT, Rules, TextSelection, judge_lengths

SHORT = ("length", {"max_words": 3, "max_characters": 99, "max_word_characters": 99})
PASSING = ("length", {"max_words": 99, "max_characters": 99, "max_word_characters": 99})
DUPLICATES = ("duplicates", {"of": "src", "normalised": False})
HELD_OUT = HeldOut({"valid": (["a b", "one two three four"], ["x", "eins zwei drei vier"])})


def selection(**rules: object) -> TextSelection:
    return TextSelection(Rules(**rules), "en", "de", HELD_OUT)  # type: ignore[arg-type]


lines = st.lists(
    st.sampled_from(["a b", "x", "", " ", "\xa0", "one two three four", "eins zwei drei vier"]), max_size=9
)


@given(lines, lines, st.booleans())
def test_a_pair_is_dropped_for_the_first_reason_that_holds(src: list[str], tgt: list[str], drop: bool) -> None:
    texts = Texts(src[: len(tgt)], tgt[: len(src)])
    judge = selection(filters=[PASSING, SHORT, DUPLICATES], drop_contamination=drop)

    def expected(one: str, other: str) -> str | None:
        if not one.strip() or not other.strip():
            return "empty"
        if max(len(one.split()), len(other.split())) > 3:
            return "length"
        return "contamination" if drop and (one, other) == ("a b", "x") else None

    verdicts, matches = judge.judge(texts)
    reasons = [judge.rules.reasons[verdict] if verdict != KEPT else None for verdict in verdicts]
    assert reasons == [expected(*pair) for pair in zip(texts.src, texts.tgt, strict=True)]
    known = {("a b", "x"), ("one two three four", "eins zwei drei vier")}
    assert (matches.kinds > 0).tolist() == [pair in known for pair in zip(texts.src, texts.tgt, strict=True)]


def test_reasons_are_those_of_the_rules_in_order() -> None:
    rules = Rules(filters=[SHORT, ("word_translation", {"at_least": 0.0, "window": 5}), DUPLICATES, SHORT])
    expected = ("empty", "length", "word_translation", "contamination", "duplicate_src", "too_long", "length_ratio")
    assert rules.reasons == expected


def test_a_selection_that_has_judged_travels_to_other_processes() -> None:
    judge = selection(filters=[SHORT])
    texts = Texts(["one two", "one two three four"], ["x", "y"])
    verdicts, _ = judge.judge(texts)
    again, _ = pickle.loads(pickle.dumps(judge)).judge(texts)  # as multiprocessing sends it
    assert verdicts.tolist() == again.tolist() == [KEPT, judge.rules.reasons.index("length")]


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
    rules = Rules(max_length=max_length, max_length_ratio=max_length_ratio)
    verdicts = judge_lengths(src, tgt, rules)
    found = [rules.reasons[verdict] if verdict != KEPT else None for verdict in verdicts]
    assert found == [expected(*pair) for pair in lengths]
