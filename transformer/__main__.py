"""`python -m transformer COMMAND`: look into a network or a model. Preparing, training and translating are scripts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from data.prepared import load_prepared
from transformer.command_line import EXIT_USAGE, CommandParser, run_command
from transformer.config_file import load_config
from transformer.describe import TYPICAL_LENGTH, describe, format_description
from transformer.errors import ConfigError
from transformer.evaluation.alignment_command import align_command
from transformer.evaluation.attention_command import attention_command
from transformer.evaluation.report.command import report_command
from transformer.inference.imports.command import import_command


def describe_command(argv: Sequence[str]) -> int:
    """Print the parts of a config's network, with shapes, parameters and FLOPs per target token."""
    parser = CommandParser(prog="python -m transformer describe", description=describe_command.__doc__)
    parser.add_argument("config", metavar="CONFIG", help="a path, or a name in configs/, such as base.yaml")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that replace the config's")
    parser.add_argument(
        "--prepared", type=Path, metavar="DIR", help="take the vocabulary sizes from this prepared data"
    )
    parser.add_argument(
        "--length",
        type=int,
        default=TYPICAL_LENGTH,
        metavar="N",
        help="pieces of a source and of a target sentence, for the FLOPs (default: %(default)s)",
    )
    args = parser.parse_args(argv)
    if args.length < 1:
        raise ConfigError(f"--length {args.length}: a sentence has at least 1 piece")
    settings = load_config(args.config, args.overrides)
    sizes, origin = (settings.vocabulary.size, settings.vocabulary.size), "vocabulary.size"
    if args.prepared:
        prepared = load_prepared(args.prepared)
        sizes, origin = (len(prepared.src_vocabulary), len(prepared.tgt_vocabulary)), str(args.prepared)
    print(f"{settings.name}, with {sizes[0]:,} source and {sizes[1]:,} target vocabulary entries ({origin})\n")
    print(format_description(describe(settings.model, *sizes, args.length)))
    return 0


def export_command(argv: Sequence[str]) -> int:
    """Write a model for CTranslate2, Hugging Face or ONNX Runtime, proven to translate as it does here."""
    from transformer.inference.export import command  # what it needs is an extra

    return command.export_command(argv)


COMMANDS = {
    "describe": describe_command,
    "attention": attention_command,
    "align": align_command,
    "report": report_command,
    "export": export_command,
    "import": import_command,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names, with the others; without one, say which there are."""
    name, *rest = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in COMMANDS:
        return COMMANDS[name](rest)
    listing = "\n".join(f"  {command:10} {function.__doc__}" for command, function in COMMANDS.items())
    help_text = (
        f"usage: python -m transformer COMMAND …\n\n{listing}\n\npython -m transformer COMMAND --help says more."
    )
    if name in ("-h", "--help"):
        print(help_text)
        return 0
    print(f"error: unknown command {name!r}\n\n{help_text}", file=sys.stderr)
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(run_command(main))
