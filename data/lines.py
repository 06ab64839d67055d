"""Text files, line by line. Only U+000A ends a line; U+2028, U+0085, form feed and all the others are text."""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from data.atomic import whole_file
from data.errors import DataError
from data.forms.compression import look_ahead, open_decompressed

_BLOCK = 1 << 18
_MAX_LINE = 1 << 26

# What else people feed to a program that wants lines of text: first bytes, what it is, what to do.
_FOREIGN = (
    (b"\xff\xfe", "UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > NEW"),
    (b"\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > NEW"),
    (b"\x1f\x8b", "compressed with gzip", "gzip -d FILE"),
    (b"\xfd7zXZ", "compressed with xz", "xz -d FILE"),
    (b"BZh", "compressed with bzip2", "bzip2 -d FILE"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "zstd -d FILE"),
    (b"PK\x03\x04", "a zip archive", "give it as file: FILE, or unzip FILE"),
    (b"PAR1", "parquet", "give it as file: FILE"),
)
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257

# Longest first: the mark of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def read_lines(
    path: Path, advance: Callable[[int], object] | None = None, encoding: str | None = None
) -> Iterator[str]:
    """The lines of a text file, plain or compressed (by its first bytes, whatever its name); rules as `line_blocks`.

    `advance` is told, now and then, how many more bytes of the file have been read.

    Raises DataError: cannot be read, not UTF-8 (with line and byte), compressed data damaged or cut short.
    """
    with open_decompressed(path, advance) as stream:
        yield from itertools.chain.from_iterable(line_blocks(stream, str(path), encoding))


def line_blocks(stream: BinaryIO, name: str, encoding: str | None = None) -> Iterator[list[str]]:
    """The lines of a stream, some thousand at a time.

    A carriage return before the line end belongs to it; a byte-order mark at the start is dropped; a last line may lack
    its line end. Text is UTF-8, or UTF-16 or UTF-32 if it begins with the mark of that, or what `encoding` says.

    Raises DataError, with `name` and line: not in that encoding, a file of another kind, carriage returns for line
    ends, a line of more than 64 Mi characters.
    """
    first, stream = look_ahead(stream)
    codec = normal_encoding(encoding) if encoding else encoding_of(first)
    if codec is None:
        codec = "utf-8"
        _refuse_foreign(first, name)
    elif codec in ("utf-16", "utf-32"):
        codec = encoding_of(first) or codec
    decoded = _decode_utf8(stream, name, first) if codec == "utf-8" else _decode(stream, name, codec)
    number = 0
    for text in _drop_mark(decoded):
        lines = text.replace("\r\n", "\n").split("\n")
        if not lines[-1]:
            lines.pop()  # what follows the last line end is no line
        if not number:
            _refuse_old_mac(text, name)
        number += len(lines)
        yield lines


def encoding_of(first: bytes) -> str | None:
    """The encoding that the byte-order mark at the start of a text tells, if there is one."""
    return next((codec for mark, codec in _MARKS if first.startswith(mark)), None)


def normal_encoding(encoding: str) -> str:
    """The name that Python gives an encoding. Raises DataError when there is none of that name."""
    try:
        codec = codecs.lookup(encoding)
    except (LookupError, ValueError):  # ValueError: a NUL in the name
        codec = None
    # base64 and its like are codecs, too, but not of text.
    if codec is None or codec.incrementaldecoder is None or not getattr(codec, "_is_text_encoding", True):
        raise DataError(f"encoding: {encoding}: no such encoding of text. Known: utf-8, utf-16, latin-1, cp1252 …")
    return "utf-8" if codec.name == "utf-8-sig" else codec.name


def _refuse_foreign(first: bytes, name: str) -> None:
    """Refuse what would pass for UTF-8: an archive of ASCII texts; UTF-16 without a mark, of mostly ASCII."""
    if first.startswith(_TAR_MAGIC, _TAR_MAGIC_AT):
        raise DataError(f"{name} is a tar archive, not text: give it as file: FILE, or tar -xf FILE")
    low, high = first[0:2000:2], first[1:2000:2]
    for codec, zeros, letters in (("UTF-16LE", high, low), ("UTF-16BE", low, high)):
        if len(zeros) >= 16 and zeros.count(0) > 0.9 * len(zeros) and letters.count(0) < 0.1 * len(letters):
            raise DataError(f"{name}: every second byte is zero: {codec} without a mark. Set encoding: {codec}")


def _refuse_old_mac(text: str, name: str) -> None:
    returns = 0 if "\n" in text else text.rstrip("\r").count("\r")
    if returns > 1:
        raise DataError(
            f"{name}: line 1 holds {returns} carriage returns and no line feed: lines of an old Macintosh. "
            "Convert them: tr '\\r' '\\n' < FILE > NEW"
        )


