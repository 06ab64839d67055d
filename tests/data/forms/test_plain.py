"""Line N of one text belongs to line N of the other, and segment N of document D likewise."""

from __future__ import annotations

import io
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.corpora import FileSource, read_pairs
from data.errors import DataError
from data.forms.plain import read_two
from data.lines import read_lines
from data.pairs import Pair

pieces = st.sampled_from([b"a", b"\n", b"\r", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\xff", b"\x00", b"<", b"{\t"])
corpus_bytes = st.lists(pieces).map(b"".join)


def pairs_of(src: bytes, tgt: bytes, encoding: str | None = None) -> list[Pair]:
    return list(read_two(io.BytesIO(src), io.BytesIO(tgt), "a.en", "a.de", encoding))


def lines_of(content: bytes) -> list[str]:
    """The rule in other words: cut at 0x0A, one 0x0D before it goes too, so does a mark in front of everything."""
    *ended, rest = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [line.removesuffix(b"\r").decode() for line in ended] + ([rest.decode()] if rest else [])


@given(corpus_bytes | st.binary(), corpus_bytes)
def test_pairs_are_never_lost_or_shifted(src: bytes, tgt: bytes) -> None:
    try:
        pairs = pairs_of(src, tgt)
    except DataError:
        try:
            lines = [lines_of(src), lines_of(tgt)]
        except UnicodeDecodeError:
            return
        foreign = src.startswith((b"\xff\xfe", b"\xfe\xff", b"PK", b"PAR1")) or src.count(0) > 10
        old_mac = any(b"\n" not in side and side.count(b"\r") > 1 for side in (src, tgt))
        assert len(lines[0]) != len(lines[1]) or foreign or old_mac
    else:
        if not src.startswith((b"\xff\xfe", b"\xfe\xff")):
            assert [pair[:2] for pair in pairs] == list(zip(lines_of(src), lines_of(tgt), strict=True))
            assert [pair.place for pair in pairs] == list(range(1, len(pairs) + 1))


@given(st.integers(0, 40), st.integers(0, 40))
def test_different_numbers_of_lines_are_refused_with_both(n_src: int, n_tgt: int) -> None:
    if n_src == n_tgt:
        assert len(pairs_of(b"a\n" * n_src, b"b\n" * n_tgt)) == n_src
    else:
        with pytest.raises(DataError, match=rf"a\.en has {n_src} lines but a\.de has {n_tgt}: line N"):
            pairs_of(b"a\n" * n_src, b"b\n" * n_tgt)


def sgm(kind: str, segments: list[tuple[str, str, str]]) -> bytes:
    body = "".join(f'<doc docid="{doc}"><seg id="{id_}">{text}</seg></doc>\n' for doc, id_, text in segments)
    return f'<{kind} setid="a" srclang="en" trglang="de">\n{body}</{kind}>\n'.encode()


SEGMENTS = [("d1", "1", "one"), ("d2", "1", "two"), ("d3", "1", "three")]


def test_segments_are_paired_by_document_and_number() -> None:
    pairs = pairs_of(sgm("srcset", SEGMENTS), sgm("refset", SEGMENTS))
    assert [(pair.src, pair.tgt, pair.meta["doc"]) for pair in pairs] == [(t, t, d) for d, _, t in SEGMENTS]


def test_the_first_segment_that_is_not_in_both_files_is_named() -> None:
    for others, words in [
        (SEGMENTS[:2], r"a\.en has document d3, segment 1, but a\.de has no more segments"),
        ([SEGMENTS[0], SEGMENTS[2]], r"a\.en has document d2, segment 1, but a\.de has document d3, segment 1,"),
    ]:
        with pytest.raises(DataError, match=words):
            pairs_of(sgm("srcset", SEGMENTS), sgm("refset", others))
    with pytest.raises(DataError, match=r"a\.en is sgm but a\.de is plain"):
        pairs_of(sgm("srcset", SEGMENTS), b"eins\nzwei\ndrei\n")


def test_sgm_in_another_encoding_is_read_when_it_is_named() -> None:
    umlauts = [("d1", "1", "Käse")]
    src, tgt = (sgm(kind, umlauts).decode().encode("latin-1") for kind in ("srcset", "refset"))
    assert [pair[:2] for pair in pairs_of(src, tgt, "latin-1")] == [("Käse", "Käse")]
    with pytest.raises(DataError, match="UTF-8"):
        pairs_of(src, tgt)


def test_collected_sgm_files_pair_as_the_text_files_do(corpora: Path) -> None:
    name = "newstest2013-ende-UNESCAPED-{}.RECONSTRUCTED.sgm"
    sgm_pairs = read_pairs(FileSource(*(corpora / "wmt/sgm" / name.format(side) for side in ("src.en", "ref.de"))))
    text = (read_lines(corpora / f"wmt/plain/newstest2013.{side}") for side in ("en", "de"))
    for pair, lines in zip_longest(sgm_pairs, zip(*text, strict=True)):
        assert (pair.src.split(), pair.tgt.split()) == tuple(line.split() for line in lines)
    excerpt = "newstest2009-excerpt-{}.sgm"
    old = list(read_pairs(FileSource(*(corpora / "wmt/sgm" / excerpt.format(side) for side in ("src.fr", "ref.en")))))
    assert len(old) == 85
    assert (old[0].src, old[0].tgt) == ("Illhaeusern... enfin", "Illhaeusern... finally")
