"""Two texts side by side: exactly the words that differ are marked, and any text stays text."""

from __future__ import annotations

import lxml.html
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.report.visible import plain
from transformer.evaluation.report.wording import with_differences

TEXT = st.text(max_size=40) | st.lists(st.sampled_from(["der", "Hund", "猫", ".", "<b>", "&", " "]), max_size=12).map(
    " ".join
)


def marks(one: str, other: str) -> list[str]:
    return [mark.text_content() for mark in lxml.html.fromstring(with_differences(one, other, "new")).iter("mark")]


@pytest.mark.parametrize(
    ("one", "other", "marked"),
    [
        ("Der Hund geht über die Straße.", "Der Hund geht auf die Straße.", ["über"]),
        ("Der große Hund", "Der Hund", ["große"]),
        ("Der Hund", "Der große Hund", []),
        ("Ein Hund.", "Der Hund!", ["Ein", "."]),
        ("我喜欢猫", "我喜欢狗", ["猫"]),
        ("الكلب يرى القط", "الكلب يرى البيت", ["القط"]),
        ("gleich", "gleich", []),
    ],
)
def test_the_words_that_differ_are_marked(one: str, other: str, marked: list[str]) -> None:
    assert marks(one, other) == marked


@given(one=TEXT, other=TEXT)
def test_the_text_is_whole_and_nothing_in_it_acts(one: str, other: str) -> None:
    made = with_differences(one, other, "new", "de")
    element = lxml.html.fromstring(made.encode("utf-8", "replace").decode())
    assert {child.tag for child in element.iter()} <= {"bdi", "mark", "span"} and element.get("dir") == "auto"
    if one.strip():
        shown = element.text_content().replace("‹", "").replace("›", "")
        assert shown.replace("\xa0", " ") == plain(one).replace("‹", "").replace("›", "").replace("\xa0", " ")


@given(text=TEXT)
def test_equal_texts_have_no_marks(text: str) -> None:
    assert marks(text, text) == []


def test_the_direction_is_that_of_the_text() -> None:
    assert str(with_differences("שלום", "", "new", "he")).startswith('<bdi dir="auto" lang="he">')


def test_a_long_text_is_cut() -> None:
    made = with_differences("wort " * 10_000, "wort " * 9_000, "new")
    assert len(made) < 1000 and "…" in made
    assert "…" in with_differences("\t" * 45 + " THE END OF IT", "", "new")
    assert "…" not in with_differences("\t" * 40 + " THE END OF IT", "", "new")
