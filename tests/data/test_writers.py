"""What is written in any form is read again as the same pairs."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.forms.tables import Columns, read_table
from data.forms.wmt_sgm import read_sgm, read_sgm_texts
from data.forms.wmt_xml import read_wmt_xml, read_wmt_xml_source
from data.lines import decode_lines
from data.pairs import Pair
from data.writers import FORMS, Labels, write_text, write_tsv, write_wmt_sgm, write_wmt_xml

LABELS = Labels("en", "de", 'my "best" <system>', "news&2026")

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\ufeff"), max_size=8)
xml_texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=8)
names = xml_texts.filter(str.strip)


@st.composite
def translated_sets(draw: st.DrawFn) -> list[Pair]:
    """Pairs as the readers of a source give them, after translation."""
    pairs: list[Pair] = []
    the_set = draw(names)
    for doc in draw(st.lists(names, min_size=1, max_size=3, unique=True)):
        whole = {"set": the_set, "doc": doc, "origlang": "en", "domain": draw(names)}
        for segment in range(1, draw(st.integers(2, 4))):
            meta = {**whole, "segment": str(segment), "paragraph": f"p {(segment + 1) // 2}"}
            pairs.append(Pair(draw(xml_texts), draw(xml_texts), len(pairs) + 1, meta))
    return pairs


def written(form: str, pairs: list[Pair], labels: Labels = LABELS) -> io.BytesIO:
    stream = io.BytesIO()
    FORMS[form](stream, pairs, labels)
    return io.BytesIO(stream.getvalue())


@given(st.lists(st.tuples(texts, texts).map(lambda both: Pair(*both)), max_size=4))
def test_lines_come_back(pairs: list[Pair]) -> None:
    whole = [pair for pair in pairs if not pair.tgt.endswith("\r")]  # which would belong to the line end
    assert list(decode_lines(written("text", whole), "name")) == [pair.tgt for pair in whole]
    if pairs:
        numbered = [pair._replace(place=number) for number, pair in enumerate(pairs, 1)]
        columns = Columns(1, 2, header=False)
        assert list(read_table(written("tsv", pairs), "name", "en", "de", columns)) == [
            pair._replace(**{side: re.sub("[\t\r]", " ", getattr(pair, side)) for side in ("src", "tgt")})
            for pair in numbered
        ]


def test_what_would_shift_lines_or_fields_becomes_a_blank() -> None:
    pair = Pair("a\tb\nc\rd", "e\nf\tg")
    assert written("tsv", [pair]).getvalue() == b"a b c d\te f g\n"
    assert written("text", [pair]).getvalue() == b"e f\tg\n"
    for form in ("xml", "sgm"):
        assert b"e f\tg</seg>" in written(form, [pair]).getvalue()


@given(translated_sets())
def test_xml_comes_back_with_its_documents(pairs: list[Pair]) -> None:
    stream = written("xml", pairs)
    assert list(read_wmt_xml(stream, "name", "en", "de", system=LABELS.system)) == pairs
    sources = read_wmt_xml_source(io.BytesIO(stream.getvalue()), "name", "en")
    assert list(sources) == [pair._replace(tgt="") for pair in pairs]
    assert ElementTree.fromstring(stream.getvalue()).get("id") == pairs[0].meta["set"]


@given(translated_sets())
def test_sgm_comes_back_with_its_documents(pairs: list[Pair]) -> None:
    stream = written("sgm", pairs)
    found = list(read_sgm_texts(stream, "name"))
    assert [pair.src for pair in found] == [pair.tgt.strip(" ") for pair in pairs]
    labels = {"src_lang": "en", "tgt_lang": "de", "system": LABELS.system}
    assert [pair.meta for pair in found] == [{**pair.meta, **labels} for pair in pairs]


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)).map(lambda both: Pair(*both)), max_size=3))
def test_any_text_at_all_can_be_written(pairs: list[Pair]) -> None:
    for form in FORMS:
        content = written(form, pairs).getvalue().decode()
        if form not in ("xml", "sgm"):
            assert content.count("\n") == len(pairs)
    tree = ElementTree.fromstring(written("xml", pairs).getvalue())
    targets = [segment.text or "" for segment in tree.iterfind(".//hyp//seg")]
    assert [len(text) for text in targets] == [len(pair.tgt) for pair in pairs]
    if pairs:
        assert len(list(read_sgm(written("sgm", pairs), "name"))) == len(pairs)


def test_pairs_without_a_document_make_up_one() -> None:
    pairs = [Pair("a", "b"), Pair("c", "d")]
    found = list(read_wmt_xml(written("xml", pairs), "name", "en", "de", system=LABELS.system))
    expected = {"doc": "1", "set": LABELS.test_set, "paragraph": "p 1", "origlang": "en"}
    assert [pair[:3] for pair in found] == [("a", "b", 1), ("c", "d", 2)]
    assert [pair.meta for pair in found] == [{**expected, "segment": "1"}, {**expected, "segment": "2"}]
    assert [segment[:3] for segment in read_sgm(written("sgm", pairs), "name")] == [("1", "1", "b"), ("1", "2", "d")]


def test_a_headline_stays_one_where_the_form_has_it() -> None:
    pair = Pair("a", "b", meta={"doc": "d", "segment": "1", "paragraph": "hl 1"})
    assert b"<hl>\n" in written("sgm", [pair]).getvalue()
    assert b"<hl>" not in written("xml", [pair]).getvalue()


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_gets_each_document_as_soon_as_it_is_known(form: str) -> None:
    stream = io.BytesIO()
    sizes = []

    def pairs() -> Iterator[Pair]:
        for doc in "abc":
            sizes.append(len(stream.getvalue()))
            yield Pair("x", "y", meta={"doc": doc, "segment": "1"})

    FORMS[form](stream, pairs(), LABELS)
    assert 0 < sizes[2] < len(stream.getvalue()) or form in ("text", "tsv")
    assert form in ("xml", "sgm") or sizes == [n * len(stream.getvalue()) // 3 for n in range(3)]


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_whole_or_not_there(tmp_path: Path, form: str) -> None:
    path = tmp_path / "out"

    def failing() -> Iterator[Pair]:
        yield Pair("a", "b")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FORMS[form](path, failing(), LABELS)
    assert list(tmp_path.iterdir()) == []
    FORMS[form](path, [Pair("a", "b")], LABELS)
    assert path.read_bytes() == written(form, [Pair("a", "b")]).getvalue()


def test_labels_can_be_left_out() -> None:
    for writer in (write_text, write_tsv, write_wmt_xml, write_wmt_sgm):
        stream = io.BytesIO()
        writer(stream, [Pair("a", "b")])
        assert b"b" in stream.getvalue()


def test_a_real_source_gives_a_submission_with_its_documents(corpora: Path) -> None:
    folder = corpora / "wmt"
    with (folder / "sgm" / "newstest2009-excerpt-src.fr.sgm").open("rb") as file:
        sources = list(read_sgm_texts(file, "name"))
    pairs = [pair._replace(tgt=pair.src[::-1].strip()) for pair in sources]
    assert [segment[:2] for segment in read_sgm(written("sgm", pairs), "name")] == [
        (pair.meta["doc"], pair.meta["segment"]) for pair in sources
    ]
    content = written("sgm", pairs).getvalue()
    original = (folder / "sgm" / "newstest2009-excerpt-src.fr.sgm").read_bytes()
    assert [content.count(tag) for tag in (b"<hl>", b"<p>", b"<doc ")] == [
        original.count(tag) for tag in (b"<hl>", b"<p>", b"<doc ")
    ]

    with (folder / "xml" / "sample-hyp.xml").open("rb") as file:
        pairs = list(read_wmt_xml(file, "name", "en", "ha", system="MT"))
    ours = ElementTree.fromstring(written("xml", pairs, Labels("en", "ha", "MT")).getvalue())
    theirs = ElementTree.parse(folder / "xml" / "sample-hyp.xml").getroot()
    for hypothesis in theirs.iter("hyp"):
        hypothesis.set("lang", hypothesis.attrib.pop("language"))  # wmt-format-tools against its own schema
    assert [(e.tag, e.attrib, (e.text or "").strip()) for e in ours.iter()] == [
        (e.tag, e.attrib, (e.text or "").strip()) for e in theirs.iter()
    ]
