"""What evaluate.py leaves about a test set, for the report and for comparisons: a writer and a reader.

    NAME.LANG      the translations, one per line
    NAME.jsonl     a line for each sentence: source, references, translation, its scores
    NAME.json      figures of the whole test set, its breakdown, and which lines have which flaw

NAME.json is written last and goes first, so that it never stands beside the sentences of another evaluation.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote

from pydantic import Field, TypeAdapter, ValidationError

from data.atomic import whole_file
from data.lines import read_written_lines, write_lines
from transformer.errors import RunError

FORMAT = 1  # raised whenever an older program could misread what a newer one writes
METRICS = {"bleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++", "ter": "TER", "comet": "COMET"}
"""The key of each metric, and what people call it. Of TER lower is better, of all others higher."""

# What a file can hold: numbers that can be drawn, with room for rounding.
_Score = Annotated[float, Field(ge=-1e9, le=1e9)]
_Percent = Annotated[float, Field(ge=-0.001, le=100.001)]
_LogProb = Annotated[float, Field(ge=-1e9, le=0.001)]


@dataclass(frozen=True)
class Figure:
    """A score of a whole test set; its 95 % confidence interval, by bootstrap resampling; how it was computed."""

    score: _Score
    interval: tuple[_Score, _Score] | None
    signature: str


@dataclass(frozen=True)
class Bucket:
    """Some of the lines, those with something in common."""

    label: str
    n_lines: int
    bleu: _Percent
    chrf: _Percent


@dataclass(frozen=True)
class Sentence:
    """One line of a test set. BLEU is of the effective order, since few sentences are long enough for any other."""

    src: str | None  # None: not known, where only translations and references were given
    references: list[str]
    hypothesis: str
    bleu: _Percent
    chrf: _Percent
    log_prob_per_token: _LogProb | None = None  # nats, of the hypothesis by the model; None: not known


@dataclass(frozen=True)
class Evaluation:
    """Everything about one test set but its sentences.

    Attributes:
        translate: settings of the search; empty where no model translated.
        metrics: by the keys of `METRICS`; comet only where it was asked for.
        literature: BLEU lower-cased and tokenised, to stand beside published figures; None: not asked for.
        length_ratio: words of the translations / words of the references; None: the references are empty.
        note: why BLEU is 0, or empty.
        breakdown: by "source length", "rarest word", "domain": what could be told.
        shares: numbers of the lines, from 1, that are "empty", "copied", "looping", "truncated" or of the "wrong
            language"; a flaw that could not be looked for is missing.
    """

    test_set: str
    src_lang: str
    tgt_lang: str
    n_lines: int
    tokenizer: str
    translate: dict[str, Any]
    metrics: dict[str, Figure]
    literature: Figure | None
    length_ratio: _Score | None
    note: str
    breakdown: dict[str, list[Bucket]]
    shares: dict[str, list[int]]
    format: int = field(default=FORMAT, kw_only=True)


def result_path(directory: Path, test_set: str, suffix: str) -> Path:
    """Where a file about a test set is; a test set may be called news/2014."""
    return directory / f"{quote(test_set, safe=' ')}.{suffix}"


def make_folder(directory: Path) -> None:
    """Make the folder for results, before hours of work depend on it. Raises OSError where they cannot be written."""
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(directory))


def save_evaluation(directory: Path, evaluation: Evaluation, sentences: Sequence[Sentence]) -> list[Path]:
    """Write the three files, each whole or not at all; returns their paths. Raises OSError."""
    make_folder(directory)
    name = evaluation.test_set
    text, rows, figures = (result_path(directory, name, suffix) for suffix in (evaluation.tgt_lang, "jsonl", "json"))
    figures.unlink(missing_ok=True)
    write_lines(text, (sentence.hypothesis for sentence in sentences))
    write_lines(rows, (_json(asdict(sentence)) for sentence in sentences))
    content = {"format": FORMAT, **asdict(evaluation)}
    with whole_file(figures) as stream:
        stream.write(f"{_json(content, indent=2)}\n".encode())
    return [text, figures, rows]


def _json(content: Mapping[str, Any], indent: int | None = None) -> str:
    return json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False)


def find_evaluations(directory: Path) -> list[str]:
    """The names of the test sets that a directory has figures of."""
    return sorted(unquote(path.stem) for path in directory.glob("*.json"))


def load_evaluation(directory: Path, test_set: str) -> Evaluation:
    """Read the figures of a test set.

    Raises:
        RunError: missing, damaged, or of a newer format.
    """
    path = result_path(directory, test_set, "json")
    try:
        content = json.loads(path.read_bytes())
        if isinstance(content, dict) and isinstance(content.get("format"), int) and content["format"] > FORMAT:
            raise RunError(
                f"{path}: format {content['format']}, but this program reads up to {FORMAT}: update the program"
            )
        return TypeAdapter(Evaluation).validate_python(content)
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error


def load_sentences(directory: Path, evaluation: Evaluation) -> list[Sentence]:
    """Read the sentences behind the figures.

    Raises:
        RunError: missing or damaged, or not as many as the figures are of.
    """
    path = result_path(directory, evaluation.test_set, "jsonl")
    reader = TypeAdapter(Sentence)
    try:
        sentences = [reader.validate_json(line) for line in read_written_lines(path)]
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
    if len(sentences) != evaluation.n_lines:
        raise RunError(
            f"{path}: has {len(sentences)} lines, but the figures beside it are of {evaluation.n_lines}: run "
            "evaluate.py again"
        )
    return sentences


def _damaged(path: Path, error: Exception) -> RunError:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    else:
        why = getattr(error, "strerror", None) or str(error)
    return RunError(f"{path}: missing or damaged ({why}); run evaluate.py again")
