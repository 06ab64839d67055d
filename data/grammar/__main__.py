"""`python -m data.grammar --output DIR`: writes the demo corpus."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from data.grammar.corpus import write_corpus


def _number_of_pairs(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of sentence pairs: 0, 1, 2, …")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the corpus and says what was written."""
    parser = argparse.ArgumentParser(
        prog="python -m data.grammar",
        description="Writes a small English-German corpus from a built-in grammar: train, valid and test, .en and .de. "
        "The same numbers and seed always give the same files; no sentence occurs twice.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        default=argparse.SUPPRESS,
        metavar="DIR",
        help="folder for the six files; made if new",
    )
    parser.add_argument("--train", type=_number_of_pairs, default=40_000, metavar="N", help="training pairs")
    parser.add_argument("--valid", type=_number_of_pairs, default=500, metavar="N", help="validation pairs")
    parser.add_argument("--test", type=_number_of_pairs, default=500, metavar="N", help="test pairs")
    parser.add_argument("--seed", type=int, default=1, help="another seed gives other sentences")
    args = parser.parse_args(argv)
    try:
        written = write_corpus(args.output, args.train, args.valid, args.test, args.seed)
    except OSError as error:
        print(f"error: cannot write the corpus to {args.output}: {error}", file=sys.stderr)
        return 1
    counts = f"{args.train:,} training, {args.valid:,} validation and {args.test:,} test pairs"
    print(f"{counts} (seed {args.seed}):")
    for path in written:
        print(f"  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
