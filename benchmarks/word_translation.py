"""What the word-translation filter finds, with default settings, where it is known what is wrong.

    python benchmarks/word_translation.py --data DIR

DIR holds l10n/noisy.en-de.{en,de,labels}.gz, a corpus with injected and labelled noise; and the clean corpora tatoeba,
multi30k and l10n, in which this program shifts runs of 30 pairs and mismatches single ones itself. The table is printed
and written to benchmarks/results/word_translation.md. `--show N` prints N of the dropped pairs that are labelled raw,
to be judged.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from data.lines import read_lines, write_lines
from data.pairs import Texts
from data.word_translation import WordTranslation, in_context

RESULT = Path(__file__).resolve().parent / "results" / "word_translation.md"
NOISY = "l10n/noisy.en-de"
CLEAN = (
    ("tatoeba/train.en-de", "en", "de"),
    ("tatoeba/train.en-fr", "en", "fr"),
    ("multi30k/train", "en", "de"),
    ("l10n/train.en-de", "en", "de"),
    ("l10n/train.en-zh", "en", "zh"),
)
MAX_PAIRS = 150_000  # of a clean corpus
RUN, N_RUNS, N_SINGLE = 30, 100, 1500
BATCH = 4096
WINDOW = 5  # the default of WordTranslation.filter; so is a threshold of 0


@dataclass(frozen=True)
class Judged:
    """One corpus, judged by what it teaches itself."""

    scores: npt.NDArray[np.float64]
    learn_seconds: float
    pairs_per_second: float

    def dropped(self, window: int) -> npt.NDArray[np.bool_]:
        """Which pairs the filter drops, with its default threshold."""
        return in_context(self.scores, window) < 0


def main(argv: Sequence[str] | None = None) -> int:
    args = parse_arguments(argv)
    lines = ["# The word-translation filter", "", "    python benchmarks/word_translation.py --data DIR", ""]
    lines += measure_noisy(args.data, args.show)
    lines += measure_clean(args.data)
    print("\n".join(lines))
    RESULT.parent.mkdir(exist_ok=True)
    write_lines(RESULT, lines)
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="dropped pairs to print")
    return parser.parse_args(argv)


def judge(src: list[str], tgt: list[str]) -> Judged:
    start = time.process_time()
    model = WordTranslation.learn(zip(src, tgt, strict=True))
    learnt = time.process_time()
    batches = range(0, len(src), BATCH)
    scores = np.concatenate([model.score(Texts(src[at : at + BATCH], tgt[at : at + BATCH])) for at in batches])
    return Judged(scores, learnt - start, len(src) / (time.process_time() - learnt))


def measure_noisy(data: Path, show: int) -> list[str]:
    src, tgt, labels = (list(read_lines(data / f"{NOISY}.{side}.gz")) for side in ("en", "de", "labels"))
    judged, kinds = judge(src, tgt), np.array(labels)
    windows = (0, 3, WINDOW, 8)
    dropped = {window: judged.dropped(window) for window in windows}
    table = [
        f"Dropped of {NOISY}, per label ({speed(judged)}); `window` {WINDOW} is the default:",
        "",
        "| label | pairs | " + " | ".join(f"window {window}" for window in windows) + " |",
        "|---|---:|" + "---:|" * len(windows),
    ]
    for kind in ("misaligned", "raw", *sorted(set(labels) - {"misaligned", "raw"})):
        shares = " | ".join(f"{100 * dropped[window][kinds == kind].mean():.1f} %" for window in windows)
        table.append(f"| {kind} | {(kinds == kind).sum():,} | {shares} |")
    false = np.flatnonzero(dropped[WINDOW] & (kinds == "raw")).tolist()
    for place in random.Random(1).sample(false, min(show, len(false))):
        print(f"{place + 1}\t{judged.scores[place]:.1f}\t{src[place]}\t{tgt[place]}")
    return [*table, ""]


def measure_clean(data: Path) -> list[str]:
    table = [
        f"Clean corpora (at most {MAX_PAIRS:,} pairs), of which {N_RUNS} runs of {RUN} pairs are shifted by one line "
        f"and {N_SINGLE:,} single pairs get the translation of another one:",
        "",
        "| corpus | pairs | dropped of the sound | of the shifted | of the single |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, *languages in CLEAN:
        src, tgt = (list(read_lines(data / f"{name}.{language}.gz"))[:MAX_PAIRS] for language in languages)
        kinds = spoil(tgt)
        judged = judge(src, tgt)
        dropped = judged.dropped(WINDOW)
        shares = " | ".join(f"{100 * dropped[kinds == kind].mean():.2f} %" for kind in range(3))
        table.append(f"| {name}, {'-'.join(languages)} ({speed(judged)}) | {len(src):,} | {shares} |")
    return table


def spoil(tgt: list[str]) -> npt.NDArray[np.int8]:
    """Put translations in wrong places; 0 sound, 1 shifted, 2 single."""
    rng = random.Random(1)
    kinds = np.zeros(len(tgt), np.int8)
    blocks = rng.sample(range(len(tgt) // RUN), N_RUNS)
    for first in (RUN * block for block in blocks):
        tgt[first : first + RUN] = [*tgt[first + 1 : first + RUN], tgt[first]]
        kinds[first : first + RUN] = 1
    single = rng.sample(np.flatnonzero(kinds == 0).tolist(), N_SINGLE)
    moved = [tgt[place] for place in [*single[1:], single[0]]]
    for place, text in zip(single, moved, strict=True):
        tgt[place] = text
    kinds[single] = 2
    return kinds


def speed(judged: Judged) -> str:
    return f"learnt in {judged.learn_seconds:.0f} s, {judged.pairs_per_second:,.0f} pairs/s judged, one core"


if __name__ == "__main__":
    sys.exit(main())
