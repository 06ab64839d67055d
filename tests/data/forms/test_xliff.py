"""XLIFF: the translated units of either version, in either direction."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from data.forms.xliff import read_xliff
from data.pairs import Pair

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=8)
NAMESPACE_1 = ' xmlns="urn:oasis:names:tc:xliff:document:1.2"'
NAMESPACE_2 = ' xmlns="urn:oasis:names:tc:xliff:document:2.0"'


def version_1(*units: str, languages: str = 'source-language="en" target-language="de-DE"') -> bytes:
    body = "".join(f'<trans-unit id="{number}">{unit}</trans-unit>\n' for number, unit in enumerate(units))
    return f'<xliff version="1.2"{NAMESPACE_1}><file {languages}><header/><body>\n{body}</body></file></xliff>'.encode()


def version_2(*units: str, languages: str = 'srcLang="en" trgLang="de"') -> bytes:
    body = "".join(f'<unit id="{number}">{unit}</unit>\n' for number, unit in enumerate(units))
    return f'<xliff version="2.1"{NAMESPACE_2} {languages}><file id="f"><group>{body}</group></file></xliff>'.encode()


def segment(source: str, target: str | None, attributes: str = "") -> str:
    inner = "" if target is None else f"<target>{target}</target>"
    return f"<segment{attributes}><source>{source}</source>{inner}</segment>"


def read(content: bytes, src_lang: str = "en", tgt_lang: str = "de", **options: object) -> list[Pair]:
    return list(read_xliff(io.BytesIO(content), "name", src_lang, tgt_lang, **options))  # type: ignore[arg-type]


@given(st.lists(st.tuples(texts, texts.filter(str.strip))))
def test_both_versions_give_every_translated_unit(pairs: list[tuple[str, str]]) -> None:
    escaped = [(escape(src), escape(tgt)) for src, tgt in pairs]
    expected = [Pair(src, tgt, number) for number, (src, tgt) in enumerate(pairs, 1)]
    assert read(version_1(*(f"<source>{src}</source><target>{tgt}</target>" for src, tgt in escaped))) == expected
    assert read(version_2(*(segment(src, tgt) for src, tgt in escaped))) == expected


@given(st.binary() | st.binary(max_size=20).map(lambda junk: version_1("<source>a</source>")[:-30] + junk))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        read(content)
    except DataError as error:
        assert str(error).startswith("name")


@pytest.mark.parametrize(
    "unit",
    [
        "<source>a</source>",
        "<source>a</source><target/>",
        "<source>a</source><target> \n </target>",
        '<source>a</source><target state="new">a</target>',
        '<source>a</source><target state="needs-translation">a</target>',
        "<source>a</source><alt-trans><source>b</source><target>suggestion</target></alt-trans>",
    ],
)
def test_an_untranslated_unit_is_left_out_and_counted(unit: str) -> None:
    left_out: Counter[str] = Counter()
    assert read(version_1(unit), left_out=left_out) == []
    assert left_out == {"untranslated": 1}


def test_an_untranslated_segment_is_left_out_alone() -> None:
    unit = segment("a", "b", ' state="final"') + "<ignorable><source> </source></ignorable>"
    assert read(version_2(unit + segment("c", None) + segment("d", "d", ' state="initial"'))) == [Pair("a", "b", 1)]


def test_several_segments_of_a_unit_are_several_pairs() -> None:
    assert read(version_2(segment("a", "b") + segment("c", "d"), segment("e", "f"))) == [
        Pair("a", "b", 1),
        Pair("c", "d", 1),
        Pair("e", "f", 2),
    ]
    marked = '<mrk mtype="seg" mid="{}">{}</mrk>'
    source = "<source>a c</source><seg-source>" + marked.format(1, "a") + " " + marked.format(2, "c") + "</seg-source>"
    turned = "<target>" + marked.format(2, "d") + " " + marked.format(1, "b") + "</target>"
    assert read(version_1(source + turned)) == [Pair("a", "b", 1), Pair("c", "d", 1)]
    merged = "<target>" + marked.format(1, "b d") + "</target>"
    assert read(version_1(source + merged)) == [Pair("a c", "b d", 1)]


def test_the_direction_of_the_file_does_not_matter() -> None:
    content = version_1("<source>a</source><target>b</target>")
    assert read(content, "de", "en") == [Pair("b", "a", 1)]
    untold = version_1("<source>a</source><target>b</target>", languages='source-language="en"')
    assert read(untold) == [Pair("a", "b", 1)]


def test_other_languages_are_named() -> None:
    with pytest.raises(DataError, match=r"none of the 1 units is in en-fr; there: en-de-DE\."):
        read(version_1("<source>a</source><target>b</target>"), "en", "fr")


def test_a_file_of_several_languages_gives_those_that_fit() -> None:
    one = version_1("<source>a</source><target>b</target>").decode()
    other = version_1(
        "<source>c</source><target>d</target>", languages='source-language="en" target-language="fr"'
    ).decode()
    both = one.removesuffix("</xliff>") + other[other.index("<file") :]
    left_out: Counter[str] = Counter()
    assert read(both.encode(), left_out=left_out) == [Pair("a", "b", 1)]
    assert read(both.encode(), "en", "fr") == [Pair("c", "d", 2)]
    assert left_out == {"other languages": 1}


@pytest.mark.parametrize(
    ("inline", "dropped", "kept"),
    [
        ('<g id="1">bold</g> text<x id="2"/>', "bold text", "bold text"),
        ('<bpt id="1">&lt;b></bpt>bold<ept id="1">&lt;/b></ept>', "bold", "<b>bold</b>"),
        ('<pc id="1">bold</pc> <ph id="2"/> <mrk id="3">term</mrk>', "bold term", "bold  term"),
    ],
)
def test_text_is_kept_and_code_is_text_only_on_request(inline: str, dropped: str, kept: str) -> None:
    content = version_1(f"<source>{inline}</source><target>x</target>")
    assert read(content) == [Pair(dropped, "x", 1)]
    assert read(content, inline_tags="keep") == [Pair(kept, "x", 1)]


def test_an_entity_of_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("SECRET")
    doctype = f'<!DOCTYPE xliff [<!ENTITY x SYSTEM "{(tmp_path / "secret").as_uri()}">]>'
    with pytest.raises(DataError, match="defined elsewhere"):
        read(doctype.encode() + version_1("<source>&x;</source><target>b</target>"))


def test_the_real_file_gives_its_translated_units(corpora: Path) -> None:
    content = (corpora / "nasty" / "sample.xlf").read_bytes()
    left_out: Counter[str] = Counter()
    pairs = read(content, left_out=left_out)
    assert len(pairs) == content.count(b'"translated"') == 45
    assert left_out == {"untranslated": content.count(b'"needs-translation"')}
    assert [(pair.tgt, pair.src) for pair in read(content, "de", "en")] == [(pair.src, pair.tgt) for pair in pairs]
