"""Where sentence pairs come from: files in any of the forms of `data.forms`, data sets of a hub, known test sets."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

from data.errors import DataError
from data.forms import hub, parquet
from data.forms.archives import choose_members, open_member
from data.forms.compression import Advance, Meter, look_ahead, open_decompressed, open_to_read
from data.forms.detect import FORMS, form_of
from data.forms.hub import HubSource
from data.forms.json_lines import read_json_lines
from data.forms.plain import read_two
from data.forms.tables import USUAL_COLUMNS, Columns, read_table
from data.forms.testset import TestSetSource, find_test_set
from data.pairs import Pair

__all__ = [
    "Columns",
    "FileSource",
    "HubSource",
    "RecordsSource",
    "Source",
    "TestSetSource",
    "find_problems",
    "fingerprint",
    "read_pairs",
    "size_of",
]


@dataclass(frozen=True)
class FileSource:
    """Two files, one of each language: text, or SGM of WMT; plain or compressed.

    Of text, line N of one translates line N of the other.
    """

    src: Path
    tgt: Path
    encoding: str | None = None  # None: UTF-8, or what a byte-order mark tells

    def __str__(self) -> str:
        return f"{self.src} + {self.tgt}"


@dataclass(frozen=True)
class RecordsSource:
    """One file with both languages: a table, JSON Lines, Parquet, TMX, XLIFF, PO, MO, XML of WMT, or an archive.

    Settings that the form of the file has no use for are refused.
    """

    file: Path
    src_lang: str
    tgt_lang: str
    form: str | None = None  # one of `data.forms.detect.FORMS`; None: as the content tells
    encoding: str | None = None  # of tables, JSON Lines and texts in archives
    columns: Columns = USUAL_COLUMNS
    reference: str | None = None  # XML of WMT: whose translation
    system: str | None = None  # XML of WMT: the output of this system, instead of a reference
    inline_tags: Literal["drop", "keep"] = "drop"  # TMX, XLIFF: the tags within a text
    members: str | None = None  # archives: only members whose path matches this pattern, such as '*/dev/*'

    def __str__(self) -> str:
        return str(self.file)


Source = FileSource | RecordsSource | HubSource | TestSetSource


def read_pairs(source: Source, advance: Advance | None = None, left_out: Counter[str] | None = None) -> Iterator[Pair]:
    """All pairs of a source, in order, a few in memory at a time (forms that must be read whole excepted: PO, MO, SGM).

    `advance` is told, now and then, how many more of the units of `size_of` have been read. `left_out` counts, by
    reason, the units of TMX, XLIFF, PO and MO that are no pair of these languages.

    Raises DataError: not readable, damaged, not in its encoding, sides of different length, columns that are not
    there, and whatever else a form can be wrong in, with file and line.
    """
    match source:
        case FileSource():
            return _read_files(source, advance)
        case RecordsSource():
            return _read_records(source, advance, Counter() if left_out is None else left_out)
        case HubSource():
            return hub.read_hub(source, advance)
        case TestSetSource():
            return _read_files(FileSource(*find_test_set(source)), advance)


def size_of(source: Source) -> tuple[int | None, str]:
    """How much there is to read, for a progress bar, and in which unit; None where only reading can tell.

    Raises DataError when the source is not there.
    """
    match source:
        case FileSource():
            return _size(source.src) + _size(source.tgt), "B"
        case RecordsSource():
            rows = parquet.count_rows(source.file) if _form_of_file(source) == "parquet" else None
            return (rows, "pairs") if rows is not None else (_size(source.file), "B")
        case HubSource():
            return hub.count_rows(source), "pairs"
        case TestSetSource():
            return size_of(FileSource(*find_test_set(source)))


def find_problems(source: Source) -> list[str]:
    """What would keep `read_pairs` from starting, found without reading much.

    An archive is listed, and what must be read whole is: see `read_pairs`.
    """
    if isinstance(source, HubSource):
        return hub.find_problems(source)
    files = _files(source)
    if problems := [problem for path in files for problem in _find_unreadable(path)]:
        return problems
    if not all(path.is_file() for path in files):
        return []  # of a pipe, what is read now is gone later
    try:
        next(read_pairs(source), None)
    except DataError as error:
        return [str(error)]
    return []


def is_pipe(source: Source) -> bool:
    """Whether a source can be read only once."""
    return not isinstance(source, HubSource | TestSetSource) and any(path.is_fifo() for path in _files(source))


def fingerprint(source: Source) -> dict[str, Any]:
    """What identifies the content of a source without reading it: names, and for files also size and time of change.

    Raises DataError when a file is not there.
    """
    names = {key: str(value) for key, value in asdict(source).items() if value is not None}
    if isinstance(source, HubSource):
        del names["streaming"]  # a way to the same content
    if isinstance(source, RecordsSource):
        names["columns"] = str({key: value for key, value in asdict(source.columns).items() if value is not None})
    sizes = []
    for path in hub.find_files(source) if isinstance(source, HubSource) else _files(source):
        stat = _stat(path)
        sizes.append({"path": str(path), "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns})
    return {**names, "files": sizes}


_ARCHIVES = ("zip", "tar")
_TEXTS = "two texts"
_USES = {  # which settings a form has a use for
    "tsv": ("columns", "encoding"),
    "csv": ("columns", "encoding"),
    "jsonl": ("columns", "encoding"),
    "parquet": ("columns",),
    "tmx": ("inline_tags",),
    "xliff": ("inline_tags",),
    "wmt_xml": ("reference", "system"),
    "po": (),
    "mo": (),
    _TEXTS: ("encoding",),
}
_ROWS_PER_REPORT = 1000


def _read_files(source: FileSource, advance: Advance | None) -> Iterator[Pair]:
    meter = Meter(advance, _size(source.src) + _size(source.tgt))
    with open_decompressed(source.src, meter.update) as src, open_decompressed(source.tgt, meter.update) as tgt:
        yield from read_two(src, tgt, str(source.src), str(source.tgt), source.encoding)
    meter.finish()


def _read_records(source: RecordsSource, advance: Advance | None, left_out: Counter[str]) -> Iterator[Pair]:
    total, _ = size_of(source)
    meter = Meter(advance, total or 0)
    form = _form_of_file(source)
    if form in _ARCHIVES:
        yield from _read_archive(source, "zip" if form == "zip" else "tar", meter, left_out)
    elif form == "parquet" and parquet.count_rows(source.file) is not None:
        yield from _read_rows(source, meter)
    else:
        with open_decompressed(source.file, meter.update) as stream:
            yield from _read_stream(source, stream, str(source.file), left_out)
    meter.finish()


def _read_rows(source: RecordsSource, meter: Meter) -> Iterator[Pair]:
    _refuse_unused(source, "parquet", str(source))
    pairs = parquet.read_parquet(source.file, str(source), source.src_lang, source.tgt_lang, source.columns)
    for pair in pairs:
        yield pair
        if pair.place % _ROWS_PER_REPORT == 0:
            meter.update(_ROWS_PER_REPORT)


def _read_archive(
    source: RecordsSource, kind: Literal["zip", "tar"], meter: Meter, left_out: Counter[str]
) -> Iterator[Pair]:
    members = choose_members(source.file, kind, source.src_lang, source.tgt_lang, source.members)
    # Two members are read side by side, each from its own opening of the archive.
    share = len(members) if kind == "tar" else 1
    names = [f"{source.file}: {member}" for member in members]
    alone = replace(source, members=None, form=None if source.form in _ARCHIVES else source.form)
    with ExitStack() as stack:
        streams = [
            stack.enter_context(open_member(source.file, kind, member, lambda amount: meter.update(amount // share)))
            for member in members
        ]
        if len(streams) == 1:
            yield from _read_stream(alone, streams[0], names[0], left_out)
        else:
            _refuse_unused(alone, _TEXTS, str(source))
            yield from read_two(streams[0], streams[1], names[0], names[1], source.encoding)


def _read_stream(source: RecordsSource, stream: BinaryIO, name: str, left_out: Counter[str]) -> Iterator[Pair]:
    first, stream = look_ahead(stream)
    form = source.form or form_of(first, name)
    if not first and not source.form:
        return
    if form in _ARCHIVES:
        raise DataError(f"{name}: an archive within an archive or a compressed file is not read. Unpack the outer one")
    if form == "sgm":
        raise DataError(f"{name}: SGM holds one side only. Give the two files as src and tgt")
    if form == "plain":
        raise DataError(
            f"{name}: no pairs are seen in it: plain text, neither a table (tabs, commas) nor any other form. Give the "
            "texts of both languages as src and tgt, or say what it is: form: tsv"
        )
    _refuse_unused(source, form, name)
    yield from _reader(form, source, stream, name, left_out)


def _reader(form: str, source: RecordsSource, stream: BinaryIO, name: str, left_out: Counter[str]) -> Iterator[Pair]:
    """The reader of a form; those that need a library of their own are imported when they are needed."""
    languages = (source.src_lang, source.tgt_lang)
    match form:
        case "tsv" | "csv":
            return read_table(stream, name, *languages, source.columns, form, source.encoding)
        case "jsonl":
            return read_json_lines(stream, name, *languages, source.columns, source.encoding)
        case "parquet":
            return parquet.read_parquet(stream, name, *languages, source.columns)
        case "tmx":
            from data.forms.tmx import read_tmx

            return read_tmx(stream, name, *languages, source.inline_tags, left_out)
        case "xliff":
            from data.forms.xliff import read_xliff

            return read_xliff(stream, name, *languages, source.inline_tags, left_out)
        case "wmt_xml":
            from data.forms.wmt_xml import read_wmt_xml

            return read_wmt_xml(stream, name, *languages, source.reference, source.system)
        case "po" | "mo":
            from data.forms import gettext

            return (gettext.read_po if form == "po" else gettext.read_mo)(stream, name, left_out)
    raise DataError(f"{name}: form: {form}: there is no such form. Choose one of {', '.join(FORMS)}")


def _refuse_unused(source: RecordsSource, form: str, name: str) -> None:
    given = {
        "encoding": source.encoding is not None,
        "columns": source.columns != USUAL_COLUMNS,
        "reference": source.reference is not None,
        "system": source.system is not None,
        "inline_tags": source.inline_tags != "drop",
        "members": source.members is not None,
    }
    unused = [setting for setting, is_given in given.items() if is_given and setting not in _USES.get(form, given)]
    if unused:
        raise DataError(f"{name}: {form}: {' and '.join(unused)} mean nothing to this form. Leave them out")


def _form_of_file(source: RecordsSource) -> str | None:
    """The form of the file itself, when `source.form` is that of a member; None for a pipe, which is read only once."""
    if source.file.exists() and not source.file.is_file() and not source.file.is_dir():
        return source.form
    with open_decompressed(source.file) as stream:
        first, _ = look_ahead(stream)
    found = form_of(first, str(source.file))
    return found if found in _ARCHIVES or source.form is None else source.form


def _files(source: FileSource | RecordsSource | TestSetSource) -> list[Path]:
    match source:
        case FileSource():
            return [source.src, source.tgt]
        case RecordsSource():
            return [source.file]
        case TestSetSource():
            return []


def _find_unreadable(path: Path) -> Iterator[str]:
    if path.is_fifo():  # whoever writes it would notice
        return
    try:
        open_to_read(path).close()
    except DataError as error:
        yield str(error)


def _size(path: Path) -> int:
    return _stat(path).st_size


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
