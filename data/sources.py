"""What is to be translated: lines of text, or the segments of a WMT test set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from data.forms.compression import blocks_of, decompressed, look_ahead, open_decompressed, open_to_read, stream_of
from data.forms.detect import form_of, form_of_side
from data.forms.wmt_sgm import read_sgm_texts
from data.forms.wmt_xml import read_wmt_xml_source
from data.lines import decode_lines, read_lines
from data.pairs import Pair


def read_sources(path: Path, replaced: Callable[[int], object] | None = None) -> Iterator[Pair]:
    """Each line or segment of a file as a pair without target; found from the content: text, WMT SGM or WMT XML.

    The meta of segments says what a submission must repeat. Anything compressed is read as what it holds. With
    `replaced`, lines of text that are not UTF-8 pass, too; see `decode_lines`.

    Raises DataError: cannot be read, damaged, not UTF-8, or in a form of both sides that is not WMT's.
    """
    if path.exists() and not path.is_file():  # a pipe cannot be looked into first
        yield from _lines(path, replaced)
        return
    with open_to_read(path) as file:
        first, stream = look_ahead(decompressed(stream_of(blocks_of(file)), str(path)))
        form = form_of(first, path.name)
        if form == "wmt_xml":
            yield from read_wmt_xml_source(stream, str(path))
        elif form_of_side(first, str(path)) == "sgm":
            yield from read_sgm_texts(stream, str(path))
        else:
            yield from _lines(path, replaced)


def _lines(path: Path, replaced: Callable[[int], object] | None) -> Iterator[Pair]:
    for number, line in enumerate(_texts(path, replaced), 1):
        yield Pair(line, "", number)


def _texts(path: Path, replaced: Callable[[int], object] | None) -> Iterator[str]:
    if replaced is None:
        yield from read_lines(path)
        return
    with open_decompressed(path) as stream:
        yield from decode_lines(stream, str(path), replaced)
