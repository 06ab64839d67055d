"""The lines on which an export is compared with its origin: real ones where there are any, and the awkward ones."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from data.errors import DataError
from data.lines import read_lines
from data.prepared import load_prepared
from data.vocabulary import Vocabulary
from transformer.inference.export.obstacles import LONGEST_SOURCE
from transformer.model_directory import Model

N_LINES = 200
LONGEST = 256  # pieces of the longest line, where the model does not say how many are read at once


@dataclass(frozen=True)
class GateLines:
    """What is translated on both sides.

    Attributes:
        references: of the first lines; empty: there are none.
        origin: where the lines come from, for messages.
    """

    lines: list[str]
    references: list[str]
    origin: str


def gate_lines(model: Model, run: Path, source: Path | None, reference: Path | None) -> GateLines:
    """`N_LINES` lines: of `source`, else the validation lines of the run, else invented; blank and longest among them.

    Raises:
        DataError: a file cannot be read, or the two are not equally long.
    """
    prepared = run.resolve().parent.parent / "prepared" / run.resolve().name
    references: list[str] = []
    if source:
        lines, origin = list(read_lines(source)), str(source)
        references = list(read_lines(reference)) if reference else []
        if reference and len(references) != len(lines):
            raise DataError(f"{source} has {len(lines)} lines, {reference} has {len(references)}: give both alike")
    elif (prepared / "manifest.json").is_file():
        (lines, references), origin = load_prepared(prepared).valid_text, f"validation lines of {prepared.name}"
    else:
        lines, origin = _invented(model.src_vocabulary), "made up from the vocabulary"
    places = _spread(len(lines), N_LINES - 3)
    lines, references = [lines[i] for i in places], [references[i] for i in places if references]
    return GateLines(lines + _awkward(lines, model), references, origin)


def _spread(n: int, n_wanted: int) -> list[int]:
    """At most so many of n places, evenly spread."""
    n_wanted = min(n, n_wanted)
    return [i * n // n_wanted for i in range(n_wanted)]


def _awkward(lines: list[str], model: Model) -> list[str]:
    """A blank line, one of one word, and the longest there may be."""
    words = [word for line in lines for word in line.split()] or ["a"]
    settings = model.translate
    room = (LONGEST_SOURCE - settings.max_extra_length) / max(settings.max_length_ratio, 1)  # for the translation, too
    limit = max(1, min(settings.max_source_length or LONGEST, int(room)))
    many = words * (limit // len(words) + 1)
    lengths = accumulate(len(ids) for ids in model.src_vocabulary.encode(many[:limit]))
    n_words = sum(length <= limit for length in lengths)
    return ["", words[0], " ".join(many[:n_words])]


def _invented(vocabulary: Vocabulary) -> list[str]:
    """Lines of pieces drawn at random."""
    draw = random.Random(1)
    first = vocabulary.n_special + (256 if vocabulary.has_bytes else 0)
    ids = range(first, len(vocabulary)) or range(len(vocabulary))
    return vocabulary.decode([draw.choices(ids, k=draw.randint(1, 30)) for _ in range(N_LINES)])
