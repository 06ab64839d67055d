"""WMT's XML: source and chosen target paired by document and segment, or refused with both named."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from data.forms.wmt_xml import read_wmt_xml, read_wmt_xml_source
from data.pairs import Pair


def version(tag: str, attributes: str, texts: dict[str, str]) -> str:
    segments = "".join(f'<seg id="{key}">{text}</seg>\n' for key, text in texts.items())
    return f"<{tag} {attributes}><p>\n{segments}</p></{tag}>\n"


def document(name: str, *versions: str, attributes: str = "") -> str:
    return f'<doc origlang="en" id="{name}"{attributes}>{"".join(versions)}</doc>\n'


def dataset(*documents: str) -> bytes:
    return f'<?xml version="1.0" encoding="utf-8"?>\n<dataset id="t">{"".join(documents)}</dataset>'.encode()


def src(*keys: str) -> str:
    return version("src", 'lang="en"', {key: f"source {key}" for key in keys})


def ref(name: str, *keys: str, lang: str = "de") -> str:
    return version("ref", f'lang="{lang}" translator="{name}"', {key: f"{name} {key}" for key in keys})


def hyp(name: str, *keys: str) -> str:
    return version("hyp", f'system="{name}" lang="d"', {key: f"{name} {key}" for key in keys})


def read(content: bytes, src_lang: str = "en", tgt_lang: str = "de", **options: str) -> list[Pair]:
    return list(read_wmt_xml(io.BytesIO(content), "name", src_lang, tgt_lang, **options))


def targets(content: bytes, **options: str) -> list[str]:
    return [pair.tgt for pair in read(content, **options)]


SEVERAL = dataset(
    document("d1", src("1", "2"), ref("B", "1", "2"), ref("A", "2", "1"), hyp("X", "1", "2")),
    document("d2", src("1"), ref("A", "1"), hyp("X", "1")),
)


def test_the_first_complete_reference_is_read_by_itself() -> None:
    assert targets(SEVERAL) == targets(SEVERAL, reference="A") == ["A 1", "A 2", "A 1"]
    assert [(pair.src, pair.place) for pair in read(SEVERAL)] == [("source 1", 1), ("source 2", 2), ("source 1", 3)]


def test_a_partial_reference_is_read_only_by_name_and_only_where_it_is() -> None:
    assert [(pair.place, pair.tgt) for pair in read(SEVERAL, reference="B")] == [(1, "B 1"), (2, "B 2")]
    partial = dataset(document("d1", src("1"), ref("A", "1")), document("d2", src("1", "2")))
    with pytest.raises(DataError, match=r"no reference has all segments: A \(1 of 3 segments\)\. Name one"):
        read(partial)
    assert targets(partial, reference="A") == ["A 1"]


def test_a_system_can_be_the_target() -> None:
    assert targets(SEVERAL, system="X") == ["X 1", "X 2", "X 1"]
    lacking = dataset(document("d1", src("1"), hyp("X", "1")), document("d2", src("7"), ref("A", "7")))
    with pytest.raises(DataError, match=r"document d2: system X lacks all of it, from segment 7"):
        read(lacking, system="X")
    with pytest.raises(DataError, match=r"reference A and system X: give one"):
        read(SEVERAL, reference="A", system="X")


def test_names_of_references_match_with_and_without_ref() -> None:
    content = dataset(document("d", src("1"), ref("refA", "1"), ref("refB", "1")))
    assert targets(content, reference="B") == targets(content, reference="refB") == ["refB 1"]
    assert targets(SEVERAL, reference="refA") == targets(SEVERAL, reference="A")


def test_an_unknown_name_or_language_lists_what_there_is() -> None:
    with pytest.raises(DataError, match=r"no reference C in de; there: B \(2 of 3 segments\), A\."):
        read(SEVERAL, reference="C")
    with pytest.raises(DataError, match=r"no system Y in de; there: X\."):
        read(SEVERAL, system="Y")
    with pytest.raises(
        DataError, match=r"no reference in fr; there: reference B in de, reference A in de, system X in d"
    ):
        read(SEVERAL, tgt_lang="fr")
    with pytest.raises(DataError, match=r"document d1: the source is en, not fr"):
        read(SEVERAL, src_lang="fr")
    with pytest.raises(DataError, match="only the source"):
        read(dataset(document("d", src("1"))))


def test_references_of_another_language_are_not_taken() -> None:
    content = dataset(document("d", src("1"), ref("A", "1", lang="fr"), ref("B", "1", lang="de-AT")))
    assert targets(content) == ["B 1"]
    twice = dataset(document("d", src("1"), ref("A", "1", lang="fr").replace("A 1", "un"), ref("A", "1")))
    assert targets(twice) == targets(twice, reference="A") == ["A 1"]


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ((src("1", "2", "3"), ref("A", "1", "9", "8")), r"document d: reference A lacks segment 2 \(and 1 more\)"),
        ((src("1", "2"), ref("A", "1", "3")), r"document d: reference A lacks segment 2"),
        ((src("1", "1b"), ref("A", "1", "1b", "2")), r"document d: reference A has a segment 2 that"),
        ((ref("A", "1"),), r"document d: no <src>"),
        ((src("1"), ref("A", "1").replace(' id="1"', "")), r"document d, reference A: a segment without an id"),
        (
            (src("1").replace("</p>", '<seg id="1">x</seg></p>'), ref("A", "1")),
            r"document d, source: segment 1 comes twice",
        ),
    ],
)
def test_segments_that_do_not_fit_are_named(versions: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(dataset(document("d", *versions)), reference="A")


def test_what_is_known_of_a_segment_is_in_its_meta() -> None:
    inner = document("d", src("1"), ref("A", "1"), ref("B", "1"), attributes=' domain="news" testsuite="x"')
    (pair,) = read(dataset(f'<collection id="general">{inner}</collection>'))
    known = {"set": "t", "collection": "general", "doc": "d", "segment": "1", "paragraph": "p 1", "origlang": "en"}
    known |= {"domain": "news", "testsuite": "x"}
    assert pair.meta == {**known, "references": "A B", "reference A": "A 1", "reference B": "B 1"}
    (source,) = read_wmt_xml_source(io.BytesIO(dataset(f'<collection id="general">{inner}</collection>')), "name")
    assert source == Pair("source 1", "", 1, known)


@pytest.mark.parametrize("content", [b"", b"<dataset/>", b"<tmx/>", dataset(document("d", src("1")))[:-3], b"text"])
def test_what_is_no_test_set_is_refused(content: bytes) -> None:
    for reader in (lambda stream: read_wmt_xml(stream, "name", "en", "de"), lambda s: read_wmt_xml_source(s, "name")):
        with pytest.raises(DataError, match=r"^name"):
            list(reader(io.BytesIO(content)))


@given(
    st.binary()
    | st.tuples(st.integers(0, 300), st.binary(max_size=4)).map(lambda t: SEVERAL[: t[0]] + t[1] + SEVERAL[t[0] + 3 :])
)
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        read(content)
    except DataError as error:
        assert str(error).startswith("name")


FILES = {
    "newstest2021.ru-en.all": ("ru", "en", "A"),
    "wmttest2022.en-zh.all": ("en", "zh", "B"),
    "wmttest2022.en-liv.all": ("en", "liv", "A"),
    "wmttest2023.ru-en.all": ("ru", "en", "refA"),
    "wmttest2024.en-de.src-ref.RECONSTRUCTED": ("en", "de", "refB"),
}


@pytest.mark.parametrize("file", FILES)
def test_real_test_sets_agree_with_another_parser(corpora: Path, file: str) -> None:
    path = corpora / "wmt" / "xml" / f"{file}.xml"
    src_lang, tgt_lang, reference = FILES[file]
    expected = []
    for element in ElementTree.parse(path).getroot().iter("doc"):
        target = element.find(f"ref[@translator='{reference}']")
        assert target is not None
        texts = {segment.get("id"): segment.text or "" for segment in target.iter("seg")}
        source = element.find("src")
        assert source is not None
        expected += [(segment.text or "", texts[segment.get("id")]) for segment in source.iter("seg")]
    pairs = read(path.read_bytes(), src_lang, tgt_lang, reference=reference)
    assert [(pair.src, pair.tgt) for pair in pairs] == [
        tuple(" ".join(t.split("\n")) for t in both) for both in expected
    ]


def test_the_partial_reference_of_2021_is_refused_or_read_where_it_is(corpora: Path) -> None:
    content = (corpora / "wmt" / "xml" / "newstest2021.ru-en.all.xml").read_bytes()
    complete, partial = read(content, "ru", "en"), read(content, "ru", "en", reference="B")
    assert (len(complete), len(partial)) == (1843, 1000)
    sources = {pair.place: pair.src for pair in complete}
    assert all(sources[pair.place] == pair.src and pair.meta["reference B"] == pair.tgt for pair in partial)
    sample = (corpora / "wmt" / "xml" / "sample-src-ref.xml").read_bytes()
    with pytest.raises(DataError, match=r"A \(1,000 of 1,005 segments\)"):
        read(sample, "en", "ha")
    assert len(read(sample, "en", "ha", reference="A")) == 1000


def test_the_hypotheses_of_the_sample_are_its_plain_lines(corpora: Path) -> None:
    folder = corpora / "wmt" / "xml"
    pairs = read((folder / "sample-hyp.xml").read_bytes(), "en", "ha", system="MT")
    assert [pair.tgt for pair in pairs] == (folder / "sample-hyp.ha").read_text("utf-8").split("\n")[:-1]
    sources = list(read_wmt_xml_source(io.BytesIO((folder / "sample-src.xml").read_bytes()), "name", "en"))
    assert [pair.src for pair in sources] == [pair.src for pair in pairs]


def test_the_xml_of_a_test_set_holds_the_lines_of_its_plain_text(corpora: Path) -> None:
    pairs = read((corpora / "wmt" / "xml" / "wmttest2022.en-zh.all.xml").read_bytes(), "en", "zh", reference="B")
    for number, side in enumerate(("src.en", "ref.B.zh")):
        plain = gzip.decompress((corpora / "wmt" / "plain" / f"generaltest2022.en-zh.{side}.gz").read_bytes())
        assert [pair[number] for pair in pairs] == plain.decode().split("\n")[:-1]