def _decode_utf8(stream: BinaryIO, name: str, first: bytes) -> Iterator[str]:
    """Text that ends where a line ends. In UTF-8 no character holds the byte 0x0A, so bytes can be cut there."""
    n_lines = 0
    for block in _whole_lines(stream, name, b"\n"):
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            start = block.rfind(b"\n", 0, error.start) + 1
            number = n_lines + block.count(b"\n", 0, start) + 1
            if number == 1 and block.startswith(codecs.BOM_UTF8):
                start = len(codecs.BOM_UTF8)
            raise DataError(_explain_not_utf8(error, error.start - start, name, number, first)) from error
        yield text
        n_lines += block.count(b"\n")


def _whole_lines(stream: BinaryIO, name: str, end: bytes) -> Iterator[bytes]:
    rest: list[bytes] = []
    while block := stream.read(_BLOCK):
        ended, found, begun = block.rpartition(end)
        if found:
            yield b"".join((*rest, ended, found))
            rest = []
        rest.append(begun)
        _refuse_endless(sum(map(len, rest)), name)
    if last := b"".join(rest):
        yield last


def _decode(stream: BinaryIO, name: str, codec: str) -> Iterator[str]:
    """Text that ends where a line ends, of any encoding: what ends a line is known only after decoding."""
    decoder = codecs.getincrementaldecoder(codec)()
    n_lines, rest = 0, ""
    for block in itertools.chain(iter(lambda: stream.read(_BLOCK), b""), (b"",)):
        try:
            text = decoder.decode(block, final=not block)
            text.encode()  # some encodings have half a surrogate pair, which nothing after this could write
        except UnicodeError as error:
            raise DataError(_explain_not(codec, error, name, n_lines)) from error
        n_lines += text.count("\n")
        ended, found, begun = text.rpartition("\n")
        if found:
            yield rest + ended + found
            rest = ""
        rest += begun
        _refuse_endless(len(rest), name)
    if rest:
        yield rest


def _refuse_endless(size: int, name: str) -> None:
    if size > _MAX_LINE:
        raise DataError(f"{name}: {size >> 20} Mi characters without a line end. Is this text, a sentence to the line?")


def _drop_mark(texts: Iterator[str]) -> Iterator[str]:
    first = next(texts, "").removeprefix("\ufeff")
    return itertools.chain((first,) if first else (), texts)


def _explain_not(codec: str, error: UnicodeError, name: str, n_lines: int) -> str:
    number = n_lines + 1
    if isinstance(error, UnicodeDecodeError):
        before = error.object[: error.start]
        wide = codec.startswith(("utf-16", "utf-32"))  # there, 0x0A is also half of other characters
        number += before.decode(codec, "replace").count("\n") if wide else before.count(b"\n")
    reason = error.reason if isinstance(error, UnicodeDecodeError | UnicodeEncodeError) else str(error)
    return f"{name}, line {number}: not {codec}: {reason}. Mend the line, or set encoding to what it is"


def decode_lines(stream: Iterable[bytes], name: str, replaced: Callable[[int], object] | None = None) -> Iterator[str]:
    """The lines of a binary stream that is iterated by line, such as `sys.stdin.buffer`, each as soon as it is there.

    Rules as in `line_blocks`, for UTF-8. If `replaced` is given, U+FFFD takes the place of what is not UTF-8, and it is
    told the number of that line.

    Raises DataError, with `name` and line number, at the first line that is not UTF-8; and when it is no text at all.
    """
    stream = iter(stream)
    first = next(stream, b"")
    if first.startswith(_TAR_MAGIC, _TAR_MAGIC_AT):  # all ASCII and NUL, so it would pass for text
        raise DataError(f"{name} is a tar archive, not text: tar -xf FILE")
    text = first.removeprefix(codecs.BOM_UTF8)
    for number, line in enumerate(itertools.chain([text] if text else [], stream), 1):
        try:
            decoded = line.decode()
        except UnicodeDecodeError as error:
            if replaced is None or first.startswith(tuple(magic for magic, _, _ in _FOREIGN)):
                raise DataError(_explain_not_utf8(error, error.start, name, number, first)) from error
            decoded = line.decode(errors="replace")
            replaced(number)
        yield decoded.removesuffix("\n").removesuffix("\r") if decoded.endswith("\n") else decoded


def _explain_not_utf8(error: UnicodeDecodeError, at: int, name: str, number: int, first: bytes) -> str:
    wrong = " ".join(f"0x{byte:02X}" for byte in error.object[error.start : error.end])
    what = f"{name}, line {number}: not UTF-8: {wrong} at byte {at + 1} of the line ({error.reason})"
    for magic, kind, remedy in _FOREIGN:
        if first.startswith(magic):
            return f"{what}. The file is {kind}: {remedy}"
    return (
        f"{what}. Mend the line; or, if the whole file is in another encoding, name it (encoding: latin-1) or convert "
        "it: iconv -f ISO-8859-1 -t UTF-8 FILE > NEW"
    )


def one_line(text: str) -> str:
    """A text without line ends, so that lines can be counted anywhere later."""
    return text.replace("\n", " ") if "\n" in text else text


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
