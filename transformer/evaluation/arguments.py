"""What `evaluate.py` can be told, and what of it contradicts itself."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from transformer.command_line import CommandParser
from transformer.evaluation.comet import DEFAULT_MODEL
from transformer.evaluation.tokenization import TOKENIZERS

DESCRIPTION = "Translate and score test sets, score what is already translated, or compare systems."
EXAMPLES = """\
examples:
  evaluate.py --model runs/base
      the test sets that preprocess.py was given
  evaluate.py --model runs/a runs/b --test wmt14 newstest2021.xml
      two models on a test set of sacrebleu's and one of WMT's XML files
  evaluate.py --model runs/a --src news.en --reference news.a.de news.b.de translate.beam_size=8
      a test set of one's own, with two references, and a wider beam
  evaluate.py --hypothesis out.zh --reference news.zh --src news.en
      translations from anywhere
  evaluate.py --compare runs/a runs/b
      is b better than a? Of what has been evaluated before; --test NAME takes one of its test sets
  evaluate.py --compare a.de b.de --reference news.de
      the same of translations from anywhere
"""
_LANGUAGES = re.compile(r"[A-Za-z]{2,3}(_\w+)?-[A-Za-z]{2,3}(_\w+)?")


def compares_runs(args: argparse.Namespace) -> bool:
    """Whether `--compare` is of evaluated runs, and not of files of translations."""
    return any(path.is_dir() for path in args.compare) or not (args.reference or args.test)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What there is to say; exits with 2 where it contradicts itself."""
    parser = CommandParser(
        prog="evaluate.py",
        usage="evaluate.py --model DIR … | --hypothesis FILE … | --compare RUN … [options] [translate.key=value …]",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_systems(parser)
    _add_tests(parser)
    _add_measures(parser)
    args: argparse.Namespace = parser.parse_args(argv)
    if problems := _contradictions(args):
        parser.error("\n".join(problems))
    return args


def _add_systems(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is evaluated")
    group.add_argument(
        "--model", type=Path, nargs="+", default=[], metavar="DIR", help="runs or model directories, each on its own"
    )
    group.add_argument(
        "--hypothesis", type=Path, nargs="+", default=[], metavar="FILE", help="translations, without a model"
    )
    group.add_argument(
        "--compare",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN",
        help="evaluated runs, or files of translations: does each differ from the first by more than chance?",
    )
    group.add_argument(
        "overrides",
        nargs="*",
        metavar="translate.key=value",
        help="settings of the search, such as translate.beam_size=8; docs/configuration.md has all of them",
    )
    group.add_argument(
        "--device", default="auto", choices=["auto", "cuda", "mps", "cpu"], help="auto: cuda, else mps, else cpu (auto)"
    )


def _add_tests(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("on what (all test sets of the prepared data)")
    group.add_argument(
        "--test",
        nargs="+",
        default=[],
        metavar="NAME",
        help="a test set of the prepared data or of sacrebleu (wmt14, wmt14/full, wmt14/en-de), or an XML file of WMT",
    )
    group.add_argument("--data", type=Path, metavar="DIR", help="prepared/NAME with the test sets (that of the run)")
    group.add_argument("--src", type=Path, metavar="FILE", help="the sources: text or SGM of WMT, plain or compressed")
    group.add_argument(
        "--reference",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="one or more references, detokenised and cased",
    )
    group.add_argument("--domains", type=Path, metavar="FILE", help="the domain of each line, for figures of each")
    group.add_argument(
        "--languages", metavar="SRC-TGT", help="such as en-de (those of the model, or the ends of file names)"
    )


def _add_measures(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how")
    group.add_argument(
        "--tokenize",
        metavar="NAME",
        help=f"words of BLEU: {', '.join(TOKENIZERS)} (zh, ja-mecab, ko-mecab by the target language, else 13a)",
    )
    group.add_argument(
        "--literature", action="store_true", help="also BLEU lower-cased and tokenised, as many papers have it"
    )
    group.add_argument("--comet", nargs="?", const=DEFAULT_MODEL, metavar="MODEL", help=f"also COMET ({DEFAULT_MODEL})")
    group.add_argument("--output", type=Path, metavar="DIR", help="for translations and figures (RUN/translations)")
    group.add_argument("--examples", type=int, default=0, metavar="N", help="print N translations of each test set (0)")


def _contradictions(args: argparse.Namespace) -> list[str]:
    problems = []
    kinds = [f"--{name}" for name in ("model", "hypothesis", "compare") if vars(args)[name]]
    if len(kinds) != 1:
        given = f", not {' and '.join(kinds)}" if kinds else ""
        problems.append(f"give one of --model DIR, --hypothesis FILE and --compare RUN RUN{given}")
    if args.hypothesis and len(args.test) + bool(args.reference) != 1:
        problems.append("--hypothesis needs one test set: --reference FILE, or --test NAME")
    if args.compare:
        problems += _contradictions_of_comparison(args)
    if args.src and not args.reference:
        problems.append("--src needs --reference; translate.py translates without one")
    if args.domains and not args.compare and len(args.test) + bool(args.reference) != 1:
        problems.append("--domains is of one test set: give --reference or one --test NAME")
    if args.overrides and not args.model:
        problems.append(f"{' '.join(args.overrides)}: nothing is translated here")
    if args.data and not args.model:
        problems.append("--data is for --model")
    if args.languages and not _LANGUAGES.fullmatch(args.languages):
        problems.append(f"--languages {args.languages}: give two codes, such as en-de")
    if args.examples < 0:
        problems.append(f"--examples {args.examples}: at least 0")
    return problems


def _contradictions_of_comparison(args: argparse.Namespace) -> list[str]:
    no_use = [name for name in ("domains", "literature", "output", "examples") if vars(args)[name]]
    problems = [f"--{name} is not for --compare" for name in no_use]
    if len(args.compare) < 2:
        problems.append("--compare needs two systems, the first of which is the baseline")
    if any(path.is_dir() for path in args.compare):
        no_use = [name for name in ("src", "reference", "languages") if vars(args)[name]]
        problems += [f"--{name} is for files of translations: runs know theirs" for name in no_use]
    elif len(args.test) + bool(args.reference) > 1:
        problems.append("--compare of files needs one test set: --reference FILE, or --test NAME")
    return problems
