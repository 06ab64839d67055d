"""Data sets of the Hugging Face hub, or in its layout in a local folder."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from data.errors import DataError
from data.lines import one_line
from data.pairs import Pair

Advance = Callable[[int], object]

_ROWS_AT_A_TIME = 1000


@dataclass(frozen=True)
class HubSource:
    """A data set in WMT's schema (`translation: {de: …, en: …}`), or with a column of text for each language.

    `hub` is a local folder of parquet files if there is one of that name, else a name on the Hugging Face hub.
    """

    hub: str
    config: str | None
    split: str
    src_lang: str
    tgt_lang: str
    src_column: str | None = None  # None: translation[src_lang]
    tgt_column: str | None = None
    revision: str | None = None  # a commit, tag or branch on the hub
    streaming: bool = True  # read while downloading; else downloaded first, and kept by the library

    def __str__(self) -> str:
        return "/".join(part for part in (self.hub, self.config, self.split) if part)


def read_hub(source: HubSource, advance: Advance | None = None) -> Iterator[Pair]:
    """The rows of a data set; null becomes empty text. `advance` is told how many more rows have been read.

    Raises DataError: no such data set, columns that are not there or not of text, no network.
    """
    dataset = _load_hub(source)
    _check_columns(source, dataset.features)
    n_rows = 0
    batches = dataset.select_columns(list(_columns(source))).iter(_ROWS_AT_A_TIME)
    while batch := _next_batch(source, batches):
        src_texts, tgt_texts = _texts(source, batch)
        for pair in zip(src_texts, tgt_texts, strict=True):
            n_rows += 1
            yield Pair(_one_line(source, n_rows, pair[0]), _one_line(source, n_rows, pair[1]), n_rows)
        if advance:
            advance(len(src_texts))


def count_rows(source: HubSource) -> int | None:
    """How many pairs there are; None where only reading can tell."""
    if Path(source.hub).is_dir():
        import pyarrow.parquet

        return sum(int(pyarrow.parquet.read_metadata(path).num_rows) for path in find_parquet(source))
    splits = _load_hub(source).info.splits or {}
    return int(splits[source.split].num_examples) if source.split in splits else None


def find_problems(source: HubSource) -> list[str]:
    """What would keep `read_hub` from starting, found without reading a row."""
    if source.revision is not None and Path(source.hub).is_dir():
        return [f"{source}: a folder has no revision {source.revision}; leave revision out"]
    try:
        _check_columns(source, _load_hub(source).features)
    except DataError as error:
        return [str(error)]
    return []


def find_files(source: HubSource) -> list[Path]:
    """The files of a data set in a local folder; none for one of the hub. Raises DataError as `find_parquet`."""
    return find_parquet(source) if Path(source.hub).is_dir() else []


def _next_batch(source: HubSource, batches: Iterator[dict[str, list[Any]]]) -> dict[str, list[Any]] | None:
    try:
        return next(batches, None)
    except Exception as error:  # network, disk, parquet: many libraries' errors, all about this data set
        raise _unreadable(source, error) from error


def _columns(source: HubSource) -> tuple[str, ...]:
    if source.src_column is None or source.tgt_column is None:
        return ("translation",)
    return tuple(dict.fromkeys((source.src_column, source.tgt_column)))


def _texts(source: HubSource, batch: dict[str, list[Any]]) -> tuple[list[Any], list[Any]]:
    if source.src_column is not None and source.tgt_column is not None:
        return batch[source.src_column], batch[source.tgt_column]
    rows = [row or {} for row in batch["translation"]]
    return [row.get(source.src_lang) for row in rows], [row.get(source.tgt_lang) for row in rows]


def _one_line(source: HubSource, row: int, text: object) -> str:
    """A cell as a line: nothing for null, and no line end inside, so that lines can be counted anywhere later."""
    if isinstance(text, str):
        return one_line(text)
    if text is None:
        return ""
    raise DataError(f"{source}, row {row}: {text!r} is not text; choose other columns (src_column, tgt_column)")


def _check_columns(source: HubSource, features: dict[str, Any] | None) -> None:
    """Raises DataError when a data set that says what it holds lacks a column or language."""
    if features is None:
        return
    for column in _columns(source):
        if column not in features:
            raise DataError(
                f"{source}: no column {column}; there: {', '.join(features)}. Set src_column and tgt_column"
            )
    if source.src_column is None:
        feature = features["translation"]
        languages = feature if isinstance(feature, dict) else getattr(feature, "languages", ())
        for language in (source.src_lang, source.tgt_lang):
            if language not in languages:
                raise DataError(
                    f"{source}: no language {language} in the column translation; there: {', '.join(languages)}. "
                    "Set data.src_lang and data.tgt_lang"
                )


def _load_hub(source: HubSource) -> Any:
    """An iterable data set, of which nothing is read yet."""
    if not Path(source.hub).is_dir():
        return _ask_hub(source)
    files = [str(path) for path in find_parquet(source)]
    return _load_dataset(source, "parquet", data_files=files, split="train", streaming=True)


@cache  # the answer to a few requests over the network, wanted before, while and after looking for problems
def _ask_hub(source: HubSource) -> Any:
    print(f"asking the hub for {source} …", file=sys.stderr)  # without a network it tries for half a minute
    options = {"split": source.split, "revision": source.revision, "streaming": source.streaming}
    return _load_dataset(source, source.hub, source.config, **options)


def _load_dataset(source: HubSource, *arguments: object, **options: object) -> Any:
    import datasets  # takes seconds

    for library in ("datasets", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.CRITICAL)  # what they have to say comes as an exception, too
    try:
        return datasets.load_dataset(*arguments, **options)
    except Exception as error:  # as in _next_batch
        raise _unreadable(source, error) from error


def _unreadable(source: HubSource, error: Exception) -> DataError:
    reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
    if Path(source.hub).is_dir():
        return DataError(f"{source}: cannot be read: {reason}. Copy or download the folder again")
    return DataError(
        f"{source}: there is no folder {source.hub}, and the hub says: {reason}. Check the network and the names of "
        "hub, config and split, or download the parquet files into a folder and name that"
    )


def find_parquet(source: HubSource) -> list[Path]:
    """The files of one split, as a hub snapshot lays them out.

    `[data/ or CONFIG/]SPLIT.parquet`, `…/SPLIT-00000-of-00003.parquet` or `…/SPLIT/0000.parquet`.

    Raises DataError when there is none, a part is missing, or they belong to several configurations.
    """
    folder = Path(source.hub) / (source.config or "")
    name = re.compile(re.escape(source.split) + r"(-\d+-of-(\d+))?")
    everything = sorted(folder.rglob("*.parquet"))
    found = [path for path in everything if path.parent.name == source.split or name.fullmatch(path.stem)]
    if not found:
        there = ", ".join(str(path.relative_to(source.hub)) for path in everything[:20]) or "none at all"
        raise DataError(f"{source}: no parquet file of this split in {folder}; there: {there}. Set config and split")
    folders = {path.parent for path in found}
    if len(folders) > 1:
        raise DataError(
            f"{source}: in several folders: {', '.join(map(str, sorted(folders)))}. Set config to choose one"
        )
    parts = [match[2] for path in found if (match := name.fullmatch(path.stem)) and match[2]]
    if parts and len(found) != int(parts[0]):
        raise DataError(f"{source}: {len(found)} of {int(parts[0])} files are in {folders.pop()}. Download it again")
    return found
