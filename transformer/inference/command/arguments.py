"""What `translate.py` can be told, and what of it contradicts itself."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformer.command_line import CommandParser, positive
from transformer.config_file import section_overrides
from transformer.config_translate import TranslateSettings
from transformer.errors import ConfigError, RunError
from transformer.inference.export.description import is_export, read_description
from transformer.inference.export.obstacles import fit_search
from transformer.inference.line_translator import override
from transformer.torchrun import Process

PICTURES = 100
"""Lines that --attention-dir draws, from the first; each takes about a second."""

ONLY_TORCH = ("prefix", "require", "avoid", "avoid_everywhere", "glossary", "alignments", "attention_dir")
"""Arguments that need our own search, or what the network attends to."""

DESCRIPTION = "Translate text, one line out for each line in: python translate.py --model runs/base < in > out."
EXAMPLES = """\
examples:
  translate.py < in.en > out.de
      a filter: lines come out in order, as soon as they are done
  translate.py
      at a terminal: type a line, read its translation
  translate.py --model runs/a runs/b --input in.en --output out.de translate.beam_size=8
      two models together, with a wider beam
  torchrun --nproc-per-node 4 translate.py --input large.en.gz --output large.de
      on four processes; the same command goes on after a kill
  translate.py --input in.en --output out.jsonl --format jsonl --n-best 4
      four translations of each line, with scores, pieces, alignment
  translate.py --input in.en --score in.de --format tsv > scored.tsv
      both sides and how probable the model finds the second
"""


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What a translation can be told; every setting of the model's search is an override."""
    parser = CommandParser(
        prog="translate.py",
        usage="translate.py [--model DIR …] [--input FILE] [--output FILE] [options] [translate.key=value …]",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_input_arguments(parser)
    add_output_arguments(parser)
    add_wishes(parser)
    args: argparse.Namespace = parser.parse_args(argv)
    return args


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the text, the machine."""
    group = parser.add_argument_group("the model")
    group.add_argument(
        "--model",
        nargs="+",
        default=["runs/base"],
        metavar="DIR",
        help="a run or model directory; several translate together, as an ensemble (runs/base)",
    )
    group.add_argument(
        "overrides",
        nargs="*",
        metavar="translate.key=value",
        help="settings of the search, such as translate.beam_size=8; docs/configuration.md has all of them",
    )
    group.add_argument(
        "--backend",
        choices=["torch", "ctranslate2"],
        help="what translates: ctranslate2 for folders of python -m transformer export (what the folder is for)",
    )
    group.add_argument(
        "--device", default="auto", choices=["auto", "cuda", "mps", "cpu"], help="auto: cuda, else mps, else cpu (auto)"
    )
    group.add_argument("--batch-size", type=positive, metavar="N", help="at most so many sentences at once")
    group.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="CPU threads (torch: what it chooses; ctranslate2: OMP_NUM_THREADS, else one per core)",
    )
    group = parser.add_argument_group("what is translated")
    group.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="text, or a WMT test set as XML or SGM; plain or compressed (text from standard input)",
    )
    group.add_argument(
        "--input-format",
        choices=["text", "jsonl"],
        help='jsonl: a line is {"text": …}, with "prefix", "required", "avoided" as wanted (text, but for *.jsonl)',
    )
    group.add_argument(
        "--invalid-utf8",
        default="refuse",
        choices=["refuse", "replace"],
        help="replace: U+FFFD for what is not UTF-8, and a report of the lines (refuse, with the first line)",
    )
    group.add_argument(
        "--score",
        type=Path,
        metavar="FILE",
        help="translate nothing: score these lines as translations of the input, and print their perplexity",
    )


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Where what goes."""
    group = parser.add_argument_group("what is written")
    group.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="appears when all is translated; with --input, a kill loses no finished part (standard output)",
    )
    group.add_argument(
        "--format",
        default="text",
        choices=["text", "tsv", "jsonl", "xml", "sgm"],
        help="text; both sides as tsv; everything, with scores, as jsonl; a WMT submission as xml or sgm (text)",
    )
    group.add_argument(
        "--n-best",
        type=positive,
        metavar="N",
        help="so many translations of each line: in jsonl, or in tsv as line, rank, score, translation",
    )
    group.add_argument("--alignments", type=Path, metavar="FILE", help="also: which words belong together, as 0-0 1-2")
    group.add_argument(
        "--attention-dir",
        type=Path,
        metavar="DIR",
        help=f"also: where the model looked, a picture for each of the first {PICTURES} lines",
    )
    group.add_argument("--reference", type=Path, metavar="FILE", help="also: BLEU and chrF against these lines")
    group.add_argument("--system", default="system", metavar="NAME", help="who submits, in xml and sgm (system)")


