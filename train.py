"""Train a Transformer: `python train.py --config base.yaml` turns prepared/NAME into runs/NAME.

The same command goes on where it was stopped. Ctrl-C saves first. Several processes: `torchrun --nproc-per-node 8
train.py --config base.yaml`; see docs/training.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from data.prepared import Prepared, load_prepared
from transformer.command_line import CommandParser, add_config_arguments, load_settings, run_command
from transformer.config import Settings
from transformer.device import choose_device
from transformer.errors import RunError
from transformer.evaluation.report import draw_report
from transformer.inference.export.obstacles import outlook
from transformer.training.group import Group, training_group
from transformer.training.loop import Finished, train
from transformer.training.plan import measure_plan
from transformer.training.plan_page import format_plan
from transformer.training.record import check_record, environment_changes
from transformer.training.reproduction import begin_reproduction, compare_runs, open_reproduction
from transformer.training.run_directory import RunDirectory


def main(argv: Sequence[str] | None = None) -> int:
    """Read the settings and the prepared data, train, and say where everything lies."""
    args = parse_arguments(argv)
    if args.reproduce is not None:
        return reproduce(args.reproduce)
    settings = load_settings(args)
    prepared = open_prepared(settings)
    if args.plan:
        print(format_plan(measure_plan(settings, prepared)), end="")
        return 0

    run = RunDirectory(Path("runs") / settings.name)
    with training_group(choose_device(settings.train.device).type) as group:
        announce(settings, prepared, run, group)
        finished = train(settings, prepared, run, group)
    return report(settings, run, finished) if group.is_first else exit_code(finished)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What there is to choose."""
    parser = CommandParser(
        description="Train a Transformer on data made by preprocess.py. Run again, it goes on from the last checkpoint."
    )
    add_config_arguments(parser)
    parser.add_argument(
        "--plan", action="store_true", help="train nothing: show sizes, memory, measured speed and time to max_steps"
    )
    parser.add_argument(
        "--reproduce",
        type=Path,
        metavar="RUN",
        help="train runs/NAME again from its record, into runs/NAME-reproduced, and compare; its settings are used",
    )
    args = parser.parse_args(argv)
    if args.plan and args.reproduce is not None:
        parser.error("--plan and --reproduce exclude each other")
    if args.reproduce is not None and (args.overrides or args.config != parser.get_default("config")):
        parser.error("--reproduce takes the settings of the run: leave out --config and settings")
    return args


def open_prepared(settings: Settings) -> Prepared:
    """The data that preprocess.py made with these settings."""
    directory = Path("prepared") / settings.name
    prepared = load_prepared(directory)
    refuse_other_preparation(settings, prepared, directory)
    return prepared


def reproduce(original: Path) -> int:
    """Train a run again as it is recorded; exit code 0 when every logged result and weight is the same."""
    settings, record = open_reproduction(original)
    device = choose_device(settings.train.device)
    with training_group(device.type) as group:
        again = ""
        if group.is_first:
            check_record(record, settings, Path("prepared") / settings.name)
            for change in environment_changes(record, device, group.size):
                print(f"may change the result: {change}", file=sys.stderr)
            again = str(begin_reproduction(original))
        run = RunDirectory(Path(group.share(again)))
        prepared = open_prepared(settings)
        finished = train(settings, prepared, run, group)
    if finished.model is None or not group.is_first:
        return report(settings, run, finished) if group.is_first else exit_code(finished)
    comparison = compare_runs(original, run.path)
    print(comparison.describe())
    if problem := draw_report(run.path, thorough=True):
        print(problem, file=sys.stderr)
    return 0 if comparison.exact else 1


def refuse_other_preparation(settings: Settings, prepared: Prepared, directory: Path) -> None:
    """An override that preprocess.py was not given, such as another vocabulary size, must not go unnoticed."""
    manifest = prepared.manifest
    languages = {key: manifest[key] for key in ("src_lang", "tgt_lang")}
    there = {section: {**values} for section, values in manifest["settings"].items()}
    there["data"] |= languages
    now = settings.model_dump(mode="json")
    changed = [
        f"  {section}.{key}: {value!r} → {now[section][key]!r}"
        for section in there
        for key, value in there[section].items()
        if value != now[section].get(key, value)  # a key of another version is none of ours
    ]
    if changed:
        lines = "\n".join(changed)
        raise RunError(
            f"{directory} was prepared with other settings (there → now):\n{lines}\n"
            "Run preprocess.py with the same config and overrides as train.py, or restore the settings."
        )


def announce(settings: Settings, prepared: Prepared, run: RunDirectory, group: Group) -> None:
    """Say what is about to happen."""
    if not group.is_first:
        return
    scope = "an epoch" if settings.data.mixing is None else "in all"
    tokens = int(prepared.train.tgt_lengths.sum()) + len(prepared.train)
    print(
        f"{run.path}: {len(prepared.train):,} pairs, {tokens:,} target tokens {scope}, "
        f"{settings.train.max_steps:,} updates of about {settings.train.batch_tokens:,} tokens"
        + (f", {group.size} processes" if group.size > 1 else ""),
        file=sys.stderr,
    )
    for line in outlook(settings.export, settings.model, settings.translate):
        print(f"export       {line}", file=sys.stderr)


def report(settings: Settings, run: RunDirectory, finished: Finished) -> int:
    """Say what was written and what to do next; returns the exit code."""
    if finished.model is None:
        print(f"stopped; saved in {run.checkpoints / 'last'}; the same command goes on from there", file=sys.stderr)
        return exit_code(finished)
    print(f"model        {finished.model} ({settings.train.model_from})")
    print(f"checkpoints  {run.checkpoints}")
    print(f"metrics      {run.metrics}")
    problem = draw_report(run.path, thorough=True)
    print(f"report       {problem or run.path / 'report.html'}")
    print(f"next         python translate.py --model {run.path} < text.{settings.data.src_lang}")
    print(f"             python evaluate.py --model {run.path}")
    for target in settings.export:
        print(f"             python -m transformer export {run.path} --to {target} --output {run.path / target}")
    return 0


def exit_code(finished: Finished) -> int:
    """0, or that of a program which a signal has ended: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + finished.signal if finished.signal else 0


if __name__ == "__main__":
    sys.exit(run_command(main))
