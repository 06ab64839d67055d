"""Tables of text: tab-separated, where a quote is a character like any other, and CSV, where it may enclose a field."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO, Literal

from data.errors import DataError
from data.lines import line_blocks, one_line
from data.pairs import NO_META, Pair

_MAX_FIELD = 1 << 26


@dataclass(frozen=True)
class Columns:
    """Where in a record the two texts are: numbers from 1, or names; None: by the usual names, or the only two.

    In JSON Lines and Parquet a name may lead into a record: `translation.de`.
    """

    src: str | int | None = None
    tgt: str | int | None = None
    score: str | int | None = None  # None: the column `score`, if there is one
    header: bool | None = None  # whether the first line of a table names the columns; None: if it does
    quoted: bool | None = None  # whether quotes enclose fields; None: in CSV, not in TSV

    def __post_init__(self) -> None:
        if (self.src is None) != (self.tgt is None):
            raise DataError(f"columns: src is {self.src} and tgt is {self.tgt}: give both or neither")
        for column in (self.src, self.tgt, self.score):
            if isinstance(column, int) and column < 1:
                raise DataError(f"columns: {column}: columns are numbered from 1")


USUAL_COLUMNS = Columns()


def usual_names(src_lang: str, tgt_lang: str) -> Iterator[tuple[str, str]]:
    """What the columns of the two sides are called where nobody says: by language, or by side."""
    if src_lang != tgt_lang:
        yield src_lang, tgt_lang
    yield from (("src", "tgt"), ("src", "trg"), ("source", "target"))


@dataclass(frozen=True)
class _Layout:
    """Where the fields are, from 0, in a table of `n_fields` columns."""

    src: int
    tgt: int
    score: int | None
    n_fields: int
    has_header: bool


def read_table(
    stream: BinaryIO,
    name: str,
    src_lang: str,
    tgt_lang: str,
    columns: Columns = USUAL_COLUMNS,
    form: Literal["tsv", "csv"] = "tsv",
    encoding: str | None = None,
) -> Iterator[Pair]:
    """The pairs of a table. CSV is separated by commas, or by semicolons where the first line has no comma.

    The place of a pair is the line on which its record begins.

    Raises DataError: columns that are not there; without named columns, not exactly two; a line with more or fewer
    fields than the first; a quote that is never closed; and as `line_blocks`.
    """
    quoted = form == "csv" if columns.quoted is None else columns.quoted
    lines = chain.from_iterable(line_blocks(stream, name, encoding))
    first = next(lines, None)
    if first is None:
        return
    delimiter = "\t" if form == "tsv" else ";" if ";" in first and "," not in first else ","
    lines = chain((first,), lines)
    records = _quoted_records(lines, name, delimiter) if quoted else _split_records(lines, delimiter)
    top = next(records)
    layout = _find_columns(top[1], f"{name}, line 1", columns, tuple(usual_names(src_lang, tgt_lang)))
    for number, fields in records if layout.has_header else chain((top,), records):
        if len(fields) != layout.n_fields:
            raise _ragged(fields, f"{name}, line {number}", layout.n_fields, quoted)
        meta = NO_META if layout.score is None else {"score": fields[layout.score]}
        yield Pair(one_line(fields[layout.src]), one_line(fields[layout.tgt]), number, meta)


def _split_records(lines: Iterator[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        yield number, line.split(delimiter)


def _quoted_records(lines: Iterator[str], name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_FIELD))
    records = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    number = 1
    while True:
        try:
            fields = next(records, None)
        except csv.Error as error:
            raise DataError(
                f"{name}, line {number}: the record that begins here is no good CSV: {error} (line "
                f"{records.line_num}). A quote in a quoted field is doubled; if quotes are only text, set "
                "columns.quoted: false"
            ) from error
        if fields is None:
            return
        yield number, fields
        number = records.line_num + 1


def _ragged(fields: list[str], place: str, n_fields: int, quoted: bool) -> DataError:
    there = _count(fields) if any(fields) else "a blank line"
    quotes = any(field.startswith('"') for field in fields) and not quoted
    hint = ". If quotes enclose fields here, set columns.quoted: true" if quotes else ". Mend or remove the line"
    return DataError(f"{place}: {there} where {n_fields} fields are expected{hint}")


def _find_columns(first: list[str], place: str, columns: Columns, usual: Sequence[tuple[str, str]]) -> _Layout:
    names = [field.strip().casefold() for field in first]
    known = next((pair for pair in usual if all(name.casefold() in names for name in pair)), None)
    chosen = [column for column in (columns.src, columns.tgt, columns.score) if column is not None]
    has_header = columns.header
    if has_header is None:
        has_header = known is not None or any(isinstance(column, str) for column in chosen)
    if columns.src is not None and columns.tgt is not None:
        src, tgt = (_index(column, first, has_header, place) for column in (columns.src, columns.tgt))
    elif known and has_header:
        src, tgt = (names.index(name.casefold()) for name in known)
    elif len(first) == 2:
        src, tgt = 0, 1
    else:
        raise DataError(
            f"{place}: {_count(first)} where a table without named columns has 2. Set columns by number, or by the "
            "names in the first line: columns: {src: 1, tgt: 2}"
        )
    score: int | None = None
    if columns.score is not None:
        score = _index(columns.score, first, has_header, place)
    elif has_header and "score" in names:
        score = names.index("score")
    return _Layout(src, tgt, score, len(first), has_header)


def _count(fields: list[str]) -> str:
    return "1 field" if len(fields) == 1 else f"{len(fields)} fields"


def _index(column: str | int, first: list[str], has_header: bool, place: str) -> int:
    if isinstance(column, int):
        if column > len(first):
            raise DataError(f"{place}: {_count(first)}, and no column {column}. Set columns to others")
        return column - 1
    if not has_header:
        raise DataError(f"{place}: column {column}: without a header, columns have numbers only, from 1")
    found = [index for index, name in enumerate(first) if name.strip() == column]
    if len(found) != 1:
        there = ", ".join(first)
        raise DataError(f"{place}: {'several columns' if found else 'no column'} {column}; there: {there}. Set columns")
    return found[0]