def add_wishes(parser: argparse.ArgumentParser) -> None:
    """What is wanted of translations."""
    each = "Line N of a file is for line N of the input, with tabs between phrases; a blank line wants nothing."
    group = parser.add_argument_group("what is wanted of the translations", each)
    group.add_argument("--prefix", type=Path, metavar="FILE", help="how they begin")
    group.add_argument("--require", type=Path, metavar="FILE", help="phrases that they hold")
    group.add_argument("--avoid", type=Path, metavar="FILE", help="phrases that they do not hold")
    group.add_argument(
        "--avoid-everywhere",
        action="append",
        default=[],
        metavar="PHRASE",
        help="a phrase that none of them holds; may be given again for more",
    )
    group.add_argument(
        "--glossary",
        type=Path,
        metavar="FILE",
        help="lines of: source term, tab, target term. Where a line has the one, its translation gets the other",
    )


def check_arguments(args: argparse.Namespace, process: Process) -> dict[str, Any]:
    """The settings that replace those of the model.

    Raises:
        ConfigError: all that is wrong with them, and all arguments that contradict each other, in one message.
    """
    problems: list[str] = []
    settings: dict[str, Any] = {}
    stored = stored_settings(args.model[0])
    overrides = list(args.overrides)
    if args.n_best and not any(override.startswith("translate.n_best=") for override in overrides):
        overrides.append(f"translate.n_best={args.n_best}")
    try:
        settings = section_overrides("translate", overrides, stored)
        if args.n_best and settings["n_best"] != args.n_best:
            problems.append(f"--n-best {args.n_best}, translate.n_best={settings['n_best']}: give one of them")
    except ConfigError as error:
        problems.append(str(error))
    if stored and backend(args) == "ctranslate2":
        problems += fit_search("ctranslate2", override(stored, settings))[1]
    n_best = settings.get("n_best", stored.n_best if stored else 1)
    if n_best > 1 and args.format in ("text", "xml", "sgm"):
        problems.append(f"--format {args.format} has no room for {n_best} translations of a line: give tsv or jsonl")
    problems += contradictions(args) + backend_problems(args)
    if process.size > 1 and not (args.input and args.output):
        problems.append(f"{process.size} processes share the lines of a file: give --input FILE and --output FILE")
    if problems:
        raise ConfigError("\n".join(problems))
    return settings


def stored_settings(model: str) -> TranslateSettings | None:
    """Those that are not overridden; None where there is no model, which is said when it is loaded."""
    try:
        if is_export(Path(model)):
            return read_description(Path(model)).translate
        from transformer.model_directory import stored_translate_settings  # brings PyTorch, which is slow to start

        return stored_translate_settings(model)
    except RunError:
        return None


def backend(args: argparse.Namespace) -> str:
    """The program that runs the models."""
    chosen: str = args.backend or ("ctranslate2" if is_export(Path(args.model[0])) else "torch")
    return chosen


def backend_problems(args: argparse.Namespace) -> list[str]:
    """Arguments that the chosen program cannot fulfil, and models it cannot run."""
    exports = [model for model in args.model if is_export(Path(model))]
    if backend(args) == "torch":
        return [f"{model} is an export: give --backend ctranslate2, or the model it was made from" for model in exports]
    problems = [
        f"{model} is no export to CTranslate2: python -m transformer export {shlex.quote(model)} --to ctranslate2 "
        "--output DIR makes one"
        for model in args.model
        if model not in exports
    ]
    unknown = [option(name) for name in ONLY_TORCH if vars(args)[name]]
    unknown += ["--device mps"] if args.device == "mps" else []
    unknown += ["several models"] if len(args.model) > 1 else []
    problems += [f"{what} is not for --backend ctranslate2: translate with the model itself" for what in unknown]
    return problems


def contradictions(args: argparse.Namespace) -> list[str]:
    """Arguments that cannot be given together."""
    problems = []
    no_text = args.format in ("xml", "sgm")
    if args.score:
        wishes = ("prefix", "require", "avoid", "avoid_everywhere", "glossary")
        given = [name for name in (*wishes, "reference", "attention_dir", "n_best") if vars(args)[name]]
        problems += [f"--score translates nothing: leave out {option(name)}" for name in given]
        problems += [f"--score with --format {args.format}: give text, tsv or jsonl"] if no_text else []
    elif is_typed(args):
        files = ("prefix", "require", "avoid", "reference", "alignments", "attention_dir")
        given = [option(name) for name in files if vars(args)[name]] + ([f"--format {args.format}"] if no_text else [])
        problems += [f"{what} is not for lines typed at a terminal: give --input FILE" for what in given]
    outputs = [path.resolve() for path in (args.output, args.alignments) if path]
    read = [vars(args)[name] for name in ("input", "score", "reference", "prefix", "require", "avoid", "glossary")]
    problems += [f"{path} would be read and overwritten" for path in read if path and path.resolve() in outputs]
    if len(set(outputs)) < len(outputs):
        problems.append(f"--output and --alignments are both {args.output}: each needs a file of its own")
    return problems


def option(name: str) -> str:
    """How an argument is given."""
    return f"--{name.replace('_', '-')}"


def is_typed(args: argparse.Namespace) -> bool:
    """Whether somebody sits before it."""
    return args.input is None and args.output is None and sys.stdin.isatty()
