"""Translate and score test sets: `python evaluate.py --model runs/base`; or score or compare what is translated."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from transformer.command_line import run_command
from transformer.device import choose_device
from transformer.evaluation.arguments import compares_runs, parse_arguments
from transformer.evaluation.comet import Comet
from transformer.evaluation.comparison import MEANING, compared_files, evaluated_runs, format_comparison
from transformer.evaluation.measurement import Measures, Output, check, doubts_about_output, doubts_about_test, measure
from transformer.evaluation.results import make_folder, save_evaluation
from transformer.evaluation.systems import (
    System,
    Times,
    Wanted,
    distinct_names,
    file_systems,
    is_run,
    model_system,
    times_of_rarest_words,
)
from transformer.evaluation.tables import Row, format_evaluations, format_examples
from transformer.model_directory import find_model, write_card


def main(argv: Sequence[str] | None = None) -> int:
    """Find systems and test sets; translate, score, write; print figures, and what can be done next."""
    args = parse_arguments(argv)
    if args.compare:
        compare(args)
        return 0
    systems = find_systems(args)
    comet = load_comet(args)
    plans = [(system, measures_of(args, system, comet)) for system in systems]
    for folder in filter(None, (system.folder for system in systems)):
        make_folder(folder)
    say(doubt for system, measures in plans for test in system.tests for doubt in doubts_about_test(test, measures))
    rows, written = [], []
    for (system, measures), times in zip(plans, times_of_rarest_words(systems), strict=True):
        found, paths = evaluate(system, measures, times, args.examples, alone=len(systems) == 1)
        rows += found
        written += paths
    write_cards(args)
    print(format_evaluations(rows))
    if args.model or written:
        report(args, written)
    return 0


def find_systems(args: argparse.Namespace) -> list[System]:
    """The models or files that are named, each with its test sets."""
    paths = args.model or args.hypothesis or args.compare
    names = distinct_names(paths)
    languages = tuple(args.languages.split("-")) if args.languages else None
    wanted = Wanted(args.data, args.test, args.src, args.reference, args.domains, languages)
    folders = [folder_of(args, path, name) for path, name in zip(paths, names, strict=True)]
    if not args.model:
        systems, notes = file_systems(paths, names, wanted, folders)
        say(notes)
        return systems
    return [
        model_system(path, name, wanted, folder, args.overrides, args.device)
        for path, name, folder in zip(paths, names, folders, strict=True)
    ]


def folder_of(args: argparse.Namespace, path: Path, name: str) -> Path | None:
    """Where the results of a system go; None: nowhere."""
    if args.output:
        several = len(args.model or args.hypothesis) > 1
        return args.output / quote(name, safe=" ") if several else Path(args.output)
    return path / "translations" if is_run(path) else None


def load_comet(args: argparse.Namespace) -> Comet | None:
    """COMET's model, if it is asked for."""
    return Comet(args.comet, choose_device(args.device).type == "cuda") if args.comet else None


def measures_of(args: argparse.Namespace, system: System, comet: Comet | None) -> Measures:
    """What is measured, in the languages of a system; what is missing for it is said now."""
    measures = Measures(*system.languages, args.tokenize, args.literature, comet)
    check(measures)
    return measures


def evaluate(
    system: System, measures: Measures, times: Times, n_examples: int, alone: bool
) -> tuple[list[Row], list[list[Path]]]:
    """Translate, score and write every test set of a system; returns what is to be printed, and what was written."""
    rows, written = [], []
    for test, output, of_words in zip(system.tests, system.translate(), times, strict=True):
        say(doubts_about_output(test.name if alone else f"{test.name} by {system.name}", output, measures))
        evaluation, sentences = measure(test, output, measures, of_words)
        rows.append(Row(evaluation, "" if alone else system.name))
        if system.folder:
            written.append(save_evaluation(system.folder, evaluation, sentences))
        for example in format_examples(n_examples, test.src, test.references[0], output.hypotheses):
            print(example)
    return rows, written


def compare(args: argparse.Namespace) -> None:
    """Print, for every test set, whether each system differs from the first by more than chance."""
    if compares_runs(args):
        found = evaluated_runs(args.compare, args.tokenize, args.test)
    else:
        systems = find_systems(args)
        measures = measures_of(args, systems[0], None)
        found = [compared_files(systems, measures)]
        say(doubts_about_test(found[0].test, measures))
        for name, hypotheses in found[0].hypotheses.items():
            say(doubts_about_output(f"{found[0].test.name} by {name}", Output(hypotheses), measures))
    comet = load_comet(args)
    for one in found:
        print(format_comparison(replace(one, measures=replace(one.measures, comet=comet))), end="\n\n")
    print(MEANING)


def write_cards(args: argparse.Namespace) -> None:
    """Put the figures that went into runs into the cards of their models, too."""
    for run in [] if args.output else args.model or []:
        if is_run(run):
            write_card(find_model(run), run)


def report(args: argparse.Namespace, written: Sequence[list[Path]]) -> None:
    """Say what was written and what to do next."""
    print()
    for path, *beside in written:
        print(f"wrote  {path} ({', '.join(other.name for other in beside)})")
    if not written:
        print("wrote  nothing; --output DIR keeps translations and figures")
    runs = [str(model) for model in args.model if is_run(model)]
    if runs and not args.output:
        print(f"next   python -m transformer report {' '.join(runs)}")
        if len(runs) > 1:
            print(f"       python evaluate.py --compare {' '.join(runs)}")


def say(lines: Iterable[str]) -> None:
    """Notes go to standard error, each once."""
    for line in dict.fromkeys(lines):
        print(f"note: {line}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run_command(main))
