"""Two texts, one of each language: line N of one translates line N of the other; or two SGM files of WMT."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import BinaryIO

from data.errors import DataError
from data.forms.compression import look_ahead, stream_of
from data.forms.detect import form_of_side
from data.lines import line_blocks
from data.pairs import Pair


def read_two(src: BinaryIO, tgt: BinaryIO, src_name: str, tgt_name: str, encoding: str | None = None) -> Iterator[Pair]:
    """The pairs of two texts, plain or SGM as their first bytes tell.

    Raises DataError: one is SGM and the other not, one is of a form that holds both sides, and as the readers.
    """
    (src_first, src), (tgt_first, tgt) = look_ahead(src), look_ahead(tgt)
    src_form, tgt_form = form_of_side(src_first, src_name), form_of_side(tgt_first, tgt_name)
    if src_form != tgt_form:
        raise DataError(f"{src_name} is {src_form} but {tgt_name} is {tgt_form}: both sides must be of one form")
    if src_form == "sgm":
        return _read_sgm(src, tgt, src_name, tgt_name, encoding)
    return read_plain(src, tgt, src_name, tgt_name, encoding)


def read_plain(
    src: BinaryIO, tgt: BinaryIO, src_name: str, tgt_name: str, encoding: str | None = None
) -> Iterator[Pair]:
    """The pairs of two plain texts; rules of lines as `data.lines.line_blocks`.

    Raises DataError: different numbers of lines, and as `line_blocks`.
    """
    src_lines = chain.from_iterable(line_blocks(src, src_name, encoding))
    tgt_lines = chain.from_iterable(line_blocks(tgt, tgt_name, encoding))
    for number, (src_line, tgt_line) in enumerate(zip_longest(src_lines, tgt_lines), 1):
        if src_line is None or tgt_line is None:
            n_longer = number + sum(1 for _ in chain(src_lines, tgt_lines))  # what is left of the longer one
            n_src, n_tgt = (number - 1, n_longer) if src_line is None else (n_longer, number - 1)
            raise DataError(
                f"{src_name} has {n_src} lines but {tgt_name} has {n_tgt}: line N of one must translate line N of "
                "the other. Find where they part, or get the pair of files again"
            )
        yield Pair(src_line, tgt_line, number)


def _read_sgm(src: BinaryIO, tgt: BinaryIO, src_name: str, tgt_name: str, encoding: str | None) -> Iterator[Pair]:
    """Segments in order; both files must have the same documents and segments."""
    from data.forms.wmt_sgm import read_sgm

    if encoding:
        src, tgt = (_as_utf8(stream, name, encoding) for stream, name in ((src, src_name), (tgt, tgt_name)))
    for src_segment, tgt_segment in zip_longest(read_sgm(src, src_name), read_sgm(tgt, tgt_name)):
        here, there = ((segment.doc, segment.id) if segment else None for segment in (src_segment, tgt_segment))
        if here != there:
            raise DataError(
                f"{_tell(src_name, here)} but {_tell(tgt_name, there)} in its place: both files must have the same "
                "segments in the same order. Get the pair of files again"
            )
        meta = {"doc": src_segment.doc} if src_segment.doc else {}
        yield Pair(src_segment.text, tgt_segment.text, src_segment.place, meta)


def _tell(name: str, segment: tuple[str, str] | None) -> str:
    return f"{name} has document {segment[0]}, segment {segment[1]}," if segment else f"{name} has no more segments"


def _as_utf8(stream: BinaryIO, name: str, encoding: str) -> BinaryIO:
    lines = chain.from_iterable(line_blocks(stream, name, encoding))
    return stream_of(f"{line}\n".encode() for line in lines)
