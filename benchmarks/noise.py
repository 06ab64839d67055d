"""What the filters catch of labelled noise, what they cost in sound pairs, and how fast they are.

    python benchmarks/noise.py --data DIR

DIR holds noisy.en-de.en.gz, noisy.en-de.de.gz and noisy.en-de.labels.gz: lines of software translations as they are,
labelled `raw`, among lines that were damaged on purpose, labelled with how. The result is printed and written to
benchmarks/results/noise.md. Of the raw lines that are dropped, 100 were judged by a person: noise-sample.tsv, beside
it, holds their line numbers, the filter and the judgement, not the text. `--sample` prints them with their text.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from data.duplicates import DuplicateRule, duplicate_keys
from data.errors import DataError
from data.filters import make_filter
from data.lines import read_lines, write_lines
from data.pairs import Texts
from transformer.command_line import CommandParser, run_command
from transformer.config_filters import (
    DEFAULT_FILTERS,
    DuplicatesFilter,
    FilterSettings,
    MarkupFilter,
    NumbersFilter,
)
from transformer.errors import ConfigError

Marks = npt.NDArray[np.bool_]

RESULTS = Path(__file__).resolve().parent / "results"
SAMPLE = RESULTS / "noise-sample.tsv"
BATCH = 10_000  # pairs
ROUNDS = 3  # of which the fastest counts
TARGETS = ("wrong-language", "swapped", "empty-source", "empty-target", "copied-source", "concatenated", "duplicate")
BY_DEFAULT = tuple(entry for entry in DEFAULT_FILTERS if not isinstance(entry, DuplicatesFilter))
OFF_BY_DEFAULT: tuple[FilterSettings, ...] = (NumbersFilter(), MarkupFilter())


@dataclass(frozen=True)
class Corpus:
    """The lines and how each came to be."""

    texts: Texts
    labels: npt.NDArray[np.str_]

    def batch(self, places: npt.NDArray[np.int64]) -> Texts:
        """Some of the lines."""
        return Texts([self.texts.src[i] for i in places.tolist()], [self.texts.tgt[i] for i in places.tolist()])


def main(argv: Sequence[str] | None = None) -> int:
    """Filter, count, report."""
    args = parse_arguments(argv)
    corpus = load(args.data)
    dropped = judge(corpus)
    if args.sample:
        print_sample(corpus, dropped)
        return 0
    report = render(corpus, dropped, speeds(corpus))
    print(report)
    RESULTS.mkdir(exist_ok=True)
    write_lines(RESULTS / "noise.md", report.split("\n"))
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What there is to choose."""
    parser = CommandParser(prog="benchmarks/noise.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of noisy.en-de.*.gz")
    parser.add_argument("--sample", action="store_true", help="print the raw lines that a person has to judge")
    args: argparse.Namespace = parser.parse_args(argv)
    return args


def load(folder: Path) -> Corpus:
    """Read the three files.

    Raises:
        ConfigError: they are not there.
    """
    files = [folder / f"noisy.en-de.{part}.gz" for part in ("en", "de", "labels")]
    if missing := [file.name for file in files if not file.is_file()]:
        raise ConfigError(f"{folder}: {', '.join(missing)} not there; --data takes the folder of noisy.en-de.*.gz")
    src, tgt, labels = (list(read_lines(file)) for file in files)
    if not len(src) == len(tgt) == len(labels):
        raise DataError(f"{folder}: noisy.en-de has {len(src)}, {len(tgt)} and {len(labels)} lines: they must be equal")
    return Corpus(Texts(src, tgt), np.array(labels))


def judge(corpus: Corpus) -> dict[str, Marks]:
    """Which lines each filter drops by itself; `empty` comes first, and the others do not see those lines."""
    texts = corpus.texts
    empty = np.array([not src.strip() or not tgt.strip() for src, tgt in zip(texts.src, texts.tgt, strict=True)])
    dropped = {"empty": empty}
    for entry in (*BY_DEFAULT, *OFF_BY_DEFAULT):
        filter_ = make_filter(entry.filter, entry.model_dump(exclude={"filter"}), "en", "de")
        dropped[entry.filter] = np.zeros(len(texts), np.bool_)
        for places in batches(np.flatnonzero(~empty)):
            dropped[entry.filter][places] = ~filter_(corpus.batch(places))
    return dropped | {"duplicates": repeated(corpus, kept_by(dropped))}


