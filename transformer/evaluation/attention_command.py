"""`python -m transformer attention`: a picture of what the network looks at in one sentence."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from transformer.command_line import CommandParser, check_folders
from transformer.errors import ConfigError
from transformer.evaluation.alignment_plot import AlignedWords, draw_alignment
from transformer.evaluation.attention_grid import draw_every_head
from transformer.evaluation.attention_plot import draw_attention
from transformer.evaluation.attention_reading import read_attention
from transformer.evaluation.gold_alignments import Gold, parse_gold
from transformer.evaluation.picture import Drawn, check_suffix
from transformer.inference.translator import Translator

KINDS = ("cross", "encoder", "decoder", "alignment")


def attention_command(argv: Sequence[str]) -> int:
    """Draw what a model attends to in one sentence, and which words it aligns."""
    args = _parse(argv)
    problems = []
    if args.gold is not None and args.kind != "alignment":
        problems.append(f"--gold is drawn beside an alignment: give --kind alignment, not {args.kind}")
    if args.kind == "alignment" and args.layer == "all":
        problems.append("--kind alignment is that of one layer, or of the mean of all: leave out --layer all")
    if not args.sentence.strip():
        problems.append("--sentence is blank: there is nothing to draw")
    for option, text in (("--sentence", args.sentence), ("--translation", args.translation)):
        if not _is_unicode(text or ""):
            problems.append(f"{option} {text!r} is not UTF-8: convert it, as with iconv -f latin1 -t utf-8")
    if problems:
        raise ConfigError("\n".join(problems))
    check_suffix(args.output)
    check_folders(args.output)
    translation, drawn = _draw_links(args) if args.kind == "alignment" else _draw_weights(args)
    print(f"{args.sentence}\n{translation}\nwrote {args.output}")
    for note in drawn.notes:
        print(note, file=sys.stderr)
    return 0


def _is_unicode(text: str) -> bool:
    """Whether the bytes of an argument were UTF-8: Python hands on others as half characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(prog="python -m transformer attention", description=attention_command.__doc__)
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="a run (runs/NAME) or model directory")
    parser.add_argument("--sentence", required=True, metavar="TEXT", help="the sentence, in the source language")
    parser.add_argument(
        "--translation", metavar="TEXT", help="a translation to be read, such as a reference (default: the model's own)"
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="cross",
        help="cross: encoder-decoder attention; encoder, decoder: their self-attention; alignment: the source word "
        "that each target word attends to most (default: %(default)s)",
    )
    parser.add_argument(
        "--layer",
        type=_layer,
        metavar="N",
        help="every head of this layer, 1 being the lowest; all: every head of every layer, small (default: the mean "
        "of all layers and heads)",
    )
    parser.add_argument(
        "--gold",
        metavar="LINKS",
        help="beside an alignment, the right one: 0-0 1?2, words from 0, ? where only possible",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("attention.png"),
        metavar="FILE",
        help="the picture: .png, .svg or .pdf (default: %(default)s)",
    )
    parser.add_argument(
        "--device", default="auto", choices=["auto", "cuda", "mps", "cpu"], help="auto: cuda, else mps, else cpu (auto)"
    )
    return parser.parse_args(argv)


def _layer(text: str) -> int | str:
    if text == "all":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither the number of a layer nor all") from None


def _draw_weights(args: argparse.Namespace) -> tuple[str, Drawn]:
    """The translation, and what was drawn."""
    reading = read_attention(Translator.load(args.model, args.device), args.sentence, args.translation)
    if args.layer == "all":
        return reading.translation, draw_every_head(args.output, reading, args.kind)
    return reading.translation, draw_attention(args.output, reading, args.kind, args.layer)


def _draw_links(args: argparse.Namespace) -> tuple[str, Drawn]:
    """As `_draw_weights`."""
    translator = Translator.load(args.model, args.device, alignment_layer=args.layer)
    translation = args.translation
    if translation is None:
        [translation] = translator.translate([args.sentence])
    [read] = translator.scored([(args.sentence, translation)])
    src, tgt = args.sentence.split(), translation.split()
    links, gold = read.alignment or (), None if args.gold is None else _gold(args.gold, len(src), len(tgt))
    layers = "mean of all layers" if args.layer is None else f"layer {args.layer}"
    words = AlignedWords(src, tgt, torch.tensor(read.attention), links, gold)
    return translation, draw_alignment(args.output, words, layers)


def _gold(text: str, n_src: int, n_tgt: int) -> Gold:
    problems: list[str] = []
    gold = parse_gold(text, "--gold", (n_src, n_tgt), 0, problems)
    if problems:
        raise ConfigError("\n".join(problems))
    return gold
