"""Two plain texts read tolerantly: whatever is wrong with them is told, and reading goes on.

The rules of lines are those of `data.lines.line_blocks`; the same lines have the same numbers.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from data.corpora import FileSource, Source, read_pairs
from data.doctor.findings import Tally
from data.errors import DataError
from data.forms.compression import look_ahead, open_decompressed
from data.forms.detect import form_of_side
from data.lines import encoding_of, normal_encoding

Advance = Callable[[int], object]

LINES_AT_A_TIME = 10_000
_BLOCK = 1 << 20
_MAX_LINE = 1 << 26


@dataclass
class TolerantText:
    """One text; the attributes are complete when `lines` has ended."""

    path: Path
    encoding: str | None = None
    n_lines: int = 0
    bad_lines: Tally = field(default_factory=Tally)
    mark: str = ""  # encoding that a byte-order mark told
    problem: str = ""  # why reading ended early
    old_mac: bool = False

    def lines(self, advance: Advance | None = None) -> Iterator[str]:
        """All lines. Bytes that are not in the encoding are spelled out, as in `caf\\xe9`."""
        try:
            with open_decompressed(self.path, advance) as stream:
                first, stream = look_ahead(stream)
                for number, block in enumerate(self._blocks(first, stream)):
                    lines = block.replace("\r\n", "\n").split("\n")
                    if not lines[-1]:
                        lines.pop()
                    self.old_mac |= number == 0 and "\n" not in block and block.rstrip("\r").count("\r") > 1
                    self.n_lines += len(lines)
                    yield from lines
        except DataError as error:
            self.problem = str(error)

    def _blocks(self, first: bytes, stream: BinaryIO) -> Iterator[str]:
        """Text that ends where a line ends, without the byte-order mark."""
        form_of_side(first, str(self.path))  # refuses what is no text
        named = normal_encoding(self.encoding) if self.encoding else None
        self.mark = encoding_of(first) or "" if named in (None, "utf-8", "utf-16", "utf-32") else ""
        self.encoding = named if named and not self.mark else self.mark or "utf-8"
        blocks = self._utf8(stream) if self.encoding == "utf-8" else self._decoded(stream, self.encoding)
        first_block = next(blocks, "").removeprefix("\ufeff")
        if first_block:
            yield first_block
        yield from blocks

    def _utf8(self, stream: BinaryIO) -> Iterator[str]:
        n_lines = 0
        for block in self._whole_lines(iter(lambda: stream.read(_BLOCK), b"")):
            try:
                yield block.decode()
            except UnicodeDecodeError:
                yield self._spell_out(block, n_lines)
            n_lines += block.count(b"\n")

    def _spell_out(self, block: bytes, n_lines: int) -> str:
        lines = block.split(b"\n")
        texts = []
        for number, line in enumerate(lines, n_lines + 1):
            try:
                texts.append(line.decode())
            except UnicodeDecodeError as error:
                texts.append(line.decode(errors="backslashreplace"))
                wrong = " ".join(f"0x{byte:02X}" for byte in line[error.start : error.end])
                at = error.start - (3 if number == 1 and line.startswith(codecs.BOM_UTF8) else 0)
                before = len(line[: error.start].decode(errors="backslashreplace"))
                self.bad_lines.add(number, texts[-1], before, f"{wrong} at byte {at + 1}: ")
        return "\n".join(texts)

    def _decoded(self, stream: BinaryIO, encoding: str) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        n_lines = 0
        rest = ""
        while True:
            raw = stream.read(_BLOCK)
            ended, found, rest = (rest + decoder.decode(raw, final=not raw)).rpartition("\n")
            text = ended + found if raw else ended + found + rest
            if "\ufffd" in text:
                for number, line in enumerate(text.split("\n"), n_lines + 1):
                    if "\ufffd" in line:
                        self.bad_lines.add(number, line, line.index("\ufffd"))
            n_lines += text.count("\n")
            if text:
                yield text.encode(errors="backslashreplace").decode()  # half characters of UTF-16
            self._refuse_endless(len(rest))
            if not raw:
                return

    def _whole_lines(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        rest: list[bytes] = []
        for block in blocks:
            ended, found, begun = block.rpartition(b"\n")
            if found:
                yield b"".join((*rest, ended, found))
                rest = []
            rest.append(begun)
            self._refuse_endless(sum(map(len, rest)))
        if last := b"".join(rest):
            yield last

    def _refuse_endless(self, size: int) -> None:
        if size > _MAX_LINE:
            raise DataError(
                f"{self.path}: {size >> 20} Mi characters without a line end. Is this text, a sentence to the line?"
            )


@dataclass(frozen=True)
class Batch:
    """Some thousand lines of both sides. One side is shorter, or empty, where one text has ended."""

    src: list[str]
    tgt: list[str]
    places: npt.NDArray[np.int64]  # of the longer side, from 1


def is_plain(source: Source) -> bool:
    """Whether a source is two plain texts. Two SGM files, or what cannot be told, are not."""
    if not isinstance(source, FileSource):
        return False
    try:
        for path in (source.src, source.tgt):
            with open_decompressed(path) as stream:
                if form_of_side(look_ahead(stream)[0], str(path)) == "sgm":
                    return False
    except DataError:
        pass  # told when it is read
    return True


def read_texts(src: TolerantText, tgt: TolerantText, advance: Advance | None = None) -> Iterator[Batch]:
    """The lines of two texts, up to the end of the longer one."""
    sides = src.lines(advance), tgt.lines(advance)
    first = 1
    while True:
        ours, theirs = (list(islice(side, LINES_AT_A_TIME)) for side in sides)
        n_lines = max(len(ours), len(theirs))
        if not n_lines:
            return
        yield Batch(ours, theirs, np.arange(first, first + n_lines))
        first += n_lines


def read_batches(source: Source, advance: Advance | None = None) -> Iterator[Batch]:
    """The pairs of any source. Raises DataError as `read_pairs`."""
    pairs = read_pairs(source, advance)
    while part := list(islice(pairs, LINES_AT_A_TIME)):
        places = np.fromiter((pair.place for pair in part), np.int64, len(part))
        yield Batch([pair.src for pair in part], [pair.tgt for pair in part], places)
