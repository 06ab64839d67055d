"""Records of tables are read with the columns asked for, or refused with the line."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.corpora import Columns, RecordsSource, read_pairs
from data.errors import DataError
from data.forms.tables import read_table
from data.lines import read_lines
from data.pairs import Pair

fields = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"))


def read(content: str | bytes, form: Literal["tsv", "csv"] = "tsv", **columns: Any) -> list[Pair]:
    stream = io.BytesIO(content.encode() if isinstance(content, str) else content)
    return list(read_table(stream, "a.tsv", "en", "de", Columns(**columns), form))


def texts(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.src, pair.tgt) for pair in pairs]


def test_a_quote_in_tsv_is_a_character_like_any_other() -> None:
    assert texts(read('"one\teins"\n5" pipe\t5" Rohr\n')) == [('"one', 'eins"'), ('5" pipe', '5" Rohr')]


def test_d6_a_line_of_three_fields_is_refused_and_not_cut() -> None:
    with pytest.raises(DataError, match=r"a\.tsv, line 1: 3 fields where .* has 2"):
        read("a\tb\tc\nd\te\n")
    with pytest.raises(DataError, match=r"a\.tsv, line 2: 3 fields where 2 fields are expected"):
        read("d\te\na\tb\tc\n")


@pytest.mark.parametrize("line", ["", "only one", "a\tb\tc\td", "\t\t\t"])
def test_a_line_with_more_or_fewer_fields_is_refused(line: str) -> None:
    with pytest.raises(DataError, match=r"a\.tsv, line 3: .* where 3 fields are expected"):
        read(f"0.5\tone\teins\n0.5\ttwo\tzwei\n{line}\n0.5\tthree\tdrei\n", src=2, tgt=3)


def test_columns_are_chosen_by_number_or_name() -> None:
    body = "0.5\tu\tone\teins\n0.7\tv\ttwo\tzwei\n"
    wanted = [("one", "eins"), ("two", "zwei")]
    by_number = read(body, src=3, tgt=4, score=1)
    by_name = read(f"bicleaner\turl\tenglish\tgerman\n{body}", src="english", tgt="german", score="bicleaner")
    by_custom = read(f"score\turl\ten\tDE\n{body}")
    for pairs, first in ((by_number, 1), (by_name, 2), (by_custom, 2)):
        assert texts(pairs) == wanted
        assert [pair.meta["score"] for pair in pairs] == ["0.5", "0.7"]
        assert [pair.place for pair in pairs] == [first, first + 1]


def test_a_header_is_known_by_languages_or_sides_and_tells_which_is_which() -> None:
    for header, wanted in [
        ("en\tde", ("one", "eins")),
        ("de\ten", ("eins", "one")),
        ("src\ttrg", ("one", "eins")),
        ("target\tsource", ("eins", "one")),
    ]:
        assert texts(read(f"{header}\none\teins\n")) == [wanted]
    assert len(read("one\teins\nen\tde\n")) == 2
    assert len(read("en\tde\none\teins\n", header=False)) == 2
    assert texts(read("a\tb\none\teins\n", header=True)) == [("one", "eins")]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"src": 1, "tgt": 4}, "line 1: 3 fields, and no column 4"),
        ({"src": "id", "tgt": "fr"}, "line 1: no column fr; there: id, en, en"),
        ({"src": "en", "tgt": "id"}, "line 1: several columns en"),
        ({"src": "id", "tgt": 2, "header": False}, "without a header"),
        ({"src": 1}, "give both or neither"),
        ({"src": 0, "tgt": 1}, "numbered from 1"),
    ],
)
def test_columns_that_are_not_there_are_refused(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        read("id\ten\ten\n1\ta\tb\n", **columns)


@given(
    st.lists(st.tuples(fields, fields), min_size=1), st.sampled_from(["tsv", "csv"]), st.sampled_from(["\n", "\r\n"])
)
def test_what_csv_wrote_is_read_back(rows: list[tuple[str, str]], form: Literal["tsv", "csv"], end: str) -> None:
    rows = [("en", "de"), *((f"{src}\n{tgt}", tgt) for src, tgt in rows)]
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter="\t" if form == "tsv" else ",", lineterminator=end).writerows(rows)
    pairs = read(stream.getvalue(), form, quoted=True)
    assert texts(pairs) == [(src.replace("\n", " "), tgt) for src, tgt in rows[1:]]
    assert [pair.place for pair in pairs] == [2 * number for number in range(1, len(rows))]


def test_semicolons_separate_where_there_are_no_commas() -> None:
    assert texts(read("en;de\none;eins\n", "csv")) == [("one", "eins")]


def test_a_quote_that_is_never_closed_is_refused_where_it_opens() -> None:
    with pytest.raises(DataError, match="line 3: the record that begins here"):
        read('en,de\none,eins\n"two,zwei\n' + "three,drei\n" * 50, "csv")


def test_quotes_that_seem_to_enclose_fields_are_pointed_out() -> None:
    with pytest.raises(DataError, match=r"line 2: 1 field where 2 .* columns\.quoted: true"):
        read('one\teins\n"two\nmore"\tzwei\n')


@given(st.binary() | st.lists(st.sampled_from([b"a", b"\t", b"\n", b",", b'"', b"\r", b"\xff"])).map(b"".join))
def test_any_bytes_are_records_or_a_message(content: bytes) -> None:
    for form in ("tsv", "csv"):
        try:
            pairs = read(content, form)  # type: ignore[arg-type]
        except DataError as error:
            assert "a.tsv" in str(error)
        else:
            assert not any("\n" in text for pair in pairs for text in pair[:2])
            if form == "tsv" and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
                assert len(pairs) == len([line for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line])


def test_collected_tables_hold_the_pairs_they_should(corpora: Path) -> None:
    nasty = corpora / "nasty"
    text = list(zip(read_lines(nasty / "val.en.gz"), read_lines(nasty / "val.de.gz"), strict=True))
    for name, columns, n_pairs in [
        ("pairs.tsv", Columns(), 100),
        ("pairs.csv", Columns(), 100),
        ("paracrawl-style.tsv", Columns(src=4, tgt=5, score=1), 50),
        ("csv-quoted-header.tsv", Columns(quoted=True), 50),
    ]:
        pairs = list(read_pairs(RecordsSource(nasty / name, "en", "de", columns=columns)))
        same = [pair[:2] == expected for pair, expected in zip(pairs, text, strict=False)]
        assert len(pairs) == n_pairs
        assert same.count(False) <= 1, name  # record 7 of one has a text of its own
    assert pairs[7].src == 'line one line two "quoted"\tand tab'


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("quotes.tsv", r"quotes\.tsv, line 10: 3 fields where 2 fields are expected"),
        ("paracrawl-style.tsv", r"line 1: 5 fields .* Set columns"),
        ("csv-quoted-header.tsv", r"line 9: 1 field where 3 .* columns\.quoted: true"),
    ],
)
def test_collected_tables_that_are_wrong_are_refused(corpora: Path, name: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        list(read_pairs(RecordsSource(corpora / "nasty" / name, "en", "de")))
