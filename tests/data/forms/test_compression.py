"""Compressed data are read whole, whatever their name and however many members they have, or refused."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from data.forms.compression import Meter, decompressed, look_ahead, open_decompressed, stream_of

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.compress,
}
SKIPPED = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"meta"  # pzstd writes such a frame before each other one

kinds = st.sampled_from(list(PACKERS))
every_kind = pytest.mark.parametrize("kind", PACKERS)


def unpack(content: bytes) -> bytes:
    return decompressed(io.BytesIO(content), "name").read()


@given(kinds, st.lists(st.binary(), min_size=1))
def test_members_one_after_the_other_are_one_text(kind: str, parts: list[bytes]) -> None:
    packed = b"".join(PACKERS[kind](part) for part in parts)
    assert unpack(packed) == b"".join(parts)
    if kind == "zstd":
        assert unpack(SKIPPED + packed + SKIPPED) == b"".join(parts)


@every_kind
def test_much_data_come_out_as_they_went_in(kind: str) -> None:
    content = b"".join(b"line %d\n" % number for number in range(80_000)) + bytes(1_000_000)
    assert unpack(PACKERS[kind](content)) == content


@every_kind
def test_data_cut_anywhere_are_an_error_and_no_short_text(kind: str) -> None:
    packed = PACKERS[kind](b"".join(b"line %d\n" % number for number in range(100)))
    for end in range(6, len(packed)):
        with pytest.raises(DataError, match=f"name: {kind} data damaged or cut short"):
            unpack(packed[:end])
        with pytest.raises(DataError, match=f"name: {kind} data damaged or cut short"):
            unpack(packed + packed[:end])


@every_kind
def test_what_follows_the_data_is_padding_or_an_error(kind: str) -> None:
    packed = PACKERS[kind](b"text\n")
    assert unpack(packed + bytes(512)) == b"text\n"
    with pytest.raises(DataError, match="damaged"):
        unpack(packed + b"and something else")


@given(kinds, st.binary(min_size=20, max_size=300), st.data())
def test_a_changed_byte_never_goes_unseen(kind: str, content: bytes, data: st.DataObject) -> None:
    pack = PACKERS[kind]
    if kind == "zstd":
        pack = zstandard.ZstdCompressor(write_checksum=True).compress
    packed = bytearray(pack(content))
    at = data.draw(st.integers(12, len(packed) - 1))  # after what tells the kind, and the time of gzip
    packed[at] ^= data.draw(st.integers(1, 255))
    try:
        assert unpack(bytes(packed)) == content
    except DataError as error:
        assert kind in str(error)


@given(st.binary())
def test_what_is_not_compressed_is_passed_on(content: bytes) -> None:
    try:
        assert unpack(content) == content
    except DataError as error:
        assert any(word in str(error) for word in (*PACKERS, "packed with"))


@pytest.mark.parametrize(("content", "kind"), [(b"7z\xbc\xaf\x27\x1c..", "7z x"), (b"Rar!\x1a\x07..", "unrar")])
def test_other_packings_are_refused_with_what_to_do(content: bytes, kind: str) -> None:
    with pytest.raises(DataError, match=kind):
        unpack(content)


def test_text_that_begins_like_bzip2_is_text() -> None:
    assert unpack(b"BZh9 is how bzip2 begins\n") == b"BZh9 is how bzip2 begins\n"


@given(st.lists(st.binary(max_size=50)), st.integers(0, 100))
def test_looking_ahead_takes_nothing_away(blocks: list[bytes], size: int) -> None:
    content = b"".join(blocks)
    first, stream = look_ahead(stream_of(blocks), size)
    assert first == content[:size]
    assert stream.read() == content


@given(st.lists(st.integers(0, 50)), st.integers(0, 100))
def test_a_meter_tells_all_and_never_more(amounts: list[int], total: int) -> None:
    told: list[int] = []
    meter = Meter(told.append, total)
    for amount in amounts:
        meter.update(amount)
        assert sum(told) <= total
    meter.finish()
    assert sum(told) == total


def test_a_decompression_bomb_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    for pack in (bz2.compress, zstandard.compress):
        path.write_bytes(pack(bytes(20_000_000)))
        with open_decompressed(path) as stream:
            assert sum(map(len, iter(lambda: stream.read(1 << 16), b""))) == 20_000_000
