"""Repeated pairs: what a set of strings would find, in memory that does not grow."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import data.duplicates
from data.duplicates import DuplicateRule, KeyFile, duplicate_keys, mark_repeats
from data.pairs import Texts

few_words = st.lists(st.sampled_from(["a", "b", "A b", "a  b", "", "  ", "ä", "a\u0308", "!", "a!"]), max_size=30)


@pytest.mark.parametrize("at_a_time", [1, 3, 1 << 22])
@given(
    keys=st.lists(st.integers(0, 2**64 - 1).map(lambda key: key >> 61 << 61 | key % 2), max_size=40), data_=st.data()
)
def test_repeats_are_those_of_a_set_of_keys(keys: list[int], data_: st.DataObject, at_a_time: int) -> None:
    marked_before = data_.draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)))
    marked = np.array(marked_before, np.bool_)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data.duplicates, "_KEYS_AT_A_TIME", at_a_time)
        mark_repeats(np.array(keys, np.uint64), marked)
    seen: set[int] = set()
    expected = []
    for key, was_marked in zip(keys, marked_before, strict=True):
        expected.append(was_marked or key in seen)
        if not was_marked:
            seen.add(key)
    assert marked.tolist() == expected


@settings(deadline=None)  # building tables at first
@given(few_words, few_words)
def test_keys_are_equal_exactly_where_the_compared_text_is(src: list[str], tgt: list[str]) -> None:
    n = min(len(src), len(tgt))
    texts = Texts(src[:n], tgt[:n])
    for of in ("pair", "src", "tgt"):
        for normalised in (False, True):
            keys = duplicate_keys(texts, DuplicateRule(of, normalised)).tolist()
            sides = {"pair": list(zip(texts.src, texts.tgt, strict=True)), "src": texts.src, "tgt": texts.tgt}[of]
            compared = [plain_words(side) for side in sides] if normalised else sides
            for i in range(n):
                for j in range(i):
                    assert (keys[i] == keys[j]) == (compared[i] == compared[j])


def plain_words(side: str | tuple[str, str]) -> object:
    """Words without case and punctuation; a text that has none is itself."""
    if isinstance(side, tuple):
        return tuple(map(plain_words, side))
    return re.findall(r"\w+", unicodedata.normalize("NFKC", side).casefold()) or side


def test_typing_habits_vanish_but_words_and_signs_do_not() -> None:
    lines = ["„Straße“, 12 %!", "STRASSE  １２", "***", "...", "two words", "twowords"]
    keys = duplicate_keys(Texts(lines, lines), DuplicateRule("src", normalised=True)).tolist()
    assert keys[0] == keys[1]
    assert len(set(keys)) == 5


def test_keys_come_back_from_disk_in_order(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    assert len(KeyFile(tmp_path / "none").read()) == 0
    for start in (0, 5):
        file.append(np.arange(start, start + 5, dtype=np.uint64))
    assert file.read().tolist() == list(range(10))
