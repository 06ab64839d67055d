"""Train a Transformer: `python train.py --config base.yaml` turns prepared/NAME into runs/NAME.

The same command goes on where it was stopped. Ctrl-C saves first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from data.prepared import Prepared, load_prepared
from transformer.command_line import CommandParser, add_config_arguments, load_settings, run_command
from transformer.config import Settings
from transformer.errors import RunError
from transformer.training.loop import train
from transformer.training.run_directory import RunDirectory

INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended


def main(argv: Sequence[str] | None = None) -> int:
    """Read the settings and the prepared data, train, and say where everything lies."""
    parser = CommandParser(
        description="Train a Transformer on data made by preprocess.py. Run again, it goes on from the last checkpoint."
    )
    add_config_arguments(parser)
    args = parser.parse_args(argv)
    settings = load_settings(args)

    directory = Path("prepared") / settings.name
    prepared = load_prepared(directory)
    refuse_other_preparation(settings, prepared, directory)
    run = RunDirectory(Path("runs") / settings.name)
    announce(settings, prepared, run)
    model = train(settings, prepared, run)

    if model is None:
        print(f"interrupted; saved in {run.checkpoints / 'last'}; the same command goes on from there", file=sys.stderr)
        return INTERRUPTED
    report(settings, run, model)
    return 0


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


def announce(settings: Settings, prepared: Prepared, run: RunDirectory) -> None:
    """Say what is about to happen."""
    tokens = int(prepared.train.tgt_lengths.sum()) + len(prepared.train)
    print(
        f"{run.path}: {len(prepared.train):,} pairs, {tokens:,} target tokens an epoch, "
        f"{settings.train.max_steps:,} updates of about {settings.train.batch_tokens:,} tokens",
        file=sys.stderr,
    )


def report(settings: Settings, run: RunDirectory, model: Path) -> None:
    """Say what was written and what to do next."""
    print(f"model        {model} ({settings.train.model_from})")
    print(f"checkpoints  {run.checkpoints}")
    print(f"metrics      {run.metrics}")
    print(f"next         python translate.py --model {run.path} < text.{settings.data.src_lang}")
    print(f"             python evaluate.py --model {run.path}")


if __name__ == "__main__":
    sys.exit(run_command(main))
