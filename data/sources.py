"""What is to be translated: lines of text, or the segments of a WMT test set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from data.forms.compression import blocks_of, decompressed, look_ahead, open_to_read, stream_of
from data.forms.detect import form_of, form_of_side
from data.forms.wmt_sgm import read_sgm_texts
from data.forms.wmt_xml import read_wmt_xml_source
from data.lines import read_lines
from data.pairs import Pair


def read_sources(path: Path) -> Iterator[Pair]:
    """Each line or segment of a file as a pair without target; found from the content: text, WMT SGM or WMT XML.

    The meta of segments says what a submission must repeat. Anything compressed is read as what it holds.

    Raises DataError: cannot be read, damaged, not UTF-8, or in a form of both sides that is not WMT's.
    """
    if path.exists() and not path.is_file():  # a pipe cannot be looked into first
        yield from _lines(path)
        return
    with open_to_read(path) as file:
        first, stream = look_ahead(decompressed(stream_of(blocks_of(file)), str(path)))
        form = form_of(first, path.name)
        if form == "wmt_xml":
            yield from read_wmt_xml_source(stream, str(path))
        elif form_of_side(first, str(path)) == "sgm":
            yield from read_sgm_texts(stream, str(path))
        else:
            yield from _lines(path)


def _lines(path: Path) -> Iterator[Pair]:
    return (Pair(line, "", number) for number, line in enumerate(read_lines(path), 1))
