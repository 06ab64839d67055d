"""Translate and score test sets: `python evaluate.py --model runs/base`; or score text that is already translated."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from tqdm import tqdm

from data.corpora import FileSource, read_pairs
from data.lines import write_lines
from data.prepared import Prepared, load_prepared
from transformer.command_line import CommandParser, run_command
from transformer.config_file import load_config, section_overrides
from transformer.errors import ConfigError, RunError
from transformer.evaluation.metrics import format_table, score
from transformer.inference.translator import Translator
from transformer.model_directory import find_model, stored_translate_settings


def main(argv: Sequence[str] | None = None) -> int:
    """Score two files; or load a model and its test sets, translate them, score, and say what was written."""
    args = parse_arguments(argv)
    if args.hypothesis:
        hypotheses, references = read_files(args.hypothesis, args.reference)
        print(score(hypotheses, references).formatted())
        return 0

    settings = section_overrides("translate", args.overrides, stored_translate_settings(args.model))
    prepared = load_tests(args.data or find_prepared(args.model))
    output = args.output or (args.model / "translations" if is_run(args.model) else None)
    translator = Translator.load(args.model, args.device, **settings)
    scores, written = {}, []
    for name, (src, references) in prepared.test_text.items():
        hypotheses = translate(translator, name, src)
        scores[name] = score(hypotheses, references)
        if output:
            written.append(write_translations(output, name, prepared.manifest["tgt_lang"], hypotheses))
        print_examples(args.examples, src, references, hypotheses)
    print(format_table(scores))
    report(args.model, written)
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What there is to say; a model or two files, not both."""
    parser = CommandParser(prog="evaluate.py", description=__doc__)
    parser.add_argument("--model", type=Path, metavar="DIR", help="a run or model directory; all its test sets")
    parser.add_argument("--data", type=Path, metavar="DIR", help="prepared/NAME with the test sets (that of the run)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="for the translations (RUN/translations)")
    parser.add_argument(
        "--examples", type=int, default=0, metavar="N", help="print N translations of each test set (0)"
    )
    parser.add_argument(
        "--device", default="auto", choices=["auto", "cuda", "mps", "cpu"], help="auto: cuda, else mps, else cpu (auto)"
    )
    parser.add_argument("--hypothesis", type=Path, metavar="FILE", help="score these translations, without a model")
    parser.add_argument("--reference", type=Path, metavar="FILE", help="against these lines, detokenised and cased")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="translate.key=value",
        help="such as translate.beam_size=8; docs/configuration.md",
    )
    args: argparse.Namespace = parser.parse_args(argv)
    if (args.hypothesis is None) != (args.reference is None):
        parser.error("--hypothesis and --reference are given together")
    if (args.model is None) == (args.hypothesis is None):
        parser.error("give either --model, or --hypothesis and --reference")
    if args.hypothesis and args.overrides:
        parser.error(f"{' '.join(args.overrides)}: nothing is translated where two files are scored")
    if args.examples < 0:
        parser.error(f"--examples {args.examples}: at least 0")
    return args


def read_files(hypothesis: Path, reference: Path) -> tuple[list[str], list[str]]:
    """The lines of two files, plain or .gz, which must be equally many."""
    pairs = list(read_pairs(FileSource(hypothesis, reference)))
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def is_run(path: Path) -> bool:
    """Whether this is what train.py made, rather than a model directory alone."""
    return (path / "settings.yaml").is_file()


def find_prepared(model: Path) -> Path:
    """The prepared data that a run was trained on."""
    find_model(model)
    if not is_run(model):
        raise ConfigError(
            f"{model}: only a run knows its test sets; name prepared data with --data prepared/NAME, or give --model "
            "runs/NAME"
        )
    directory = Path("prepared") / load_config(model / "settings.yaml").name
    if not directory.is_dir():
        raise RunError(
            f"{directory}: not there. Run evaluate.py in the folder where train.py was run, or name the prepared data "
            "with --data"
        )
    return directory


def load_tests(directory: Path) -> Prepared:
    """Prepared data with at least one test set."""
    prepared = load_prepared(directory)
    if not prepared.test_text:
        raise RunError(f"{directory}: holds no test sets; name some under data.test and run preprocess.py again")
    return prepared


def translate(translator: Translator, name: str, src: list[str]) -> list[str]:
    """Translate a test set, with a bar on a terminal."""
    with tqdm(total=len(src), desc=name, unit=" lines", disable=None) as bar:
        return [translation.text for translation in translator.translations(src, progress=bar.update)]


def write_translations(directory: Path, name: str, language: str, hypotheses: list[str]) -> Path:
    """Write the translations of a test set; the file is complete or not there."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{quote(name, safe=' ')}.{language}"  # a test set may be called news/2014
    write_lines(path, hypotheses)
    return path


def print_examples(n: int, src: Sequence[str], references: Sequence[str], hypotheses: Sequence[str]) -> None:
    """Show n translations, spread evenly over the test set, each between its source and its reference."""
    n = min(n, len(src))
    for line in (i * len(src) // n for i in range(n)):
        print(f"source       {src[line]}\nreference    {references[line]}\ntranslation  {hypotheses[line]}\n")


def report(model: Path, written: Sequence[Path]) -> None:
    """Say what was written and what to do next."""
    for path in written:
        print(f"wrote  {path}")
    if not written:
        print("wrote  nothing; --output DIR keeps the translations")
    print(f'next   python -m transformer attention --model {model} --sentence "…" draws what the model looks at')


if __name__ == "__main__":
    sys.exit(run_command(main))
