"""WMT's SGML: every segment with exactly its text, well-formed or not."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from data.forms.wmt_sgm import Segment, decode_entities, read_sgm, read_sgm_texts

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=12).map(
    lambda t: t.strip(" \t\r")
)


def read(content: str | bytes) -> list[Segment]:
    return list(read_sgm(io.BytesIO(content.encode() if isinstance(content, str) else content), "name"))


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def sgm(*segments: str, before: str = "", after: str = "") -> str:
    body = "\n".join(f'<seg id="{number}">{before}{text}{after}</seg>' for number, text in enumerate(segments, 1))
    return f'<srcset setid="s" srclang="any">\n<doc docid="d">\n<p>\n{body}\n</p>\n</doc>\n</srcset>\n'


@given(st.lists(texts, min_size=1))
def test_every_escaped_text_is_read_exactly(expected: list[str]) -> None:
    found = read(sgm(*map(escape, expected)))
    assert [segment.text for segment in found] == expected
    assert found == [Segment("d", str(n), text, n + 3) for n, text in enumerate(expected, 1)]
    assert [segment.text for segment in read(sgm(*map(escape, expected), before=" ", after="\n \t"))] == expected


@pytest.mark.parametrize(
    "text",
    ["AT&T", "R&D & more", "a < b > c", "1 <2", "<", "&", "<b>bold</b>", "I <3 you &c.", "&;", "&#;", "<p> </p>"],
)
def test_bare_signs_are_text(text: str) -> None:
    assert [segment.text for segment in read(sgm(text, "next"))] == [text, "next"]


@given(st.text(max_size=12))
def test_entities_are_decoded_once(text: str) -> None:
    assert decode_entities(escape(text)) == text
    assert decode_entities(escape(escape(text))) == escape(text)


@pytest.mark.parametrize(
    ("entity", "text"),
    [
        ("&quot;&apos;", "\"'"),
        ("&#228;&#xE4;&auml;", "äää"),
        ("&unknown;&#0;&#xD800;&#x110000;", "&unknown;&#0;&#xD800;&#x110000;"),
        ("&AMP", "&AMP"),
        ("&#10;", " "),
    ],
)
def test_an_entity_is_a_character_or_text(entity: str, text: str) -> None:
    assert read(sgm(f"a{entity}b"))[0].text == f"a{text}b"


def test_a_text_over_several_lines_is_one_line_and_other_blanks_are_text() -> None:
    assert read(sgm("one\r\n  two"))[0].text == "one two"
    assert read(sgm("\u00a0a\u2028b  c\u00a0"))[0].text == "\u00a0a\u2028b  c\u00a0"


@pytest.mark.parametrize(
    "content",
    [
        "<SRCSET SETID='s'><DOC DOCID='d'><SEG ID='1'>a</SEG></DOC></SRCSET>",
        "<srcset setid=s>\n<doc\n sysid=x docid = d >\n<hl><seg id=1> a </seg></hl></doc></srcset>",
        '\ufeff<?xml version="1.0"?><!DOCTYPE srcset SYSTEM "x"><mteval><srcset setid="s"><doc docid="d"><seg id="1">a'
        "</seg ></doc></srcset></mteval>",
        "<doc docid=d><seg>a</seg></doc>",
    ],
)
def test_case_and_quoting_of_tags_do_not_matter(content: str) -> None:
    (segment,) = read(content)
    assert segment[:3] == ("d", "1", "a")


def test_all_that_a_submission_repeats_is_known() -> None:
    content = (
        '<refset setid="n09" srclang="fr" trglang="en"><doc sysid="ref" docid="d/1" genre="news" origlang="fr">\n'
        '<hl>\n<seg id="1">a</seg>\n</hl>\n<p>\n<seg id="2">b</seg>\n<seg id="3">c</seg>\n</p></doc></refset>'
    )
    whole = {"set": "n09", "src_lang": "fr", "tgt_lang": "en", "system": "ref", "domain": "news", "origlang": "fr"}
    metas = [pair.meta for pair in read_sgm_texts(io.BytesIO(content.encode()), "name")]
    assert metas == [
        {**whole, "doc": "d/1", "segment": segment, "paragraph": paragraph}
        for segment, paragraph in (("1", "hl 1"), ("2", "p 2"), ("3", "p 2"))
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (sgm("a", "b").replace("a</seg>", "a"), r"line 4: document 'd', segment 1 has no </seg>"),
        (sgm("a", "b").replace("b</seg>", "b"), r"line 5: document 'd', segment 2 has no </seg>"),
        (sgm("a", "b").replace('<seg id="2">', '<seg id="2"'), r"line 5: document 'd', segment 2 has no </seg>"),
        (sgm("a", "b").replace('"2"', '"1"'), r"line 5: document 'd', segment 1 comes twice, first in line 4"),
        (sgm("a", "b").replace("</srcset>", ""), r"ends within <srcset>: cut short"),
        ("", "holds no <seg>"),
        ("plain text\n", "holds no <seg>"),
        (sgm("a", "ä").encode("iso-8859-1"), r"line 5: not UTF-8"),
    ],
)
def test_what_is_damaged_is_refused_with_its_place(content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"^name.*{message}"):
        read(content)


@given(st.integers(0, 200))
def test_a_file_cut_anywhere_is_refused(length: int) -> None:
    whole = sgm(*"abcdefg").rstrip()
    with pytest.raises(DataError):
        read(whole[: min(length, len(whole) - 1)])


@given(
    st.binary()
    | st.lists(st.sampled_from(["<seg", " id=1", ">", "</seg>", "<doc ", "a", "&#", ";", "\n", '"'])).map(
        lambda parts: "".join(parts).encode()
    )
)
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        found = read(content)
    except DataError as error:
        assert str(error).startswith("name")
    else:
        n_tags, n_perhaps = content.lower().count(b"<seg>"), content.lower().count(b"<seg ")  # `<seg ` may be text
        assert n_tags <= len(found) <= n_tags + n_perhaps


@pytest.mark.parametrize(
    "junk", ["<seg ", "<doc ", "</seg", "<doc docid=", "<seg id=1>", "&", "</seg " + " " * 9, "<hl "]
)
def test_time_grows_no_faster_than_the_file(junk: str) -> None:
    for content in (junk * 20_000, f"<seg>{junk * 20_000}</seg>"):  # seconds and minutes, were it quadratic
        try:
            read(content)
        except DataError as error:
            assert str(error).startswith("name")


def plain_lines(path: Path) -> list[str]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [line.strip(" \t\r") for line in content.decode().split("\n")[:-1]]


@pytest.mark.parametrize(
    ("file", "plain"),
    [
        ("newstest2013-ende-UNESCAPED-src.en", "newstest2013.en"),
        ("newstest2013-ende-UNESCAPED-ref.de", "newstest2013.de"),
        ("newstest2014-deen-src.de", "newstest2014.de"),
        ("newstest2014-deen-ref.en", "newstest2014.en"),
        ("newstest2019-ende-src.en", "newstest2019.en-de.en.gz"),
        ("newstest2019-ende-ref.de", "newstest2019.en-de.de.gz"),
    ],
)
def test_the_sgm_of_a_test_set_holds_the_lines_of_its_plain_text(corpora: Path, file: str, plain: str) -> None:
    content = (corpora / "wmt" / "sgm" / f"{file}.RECONSTRUCTED.sgm").read_bytes()
    assert [segment.text for segment in read(content)] == plain_lines(corpora / "wmt" / "plain" / plain)


def test_escaping_the_unescaped_test_set_changes_nothing(corpora: Path) -> None:
    content = (corpora / "wmt" / "sgm" / "newstest2013-ende-UNESCAPED-src.en.RECONSTRUCTED.sgm").read_text("utf-8")
    bare = read(content)
    assert any("&" in segment.text or "<" in segment.text for segment in bare)
    assert [segment.text for segment in read(sgm(*(escape(segment.text) for segment in bare)))] == [
        s.text for s in bare
    ]


def test_the_sides_of_a_real_test_set_fit(corpora: Path) -> None:
    folder = corpora / "wmt" / "sgm"
    src = read((folder / "newstest2009-excerpt-src.fr.sgm").read_bytes())
    ref = read((folder / "newstest2009-excerpt-ref.en.sgm").read_bytes())
    assert [segment[:2] for segment in src] == [segment[:2] for segment in ref]
    assert len(src) == 85
    assert any("&" in segment.text for segment in (*src, *ref))
    assert not any(segment.text != segment.text.strip(" ") for segment in (*src, *ref))
