"""Translations in the forms that programs and competitions want; what is written here is read by `data.forms`.

Every writer takes where to write (a path, whose file appears whole or not at all, or a binary stream, which gets each
line or document as soon as it is known), the pairs, and labels. Pairs may come from a generator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import BinaryIO
from xml.sax.saxutils import escape

from data.atomic import whole_file
from data.pairs import Pair


@dataclass(frozen=True)
class Labels:
    """What a submission says of itself."""

    src_lang: str = "any"
    tgt_lang: str = "any"
    system: str = "system"
    test_set: str = "test"  # where the pairs do not say (meta "set")


Output = Path | BinaryIO
Writer = Callable[[Output, Iterable[Pair], Labels], None]

_NO_LABELS = Labels()
CELL_ENDS = str.maketrans("\t\n\r", "   ")
# What XML 1.0 cannot hold, not even as &#…; (section 2.2).
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def write_text(output: Output, pairs: Iterable[Pair], labels: Labels = _NO_LABELS) -> None:
    """The targets, one a line; a line end inside one becomes a blank."""
    write_pieces(output, (f"{pair.tgt.replace(chr(10), ' ')}\n" for pair in pairs))


def write_tsv(output: Output, pairs: Iterable[Pair], labels: Labels = _NO_LABELS) -> None:
    """Source, tab, target; without quoting. A tab, line feed or carriage return in a text becomes a blank."""
    write_pieces(output, (f"{pair.src.translate(CELL_ENDS)}\t{pair.tgt.translate(CELL_ENDS)}\n" for pair in pairs))


def write_wmt_xml(output: Output, pairs: Iterable[Pair], labels: Labels = _NO_LABELS) -> None:
    """The form of WMT submissions since 2021: source and hypothesis of each document, under the name of the system.

    By wmt-schema.rnc of wmt-conference/wmt-format-tools, with the domain that published files add.
    Set, collection, document, segment and paragraph are those of the source file, which its readers put into meta;
    pairs without make up one document, numbered from 1. What XML cannot hold (control characters) becomes U+FFFD.
    """
    write_pieces(output, _xml(pairs, labels))


def write_wmt_sgm(output: Output, pairs: Iterable[Pair], labels: Labels = _NO_LABELS) -> None:
    """The form of WMT submissions up to 2020, a <tstset> with the targets; labels of segments as in `write_wmt_xml`.

    Blanks around a text are lost, as its readers strip them.
    """
    write_pieces(output, _sgm(pairs, labels))


FORMS: dict[str, Writer] = {
    "text": write_text,
    "tsv": write_tsv,
    "xml": write_wmt_xml,
    "sgm": write_wmt_sgm,
}


def write_pieces(output: Output, pieces: Iterable[str]) -> None:
    """Write text, of which each piece is a line or more: a file appears whole, a stream gets each piece at once.

    Raises OSError.
    """
    if isinstance(output, Path):
        with whole_file(output) as stream:
            for piece in pieces:
                stream.write(_encode(piece))
        return
    for piece in pieces:
        output.write(_encode(piece))
        output.flush()  # someone may be waiting at the other end


def _encode(text: str) -> bytes:
    return text.encode(errors="replace")  # half a surrogate pair, which only JSON can bring, becomes a question mark


def _xml(pairs: Iterable[Pair], labels: Labels) -> Iterator[str]:
    opened = False
    collection: str | None = None
    for document in _documents(pairs):
        meta = document[0].meta
        if not opened:
            opened = True
            yield f"<?xml version='1.0' encoding='utf-8'?>\n<dataset{_attribute('id', _set_name(document, labels))}>\n"
        if meta.get("collection") != collection:
            yield from _close(collection)
            collection = meta.get("collection")
            yield f"  <collection{_attribute('id', collection)}>\n" if collection is not None else ""
        yield _xml_document(document, labels)
    if opened:
        yield from _close(collection)
        yield "</dataset>\n"
    else:
        yield f"<?xml version='1.0' encoding='utf-8'?>\n<dataset{_attribute('id', labels.test_set)}>\n</dataset>\n"


def _close(collection: str | None) -> Iterator[str]:
    if collection is not None:
        yield "  </collection>\n"


def _xml_document(document: list[Pair], labels: Labels) -> str:
    meta = document[0].meta
    attributes = _attribute("origlang", meta.get("origlang", labels.src_lang))
    attributes += "".join(_attribute(key, meta.get(key)) for key in ("domain", "testsuite"))
    lines = [f"  <doc{attributes}{_attribute('id', meta.get('doc', '1'))}>"]
    sides = (
        ("src", _attribute("lang", labels.src_lang), [pair.src for pair in document]),
        ("hyp", _attribute("system", labels.system) + _attribute("lang", labels.tgt_lang), [p.tgt for p in document]),
    )
    for tag, side_attributes, texts in sides:
        body = _paragraphs(document, [_xml_text(text) for text in texts], "      ")
        lines += [f"    <{tag}{side_attributes}>", *body, f"    </{tag}>"]
    return "\n".join([*lines, "  </doc>"]) + "\n"


def _sgm(pairs: Iterable[Pair], labels: Labels) -> Iterator[str]:
    languages = _attribute("srclang", labels.src_lang) + _attribute("trglang", labels.tgt_lang)
    opened = False
    for document in _documents(pairs):
        meta = document[0].meta
        if not opened:
            opened = True
            yield f"<tstset{_attribute('setid', _set_name(document, labels))}{languages}>\n"
        described = _attribute("genre", meta.get("domain")) + _attribute("origlang", meta.get("origlang"))
        lines = [
            f"<doc{_attribute('sysid', labels.system)}{_attribute('docid', meta.get('doc', '1'))}{described}>",
            *_paragraphs(document, [escape(pair.tgt.replace("\n", " ")) for pair in document], "", headlines=True),
            "</doc>",
        ]
        yield "\n".join(lines) + "\n"
    if not opened:
        yield f"<tstset{_attribute('setid', labels.test_set)}{languages}>\n"
    yield "</tstset>\n"


def _documents(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """The pairs of one document after the other, of which one is in memory."""
    for _, document in groupby(pairs, lambda pair: (pair.meta.get("collection"), pair.meta.get("doc"))):
        yield list(document)


def _set_name(document: list[Pair], labels: Labels) -> str:
    return document[0].meta.get("set", labels.test_set)


def _paragraphs(document: list[Pair], texts: list[str], indent: str, headlines: bool = False) -> Iterator[str]:
    """The segments of a document in <p>, or in <hl> where the source has a headline and the form has one, too."""
    numbered = enumerate(zip(document, texts, strict=True), 1)
    for paragraph, segments in groupby(numbered, lambda item: item[1][0].meta.get("paragraph", "")):
        tag = "hl" if headlines and paragraph.startswith("hl") else "p"
        yield f"{indent}<{tag}>"
        for number, (pair, text) in segments:
            yield f"{indent}{indent and '  '}<seg{_attribute('id', pair.meta.get('segment', str(number)))}>{text}</seg>"
        yield f"{indent}</{tag}>"


def _attribute(key: str, value: str | None) -> str:
    return "" if value is None else f' {key}="{escape(_NOT_XML.sub(chr(0xFFFD), value), _IN_ATTRIBUTE)}"'


_IN_ATTRIBUTE = {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}


def _xml_text(text: str) -> str:
    # A carriage return that stands bare is a line feed to whoever reads XML (section 2.11).
    return escape(_NOT_XML.sub("\ufffd", text.replace("\n", " ")), {"\r": "&#13;"})
