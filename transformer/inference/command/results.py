"""From lines to results, in the order of the lines, as soon as a window of them is translated."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from data.pairs import Pair
from transformer.inference.command.inputs import Line
from transformer.inference.line_translator import LineTranslator
from transformer.inference.translation import Translation


class Result(NamedTuple):
    """A line, as it was read, and its translation."""

    pair: Pair
    translation: Translation


def translated(
    lines: Iterable[Line],
    translator: LineTranslator,
    window: int,
    progress: Callable[[int], object],
    annotate: bool,
    first_line: int,
) -> Iterator[Result]:
    """Translate as requested; see `Translator.translations`."""
    waiting, lines = _remembered(lines)
    requests = (line.request for line in lines)
    for translation in translator.translations(requests, window, progress, annotate, first_line):
        yield Result(waiting.popleft(), translation)


def scored(
    lines: Iterable[Line], translator: LineTranslator, window: int, progress: Callable[[int], object], first_line: int
) -> Iterator[Result]:
    """Score the target of each pair as a translation of its source; see `Translator.scored`."""
    waiting, lines = _remembered(lines)
    pairs = ((line.pair.src, line.pair.tgt) for line in lines)
    for translation in translator.scored(pairs, window, progress, first_line):
        yield Result(waiting.popleft(), translation)


def _remembered(lines: Iterable[Line]) -> tuple[deque[Pair], Iterator[Line]]:
    """The same lines; and the pairs of those that have been drawn from them, to be taken out."""
    waiting: deque[Pair] = deque()

    def remember() -> Iterator[Line]:
        for line in lines:
            waiting.append(line.pair)
            yield line

    return waiting, remember()
