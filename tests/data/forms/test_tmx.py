"""Translation memories: every unit with both languages, and nothing that is not in the file itself."""

from __future__ import annotations

import io
import re
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import BinaryIO, cast
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from data.forms.tmx import read_tmx
from data.forms.xml import language_distance
from data.pairs import Pair

ROOT = Path(__file__).resolve().parents[3]

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=8)


def memory(*units: str, before: str = "", attributes: str = ' version="1.4"') -> bytes:
    body = "".join(f"<tu>{unit}</tu>\n" for unit in units)
    return f"{before}<tmx{attributes}>\n<header/><body>\n{body}</body></tmx>".encode()


def variant(language: str, segment: str, attribute: str = "xml:lang") -> str:
    return f'<tuv {attribute}="{language}"><seg>{segment}</seg></tuv>'


def read(content: bytes, src_lang: str = "en", tgt_lang: str = "de", **options: object) -> list[Pair]:
    return list(read_tmx(io.BytesIO(content), "name", src_lang, tgt_lang, **options))  # type: ignore[arg-type]


def sides(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.src, pair.tgt) for pair in pairs]


class Dribble(io.BytesIO):
    """A stream that gives fewer bytes than it is asked for, as pipes do."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(3, size or 3))


@given(st.lists(st.tuples(texts, texts)))
def test_every_unit_is_read_whole_and_in_order(pairs: list[tuple[str, str]]) -> None:
    content = memory(*(variant("en", escape(src)) + variant("de", escape(tgt)) for src, tgt in pairs))
    assert read(content) == [Pair(src, tgt, number) for number, (src, tgt) in enumerate(pairs, 1)]
    assert list(read_tmx(Dribble(content), "name", "en", "de")) == read(content)


@given(
    st.binary()
    | st.lists(st.sampled_from([b"<tmx>", b"<tu>", b"<seg>", b"</tu>", b"&a;", b"<!--", b"\xff"])).map(b"".join)
)
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with pytest.raises(DataError):
        read(content)


@given(st.data())
def test_a_damaged_memory_is_read_or_refused(data: st.DataObject) -> None:
    whole = memory(
        variant("en", "<ph>x</ph> one") + variant("de", "&amp;&#228;"), variant("en", "a") + variant("de", "b")
    )
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    content = whole[:start] + data.draw(st.binary(max_size=3)) + whole[end:]
    try:
        assert len(read(content)) <= 2
    except DataError as error:
        assert str(error).startswith("name")


@given(st.data())
def test_a_memory_that_is_cut_anywhere_is_refused(data: st.DataObject) -> None:
    whole = memory(*(variant("en", f"a{i}") + variant("de", f"b{i}") for i in range(5)))
    pairs: list[Pair] = []
    with pytest.raises(DataError, match="line"):
        for pair in read_tmx(io.BytesIO(whole[: data.draw(st.integers(0, len(whole) - 1))]), "name", "en", "de"):
            pairs.append(pair)
    assert pairs == read(whole)[: len(pairs)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "iso-8859-1"])
def test_the_encoding_is_that_of_the_file(encoding: str) -> None:
    declared = encoding.removesuffix("-sig")
    bom = "\ufeff" if encoding == "utf-16-le" else ""
    text = (
        f"{bom}<?xml version='1.0' encoding='{declared}'?>" + memory(variant("en", "a") + variant("de", "ä")).decode()
    )
    assert sides(read(text.encode(encoding))) == [("a", "ä")]
    assert sides(list(read_tmx(Dribble(text.encode(encoding)), "name", "en", "de"))) == [("a", "ä")]


@pytest.mark.parametrize(
    ("languages", "wanted", "chosen"),
    [
        (["en", "de-AT", "de"], "de", "de"),  # the same rather than the same primary language
        (["en", "de", "de-AT"], "de-at", "de-AT"),
        (["en", "DE_DE", "de-AT"], "de-DE", "DE_DE"),
        (["en", "de-AT", "de-CH"], "de", "de-AT"),  # the first of two equally near
        (["en", "de-AT"], "de-DE", "de-AT"),
        (["EN-us", "DE"], "de", "DE"),
        (["en", "DE", "den"], "de", "DE"),
    ],
)
def test_the_nearest_language_is_chosen(languages: list[str], wanted: str, chosen: str) -> None:
    content = memory("".join(variant(language, language) for language in languages))
    assert sides(read(content, "en", wanted)) == [(languages[0], chosen)]
    assert sides(read(content, wanted, "en")) == [(chosen, languages[0])]


def test_two_variants_of_one_language_can_be_the_pair() -> None:
    content = memory(variant("en-GB", "colour") + variant("en-US", "color"), variant("en-GB", "alone"))
    for src_lang, tgt_lang in (("en", "en-GB"), ("en-US", "en-GB"), ("en-US", "en"), ("en-AU", "en-GB")):
        assert set(*sides(read(content, src_lang, tgt_lang))) == {"colour", "color"}


@given(texts, texts)
def test_the_distance_of_languages_knows_no_case_and_is_zero_to_itself(code: str, other: str) -> None:
    assert language_distance(code, code) == 0
    if code.isascii():
        assert language_distance(code.upper(), other) == language_distance(code.lower(), other)


def test_old_memories_name_the_language_without_a_namespace() -> None:
    content = memory(variant("EN", "a", "lang") + variant("DE", "b", "lang"), attributes=' version="1.1"')
    assert sides(read(content)) == [("a", "b")]


def test_a_namespace_changes_nothing() -> None:
    unit = '<prop type="x-domain">law</prop>' + variant("en", "a<ph>x</ph>") + variant("de", "b")
    plain, named = memory(unit), memory(unit, attributes=' xmlns="http://www.lisa.org/tmx14" version="1.4"')
    assert read(plain) == read(named) == [Pair("a", "b", 1, {"domain": "law"})]


@pytest.mark.parametrize(
    ("segment", "dropped", "kept"),
    [
        ('A <bpt i="1">&lt;b></bpt>bold<ept i="1">&lt;/b></ept> word', "A bold word", "A <b>bold</b> word"),
        ("<hi>all <hi>of</hi> it</hi>", "all of it", "all of it"),
        ('a <ph x="1"/> b', "a b", "a  b"),
        ("a <ph>1</ph> <it>2</it> b", "a b", "a 1 2 b"),
        ("a<ph>1</ph>b", "ab", "a1b"),
        ("end. <ut>x</ut>", "end.", "end. x"),
        ("<ph>x</ph> start", "start", "x start"),
        ("<ph>x<sub>footnote</sub></ph>", "", "xfootnote"),
        ("two  blanks ", "two  blanks ", "two  blanks "),
        ("\n  one\n\tline\r\n", "one line", "one line"),
        ("<![CDATA[a < b]]>&#x20;&lt;", "a < b <", "a < b <"),
        ("a<!-- not text -->b<?nor this?>c", "abc", "abc"),
    ],
)
def test_text_is_kept_and_code_is_text_only_on_request(segment: str, dropped: str, kept: str) -> None:
    content = memory(variant("en", segment) + variant("de", "x"))
    assert read(content)[0].src == dropped
    assert read(content, inline_tags="keep")[0].src == kept


def test_units_without_one_language_are_counted() -> None:
    left_out: Counter[str] = Counter()
    content = memory(variant("en", "a"), variant("en", "b") + variant("de", ""), variant("de", "c"), variant("fr", "d"))
    pairs = read(content, left_out=left_out)
    assert pairs == [Pair("b", "", 2)]  # an empty text is there: whether to train on it is for the filters to say
    assert left_out == {"no de": 1, "no en": 2}


def test_a_memory_of_other_languages_names_them() -> None:
    with pytest.raises(DataError, match=r"none of the 2 units holds both en and de; languages there: fr, it, en\."):
        read(memory(variant("fr", "a") + variant("it", "b"), variant("en", "c")))
    assert read(memory()) == []


def test_the_score_of_paracrawl_is_a_score() -> None:
    unit = '<prop type="score-bicleaner">0.7</prop>' + variant("en", "a") + variant("de", "b")
    assert read(memory(unit))[0].meta == {"score-bicleaner": "0.7", "score": "0.7"}


def declaring(*declarations: str) -> str:
    return f"<!DOCTYPE tmx [{''.join(declarations)}]>"


def test_entities_that_grow_without_end_are_refused_at_once() -> None:
    growing = [f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 30)]
    doctype = declaring('<!ENTITY e0 "ha">', *growing)
    for unit in (
        variant("en", "&e29;") + variant("de", "x"),
        variant("en", "a") + variant("de", "x") + '<prop type="&e29;"/>',
    ):
        with pytest.raises(DataError, match=r"entity|defined elsewhere"):
            read(memory(unit, before=doctype))


@pytest.mark.parametrize("reference", ["&x;", "a <hi>&x;</hi>"])
def test_an_entity_in_a_text_is_refused_rather_than_lost(tmp_path: Path, reference: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    for declaration in ('<!ENTITY x "text">', f'<!ENTITY x SYSTEM "{secret.as_uri()}">'):
        with pytest.raises(DataError, match=r"unit 2: &x; is defined elsewhere") as caught:
            read(memory("", variant("en", reference) + variant("de", "b"), before=declaring(declaration)))
        assert "SECRET" not in str(caught.value)
    with pytest.raises(DataError, match="nbsp"):
        read(memory(variant("en", "a&nbsp;b") + variant("de", "b")))


def test_no_other_file_is_opened(tmp_path: Path) -> None:
    broken = tmp_path / "broken.dtd"  # whoever opens it stumbles
    broken.write_text("<!ENTITY oops")
    unit = variant("en", "a") + variant("de", "b")
    for doctype in (
        f'<!DOCTYPE tmx SYSTEM "{broken.as_uri()}">',
        f'<!DOCTYPE tmx PUBLIC "-//LISA//DTD TMX" "{broken}">',
        declaring(f'<!ENTITY % x SYSTEM "{broken.as_uri()}"> %x;'),
        declaring(f'<!ENTITY unused SYSTEM "{broken.as_uri()}">'),
    ):
        assert read(memory(unit, before=doctype)) == read(memory(unit))


def test_nothing_is_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/x.dtd"
        for doctype in (
            f'<!DOCTYPE tmx SYSTEM "{address}">',
            declaring(f'<!ENTITY % x SYSTEM "{address}"> %x;'),
        ):
            assert sides(read(memory(variant("en", "a") + variant("de", "b"), before=doctype))) == [("a", "b")]
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_another_kind_of_xml_is_named() -> None:
    with pytest.raises(DataError, match=r"<html>, not <tmx>"):
        read(b"<html><body/></html>")


GROWTH = """
import resource, sys
from data.forms.tmx import read_tmx
from data.forms.xliff import read_xliff

