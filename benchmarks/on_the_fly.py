"""What changing pairs on the fly costs: microseconds a pair, for each change of `train.augmentation`.

    python benchmarks/on_the_fly.py --prepared prepared/NAME

Updates of prepared data are made (sentences chosen, changed, padded) on one thread, as they are during training, with
one change at a time, at its usual rate, and with all of them. A training step of the same size, which the making
of the next update must not outlast, is for comparison: give the tokens per second that train.py shows with --rate.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from data.augmentation import Augmentation, Rates, Side
from data.batches import Epochs
from data.prepared import Prepared, load_prepared
from transformer.command_line import CommandParser, run_command
from transformer.training.stream import UpdateStream

ROOT = Path(__file__).resolve().parent.parent
BATCH_TOKENS = 4096
USUAL = {"upper_case": 0.07, "title_case": 0.05, "drop_end_punctuation": 0.2, "typos": 0.05, "markup": 0.005}


@dataclass(frozen=True)
class Result:
    """One way of making updates."""

    name: str
    micros_a_pair: float
    tokens_per_second: float  # real target tokens


def main(argv: Sequence[str] | None = None) -> int:
    """Time each change, print and write the table."""
    parser = CommandParser(prog="benchmarks/on_the_fly.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--prepared", type=Path, required=True, metavar="DIR", help="made by preprocess.py")
    parser.add_argument("--rate", type=float, metavar="N", help="target tokens a second of training, to compare with")
    parser.add_argument("--updates", type=int, default=100, metavar="N", help="of 4,096 tokens, for each change (100)")
    args = parser.parse_args(argv)
    prepared = load_prepared(args.prepared)
    page = describe(prepared, [measure(prepared, name, *way, args.updates) for name, way in ways(prepared)], args.rate)
    print(page)
    path = ROOT / "benchmarks/results/on_the_fly.md"
    path.write_text(page, encoding="utf-8")
    print(f"wrote {path}")
    return 0


def ways(prepared: Prepared) -> list[tuple[str, tuple[Rates | None, float | None]]]:
    """(rates, subword sampling): None for both is the stream without augmentation."""
    bpe = prepared.manifest["settings"]["vocabulary"]["type"] == "bpe"
    sampling = 0.1 if bpe else 0.5
    named = f"BPE-dropout {sampling}, both sides" if bpe else f"unigram sampling, alpha {sampling}, both sides"
    single = [(f"{name} {rate}", (Rates(**{name: rate}), None)) for name, rate in USUAL.items()]
    return [
        ("nothing", (None, None)),
        *single,
        ("merge_sentences 0.1", (Rates(merge_sentences=0.1), None)),
        (named, (Rates(), sampling)),
        ("all of them", (Rates(**USUAL, merge_sentences=0.1), sampling)),
    ]


def measure(prepared: Prepared, name: str, rates: Rates | None, sampling: float | None, n_updates: int) -> Result:
    """Make `n_updates` updates, one after the other; the first, which warms up, is not counted."""
    max_tokens = 2 * BATCH_TOKENS
    augmentation = None
    if rates is not None:
        sides = [Side(vocabulary, sampling) for vocabulary in (prepared.src_vocabulary, prepared.tgt_vocabulary)]
        augmentation = Augmentation(sides[0], sides[1], rates, max_tokens=max_tokens, seed=1)
    order = Epochs(prepared.train, batch_tokens=BATCH_TOKENS, max_tokens=max_tokens, seed=1)
    stream = UpdateStream(prepared.train, order, max_tokens, augmentation)
    try:
        taken = stream.make(0, 0)
        n_pairs = n_tokens = 0
        begin = time.perf_counter()
        for _ in range(n_updates):
            taken = stream.make(taken.part, taken.update + 1)
            n_pairs += sum(len(batch.src) for batch in taken.batches)
            n_tokens += sum(batch.n_tokens for batch in taken.batches)
        seconds = time.perf_counter() - begin
    finally:
        stream.close()
    return Result(name, 1e6 * seconds / n_pairs, n_tokens / seconds)


def describe(prepared: Prepared, results: Sequence[Result], rate: float | None) -> str:
    """The figures as a page."""
    lines = ["# Changes on the fly", "", "    python benchmarks/on_the_fly.py --prepared prepared/NAME", ""]
    compared = f" | of a step at {rate:,.0f} tokens/s" if rate else ""
    lines += [f"| change | µs a pair | target tokens/s{compared} |", "|---|---|---|" + ("---|" if rate else "")]
    for one in results:
        share = f" | {rate / one.tokens_per_second:.1%}" if rate else ""
        lines.append(f"| {one.name} | {one.micros_a_pair:.1f} | {one.tokens_per_second:,.0f}{share} |")
    lengths = prepared.train.tgt_lengths
    lines += ["", f"{len(lengths):,} pairs of {lengths.mean() + 1:.1f} target tokens on average; one thread."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(run_command(main))
