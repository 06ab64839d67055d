"""The lines on which an export is compared with its origin: real ones where there are any, and the awkward ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from data.errors import DataError
from data.lines import read_lines
from data.prepared import ParallelText, load_text
from data.vocabulary import Vocabulary
from transformer.config_translate import TranslateSettings
from transformer.inference.export.obstacles import LONGEST_SOURCE
from transformer.model_directory import Model

N_LINES = 200
LONGEST = 256  # pieces of the longest line, where the model does not say how many are read at once
MOST_EXTRA = LONGEST_SOURCE // 2  # of translate.max_extra_length, so that there is room for lines


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

    Lines that have too many pieces for an export, or whose translation may have, are left out.

    Args:
        run: a run, or the model or a checkpoint in one.

    Raises:
        DataError: a file cannot be read, the two are not equally long, or all lines are too long.
    """
    references: list[str] = []
    if source:
        lines, origin = list(read_lines(source)), str(source)
        references = list(read_lines(reference)) if reference else []
        if reference and len(references) != len(lines):
            raise DataError(f"{source} has {len(lines)} lines, {reference} has {len(references)}: give both alike")
    elif found := _validation_text(run.resolve()):
        name, (lines, references) = found
        origin = f"validation lines of {name}"
    else:
        lines, origin = _invented(model.src_vocabulary), "made up from the vocabulary"
    places = _spread(len(lines), N_LINES - 3)
    sources = model.src_vocabulary.encode([lines[i] for i in places])
    limits = length_limits(model.translate, sources)
    fitting = [
        place
        for place, *lengths in zip(places, map(len, sources), limits, strict=True)
        if max(lengths) <= LONGEST_SOURCE
    ]
    if n_too_long := len(places) - len(fitting):
        origin += f" but {n_too_long}, which have over {LONGEST_SOURCE:,} pieces or may be translated to so many"
        if not fitting:
            raise DataError(f"the lines to compare an export on are {origin}: none is left; give --input FILE")
    lines, references = [lines[i] for i in fitting], [references[i] for i in fitting if references]
    return GateLines(lines + _awkward(lines, model), references, origin)


def length_limits(settings: TranslateSettings, sources: Sequence[Sequence[int]]) -> list[int]:
    """The most pieces of the translation of each source in the comparison, </s> included."""
    extra = min(settings.max_extra_length, MOST_EXTRA)
    return [int(settings.max_length_ratio * len(source)) + extra for source in sources]


def _validation_text(path: Path) -> tuple[str, ParallelText] | None:
    """The name and the text of the prepared data of the run that this path is, or is in; None where there are none."""
    for run in (path, path.parent, path.parent.parent):  # runs/NAME, runs/NAME/model, runs/NAME/checkpoints/best
        try:
            src, tgt = load_text(run.parent.parent / "prepared" / run.name)
        except (OSError, DataError):  # not prepared, or not yet
            continue
        if len(src) == len(tgt) > 0:
            return run.name, (src, tgt)
    return None


def _spread(n: int, n_wanted: int) -> list[int]:
    """At most so many of n places, evenly spread."""
    n_wanted = min(n, n_wanted)
    return [i * n // n_wanted for i in range(n_wanted)]


def _awkward(lines: list[str], model: Model) -> list[str]:
    """A blank line, one of one word, and the longest there may be."""
    words = [word for line in lines for word in line.split()] or ["a"]
    settings = model.translate
    room = (LONGEST_SOURCE - min(settings.max_extra_length, MOST_EXTRA)) / max(
        settings.max_length_ratio, 1
    )  # for the translation, too
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
