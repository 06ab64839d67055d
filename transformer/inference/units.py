"""From lines with wishes to what is searched for: pieces, cut into parts where a line is too long; and to batches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from data.vocabulary import Vocabulary
from transformer.config_translate import TranslateSettings
from transformer.errors import ConfigError
from transformer.inference.long_input import split, truncate
from transformer.inference.requests import Request
from transformer.inference.sentence import Phrases, Sentence, phrase_ids
from transformer.inference.translation import Translation, blank, joined

PARTS_APART = 2**32  # between the numbers of parts of one line


class Unit(NamedTuple):
    """A line, or a part of one."""

    line: int  # place in the window
    text: str
    sentence: Sentence
    request: Request
    is_last: bool = True  # of its line
    is_truncated: bool = False


def units_of(
    requests: Sequence[Request],
    n_before: int,
    src_vocabulary: Vocabulary,
    tgt_vocabulary: Vocabulary,
    settings: TranslateSettings,
) -> list[Unit]:
    """What is to be searched for each line that is not blank.

    Args:
        n_before: lines of the input before these.

    Raises:
        ConfigError: a line asks for what the settings exclude.
    """

    def count_pieces(texts: list[str]) -> list[int]:
        return [len(ids) for ids in src_vocabulary.encode(texts)]

    units = []
    sources = src_vocabulary.encode([request.text for request in requests])
    for line, (request, src) in enumerate(zip(requests, sources, strict=True)):
        # A line of spaces may encode to nothing, or, as some vocabularies keep spaces, to something: it is blank.
        if not src or request.text.isspace():
            continue
        _check(request, n_before + line + 1, settings)
        limit = settings.max_source_length or len(src)
        is_truncated = len(src) > limit and settings.long_input == "truncate"
        texts, parts = [request.text], [truncate(src, limit) if is_truncated else src]
        # A phrase that is required could belong to any part: such a line is read as a whole.
        if len(src) > limit and settings.long_input == "split" and not request.required:
            texts = split(request.text, count_pieces, limit)
            parts = src_vocabulary.encode(texts)
        for place, (text, ids) in enumerate(zip(texts, parts, strict=True)):
            wanted = request if place == 0 else replace(request, prefix="")
            sentence = Sentence(n_before + line + place * PARTS_APART, ids, *_wishes(wanted, tgt_vocabulary))
            units.append(Unit(line, text, sentence, wanted, place == len(texts) - 1, is_truncated))
    return units


def lines_of(
    requests: Sequence[Request], units: Sequence[Unit], translations: Sequence[Translation], annotate: bool
) -> list[Translation]:
    """A translation for each line, blank ones included, out of those of its units."""
    results = [blank(annotate)] * len(requests)
    for line, places in groupby(range(len(units)), key=lambda i: units[i].line):
        of_line = list(places)
        parts = [units[i].text for i in of_line]
        whole = joined(requests[line].text, parts, [translations[i] for i in of_line])
        results[line] = replace(whole, truncated=units[of_line[0]].is_truncated)
    return results


def in_batches(
    order: Sequence[int], costs: Sequence[int], budget: int, n_workers: int, max_sentences: int | None
) -> Iterator[list[int]]:
    """Cut `order`, sorted by cost, so that sentences × the greatest cost stays within the budget; at least one.

    Every worker gets as many batches as the others, and all of about one size, or some would wait for the last.
    """
    total = sum(costs[i] for i in order)
    share = total / max(1, math.ceil(total / budget / n_workers) * n_workers)
    batch: list[int] = []
    n_batches, done = 1, 0
    for i in order:
        is_full = done >= n_batches * share or (len(batch) + 1) * costs[i] > budget
        if batch and (is_full or len(batch) == max_sentences):
            yield batch
            batch, n_batches = [], n_batches + 1
        batch.append(i)
        done += costs[i]
    if batch:
        yield batch


def _wishes(request: Request, vocabulary: Vocabulary) -> tuple[list[int], Phrases, Phrases]:
    """Ids of the prefix, of the required and of the avoided phrases."""
    prefix = vocabulary.encode([request.prefix])[0] if request.prefix else []
    phrases = (request.required, request.avoided)
    required, avoided = (tuple(phrase_ids(texts, vocabulary)) if texts else () for texts in phrases)
    return prefix, required, avoided


def _check(request: Request, number: int, settings: TranslateSettings) -> None:
    """See that the search can do what a line asks for."""
    excluded = [name for name in ("sampling", "diversity", "no_repeat_ngram") if getattr(settings, name)]
    if request.required and excluded:
        raise ConfigError(
            f"line {number} requires {request.required[0]!r}, which translate.{excluded[0]} excludes: phrases are put "
            "in by a beam that is shared out among those that have met more and less of them, and may repeat what is "
            f"there. Turn {', '.join(excluded)} off, or require nothing"
        )
