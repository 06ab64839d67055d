"""Bytes out of gzip, bzip2, xz and zstandard, known by their first bytes and not by their names.

Several members or frames one after the other (`cat a.gz b.gz`) are one text. Data that end too early, or go on as
something else, are an error and never a short corpus.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import zstandard

from data.errors import DataError

Advance = Callable[[int], object]

LOOK_AHEAD = 1 << 16  # bytes that are enough to know a form by
_BLOCK = 1 << 18
_SIP = 1 << 12  # compressed bytes at a time: 4 KiB of zstandard make at most 128 MiB

_MAGIC = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "bzip2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90|.{0,5}\Z)", re.DOTALL),  # 10 bytes, unless cut before
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),  # a frame, or what pzstd writes before one
}
_UNKNOWN = {
    "7z": (b"7z\xbc\xaf\x27\x1c", "7z x FILE"),
    "rar": (b"Rar!\x1a\x07", "unrar x FILE"),
    "lz4": (b"\x04\x22\x4d\x18", "lz4 -d FILE"),
    "compress": (b"\x1f\x9d", "uncompress FILE"),
}
_DAMAGES = (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


class Meter:
    """Tells a progress bar how far reading has come: never more than `total`, and all of it at the end."""

    def __init__(self, advance: Advance | None, total: int) -> None:
        self._advance, self._left = advance, total

    def update(self, amount: int) -> None:
        """So much more has been read."""
        amount = min(amount, self._left)
        self._left -= amount
        if self._advance and amount:
            self._advance(amount)

    def finish(self) -> None:
        """All has been read, whatever was skipped."""
        self.update(self._left)


class _Blocks(io.RawIOBase):
    """A stream of the bytes that an iterator gives."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks, self._rest = iter(blocks), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        target = memoryview(buffer).cast("B")
        n_bytes = min(len(target), len(self._rest))
        target[:n_bytes], self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return n_bytes


def stream_of(blocks: Iterable[bytes]) -> BinaryIO:
    """An unseekable stream of blocks of bytes; what making them raises is raised by reading."""
    return cast(BinaryIO, io.BufferedReader(_Blocks(blocks), _BLOCK))


def blocks_of(stream: IO[bytes], size: int = _BLOCK) -> Iterator[bytes]:
    """A stream as blocks of at most `size` bytes."""
    while block := stream.read(size):
        yield block


def look_ahead(stream: BinaryIO, size: int = LOOK_AHEAD) -> tuple[bytes, BinaryIO]:
    """The first bytes of a stream, which need not be seekable, and a stream that still begins with them."""
    first = stream.read(size)
    return first, stream_of(chain((first,), blocks_of(stream)))


@contextmanager
def open_decompressed(path: Path, advance: Advance | None = None) -> Iterator[BinaryIO]:
    """What a file holds, decompressed. `advance` is told how many more bytes of the file itself have been read.

    Raises DataError: cannot be read; damaged or cut short, when reading comes to that place.
    """
    with open_to_read(path) as file:
        yield decompressed(stream_of(_reported(file, path, advance)), str(path))


def open_to_read(path: Path) -> io.FileIO:
    """An unbuffered file. Raises DataError when it cannot be read."""
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        raise _unreadable(path, error) from error


def _reported(file: io.FileIO, path: Path, advance: Advance | None) -> Iterator[bytes]:
    try:
        for block in blocks_of(file):
            yield block
            if advance:
                advance(len(block))
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: cannot be read: {error.strerror or error}")


def decompressed(stream: BinaryIO, name: str) -> BinaryIO:
    """The stream itself, or what is compressed in it. Raises DataError as `open_decompressed`, with `name`."""
    first, stream = look_ahead(stream, 16)
    for kind, (magic, remedy) in _UNKNOWN.items():
        if first.startswith(magic):
            raise DataError(f"{name}: packed with {kind}, which is not read here: {remedy}")
    for kind, pattern in _MAGIC.items():
        if pattern.match(first):
            return stream_of(_explaining(_unpack(stream, kind), name, kind))
    return stream


def _unpack(stream: BinaryIO, kind: str) -> Iterator[bytes]:
    if kind == "gzip":
        return blocks_of(cast(IO[bytes], gzip.GzipFile(fileobj=stream)))
    if kind == "zstd":
        # zstd --long=31 asks for windows of 2 GiB, and only then are they taken
        return _members(stream, zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj, _all_at_once)
    return _members(stream, bz2.BZ2Decompressor if kind == "bzip2" else lzma.LZMADecompressor, _bounded)


def _members(
    stream: BinaryIO, new: Callable[[], Any], decompress: Callable[[Any, bytes], Iterator[bytes]]
) -> Iterator[bytes]:
    """All members. BZ2File and LZMAFile take whatever follows the first for padding, which hides damage."""
    packed = stream.read(_SIP)
    while packed:
        member = new()
        while not member.eof:
            if not packed:
                raise EOFError("it ends in the middle")
            yield from decompress(member, packed)
            packed = member.unused_data if member.eof else stream.read(_SIP)
        packed = packed or stream.read(_SIP)
        while packed and not packed.strip(b"\0"):  # padding of xz, and of tapes
            packed = stream.read(_SIP)
        packed = packed.lstrip(b"\0")


def _bounded(member: bz2.BZ2Decompressor | lzma.LZMADecompressor, packed: bytes) -> Iterator[bytes]:
    yield member.decompress(packed, _BLOCK)
    while not member.needs_input and not member.eof:
        yield member.decompress(b"", _BLOCK)


def _all_at_once(member: Any, packed: bytes) -> Iterator[bytes]:
    yield member.decompress(packed)


def _explaining(blocks: Iterator[bytes], name: str, kind: str) -> Iterator[bytes]:
    try:
        yield from blocks
    except _DAMAGES as error:
        raise DataError(f"{name}: {kind} data damaged or cut short ({error}); copy or make the file again") from error
