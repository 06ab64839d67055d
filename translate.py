"""Translate text, one line out for each line in: `python translate.py --model runs/base < in > out`."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import torch
from tqdm import tqdm

from data.errors import DataError
from data.lines import decode_lines, read_lines
from data.pairs import Pair
from data.sources import read_sources
from data.writers import FORMS as WRITERS
from data.writers import Labels
from transformer.command_line import CommandParser, run_command
from transformer.config_file import section_overrides
from transformer.evaluation.metrics import score
from transformer.inference.translator import WINDOW, Translator


def main(argv: Sequence[str] | None = None) -> int:
    """Read the arguments, load the model, translate, and score where there is a reference."""
    args = parse_arguments(argv)
    settings = section_overrides("translate", args.overrides)
    references = list(read_lines(args.reference)) if args.reference else None
    n_lines = check_input(args.input, args.reference, references)
    if args.threads:
        torch.set_num_threads(args.threads)
    translator = Translator.load(args.model, args.device, args.batch_size, **settings)

    hypotheses: list[str] = []
    typing = args.input is None and sys.stdin.isatty()
    if typing:
        print("type lines to translate; Ctrl-D ends", file=sys.stderr)
    bare = typing or (args.output is None and sys.stdout.isatty())  # a bar would run through the translations
    with tqdm(total=n_lines, unit=" lines", disable=bare or None) as bar:  # None: a bar if stderr is a terminal
        pairs = translated(sources(args.input), translator, window=1 if typing else WINDOW, progress=bar.update)
        labels = Labels(translator.src_lang, translator.tgt_lang, args.system)
        pairs = pairs if references is None else kept(pairs, hypotheses)
        WRITERS[args.format](args.output or sys.stdout.buffer, pairs, labels)
    if references is not None:
        print(score(hypotheses, references).formatted(), file=sys.stderr)
    return 0


def sources(path: Path | None) -> Iterator[Pair]:
    """What is to be translated: a file of lines or of a WMT test set, or lines from standard input."""
    if path:
        return read_sources(path)
    return (Pair(line, "") for line in decode_lines(sys.stdin.buffer, "standard input"))


def translated(
    pairs: Iterable[Pair], translator: Translator, window: int, progress: Callable[[int], object]
) -> Iterator[Pair]:
    """The pairs with their targets, in order, as soon as a window of them is translated."""
    waiting: deque[Pair] = deque()

    def texts() -> Iterator[str]:
        for pair in pairs:
            waiting.append(pair)
            yield pair.src

    for translation in translator.translations(texts(), window=window, progress=progress):
        yield waiting.popleft()._replace(tgt=translation.text)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What a translation can be told; every setting of the model's beam search is an override."""
    parser = CommandParser(prog="translate.py", description=__doc__)
    parser.add_argument("--model", default="runs/base", metavar="DIR", help="a run or model directory (runs/base)")
    parser.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="text, or a WMT test set as XML or SGM; plain or compressed (text from standard input)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="replaced when all is translated (standard output)")
    parser.add_argument(
        "--format",
        default="text",
        choices=list(WRITERS),
        help="of the output: text, both sides as tsv or jsonl, a WMT submission as xml or sgm (text)",
    )
    parser.add_argument("--system", default="system", metavar="NAME", help="who submits, in xml and sgm (system)")
    parser.add_argument("--reference", type=Path, metavar="FILE", help="print BLEU and chrF against these lines")
    parser.add_argument("--batch-size", type=positive, metavar="N", help="at most so many sentences at once")
    parser.add_argument(
        "--device", default="auto", choices=["auto", "cuda", "mps", "cpu"], help="auto: cuda, else mps, else cpu (auto)"
    )
    parser.add_argument("--threads", type=positive, metavar="N", help="CPU threads (what PyTorch chooses)")
    parser.add_argument("overrides", nargs="*", metavar="translate.key=value", help="such as translate.beam_size=8")
    args: argparse.Namespace = parser.parse_args(argv)
    return args


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def check_input(path: Path | None, reference: Path | None, references: list[str] | None) -> int | None:
    """Read an input file once before hours of work depend on it, and count its lines; None for what reads only once."""
    if path is None or (path.exists() and not path.is_file()):
        return None
    n_lines = sum(1 for _ in read_sources(path))
    if references is not None and len(references) != n_lines:
        raise DataError(
            f"{path} has {n_lines} lines, {reference} has {len(references)}: line N of the reference must translate "
            "line N of the input. Nothing was translated."
        )
    return n_lines


def kept(pairs: Iterable[Pair], into: list[str]) -> Iterator[Pair]:
    """Pass pairs on and keep their targets."""
    for pair in pairs:
        into.append(pair.tgt)
        yield pair


if __name__ == "__main__":
    sys.exit(run_command(main))
