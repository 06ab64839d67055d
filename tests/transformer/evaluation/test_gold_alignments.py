"""Alignments of people, as they are published: what is written is what is read, and what is wrong is named."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from transformer.evaluation.gold_alignments import Gold, Link, parse_gold, read_gold

SIZES = [(3, 4), (2, 2)]


def gold(sure: set[Link], possible: set[Link] = frozenset()) -> Gold:  # type: ignore[assignment]
    return Gold(frozenset(sure), frozenset(sure | possible))


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "gold"
    path.write_text(text, encoding="utf-8")
    return path


golds = st.builds(
    gold,
    st.sets(st.tuples(st.integers(0, 9), st.integers(0, 6))),
    st.sets(st.tuples(st.integers(0, 9), st.integers(0, 6))),
)


def pharaoh_line(one: Gold, first: int, sign: str) -> str:
    return " ".join(f"{s + first}{'-' if (s, t) in one.sure else sign}{t + first}" for s, t in one.possible)


@given(one=golds, first=st.sampled_from([0, 1]), sign=st.sampled_from("?p"))
def test_pharaohs_form_is_read_as_it_was_written(one: Gold, first: int, sign: str) -> None:
    problems: list[str] = []
    assert parse_gold(pharaoh_line(one, first, sign), "x", (10, 7), first, problems) == one
    assert problems == []


@given(text=st.text(st.sampled_from(string.digits[:3] + "-?p x\t"), max_size=12) | st.text(max_size=12))
def test_whatever_a_line_holds_is_read_or_named(text: str) -> None:
    problems: list[str] = []
    found = parse_gold(text, "the place", (2, 2), 0, problems)
    links = {f"{s}{sign}{t}": (s, t) for s in range(2) for t in range(2) for sign in "-?p"}
    assert found.possible >= {links[word] for word in text.split() if word in links}
    assert found.possible <= set(links.values()) or problems
    assert len(problems) <= sum(word not in links for word in text.split())
    assert all(problem.startswith("the place: ") for problem in problems)


@given(sentences=st.lists(golds, min_size=1, max_size=4))
def test_both_forms_mean_the_same(tmp_path_factory: pytest.TempPathFactory, sentences: list[Gold]) -> None:
    directory = tmp_path_factory.mktemp("forms")
    sizes = [(10, 7)] * len(sentences)
    lines = [
        f"{number:04} {s + 1} {t + 1}{'' if (s, t) in one.sure else ' P'}"
        for number, one in enumerate(sentences, 1)
        for s, t in one.possible
    ]
    lines += [f"{number} 0 0" for number in range(1, len(sentences) + 1)]  # no word: none may be left out
    assert read_gold(written(directory, "\n".join(lines)), sizes) == sentences
    if any(one.possible for one in sentences):
        pharaoh = written(directory, "".join(f"{pharaoh_line(one, 1, '?')}\n" for one in sentences))
        assert read_gold(pharaoh, sizes, first_word=1) == sentences


def test_naacl_links_may_say_that_they_are_sure_and_how_confident_they_are(tmp_path: Path) -> None:
    text = "1 1 1 S 0.9\n1 2 3 P\n1\t3 4 P 1\n\n2 1 2 1.0\n2 0 1\n"
    assert read_gold(written(tmp_path, text), SIZES) == [gold({(0, 0)}, {(1, 2), (2, 3)}), gold({(0, 1)})]


def test_carriage_returns_byte_order_marks_and_empty_lines_are_no_links(tmp_path: Path) -> None:
    assert read_gold(written(tmp_path, "\ufeff\r\n0-1 1?1\r\n"), SIZES) == [gold(set()), gold({(0, 1)}, {(1, 1)})]


@pytest.mark.parametrize(
    ("text", "first", "parts"),
    [
        ("0-0\n", 0, ["gold has 1 lines", "the test set has 2"]),
        ("0-0\n0-0\n\n", 0, ["gold has 3 lines", "the test set has 2"]),
        (
            "0-0 3-0\n1-2\n",
            0,
            ["line 1: 3-0", "source word 3", "0 to 2", "line 2: 1-2", "target word 2", "--gold-from 1"],
        ),
        ("1-1 0-1\n1-1\n", 1, ["line 1: 0-1", "source word 0", "1 to 3", "--gold-from 0"]),
        ("0-0\n0-0 1=1 <b>\n", 0, ["line 2: '1=1'", "line 2: '<b>'", "0-0 1?2"]),
        ("0-0\n" + "7-7 " * 9 + "\n", 0, ["line 2: 7-7", "and 4 more"]),
        ("0-0\n9999999999999-0\n", 0, ["line 2: '9999999999999-0'"]),
        ("1 1 1\n2 1 3 S\n", 0, ["line 2: 2 1 3 S", "target word 3", "1 to 2", "counted from 1"]),
        ("1 1 1\n3 1 1\n", 0, ["line 2: sentence 3", "1 to 2", "nothing on 1 of 2 sentences: 2"]),
        ("1 1 1\n2 1\n", 0, ["line 2: '2 1'", "SENTENCE SOURCE TARGET"]),
    ],
)
def test_what_is_wrong_is_named_with_line_value_rule_and_remedy(
    tmp_path: Path, text: str, first: int, parts: list[str]
) -> None:
    with pytest.raises(DataError) as caught:
        read_gold(written(tmp_path, text), SIZES, first)
    for part in parts:
        assert part in str(caught.value)


def test_a_sentence_without_words_has_no_links(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no source word 0: this source sentence has no words"):
        read_gold(written(tmp_path, "0-0\n"), [(0, 1)])
    assert read_gold(written(tmp_path, "\n"), [(0, 0)]) == [gold(set())]
