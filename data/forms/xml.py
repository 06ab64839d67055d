"""The one way to read XML: piece by piece, and nothing but the file itself.

No entity is expanded, no DTD or other file is opened, nothing is fetched. libxml2's own limits (10 MB a text, 256
levels) stay on. What has been read is freed, so memory does not grow with the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, BinaryIO, Literal

from lxml import etree

from data.errors import DataError

InlineTags = Literal["drop", "keep"]

_CHUNK = 1 << 16
# Elements whose content is code of the format that was translated, such as <b>. What other elements within a text hold
# (hi, g, mrk, pc …) is text. TMX 1.4b section 3.3, XLIFF 1.2 section 2.4; in XLIFF 2 these are empty.
_NATIVE_CODE = frozenset({"bpt", "ept", "it", "ph", "ut"})
_DROPPED = "\0"  # stands where code was; XML cannot hold it
_DROPPED_BETWEEN_BLANKS = re.compile(" (?:\0+ )+")
_DROPPED_AT_AN_END = re.compile("^\0[\0 ]*|[\0 ]*\0$")
_LINE_BREAK = re.compile(r"[ \t\r]*\n[ \t\r\n]*")


def read_elements(stream: BinaryIO, name: str, root: str, *tags: str) -> Iterator[Any]:
    """Each element that has one of the local names `tags`, once it is complete; asking for the next one empties it.

    Raises DataError: not well-formed (with line; cut short is one case), another outermost element than `root`.
    """
    parser: Any = etree.XMLPullParser(
        events=("end",),
        tag=[f"{{*}}{tag}" for tag in tags],  # in any namespace or none
        resolve_entities=False,
        load_dtd=False,  # collect_ids=False would undo this: lxml then opens the DTD and parameter entities
        no_network=True,
        remove_comments=True,
        remove_pis=True,
    )
    checked = False
    while chunk := stream.read(_CHUNK):
        broken = _feed(parser, chunk, name)
        for _, element in parser.read_events():
            checked = checked or _check_root(element.getroottree().getroot(), name, root)
            yield element
            _free(element)
        if broken:
            raise broken
    try:
        last = parser.close()
    except etree.XMLSyntaxError as error:
        raise _explain(error, parser, name) from error
    if not checked:
        _check_root(last, name, root)


def _feed(parser: Any, chunk: bytes, name: str) -> DataError | None:
    """What is wrong with this chunk, to be told after the elements before that place."""
    try:
        parser.feed(chunk)
    except etree.XMLSyntaxError as error:
        return _explain(error, parser, name)
    return None


def _check_root(element: Any, name: str, root: str) -> bool:
    found = local_name(element)
    if found != root:
        raise DataError(f"{name}: the outermost element is <{found}>, not <{root}>. State the form that the file has")
    return True


def _free(element: Any) -> None:
    """Empty an element that is done with, and remove all that lies before it at every level."""
    element.clear(keep_tail=True)  # the text after it may not be complete
    while (parent := element.getparent()) is not None:
        while element.getprevious() is not None:
            del parent[0]
        element = parent


def _explain(error: etree.XMLSyntaxError, parser: Any, name: str) -> DataError:
    """The first thing that went wrong: what the parser raises in the end can be a mere consequence of it."""
    log = parser.feed_error_log
    line, message = (log[0].line, log[0].message) if len(log) else (error.lineno or 1, error.msg or "")
    message = re.sub(r", (try|see|use) .*", "", message).strip().rstrip(".")  # advice to programmers of libxml2
    if "Premature end" in message or "no element found" in message:
        return DataError(f"{name}, line {line}: the file ends too early ({message}). Copy or make it again")
    return DataError(f"{name}, line {line}: not well-formed XML: {message}. Mend this place, or make the file again")


def local_name(element: Any) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def find_child(element: Any, tag: str) -> Any | None:
    """The first child of that local name."""
    return element.find(f"{{*}}{tag}")


def text_of(element: Any, name: str, place: int, inline_tags: InlineTags = "drop") -> str:
    """The text of an element as one line: a run of blanks with a line break in it becomes one blank, none at the ends.

    `drop` leaves out native code (the content of bpt, ept, it, ph, ut) and the doubled blank that this would leave;
    `keep` takes it as text. The tags themselves are never text; what stands in hi, g, mrk … always is.

    Raises DataError, with `place`, at an entity that the file itself would have to define.
    """
    if len(element) == 0:
        text = element.text or ""
    else:
        pieces: list[str] = []
        _collect(pieces, element, name, place, inline_tags)
        text = "".join(pieces)
        if _DROPPED in text:
            text = _DROPPED_BETWEEN_BLANKS.sub(" ", text)
            text = _DROPPED_AT_AN_END.sub("", text).replace(_DROPPED, "")
    return one_line(text) if "\n" in text else text


def one_line(text: str) -> str:
    """A text broken over several lines, in one."""
    return _LINE_BREAK.sub(" ", _LINE_BREAK.sub("\n", text).strip("\n"))


def _collect(pieces: list[str], element: Any, name: str, place: int, inline_tags: InlineTags) -> None:
    pieces.append(element.text or "")
    for child in element:
        tag = child.tag
        if tag is etree.Entity:
            raise DataError(
                f"{name}, unit {place}: {child.text} is defined elsewhere, and only &amp; &lt; &gt; &quot; &apos; and "
                "&#…; are read. Put the character itself in its place"
            )
        if inline_tags == "drop" and tag.rpartition("}")[2] in _NATIVE_CODE:
            pieces.append(_DROPPED)
        else:
            _collect(pieces, child, name, place, inline_tags)
        pieces.append(child.tail or "")


@lru_cache(maxsize=1024)
def language_distance(code: str, wanted: str, other: str = "") -> int | None:
    """How far a language code is from the wanted one: 0 the same, 1 the same primary language; None: another one.

    Upper and lower case, - and _ are the same: DE-de is de_DE. A text in exactly the `other` language of the pair is
    not taken for this one, so that en and en-GB can be told apart.
    """
    code, wanted, other = (text.lower().replace("_", "-").strip() for text in (code, wanted, other))
    if code == wanted:
        return 0
    if code == other or code.partition("-")[0] != wanted.partition("-")[0]:
        return None
    return 1
