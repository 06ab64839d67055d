"""Only the byte 0x0A ends a line, whatever a file holds and however it is packed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from data.lines import decode_lines, read_lines, read_written_lines, write_lines

BOM = "\ufeff".encode()


def reference_lines(content: bytes) -> list[str]:
    """The rule in other words: cut at 0x0A, one 0x0D before it goes too, so does a BOM in front of everything."""
    content = content.removeprefix(BOM)
    *ended, rest = content.split(b"\n")
    return [line.removesuffix(b"\r").decode() for line in ended] + ([rest.decode()] if rest else [])


@given(
    st.lists(st.sampled_from([*b"ab \r\n", *BOM, *"é\u2028\x85\x0c\x1c".encode(), 0, 0xFF])).map(bytes) | st.binary()
)
def test_any_bytes_are_read_exactly_or_refused(content: bytes) -> None:
    try:
        expected = reference_lines(content)
    except UnicodeDecodeError:
        with pytest.raises(DataError, match=r"name, line \d+: not UTF-8"):
            list(decode_lines(io.BytesIO(content), "name"))
    else:
        assert list(decode_lines(io.BytesIO(content), "name")) == expected


@given(st.binary())
def test_a_bom_in_front_changes_nothing(content: bytes) -> None:
    try:
        expected = list(decode_lines(io.BytesIO(content), "name"))
    except DataError:
        return
    if not content.startswith(BOM):
        assert list(decode_lines(io.BytesIO(BOM + content), "name")) == expected


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"])
def test_what_other_readers_take_for_a_line_end_is_text(tmp_path: Path, end: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(f"one{end}two\n{end}\nthree{end}".encode())
    assert list(read_lines(path)) == [f"one{end}two", end if end != "\r" else "", f"three{end}"]


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"a\r\nb\r\n", b"no end", BOM + b"x\n\n\n", b"\r\r\n", bytes(5) + b"\n"]
)
@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_gzip_is_known_by_its_bytes_and_not_by_its_name(tmp_path: Path, content: bytes, name: str) -> None:
    path = tmp_path / name
    for packed in (content, gzip.compress(content)):
        path.write_bytes(packed)
        assert list(read_lines(path)) == reference_lines(content)


def test_concatenated_gzip_files_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"one\ntw") + gzip.compress(b"o\nthree\n"))
    assert list(read_lines(path)) == ["one", "two", "three"]


@pytest.mark.parametrize("cut", [3, 15, 100, -1, -8, -9])
def test_a_cut_gzip_file_is_an_error_and_no_short_corpus(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"".join(b"line %d\n" % i for i in range(1000)))[:cut])
    with pytest.raises(DataError, match=r"text\.gz: gzip data damaged or cut short"):
        list(read_lines(path))


def test_a_flipped_bit_in_gzip_data_is_an_error(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"".join(b"line %d\n" % i for i in range(1000))))
    packed[len(packed) // 2] ^= 1
    path = tmp_path / "text.gz"
    path.write_bytes(packed)
    with pytest.raises(DataError, match=r"text\.gz"):
        list(read_lines(path))


def test_d4_a_latin1_byte_is_refused_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "d4.src"
    path.write_bytes(b"good line\ncaf\xe9 noir\nlast line\n")
    with pytest.raises(DataError, match=r"d4\.src, line 2: not UTF-8: 0xE9 at byte 4 .*iconv"):
        list(read_lines(path))
    with pytest.raises(DataError, match="standard input, line 2"):
        list(decode_lines(io.BytesIO(path.read_bytes()), "standard input"))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("zwei\n".encode("utf-16"), "UTF-16"),
        (b"\xfe\xff" + "zwei\n".encode("utf-16-be"), "UTF-16"),
        (bz2.compress(bytes(range(256))), "bzip2"),
        (lzma.compress(b"zwei\n"), "xz"),
    ],
)
def test_other_packings_and_encodings_are_refused_by_name(tmp_path: Path, content: bytes, kind: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(DataError, match=kind):
        list(read_lines(path))


def test_a_tar_archive_does_not_pass_for_text(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\n")
    for packing in ("", "gz"):
        path = tmp_path / f"a.tar{packing}"
        with tarfile.open(path, f"w:{packing}") as archive:
            archive.add(tmp_path / "a.en", "a.en")
        with pytest.raises(DataError, match="tar archive"):
            list(read_lines(path))


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing\.en: cannot be read: No such file"):
        list(read_lines(tmp_path / "missing.en"))
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        list(read_lines(tmp_path))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_progress_adds_up_to_the_size_of_the_file(tmp_path: Path, pack: type[bytes]) -> None:
    path = tmp_path / "text"
    path.write_bytes(pack(b"some line\n" * 20_000))
    steps: list[int] = []
    assert sum(1 for _ in read_lines(path, steps.append)) == 20_000
    assert sum(steps) == path.stat().st_size
    assert min(steps) >= 0


lines = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n")))


@given(lines)
def test_written_lines_are_read_back_exactly(tmp_path_factory: pytest.TempPathFactory, text: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "text"
    write_lines(path, text)
    assert list(read_written_lines(path)) == text
    assert path.read_bytes().count(b"\n") == len(text)


NASTY = {  # lines by the README of the corpora
    "crlf.en": 200,
    "mixed-eol.en": 200,
    "bom.en": 200,
    "unicode-linebreaks.en": 100,
    "unicode-linebreaks.de": 100,
    "count-mismatch.de": 197,
    "no-final-newline.en": 100,
    "nul-and-control.en": 50,
    "long-lines.en": 50,
    "empty.en": 0,
    "empty.en.gz": 0,
    "multi-member.en.gz": 1014,
    "wrong-extension.en.gz": 1014,
    "gzip-without-extension.en": 1014,
    "old-mac-cr.en": 1,
}


def test_collected_nasty_files_have_the_lines_they_should(corpora: Path) -> None:
    found = {name: sum(1 for _ in read_lines(corpora / "nasty" / name)) for name in NASTY}
    assert found == NASTY


def test_the_same_text_in_nasty_packings_is_the_same(corpora: Path) -> None:
    nasty = corpora / "nasty"
    val = list(read_lines(nasty / "val.en.gz"))
    for name in ("multi-member.en.gz", "wrong-extension.en.gz", "gzip-without-extension.en"):
        assert list(read_lines(nasty / name)) == val
    assert list(read_lines(nasty / "crlf.en")) == list(read_lines(nasty / "bom.en")) == val[:200]


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("latin1.de", "latin1.de, line 1: not UTF-8: 0xE4"),
        ("bad-utf8.de", "bad-utf8.de, line 11: not UTF-8: 0xFF"),
        ("utf16le-bom.en", "line 1: .*UTF-16"),
        ("truncated.en.gz", "truncated.en.gz: gzip data damaged or cut short"),
        ("val.en.zst", "zstd"),
        ("hf-translation.parquet", "parquet"),
        ("pair.tgz", "tar archive"),
    ],
)
def test_collected_nasty_files_that_are_no_text_are_refused(corpora: Path, name: str, where: str) -> None:
    with pytest.raises(DataError, match=where):
        list(read_lines(corpora / "nasty" / name))
