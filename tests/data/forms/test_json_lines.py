"""A line of JSON holds both texts, or is refused with its number."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.corpora import Columns, RecordsSource, read_pairs
from data.errors import DataError
from data.forms.json_lines import read_json_lines
from data.forms.tables import USUAL_COLUMNS
from data.pairs import Pair

GOOD = '{"en": "one", "de": "eins"}\n'


def read(content: str | bytes, columns: Columns = USUAL_COLUMNS) -> list[Pair]:
    stream = io.BytesIO(content.encode() if isinstance(content, str) else content)
    return list(read_json_lines(stream, "a.jsonl", "en", "de", columns))


@given(
    st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))),
    st.booleans(),
    st.booleans(),
)
def test_what_json_wrote_is_read_back(pairs: list[tuple[str, str]], nested: bool, escaped: bool) -> None:
    records = [{"en": src, "de": tgt} for src, tgt in pairs]
    records = [{"translation": record} for record in records] if nested else records
    content = "".join(f"{json.dumps(record, ensure_ascii=escaped)}\n" for record in records)
    assert [pair[:2] for pair in read(content)] == [
        (src.replace("\n", " "), tgt.replace("\n", " ")) for src, tgt in pairs
    ]


def test_keys_are_found_by_language_or_side_or_told() -> None:
    for record, columns in [
        ({"translation": {"en": "one", "de": "eins", "fr": "un"}}, USUAL_COLUMNS),
        ({"src": "one", "tgt": "eins"}, USUAL_COLUMNS),
        ({"source": "a corpus", "target": "a folder", "en": "one", "de": "eins"}, USUAL_COLUMNS),
        ({"a": {"b": ["x"], "c.d": 1}, "e": {"f": "one"}, "g.h": "eins"}, Columns("e.f", "g.h")),
    ]:
        [pair] = read(json.dumps(record), columns)
        assert pair[:2] == ("one", "eins")


def test_scores_are_kept_and_blank_lines_counted() -> None:
    pairs = read('{"en": "one", "de": "eins", "score": 0.5}\n\n  \n{"en": "two", "de": "zwei"}\n')
    assert [(pair.place, dict(pair.meta)) for pair in pairs] == [(1, {"score": "0.5"}), (4, {})]
    with pytest.raises(DataError, match="line 2: no score s"):
        read('{"en": "one", "de": "eins", "s": 1}\n' + GOOD, Columns(score="s"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"en": "one", "de": "ei', "broken JSON"),
        ('{"en": "one"}', "no de; there: en"),
        ('{"en": null, "de": ""}', "en is null, not text"),
        ('{"en": 5, "de": ""}', "en is 5, not text"),
        ('["one", "eins"]', "an array, not an object"),
        ("12", "12, not an object"),
        ("[", "broken JSON: .*jq"),
        ("[" * 100_000, "broken JSON"),
        ("9" * 10_000, "broken JSON"),
        (r'{"en": "one\ud83d", "de": "eins"}', r"\\ud83d is half of a character"),
    ],
)
def test_a_wrong_line_is_refused_with_its_number(line: str, words: str) -> None:
    with pytest.raises(DataError, match=f"a.jsonl, line 2: {words}"):
        read(f"{GOOD}{line}\n{GOOD}")


def test_keys_that_are_not_there_are_told_with_those_that_are() -> None:
    for line, columns, words in [
        ('{"id": 1, "text": "one"}', USUAL_COLUMNS, "line 1: no en and de.* there: id, text"),
        ('{"translation": {"en": "a", "fr": "b"}}', USUAL_COLUMNS, r"there: translation\.en, translation\.fr"),
        (GOOD, Columns(1, 2), "JSON has no numbered columns"),
        (GOOD, Columns(header=True), "for tables, not for JSON Lines"),
    ]:
        with pytest.raises(DataError, match=words):
            read(line, columns)


@given(
    st.binary() | st.lists(st.sampled_from([b'{"en":', b'"', b"\n", b"}", b"[", b"\\u", b"d8", b"\xff"])).map(b"".join)
)
def test_any_bytes_are_records_or_a_message(content: bytes) -> None:
    try:
        pairs = read(GOOD.encode() + content)
    except DataError as error:
        assert "a.jsonl, line " in str(error)
    else:
        assert all(isinstance(text, str) and "\n" not in text for pair in pairs for text in pair[:2])


def test_collected_json_lines(corpora: Path) -> None:
    nasty = corpora / "nasty"
    tsv = [pair[:2] for pair in read_pairs(RecordsSource(nasty / "pairs.tsv", "en", "de"))]
    assert [pair[:2] for pair in read_pairs(RecordsSource(nasty / "flat.jsonl", "en", "de"))] == tsv
    lines = (nasty / "hf.jsonl").read_text().split("\n")
    for number, words in [(61, "broken JSON"), (71, "no translation.de"), (81, "translation.en is null")]:
        with pytest.raises(DataError, match=f"line {number}: {words}"):
            read("\n".join(lines))
        lines[number - 1] = ""
    assert len(read("\n".join(lines))) == 100 - 4
