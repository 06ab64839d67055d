"""The form of a file is told by what is in it."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from data.forms.detect import FORMS, form_of, form_of_side


def zipped() -> bytes:
    with zipfile.ZipFile(stream := io.BytesIO(), "w") as archive:
        archive.writestr("a.en", "text")
    return stream.getvalue()


def tarred(layout: int) -> bytes:
    with tarfile.open(fileobj=(stream := io.BytesIO()), mode="w", format=layout) as archive:
        archive.addfile(tarfile.TarInfo("a.en"))
    return stream.getvalue()


EXAMPLES = [
    ("tsv", b"one\teins\ntwo\tzwei\n"),
    ("tsv", b"a sentence, one\tein Satz\nanother\tnoch einer\n"),
    ("tsv", b"{0} files\t{0} Dateien\n"),
    ("tsv", b"<b>one</b>\t<b>eins</b>\n"),
    ("csv", b'"one, two","eins, zwei"\n"three","drei\nvier"\n'),
    ("csv", b"one;eins\ntwo;zwei\n"),
    ("jsonl", b'{"translation": {"en": "one", "de": "eins"}}\n'),
    ("jsonl", b'\n{"en": "br\n'),
    ("jsonl", b'[\n{"en": "one"},\n'),
    ("parquet", b"PAR1\x15\x04"),
    ("tmx", b'<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<!-- a\n comment -->\n<tmx version="1.4">'),
    ("xliff", b'<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'),
    ("wmt_xml", b"<?xml version='1.0' encoding='utf-8'?>\n<dataset id=\"newstest2021\">"),
    ("sgm", b'<srcset setid="newstest2009" srclang="any">\n<doc docid="1">'),
    ("sgm", b'<!DOCTYPE mteval SYSTEM "x.dtd" [\n<!ENTITY a "b">\n]>\n<REFSET setid="a">'),
    ("po", b'# a comment\n#, fuzzy\nmsgid ""\nmsgstr ""\n'),
    ("po", b'\n\n#: file.c:1\nmsgctxt "menu"\nmsgid "Open"\n'),
    ("mo", b"\xde\x12\x04\x95\x00"),
    ("zip", zipped()),
    ("tar", tarred(tarfile.USTAR_FORMAT)),
    ("tar", tarred(tarfile.GNU_FORMAT).replace(b"ustar  ", b"ustar  ")),
    ("plain", b"one\ntwo, three\n"),
    ("plain", b"\n" * 5000 + b"#" * 50_000),
    ("plain", b""),
]


@pytest.mark.parametrize(("form", "content"), EXAMPLES)
def test_each_form_is_known_by_its_content(form: str, content: bytes) -> None:
    assert form_of(content, "some file") == form


@pytest.mark.parametrize(("form", "content"), [(f, c) for f, c in EXAMPLES if c.isascii() and c.decode().isprintable])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_mark_of_the_encoding_hides_no_form(form: str, content: bytes, encoding: str) -> None:
    if form not in ("zip", "tar", "parquet", "mo"):
        assert form_of(content.decode().encode(encoding), "some file") == form


def test_the_name_decides_between_tables_only() -> None:
    both = b"one, two\teins, zwei\nthree, four\tdrei, vier\n"
    assert form_of(both, "a.csv") == "csv"
    assert form_of(both, "a.tsv") == "tsv"
    assert form_of(b"one\ntwo\n", "a.tsv.gz") == "tsv"
    assert form_of(b"PAR1", "a.csv") == "parquet"
    assert form_of(json.dumps({"en": "a, b\tc"}).encode(), "a.tsv") == "jsonl"


def test_of_one_side_tabs_and_braces_are_text() -> None:
    for content in (b"one\teins\n", b'{"a": 1}\n', b"a,b\n", b"<b>one</b>\n", b"<doc> opens a document\n", b""):
        assert form_of_side(content, "a.en") == "plain"
    assert form_of_side(b'<refset setid="a">', "a.en") == "sgm"
    with pytest.raises(DataError, match=r"a\.en is tmx, which holds both sides: give it as file: a\.en"):
        form_of_side(b'<tmx version="1.4">', "a.en")


begun = st.sampled_from([content for _, content in EXAMPLES] + [b"<!--", b"<?", b"<!DOCTYPE [", b"[" * 3000])


@given(st.binary() | st.tuples(begun, st.binary()).map(b"".join))
def test_any_bytes_are_of_some_form(content: bytes) -> None:
    assert form_of(content, "") in (*FORMS, "sgm", "plain")
