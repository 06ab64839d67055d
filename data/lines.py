"""Text files, line by line. Only the byte 0x0A ends a line; U+2028, U+0085, form feed and all the others are text."""

from __future__ import annotations

import codecs
import gzip
import io
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from data.atomic import whole_file
from data.errors import DataError

_GZIP_MAGIC = b"\x1f\x8b"
_LINES_PER_REPORT = 4096

# What else people feed to a program that wants UTF-8: first bytes, what it is, how to make text of it.
_FOREIGN = (
    (b"\xff\xfe", "UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > NEW"),
    (b"\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > NEW"),
    (b"\xfd7zXZ", "compressed with xz", "xz -d FILE"),
    (b"BZh", "compressed with bzip2", "bzip2 -d FILE"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "zstd -d FILE"),
    (b"PK\x03\x04", "a zip archive", "unzip FILE"),
    (b"PAR1", "parquet", "give the folder it lies in as hub: FOLDER, instead of src and tgt"),
)
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257


def read_lines(path: Path, advance: Callable[[int], object] | None = None) -> Iterator[str]:
    """The lines of a text file, plain or gzip by its first bytes, whatever its name; one line in memory at a time.

    A carriage return before the line end belongs to it; a BOM at the start of the file is dropped; a last line may
    lack its line end. `advance` is told, now and then, how many more bytes of the file have been read.

    Raises DataError: cannot be read, not UTF-8 (with line and byte), gzip data damaged or cut short.
    """
    try:
        with path.open("rb") as file:
            lines = decode_lines(_plain(file), str(path))
            yield from _reporting(lines, file, advance) if advance else lines
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: gzip data damaged or cut short ({error}); copy or make the file again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def _plain(file: io.BufferedReader) -> BinaryIO:
    is_gzip = file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)  # not read and seek: a pipe has no way back
    # The buffer finds line ends in C; GzipFile alone does it a line at a time in Python.
    return cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=file), 1 << 18)) if is_gzip else file


def _reporting(lines: Iterator[str], file: BinaryIO, advance: Callable[[int], object]) -> Iterator[str]:
    reported = 0
    for number, line in enumerate(lines):
        if number % _LINES_PER_REPORT == 0:
            reported += _report(file, reported, advance)
        yield line
    _report(file, reported, advance)


def _report(file: BinaryIO, reported: int, advance: Callable[[int], object]) -> int:
    more = file.tell() - reported
    advance(more)
    return more


def decode_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """The lines of a binary stream that is iterated by line, such as `sys.stdin.buffer`; rules as in `read_lines`.

    Raises DataError, with `name` and line number, at the first line that is not UTF-8.
    """
    stream = iter(stream)
    first = next(stream, b"")
    if first.startswith(_TAR_MAGIC, _TAR_MAGIC_AT):  # all ASCII and NUL, so it would pass for text
        raise DataError(f"{name} is a tar archive, not text: tar -xf FILE")
    text = first.removeprefix(codecs.BOM_UTF8)
    for number, line in enumerate(itertools.chain([text] if text else [], stream), 1):
        if line.endswith(b"\n"):
            line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        try:
            decoded = line.decode()
        except UnicodeDecodeError as error:
            raise DataError(_explain_not_utf8(error, name, number, first)) from error
        yield decoded


def _explain_not_utf8(error: UnicodeDecodeError, name: str, number: int, first: bytes) -> str:
    wrong = " ".join(f"0x{byte:02X}" for byte in error.object[error.start : error.end])
    what = f"{name}, line {number}: not UTF-8: {wrong} at byte {error.start + 1} of the line ({error.reason})"
    for magic, kind, remedy in _FOREIGN:
        if first.startswith(magic):
            return f"{what}. The file is {kind}: {remedy}"
    return f"{what}. Mend the line, or convert the file, for example: iconv -f ISO-8859-1 -t UTF-8 FILE > NEW"


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write one line each, whole or not at all. A line must not hold a line end. Raises OSError."""
    with whole_file(path) as stream:
        for line in lines:
            assert "\n" not in line, f"a line end inside a line would shift all lines after it: {line!r}"
            stream.write(f"{line}\n".encode())


def read_written_lines(path: Path) -> Iterator[str]:
    """Exactly the lines that `write_lines` wrote: a BOM or carriage return that was text once remains text."""
    with path.open("rb") as file:
        for line in file:
            yield line[:-1].decode()
