"""The SGML files of WMT test sets up to 2020, and of NIST and IWSLT.

They are not well-formed XML: & and < stand bare in the text of most, attributes come in any case and quoting. So only
the few tags that the form has are looked for, and everything else is text.
"""

from __future__ import annotations

import html.entities
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from data.errors import DataError
from data.forms.xml import one_line
from data.lines import decode_lines
from data.pairs import Pair

_BLANKS = " \t\r\n"  # U+00A0, U+2028 … are text
_SETS = "srcset|refset|tstset"
_TAG = re.compile(  # all of a segment at once, so that no tag is found inside its text
    rf"<(?P<end>/?)(?P<tag>{_SETS}|doc|hl|p)(?=[\s/>])(?P<attributes>[^<>]*)>"
    r"|(?P<segment><seg(?=[\s>])(?P<label>[^<>]*)(?P<closed>>(?:(?P<text>.*?)(?P<whole></seg\s*>))?)?)",
    re.IGNORECASE | re.DOTALL,
)
_NEXT_SEGMENT = re.compile(r"<seg(?=[\s>])[^<>]*>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([\w:.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
_ENTITY = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z][A-Za-z0-9]{1,31}));")


class Segment(NamedTuple):
    """One segment of one side of a test set."""

    doc: str
    id: str
    text: str
    place: int  # line in the file, from 1


def read_sgm(stream: BinaryIO, name: str) -> Iterator[Segment]:
    """The segments of a source, reference or hypothesis file, in order.

    Entities are decoded once, blanks around a text go, a line break in it becomes one blank. A segment without an id
    gets its number within the document. The whole file is in memory.

    Raises DataError, with the line: not UTF-8, a segment or a set that is not closed, a segment that comes twice, a
    file without segments.
    """
    for text in read_sgm_texts(stream, name):
        yield Segment(text.meta["doc"], text.meta["segment"], text.src, text.place)


def read_sgm_texts(stream: BinaryIO, name: str) -> Iterator[Pair]:
    """The same segments, each as the source of a pair without target, with all that a submission must repeat.

    meta: set, doc, segment, and where the file has them paragraph ("hl 1", "p 2": the element and its number in the
    document), origlang, domain (genre), system (sysid), src_lang, tgt_lang.

    Raises DataError as `read_sgm`.
    """
    content = "\n".join(decode_lines(stream, name))
    line, counted = 1, 0  # line of the character `counted`
    the_set: dict[str, str] = {}
    document: dict[str, str] = {}
    paragraph, n_paragraphs, n_segments = "", 0, 0
    seen: dict[tuple[str, str], int] = {}
    open_set = ""
    for match in _TAG.finditer(content):
        line += content.count("\n", counted, match.start())
        counted = match.start()
        tag, attributes = (match["tag"] or "seg").lower(), _attributes(match["attributes"] or match["label"] or "")
        if match["end"]:
            paragraph = ""
            open_set = "" if tag == open_set else open_set
        elif tag == "doc":
            document, paragraph, n_paragraphs, n_segments = _document(attributes), "", 0, 0
        elif tag in ("hl", "p"):
            n_paragraphs += 1
            paragraph = f"{tag} {n_paragraphs}"
        elif tag != "seg":
            open_set, the_set = tag, _set(attributes)
        else:
            n_segments += 1
            segment = attributes.get("id") or str(n_segments)
            where = f"{name}, line {line}: document {document.get('doc', '')!r}, segment {segment}"
            meta = {**the_set, "doc": "", **document, "segment": segment}
            if paragraph:
                meta["paragraph"] = paragraph
            _check_new(seen, meta, line, where)
            yield Pair(_text(match, where), "", line, meta)
    _check_end(content, name, open_set, bool(seen))


def _text(match: re.Match[str], where: str) -> str:
    text = match["text"]
    if match["whole"] is None or _NEXT_SEGMENT.search(text):
        raise DataError(f"{where} has no </seg>. Close it where its text ends, or copy the file again")
    return decode_entities(one_line(text.strip(_BLANKS))).replace("\n", " ")


def _check_new(seen: dict[tuple[str, str], int], meta: dict[str, str], line: int, where: str) -> None:
    key = meta["doc"], meta["segment"]
    if key in seen:
        raise DataError(
            f"{where} comes twice, first in line {seen[key]}: which one is meant cannot be told. Split a file with "
            "several references or systems into one file for each"
        )
    seen[key] = line


def _check_end(content: str, name: str, open_set: str, has_segments: bool) -> None:
    n_lines = content.count("\n") + 1
    if open_set:
        raise DataError(f"{name}, line {n_lines}: the file ends within <{open_set}>: cut short. Copy or make it again")
    if not has_segments:
        raise DataError(f"{name}: holds no <seg>: not a WMT SGM file. State the form that the file has")


def _attributes(text: str) -> dict[str, str]:
    return {
        found[1].lower(): decode_entities(found[2] or found[3] or found[4] or "") for found in _ATTRIBUTE.finditer(text)
    }


def _set(attributes: dict[str, str]) -> dict[str, str]:
    names = {"setid": "set", "srclang": "src_lang", "trglang": "tgt_lang", "sysid": "system"}
    return {ours: attributes[theirs] for theirs, ours in names.items() if attributes.get(theirs)}


def _document(attributes: dict[str, str]) -> dict[str, str]:
    names = {"docid": "doc", "genre": "domain", "origlang": "origlang", "sysid": "system"}
    return {ours: attributes[theirs] for theirs, ours in names.items() if attributes.get(theirs)}


def decode_entities(text: str) -> str:
    """A text with &amp;, &lt;, &#228; … in their own characters, once: &amp;lt; is &lt;, and a bare & stays."""
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(match: re.Match[str]) -> str:
    if match[3]:
        return html.entities.html5.get(f"{match[3]};", match[0])
    number = int(match[1]) if match[1] else int(match[2], 16)
    is_character = 0 < number <= 0x10FFFF and not 0xD800 <= number < 0xE000
    return chr(number) if is_character else match[0]
