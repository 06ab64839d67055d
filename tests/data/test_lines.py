"""Only the byte 0x0A ends a line, whatever a file holds and however it is packed."""

from __future__ import annotations

import codecs
import gzip
import io
import tarfile
from itertools import chain
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from data.lines import decode_lines, line_blocks, read_lines, read_written_lines, write_lines

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


@given(
    st.lists(st.sampled_from([*b"ab \r\n", *BOM, *"é\u2028\x85\x0c\x1c".encode(), 0, 0xFF])).map(bytes) | st.binary()
)
def test_lines_in_blocks_and_one_by_one_are_the_same(content: bytes) -> None:
    try:
        found: list[str] | str = list(chain.from_iterable(line_blocks(io.BytesIO(content), "name")))
    except DataError as error:
        found = str(error)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or "Macintosh" in found or "zero" in found:
        return  # what comes line by line cannot be seen through in the same way
    try:
        assert found == list(decode_lines(io.BytesIO(content), "name"))
    except DataError as error:
        assert found == str(error)


@given(st.lists(st.sampled_from([*b"ab \r\n", *"é\u2028".encode(), 0xFF, 0xC3])).map(bytes))
def test_where_bytes_are_replaced_lines_stay_what_and_where_they_were(content: bytes) -> None:
    told: list[int] = []
    found = list(decode_lines(io.BytesIO(b"x" + content), "name", told.append))
    lines = (b"x" + content).split(b"\n")
    lines = lines if lines[-1] else lines[:-1]
    assert [line.rstrip("\r") for line in found] == [line.decode(errors="replace").rstrip("\r") for line in lines]
    assert told == [number for number, line in enumerate(lines, 1) if "\ufffd" in line.decode(errors="replace")]


@pytest.mark.parametrize("content", [b"\x1f\x8b\x08\x00\xff", "ab\n".encode("utf-16"), b"\xfd7zXZ\x00\xff"])
def test_what_is_no_text_is_refused_even_where_bytes_are_replaced(content: bytes) -> None:
    with pytest.raises(DataError, match="The file is"):
        list(decode_lines(io.BytesIO(content), "name", lambda _: None))


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


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-8-sig"])
def test_text_that_says_its_encoding_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text"
    text = "eins\r\nzwei\u2028\u0a0a\u0d0a zwei\n\N{GRINNING FACE}\r\n\nEnde"
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path.write_bytes((mark + text).encode(encoding))
    assert list(read_lines(path)) == ["eins", "zwei\u2028\u0a0a\u0d0a zwei", "\N{GRINNING FACE}", "", "Ende"]


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=5)),
    st.sampled_from(["utf-16-le", "utf-16-be", "utf-32-le", "utf-8"]),
)
def test_lines_do_not_depend_on_the_encoding(text: list[str], encoding: str) -> None:
    content = "\ufeff" + "".join(f"{line}\n" for line in text)
    assert list(chain.from_iterable(line_blocks(io.BytesIO(content.encode(encoding)), "name"))) == text


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "shift_jis", "gb18030", "utf-16", "utf-7"])
def test_other_encodings_are_read_when_they_are_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text"
    text = "日本\n\n語" if encoding in ("shift_jis", "gb18030") else "Käse\r\n\x0cund\x85Brot"
    path.write_bytes(text.replace("\x85", "").encode(encoding))
    assert list(read_lines(path, encoding=encoding)) == text.replace("\r", "").replace("\x85", "").split("\n")


def test_what_is_not_in_its_encoding_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "text"
    for content, encoding, words in [
        ("eins\nzwei\nd".encode("utf-16") + b"\x00\xd8" + "\n".encode("utf-16-le"), None, "line 3: not utf-16-le"),
        ("eins\n".encode("utf-16")[:-1], None, "line 1: not utf-16-le: truncated"),
        (b"eins\nzw\x81\n", "cp1252", "line 2: not cp1252"),
        (b"a", "rot13", "rot13: no such encoding of text"),
        (b"a", "no-such", "no-such: no such encoding of text"),
        ("eins zwei drei vier fünf\n".encode("utf-16-le"), None, "UTF-16LE without a mark. Set encoding: UTF-16LE"),
        ("eins zwei drei vier fünf\n".encode("utf-16-be"), None, "UTF-16BE without a mark. Set encoding: UTF-16BE"),
    ]:
        path.write_bytes(content)
        with pytest.raises(DataError, match=words):
            list(read_lines(path, encoding=encoding))


def test_carriage_returns_for_line_ends_are_refused_and_single_ones_are_text(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"one\rtwo\rthree\r")
    with pytest.raises(DataError, match=r"line 1 holds 2 carriage returns and no line feed: .*Macintosh"):
        list(read_lines(path))
    for content in (b"one\rtwo", b"one\rtwo\rthree\n", b"\r\r\r"):
        path.write_bytes(content)
        assert list(read_lines(path)) == [content.decode().removesuffix("\n")]


def test_long_texts_are_cut_into_blocks_between_lines_only(tmp_path: Path) -> None:
    path = tmp_path / "text"
    text = [f"{'ä' * (number * 7919 % 5000)} {number}" for number in range(300)]
    for encoding in ("utf-8", "utf-16"):
        path.write_bytes("\n".join(text).encode(encoding))
        assert list(read_lines(path)) == text
        path.write_bytes("\r\n".join([*text, ""]).encode(encoding))
        assert list(read_lines(path)) == text


def test_a_wrong_byte_far_inside_is_found_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"12345678\n" * 100_000 + b"123\xff\n" + b"12345678\n" * 100_000)
    with pytest.raises(DataError, match="line 100001: not UTF-8: 0xFF at byte 4 of the line"):
        list(read_lines(path))


def test_a_text_without_line_ends_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20), 1) * 70)
    with pytest.raises(DataError, match="64 Mi characters without a line end"):
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


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
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
    "utf16le-bom.de": 50,
}


def test_collected_nasty_files_have_the_lines_they_should(corpora: Path) -> None:
    found = {name: sum(1 for _ in read_lines(corpora / "nasty" / name)) for name in NASTY}
    assert found == NASTY


def test_the_same_text_in_nasty_packings_is_the_same(corpora: Path) -> None:
    nasty = corpora / "nasty"
    val = list(read_lines(nasty / "val.en.gz"))
    for name in (
        "multi-member.en.gz",
        "wrong-extension.en.gz",
        "gzip-without-extension.en",
        "val.en.bz2",
        "val.en.xz",
        "val.en.zst",
        "multi-frame.en.zst",
    ):
        assert list(read_lines(nasty / name)) == val
    assert list(read_lines(nasty / "utf16le-bom.en")) == val[:50]
    assert list(read_lines(nasty / "latin1.de", encoding="latin-1")) == list(read_lines(nasty / "crlf.de"))
    assert list(read_lines(nasty / "crlf.en")) == list(read_lines(nasty / "bom.en")) == val[:200]


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("latin1.de", "latin1.de, line 1: not UTF-8: 0xE4"),
        ("bad-utf8.de", "bad-utf8.de, line 11: not UTF-8: 0xFF"),
        ("old-mac-cr.en", "49 carriage returns and no line feed"),
        ("truncated.en.gz", "truncated.en.gz: gzip data damaged or cut short"),
        ("hf-translation.parquet", "parquet"),
        ("pair.tgz", "tar archive"),
    ],
)
def test_collected_nasty_files_that_are_no_text_are_refused(corpora: Path, name: str, where: str) -> None:
    with pytest.raises(DataError, match=where):
        list(read_lines(corpora / "nasty" / name))