def batches(places: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """As many places at a time as the preparation of data has."""
    return (places[begin : begin + BATCH] for begin in range(0, len(places), BATCH))


def kept_by(dropped: dict[str, Marks]) -> Marks:
    """What no filter of the default set drops, duplicates apart."""
    names = ["empty", *(entry.filter for entry in BY_DEFAULT)]
    kept: Marks = ~np.any([dropped[name] for name in names], axis=0)
    return kept


def repeated(corpus: Corpus, kept: Marks) -> Marks:
    """All but the first of the same pairs, among those that are kept otherwise."""
    places = np.flatnonzero(kept)
    keys = duplicate_keys(corpus.batch(places), DuplicateRule())
    marks = np.ones(len(kept), np.bool_)
    marks[places[np.unique(keys, return_index=True)[1]]] = False
    both: Marks = marks & kept
    return both


def caught_duplicates(corpus: Corpus, gone: Marks) -> Marks:
    """Lines labelled duplicate are caught if at most one of the pairs that are the same is left.

    Which of them carries the label says nothing: in the file, the damaged copy stands before its original as often.
    """
    keys = duplicate_keys(corpus.texts, DuplicateRule())
    _, groups = np.unique(keys, return_inverse=True)
    left: Marks = np.bincount(groups, weights=~gone)[groups] <= 1
    return left


def speeds(corpus: Corpus) -> dict[str, float]:
    """Pairs per second of each filter, on one core, for raw lines of about ten words."""
    words = np.array([len(text.split()) for text in corpus.texts.src])
    places = np.flatnonzero((corpus.labels == "raw") & (words >= 8) & (words <= 12))[:BATCH]
    texts = corpus.batch(places)
    seconds: dict[str, float] = {}
    for entry in (*BY_DEFAULT, *OFF_BY_DEFAULT):
        filter_ = make_filter(entry.filter, entry.model_dump(exclude={"filter"}), "en", "de")
        filter_(texts)  # what is built at the first use
        seconds[entry.filter] = min(timed(filter_, texts) for _ in range(ROUNDS))
    seconds["default set"] = sum(seconds[entry.filter] for entry in BY_DEFAULT)
    return {name: len(texts) / taken for name, taken in seconds.items()}


def timed(filter_: object, texts: Texts) -> float:
    """Seconds of processor time."""
    assert callable(filter_)
    begin = time.process_time()
    filter_(texts)
    return time.process_time() - begin


def first_reason(dropped: dict[str, Marks], place: int) -> str:
    """The filter of the default set that a dropped line is counted under."""
    return next(name for name in ("empty", *(e.filter for e in BY_DEFAULT), "duplicates") if dropped[name][place])


def lost_lines(corpus: Corpus, dropped: dict[str, Marks]) -> npt.NDArray[np.int64]:
    """Raw lines dropped by the default set for another reason than being there already."""
    seen = repeated(corpus, np.ones(len(corpus.labels), np.bool_))
    return np.flatnonzero((corpus.labels == "raw") & ~kept_by(dropped) & ~seen)


def sampled(corpus: Corpus, dropped: dict[str, Marks]) -> list[int]:
    """100 of the lost lines, always the same while the filters are."""
    lost = lost_lines(corpus, dropped).tolist()
    return sorted(random.Random(1).sample(lost, min(100, len(lost))))


def print_sample(corpus: Corpus, dropped: dict[str, Marks]) -> None:
    """What a person has to judge, as a table to be completed."""
    for place in sampled(corpus, dropped):
        src, tgt = corpus.texts.src[place], corpus.texts.tgt[place]
        print(place + 1, first_reason(dropped, place), repr(src[:300]), repr(tgt[:300]), sep="\t")


def render(corpus: Corpus, dropped: dict[str, Marks], pairs_per_second: dict[str, float]) -> str:
    """The report in Markdown."""
    gone = ~kept_by(dropped) | dropped["duplicates"]
    names = [*dropped]
    lines = [
        "# noise",
        "",
        "    python benchmarks/noise.py --data DIR",
        "",
        f"noisy.en-de, {len(corpus.labels):,} lines. Percent of the lines of each kind that each filter drops",
        "by itself, and that the default set drops. `numbers` and `markup` are off by default. Of the kinds in bold",
        "at least 90 % is asked.",
        "",
        f"| kind | lines | default set | {' | '.join(names)} |",
        "|---|" + "---:|" * (len(names) + 2),
        *(kind_row(corpus, dropped, gone, kind) for kind, _ in Counter(corpus.labels.tolist()).most_common()),
        "",
        "`duplicate` counts as caught when at most one of the same pairs is left, whichever has the label.\n"
        "About 9 % of the raw lines read the same in both languages (names, commands): of the lines that were copied\n"
        "or swapped, about as many are no worse than before, and cannot be told from them.",
        "",
        *judgement(corpus, dropped),
        "",
        "## Speed",
        "",
        f"One core, raw lines of 8 to 12 words, {BATCH:,} at a time, the fastest of {ROUNDS} rounds.",
        "",
        "| filter | pairs/s | µs a pair |",
        "|---|---:|---:|",
        *(f"| {name} | {speed:,.0f} | {1e6 / speed:.2f} |" for name, speed in pairs_per_second.items()),
    ]
    return "\n".join(lines)


def kind_row(corpus: Corpus, dropped: dict[str, Marks], gone: Marks, kind: str) -> str:
    """How much of one kind is caught."""
    of_kind = corpus.labels == kind
    caught = caught_duplicates(corpus, gone) if kind == "duplicate" else gone
    shares = [marks[of_kind].mean() for marks in dropped.values()]
    cells = [f"{100 * share:.1f}" if share else "" for share in shares]
    name = f"**{kind}**" if kind in TARGETS else kind
    return f"| {name} | {of_kind.sum():,} | {100 * caught[of_kind].mean():.1f} | {' | '.join(cells)} |"


def judgement(corpus: Corpus, dropped: dict[str, Marks]) -> list[str]:
    """What raw lines are lost, and how many of them are sound, by the sample that was judged."""
    n_raw = int((corpus.labels == "raw").sum())
    lost = lost_lines(corpus, dropped)
    lines = [
        "## Sound lines lost",
        "",
        f"Of {n_raw:,} raw lines, {100 * len(lost) / n_raw:.2f} % are dropped by the default set, not counting",
        "what is there already (duplicates): " + ", ".join(f"{name} {n:,}" for name, n in reasons(dropped, lost)) + ".",
    ]
    if not SAMPLE.exists():
        return [*lines, "None were judged yet."]
    rows = [line.split("\t") for line in read_lines(SAMPLE)][1:]
    judged = [verdict for number, _, verdict, _ in rows if int(number) - 1 in set(lost.tolist())]
    sound = judged.count("sound")
    share = sound / max(len(judged), 1)
    return [
        *lines,
        f"A sample of {len(rows)} was drawn when the filters were set, and judged by hand: of the {len(judged)} in it",
        f"that are dropped today, {sound} are sound. So about {100 * len(lost) / n_raw * share:.1f} % of the raw lines",
        "are sound and lost (asked: at most 3 %). `noise-sample.tsv` says which lines, and why; `--sample` draws",
        "anew.",
    ]


def reasons(dropped: dict[str, Marks], lost: npt.NDArray[np.int64]) -> list[tuple[str, int]]:
    """The lost lines by filter."""
    return Counter(first_reason(dropped, place) for place in lost.tolist()).most_common()


if __name__ == "__main__":
    sys.exit(run_command(main))
