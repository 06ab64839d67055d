"""A translation from beginning to end: read, translate or score, write; in one go, or in parts that survive a kill."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from tqdm import tqdm

from data.atomic import whole_file
from data.errors import DataError
from data.writers import Labels
from transformer.command_line import EXIT_INTERRUPTED
from transformer.inference.command.inputs import Inputs, Line
from transformer.inference.command.output_forms import write_translations
from transformer.inference.command.parts import Plan, open_parts
from transformer.inference.command.results import Result, scored, translated
from transformer.inference.command.tally import Tally
from transformer.inference.line_translator import WINDOW, LineTranslator
from transformer.inference.links import pharaoh
from transformer.inference.translation import Translation
from transformer.torchrun import Process, meet

LINES_PER_PART = WINDOW
"""A kill costs each process at most so many lines; batches are the same as without parts."""

_LATE = timedelta(minutes=30)  # that one may need longer than another to read its input and load its model


@dataclass
class Job:
    """What one command asks for.

    Attributes:
        form: see `output_forms`.
        alignments: where to write the word alignment of each line, in Pharaoh's form.
        annotate: whether pieces, their log-probabilities and alignments are wanted.
        draw: is given the number of each line, from 1, and its result.
        keep: the translations are added to it.
    """

    inputs: Inputs
    translator: LineTranslator
    output: Path | BinaryIO
    form: str
    labels: Labels
    alignments: Path | None = None
    annotate: bool = False
    draw: Callable[[int, Result], object] | None = None
    keep: list[str] | None = None
    tally: Tally = field(default_factory=Tally)


def run(job: Job, n_lines: int | None, hidden: bool) -> None:
    """Translate as the input comes, in memory for one window of lines; `hidden`: without a progress bar."""
    with _progress_bar(n_lines, hidden) as bar:
        deliver(job, _results(job, job.inputs.lines(job.tally.note_invalid), bar))


def run_in_parts(job: Job, n_lines: int, model: Plan, process: Process) -> bool:
    """Translate a file into a file, together with other processes; see `parts`.

    `model` is what the translations depend on beside the inputs. Returns whether the output is there: only where the
    last process ends; the others have then nothing left to do.
    """
    assert isinstance(job.output, Path)
    inputs = job.inputs.described()
    plan = {"lines": n_lines, "lines_per_part": LINES_PER_PART, "annotate": job.annotate, "inputs": inputs, **model}
    with open_parts(job.output, plan, together=process.size > 1) as parts:
        # Else one that starts late could find that the others have tidied up already, and begin all over again.
        meet(process, _LATE)
        if process.is_first and parts.n_found:
            _say(f"{parts.n_found} of {parts.n_parts} parts are finished already, in {parts.directory}")
        with _progress_bar(n_lines, hidden=not process.is_first) as bar:

            def translate(first_line: int, lines: list[Line]) -> Iterator[Translation]:
                bar.update(parts.n_finished_lines() - bar.n)  # those of other processes, and of earlier runs
                return (result.translation for result in _results(job, lines, bar, first_line))

            try:
                is_last = parts.make(job.inputs.lines, translate)
            except KeyboardInterrupt:
                bar.close()
                n_finished = parts.n_parts - len(parts.missing())
                _say(f"interrupted: {n_finished} of {parts.n_parts} parts are finished; the same command goes on there")
                raise SystemExit(EXIT_INTERRUPTED) from None
            bar.update(n_lines - bar.n)
        if not is_last:
            return False
        if job.inputs.described() != inputs:
            raise DataError(f"{job.inputs.name}, or a file beside it, was changed while it was translated")
        with parts.take_all() as translations:
            pairs = (line.pair for line in job.inputs.lines(job.tally.note_invalid))
            deliver(job, map(Result, pairs, translations))
    return True


def deliver(job: Job, results: Iterable[Result]) -> None:
    """Write what was asked for, each file whole or not at all."""
    with ExitStack() as files:
        results = job.tally.count(results)
        if job.alignments:
            results = _aligned(results, files.enter_context(whole_file(job.alignments)))
        if job.keep is not None:
            results = _kept(results, job.keep)
        write_translations(job.output, job.form, results, job.labels)


def _results(job: Job, lines: Iterable[Line], bar: tqdm[Any], first_line: int = 0) -> Iterator[Result]:
    def progress(n: int) -> None:
        job.tally.advance(n)
        bar.update(n)

    if job.inputs.scored:
        results = scored(lines, job.translator, LINES_PER_PART, progress, first_line)
    else:
        results = translated(lines, job.translator, LINES_PER_PART, progress, job.annotate, first_line)
    for number, result in enumerate(results, first_line + 1):
        if job.draw:
            job.draw(number, result)
        yield result


def _aligned(results: Iterable[Result], output: BinaryIO) -> Iterator[Result]:
    """Pass results on, and write their alignments."""
    for result in results:
        output.write(f"{pharaoh(result.translation.alignment or ())}\n".encode())
        yield result


def _kept(results: Iterable[Result], into: list[str]) -> Iterator[Result]:
    """Pass results on, and keep their texts."""
    for result in results:
        into.append(result.translation.text)
        yield result


def _progress_bar(n_lines: int | None, hidden: bool) -> tqdm[Any]:
    return tqdm(total=n_lines, unit=" lines", disable=hidden or None)  # None: a bar if stderr is a terminal


def _say(text: str) -> None:
    print(text, file=sys.stderr)