class Endless:
    def __init__(self, head, unit, tail, n):
        self.blocks = iter([head, *([unit * 500] * (n // 500)), tail])
        self.rest = b""
    def read(self, size):
        while len(self.rest) < size and (block := next(self.blocks, None)):
            self.rest += block
        piece, self.rest = self.rest[:size], self.rest[size:]
        return piece

def peak(n):
    if sys.argv[1] == "tmx":
        unit = b'<!-- c --><tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu>\\n'
        pairs = read_tmx(Endless(b"<tmx><body>", unit, b"</body></tmx>", n), "name", "en", "de")
    else:
        unit = b'<group><note>n</note><trans-unit><source>a</source><target>b</target></trans-unit></group>\\n'
        head = b'<xliff><file source-language="en" target-language="de"><body>'
        pairs = read_xliff(Endless(head, unit, b"</body></file></xliff>", n), "name", "en", "de")
    assert sum(1 for _ in pairs) == n
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

print(peak(10_000), peak(int(sys.argv[2])))
"""


@pytest.mark.parametrize(("form", "n_units"), [("tmx", 100_000), ("xliff", 40_000)])
def test_memory_does_not_grow_with_the_file(form: str, n_units: int) -> None:
    """A tree of the further units would take 20 MB and more."""
    command = [sys.executable, "-c", GROWTH, form, str(n_units)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    few, many = map(int, run.stdout.split())
    assert many - few < 3_000_000


def test_real_memories_hold_what_a_search_for_their_units_finds(corpora: Path) -> None:
    content = (corpora / "nasty" / "multi.tmx").read_bytes()
    units = re.findall(r"<tu .*?</tu>", content.decode(), re.DOTALL)
    for language in ("de", "fr", "cs"):
        having = [i for i, unit in enumerate(units, 1) if re.search(f'lang="{language}', unit, re.IGNORECASE)]
        left_out: Counter[str] = Counter()
        pairs = read(content, "en", language, left_out=left_out)
        assert [pair.place for pair in pairs] == having
        assert left_out == {f"no {language}": len(units) - len(having)}
        assert all(pair.src and "<" not in pair.src + pair.tgt and "  " not in pair.src for pair in pairs)
    for pair in read(content):
        if pair.tgt.startswith("ZWEITE VARIANTE"):
            assert units[pair.place - 1].count('lang="de"') == 1  # then it is the only one that is exactly de
    utf16 = content.decode().replace('encoding="UTF-8"', 'encoding="UTF-16"').encode("utf-16")
    assert read(utf16) == read(content)


@pytest.mark.parametrize(("file", "n_whole"), [("truncated.tmx", 166), ("multi.utf16.tmx", 10)])
def test_a_damaged_real_memory_gives_its_whole_units_and_then_an_error(corpora: Path, file: str, n_whole: int) -> None:
    whole = read((corpora / "nasty" / "multi.tmx").read_bytes())
    pairs = []
    with (corpora / "nasty" / file).open("rb") as stream, pytest.raises(DataError, match=rf"^{file}, line \d+: "):
        for pair in read_tmx(cast(BinaryIO, stream), file, "en", "de"):
            pairs.append(pair)
    assert pairs == [pair for pair in whole if pair.place <= pairs[-1].place]
    assert len(pairs) <= n_whole
