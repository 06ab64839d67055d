"""Translations as JSON Lines: read back as they were, and readable for others."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.forms.json_lines import read_json_lines
from data.forms.tables import Columns
from transformer.inference.command.translation_lines import DIGITS, read_translation_line, translation_line
from transformer.inference.translation import Translation

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=12)
numbers = st.floats(-1e4, 0).map(lambda number: round(number, DIGITS))
flat = st.builds(
    Translation,
    text=texts,
    score=numbers,
    n_tokens=st.integers(0, 500),
    finished=st.booleans(),
    truncated=st.booleans(),
    n_parts=st.integers(1, 9),
    constraint_unmet=st.booleans(),
    pieces=st.none() | st.lists(texts, max_size=4).map(tuple),
    token_log_probs=st.none() | st.lists(numbers, max_size=4).map(tuple),
    alignment=st.none() | st.sets(st.tuples(st.integers(0, 99), st.integers(0, 99))).map(lambda s: tuple(sorted(s))),
)
translations = st.builds(
    lambda best, others: replace(best, alternatives=tuple(others)), flat, st.lists(flat, max_size=3)
)


@given(translations, st.none() | texts)
def test_a_translation_comes_back_from_its_line(translation: Translation, source: str | None) -> None:
    line = translation_line(translation, source)
    assert "\n" not in line
    assert read_translation_line(line) == translation
    assert json.loads(line).get("source") == source


@given(st.floats(-1e4, 0))
def test_a_line_that_was_read_is_written_again_with_the_same_bytes(number: float) -> None:
    line = translation_line(Translation("x", number, 2, True, token_log_probs=(number / 3, number / 7)))
    again = read_translation_line(line)
    assert translation_line(again) == line
    assert again.score == pytest.approx(number, abs=10**-DIGITS)


def test_what_is_not_known_is_left_out_and_flags_are_always_there() -> None:
    bare = json.loads(translation_line(Translation("x", -1.5, 2, False)))
    assert bare == {
        "text": "x",
        "score": -1.5,
        "n_tokens": 2,
        "unfinished": True,
        "truncated": False,
        "constraint_unmet": False,
        "n_parts": 1,
    }
    full = Translation("a b", -1.0, 3, True, pieces=("▁a", "▁b", "</s>"), token_log_probs=(-0.5, -0.25, -0.25))
    full = replace(full, alignment=((0, 1), (2, 0)), attention=((0.5, 0.5),), alternatives=(full,))
    record = json.loads(translation_line(full, "c d e"))
    assert list(record)[:2] == ["source", "text"]
    assert record["alignment"] == "0-1 2-0"
    assert record["alternatives"][0]["pieces"] == ["▁a", "▁b", "</s>"]
    assert "attention" not in record


@pytest.mark.parametrize(
    "line",
    ["", "{}", "[]", "null", "3", '{"text": "x"', '{"text": "x", "score": null, "n_tokens": 1, "unfinished": false}'],
)
def test_any_other_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_translation_line(line)


def test_a_line_cut_at_any_place_is_refused() -> None:
    line = translation_line(Translation("ä b", -1.0, 3, True, alignment=((0, 0), (1, 1)), pieces=("▁ä", "▁b", "</s>")))
    for n in range(len(line)):
        with pytest.raises(ValueError, match=r"."):
            read_translation_line(line[:n])


def test_translated_text_can_be_read_as_a_corpus() -> None:
    """As for back-translation: `{file: out.jsonl, columns: {src: text, tgt: source}}`."""
    lines = [translation_line(Translation(f"t{i}", -1.0, 2, True), f"s{i}") + "\n" for i in range(3)]
    stream = io.BytesIO("".join(lines).encode())
    pairs = list(read_json_lines(stream, "name", "de", "en", Columns("text", "source", "score")))
    assert [pair[:3] for pair in pairs] == [(f"t{i}", f"s{i}", i + 1) for i in range(3)]
    assert pairs[0].meta == {"score": "-1.0"}
