"""Rows of parquet files are pairs, whatever their schema."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.corpora import Columns, RecordsSource, read_pairs, size_of
from data.errors import DataError
from data.forms.parquet import read_parquet
from data.forms.tables import USUAL_COLUMNS
from data.lines import read_lines

PAIRS = [(f"sentence {number}", f"Satz {number}") for number in range(12_000)]
EN, DE = ([pair[side] for pair in PAIRS] for side in (0, 1))


def write(path: Path, columns: Mapping[str, Any], row_group_size: int = 7000) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), path, row_group_size=row_group_size)
    return path


def texts(path: Path, columns: Columns = USUAL_COLUMNS) -> list[tuple[str, str]]:
    return [(pair.src, pair.tgt) for pair in read_pairs(RecordsSource(path, "en", "de", columns=columns))]


def test_columns_are_found_in_every_schema(tmp_path: Path) -> None:
    translation = [{"de": tgt, "en": src, "fr": None} for src, tgt in PAIRS]
    inner = pyarrow.array([{"a": {"b": src}, "c": tgt} for src, tgt in PAIRS])
    categories = pyarrow.array(DE).dictionary_encode()
    for columns, choice in [
        ({"de": DE, "id": range(len(EN)), "en": EN}, USUAL_COLUMNS),
        ({"translation": translation}, USUAL_COLUMNS),
        ({"src": pyarrow.array(EN, pyarrow.large_string()), "tgt": categories}, USUAL_COLUMNS),
        ({"x": EN, "y": DE}, Columns(1, 2)),
        ({"x": inner}, Columns("x.a.b", "x.c")),
        ({"x.y": EN, "z": DE}, Columns("x.y", "z")),
    ]:
        assert texts(write(tmp_path / "a.parquet", columns), choice) == PAIRS


def test_progress_is_told_in_rows(tmp_path: Path) -> None:
    source = RecordsSource(write(tmp_path / "a", {"en": EN, "de": DE, "score": [1.5] * len(EN)}), "en", "de")
    steps: list[int] = []
    pairs = list(read_pairs(source, steps.append))
    assert (sum(steps), "pairs") == size_of(source) == (len(PAIRS), "pairs")
    assert max(steps) <= 5000
    assert {pair.meta["score"] for pair in pairs} == {"1.5"}
    assert [pair.place for pair in pairs] == list(range(1, len(PAIRS) + 1))


def test_null_becomes_empty_and_line_ends_become_spaces(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"translation": [None, {"en": "a\nb", "de": None}, {"en": "c", "de": "d"}]})
    assert texts(path) == [("", ""), ("a b", ""), ("c", "d")]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (USUAL_COLUMNS, "no column en and de; there: en, n, t, t.x"),
        (Columns("en", "n"), "column n is int64, not text"),
        (Columns("en", "t"), "column t is struct"),
        (Columns("en", "t.y"), "no column t.y"),
        (Columns(1, 4), "no column 4; there: en, n, t"),
        (Columns("en", "t.x", "s"), "no column s"),
        (Columns(quoted=True), "for tables of text"),
    ],
)
def test_columns_that_are_not_there_are_refused(tmp_path: Path, columns: Columns, words: str) -> None:
    path = write(tmp_path / "a", {"en": ["a"], "n": [1], "t": [{"x": "y"}]})
    with pytest.raises(DataError, match=words):
        texts(path, columns)


def test_a_damaged_file_is_one_message(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"en": EN, "de": DE})
    content = path.read_bytes()
    for damaged in (content[:-20], content[:100], content[:5000] + bytes(3000) + content[8000:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"a\.parquet: parquet data that cannot be read") as caught:
            texts(path)
        assert "\n" not in str(caught.value)


@settings(max_examples=40)  # each writes a file
@given(st.binary(), st.integers(0, 200))
def test_any_bytes_are_rows_or_a_message(tmp_path_factory: pytest.TempPathFactory, content: bytes, at: int) -> None:
    path = write(tmp_path_factory.mktemp("parquet") / "a.parquet", {"en": EN[:9], "de": DE[:9]})
    good = path.read_bytes()
    path.write_bytes(good[:at] + content + good[at + len(content) :])
    try:
        pairs = list(read_parquet(path, "a.parquet", "en", "de"))
    except DataError as error:
        assert "a.parquet" in str(error)
    else:
        assert len(pairs) == 9


def test_collected_parquet_files_hold_the_pairs_of_the_text_files(corpora: Path) -> None:
    nasty = corpora / "nasty"
    text = list(zip(read_lines(nasty / "val.en.gz"), read_lines(nasty / "val.de.gz"), strict=True))
    assert texts(nasty / "hf-translation.parquet") == text
    flat = texts(nasty / "flat.parquet")
    assert flat[:-1] == text[: len(flat) - 1]
    assert flat[-1][0] == ""  # null in the file
