"""`python -m transformer align`: which words of given translations a model aligns, and how far that is from right."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from data.corpora import FileSource, read_pairs
from data.lines import write_lines
from data.pairs import Pair
from transformer.command_line import CommandParser, check_folders
from transformer.evaluation.alignment_error import LinkCounts, count_links
from transformer.evaluation.gold_alignments import Gold, read_gold
from transformer.inference.links import Links, pharaoh
from transformer.inference.translator import Translator

MEAN = "mean"


def align_command(argv: Sequence[str]) -> int:
    """Align the words of given translations, and compare with the alignments of people."""
    args = _parse(argv)
    check_folders(args.output)
    pairs = list(read_pairs(FileSource(args.src, args.tgt)))
    gold = None
    if args.gold:
        gold = read_gold(args.gold, [(len(src.split()), len(tgt.split())) for src, tgt, *_ in pairs], args.gold_from)
    translator = Translator.load(args.model, args.device, alignment_layer=args.layer)
    links = list(align(translator, pairs))
    lines = map(pharaoh, links)
    if args.output:
        write_lines(args.output, lines)
        print(f"wrote {args.output}", file=sys.stderr)
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines)
    if gold is not None:
        chosen = MEAN if args.layer is None else str(args.layer)
        errors = {chosen: total_error(links, gold)}
        if args.layer is None:
            errors |= errors_of_layers(translator, pairs, gold)
        print(format_errors(errors), file=sys.stderr)
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(prog="python -m transformer align", description=align_command.__doc__)
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="a run (runs/NAME) or model directory")
    parser.add_argument("--src", type=Path, required=True, metavar="FILE", help="sentences, a line each")
    parser.add_argument("--tgt", type=Path, required=True, metavar="FILE", help="their translations")
    parser.add_argument(
        "--gold", type=Path, metavar="FILE", help="their right alignments, Pharaoh or NAACL: prints AER"
    )
    parser.add_argument(
        "--gold-from", type=int, choices=(0, 1), default=0, help="the number of a first word in Pharaoh's form (0)"
    )
    parser.add_argument(
        "--layer",
        type=int,
        metavar="N",
        help="the decoder layer whose attention aligns, 1 being the lowest (default: the mean of all; with --gold, "
        "each is measured)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="for the links, as 0-0 1-2 (standard output)")
    parser.add_argument(
        "--device", default="auto", choices=["auto", "cuda", "mps", "cpu"], help="auto: cuda, else mps, else cpu (auto)"
    )
    return parser.parse_args(argv)


def align(translator: Translator, pairs: Sequence[Pair], what: str = "aligning") -> Iterator[Links]:
    """Each target word's link to the source word that it attends to most, in forced decoding: a sentence at a time."""
    with tqdm(total=len(pairs), desc=what, unit=" lines", disable=None) as bar:
        for read in translator.scored(((pair.src, pair.tgt) for pair in pairs), progress=bar.update):
            yield read.alignment or ()


def errors_of_layers(translator: Translator, pairs: Sequence[Pair], gold: Sequence[Gold]) -> dict[str, LinkCounts]:
    """The error of each decoder layer, the lowest first."""
    errors = {}
    for layer in range(1, min(len(network.decoder.layers) for network in translator.networks) + 1):
        settings = translator.settings.model_copy(update={"alignment_layer": layer})
        of_layer = Translator(
            translator.networks, translator.src_vocabulary, translator.tgt_vocabulary, settings, translator.device
        )
        errors[str(layer)] = total_error(align(of_layer, pairs, f"layer {layer}"), gold)
    return errors


def total_error(links: Iterable[Links], gold: Sequence[Gold]) -> LinkCounts:
    """The error over all sentences."""
    return sum((count_links(one, right) for one, right in zip(links, gold, strict=True)), LinkCounts())


def format_errors(errors: Mapping[str, LinkCounts]) -> str:
    """A table in percent, a row for each layer."""
    rows = ["layer  precision  recall    AER"]
    for layer, error in errors.items():
        shares = (error.precision, error.recall, error.error_rate)
        rows.append("{:>5}  {:9.1f}  {:6.1f}  {:5.1f}".format(layer, *(100 * share for share in shares)))
    return "\n".join([*rows, "in percent; AER: alignment error rate (Och & Ney 2003), lower is better"])
