"""Parquet files, a few rows in memory at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO

from data.errors import DataError
from data.forms.tables import USUAL_COLUMNS, Columns, usual_names
from data.lines import one_line
from data.pairs import NO_META, Pair

_ROWS_AT_A_TIME = 10_000
_BUFFER = 1 << 20


def read_parquet(
    file: Path | BinaryIO,
    name: str,
    src_lang: str,
    tgt_lang: str,
    columns: Columns = USUAL_COLUMNS,
) -> Iterator[Pair]:
    """The pairs of a parquet file, from two columns of text or from the fields of a column `translation`.

    Null becomes empty text. A stream, which parquet cannot be read from, is copied to a nameless file first.

    Raises DataError: columns that are not there or not of text, damaged files.
    """
    import pyarrow  # takes a moment

    with tempfile.TemporaryFile() as copy:
        if not isinstance(file, Path):
            copyfileobj(file, copy)
            copy.seek(0)
        try:
            yield from _read(file if isinstance(file, Path) else copy, name, src_lang, tgt_lang, columns)
        except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
            reason = str(error).strip().split("\n")[0].rstrip(".")
            raise DataError(
                f"{name}: parquet data that cannot be read: {reason}. Copy or make the file again"
            ) from error


def count_rows(file: Path) -> int | None:
    """How many pairs there are; None where only reading can tell."""
    import pyarrow.parquet

    try:
        return int(pyarrow.parquet.read_metadata(file).num_rows)
    except (OSError, pyarrow.ArrowException):
        return None


def _read(file: Any, name: str, src_lang: str, tgt_lang: str, columns: Columns) -> Iterator[Pair]:
    import pyarrow.parquet

    # With a buffer of its own, a column is read page by page and not a whole row group at once.
    with pyarrow.parquet.ParquetFile(file, buffer_size=_BUFFER) as table:
        src, tgt, score = _find_columns(table.schema_arrow, name, columns, tuple(usual_names(src_lang, tgt_lang)))
        wanted = list(dict.fromkeys(column for column in (src, tgt, score) if column))
        row = 0
        for batch in table.iter_batches(_ROWS_AT_A_TIME, columns=wanted):
            src_texts, tgt_texts = (_texts(batch, column) for column in (src, tgt))
            scores = _values(batch, score).to_pylist() if score else [None] * len(src_texts)
            for src_text, tgt_text, value in zip(src_texts, tgt_texts, scores, strict=True):
                row += 1
                yield Pair(src_text, tgt_text, row, NO_META if value is None else {"score": str(value)})
        if row != table.metadata.num_rows:  # damage that the library does not notice
            raise OSError(f"{row} rows where {table.metadata.num_rows} are promised")


def _texts(batch: Any, column: str) -> list[str]:
    return [one_line(text) if text else "" for text in _values(batch, column).to_pylist()]


def _values(batch: Any, column: str) -> Any:
    import pyarrow.compute

    if column in batch.schema.names:
        return batch.column(column)
    outer, *inner = column.split(".")
    return pyarrow.compute.struct_field(batch.column(outer), inner) if inner else batch.column(outer)


def _find_columns(
    schema: Any, name: str, columns: Columns, usual: Sequence[tuple[str, str]]
) -> tuple[str, str, str | None]:
    if columns.header is not None or columns.quoted is not None:
        raise DataError(f"{name}: columns.header and columns.quoted are for tables of text, not for parquet")
    types = dict(_leaves(schema))
    score = _named(columns.score, schema, name) if columns.score else "score" if "score" in types else None
    if score and score not in types:
        raise _no_column(score, types, name)
    if columns.src and columns.tgt:
        src, tgt = (_named(column, schema, name) for column in (columns.src, columns.tgt))
    else:
        candidates = [*usual, *((f"translation.{src}", f"translation.{tgt}") for src, tgt in usual)]
        found = next((pair for pair in candidates if types.keys() >= set(pair)), None)
        if not found:
            raise _no_column(" and ".join(usual[0]), types, name)
        src, tgt = found
    for column in (src, tgt):
        if column not in types:
            raise _no_column(column, types, name)
        if not _is_text(types[column]):
            raise DataError(f"{name}: column {column} is {types[column]}, not text. Set columns to others")
    return src, tgt, score


def _leaves(fields: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The columns, and the fields in those that are structures."""
    import pyarrow

    for field in fields:
        yield f"{prefix}{field.name}", field.type
        if pyarrow.types.is_struct(field.type):
            yield from _leaves(field.type, f"{prefix}{field.name}.")


def _is_text(column_type: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(column_type):
        column_type = column_type.value_type
    return bool(types.is_string(column_type) or types.is_large_string(column_type) or types.is_string_view(column_type))


def _named(column: str | int, schema: Any, name: str) -> str:
    if isinstance(column, str):
        return column
    if column > len(schema.names):
        raise DataError(f"{name}: no column {column}; there: {', '.join(schema.names)}. Set columns to others")
    return str(schema.names[column - 1])


def _no_column(column: str, types: dict[str, Any], name: str) -> DataError:
    return DataError(f"{name}: no column {column}; there: {', '.join(types)}. Set columns to what is there")
