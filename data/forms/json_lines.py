"""JSON Lines: one object a line, flat (`{"en": …, "de": …}`) or as the hub has it (`{"translation": {"en": …}}`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO

from data.errors import DataError
from data.forms.tables import USUAL_COLUMNS, Columns, usual_names
from data.lines import line_blocks, one_line
from data.pairs import NO_META, Pair

_HALF_OF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
_MISSING = object()

Path = tuple[str, ...]


def read_json_lines(
    stream: BinaryIO,
    name: str,
    src_lang: str,
    tgt_lang: str,
    columns: Columns = USUAL_COLUMNS,
    encoding: str | None = None,
) -> Iterator[Pair]:
    """The pairs of a JSON Lines file. Where its first record has them, all must have them.

    Blank lines hold no record and are passed over: nothing can shift, as both sides are in one record. The place of a
    pair is its line, blank ones counted.

    Raises DataError, with the line: not JSON, no object, a key that is not there, null, not text; and as `line_blocks`.
    """
    paths: tuple[Path, Path, Path | None] | None = None
    for number, line in enumerate(chain.from_iterable(line_blocks(stream, name, encoding)), 1):
        if not line or line.isspace():
            continue
        place = f"{name}, line {number}"
        record = _parse(line, place)
        src, tgt, score = paths = paths or _find_paths(record, place, columns, tuple(usual_names(src_lang, tgt_lang)))
        pair = Pair(_text(record, src, place), _text(record, tgt, place), number, _score(record, score, place, columns))
        if _HALF_OF_A_PAIR.search(line):
            _refuse_half_characters(pair, place)
        yield pair


def _parse(line: str, place: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        remedy = (
            "make it one object a line: jq -c '.[]' FILE > NEW" if line.strip() == "[" else "Mend or remove the line"
        )
        raise DataError(f"{place}: broken JSON: {error}. {remedy}") from error
    if isinstance(record, dict):
        return record
    kind = "an array" if isinstance(record, list) else f"{line.strip():.40}"
    raise DataError(f"{place}: {kind}, not an object. Make it one object a line: jq -c '.[]' FILE > NEW")


def _find_paths(
    record: dict[str, Any], place: str, columns: Columns, usual: tuple[tuple[str, str], ...]
) -> tuple[Path, Path, Path | None]:
    """The keys that lead to source, target and score, as the first record has them."""
    if columns.header is not None or columns.quoted is not None:
        raise DataError(f"{place}: columns.header and columns.quoted are for tables, not for JSON Lines")
    for column in (columns.src, columns.tgt, columns.score):
        if isinstance(column, int):
            raise DataError(f"{place}: column {column}: JSON has no numbered columns; give names")
    score = _path(columns.score, record) if columns.score else ("score",) if "score" in record else None
    if columns.src and columns.tgt:
        return _path(columns.src, record), _path(columns.tgt, record), score
    for outer in ((), ("translation",)):
        inner = _follow(record, outer)
        for src, tgt in usual:
            if isinstance(inner, dict) and src in inner and tgt in inner:
                return (*outer, src), (*outer, tgt), score
    wanted = " and ".join(usual[0])
    raise DataError(
        f"{place}: no {wanted}, and no translation of {wanted}; there: {_keys(record)}. Set columns, or src_lang and "
        "tgt_lang, to what is there"
    )


def _path(column: str | int, record: dict[str, Any]) -> Path:
    return (str(column),) if column in record else tuple(str(column).split("."))


def _follow(record: Any, path: Path) -> Any:
    for key in path:
        record = record.get(key, _MISSING) if isinstance(record, dict) else _MISSING
    return record


def _text(record: dict[str, Any], path: Path, place: str) -> str:
    value = _follow(record, path)
    if isinstance(value, str):
        return one_line(value)
    column = ".".join(path)
    if value is _MISSING:
        raise DataError(f"{place}: no {column}; there: {_keys(record)}. Mend or remove the line")
    what = "null" if value is None else f"{value!r:.40}"
    raise DataError(f"{place}: {column} is {what}, not text. Mend or remove the line")


def _score(record: dict[str, Any], path: Path | None, place: str, columns: Columns) -> dict[str, str] | Any:
    value = _follow(record, path) if path else _MISSING
    if isinstance(value, str | int | float):
        return {"score": str(value)}
    if columns.score:
        raise DataError(f"{place}: no score {columns.score}; there: {_keys(record)}. Mend or remove the line")
    return NO_META


def _keys(record: dict[str, Any]) -> str:
    inner = record.get("translation")
    keys = [*record, *(f"translation.{key}" for key in (inner if isinstance(inner, dict) else ()))]
    return ", ".join(key for key in keys if inner is None or key != "translation")[:200]


def _refuse_half_characters(pair: Pair, place: str) -> None:
    try:
        f"{pair.src}{pair.tgt}".encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start].encode("unicode_escape").decode()
        raise DataError(f"{place}: {half} is half of a character. Mend or remove the line") from error
