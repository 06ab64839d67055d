"""How often sound lines are called flawed, and how long intervals and p-values take beside sacrebleu.

    python benchmarks/evaluation.py --data DIR

DIR/wmt/xml holds XML files of WMT's shared tasks, with the translations of many systems. A reference is judged against
the others, each system against all. Times are of the resampling alone, without the counting of words before, which is
sacrebleu's for both. Minutes; the tables are printed and written to benchmarks/results/evaluation.md.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

import numpy as np
from lxml import etree
from sacrebleu.significance import _bootstrap_resample

from data.errors import DataError
from transformer.command_line import CommandParser, run_command
from transformer.evaluation.flaws import Translated, find_flaws
from transformer.evaluation.sentence_statistics import Statistics, count
from transformer.evaluation.significance import RESAMPLES, compare, confidence_intervals
from transformer.evaluation.test_sets import TestSet, named_test
from transformer.evaluation.tokenization import load_metrics

RESULTS = Path(__file__).resolve().parent / "results" / "evaluation.md"
SETS = {
    "newstest2021.ru-en.all.xml": ("ru", "en"),
    "wmttest2022.en-zh.all.xml": ("en", "zh"),
    "wmttest2023.ru-en.all.xml": ("ru", "en"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Look for flaws, take times, print and write both."""
    args = parse_arguments(argv)
    tables = f"{flaws_table(args.data)}\n\n{times_table(args.data)}\n"
    print(tables, end="")
    RESULTS.write_text(f"# Evaluation\n\n    python benchmarks/evaluation.py --data DIR\n\n{tables}", encoding="utf-8")
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Where the data are."""
    parser = CommandParser(prog="evaluation.py", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="holds wmt/xml")
    args: argparse.Namespace = parser.parse_args(argv)
    if missing := [name for name in SETS if not (args.data / "wmt" / "xml" / name).is_file()]:
        raise DataError(f"{args.data / 'wmt' / 'xml'}: lacks {', '.join(missing)}")
    return args


def flaws_table(data: Path) -> str:
    """How many lines of references and systems are called flawed."""
    lines = ["| test set | lines | of | empty | copied | looping | truncated | wrong language |", f"|{'---|' * 8}"]
    for name, languages in SETS.items():
        path = data / "wmt" / "xml" / name
        test = named_test(str(path), *languages)
        for what, outputs in (("references", references(test)), ("systems", systems(path, test))):
            found: Counter[str] = Counter()
            n_lines = n_outputs = 0
            for hypotheses, others in outputs:
                assert test.src is not None
                flaws = find_flaws(Translated(test.src, hypotheses, others, None, *languages))
                found.update({kind: len(numbers) for kind, numbers in flaws.items()})
                n_lines, n_outputs = n_lines + len(test), n_outputs + 1
            if n_outputs:
                kinds = ("empty", "copied", "looping", "truncated", "wrong language")
                cells = " | ".join(str(found[kind]) for kind in kinds)
                lines.append(f"| {name} | {n_lines:,} | {n_outputs} {what} | {cells} |")
    return "\n".join(lines)


Outputs = Iterator[tuple[list[str], list[list[str]]]]  # translations, and the references they are judged against


def references(test: TestSet) -> Outputs:
    """Each reference against the others."""
    for number, side in enumerate(test.references):
        if others := test.references[:number] + test.references[number + 1 :]:
            yield side, others


def systems(path: Path, test: TestSet) -> Outputs:
    """Each system against all references."""
    texts: dict[str, list[str]] = {}
    for document in etree.parse(path).iter("doc"):
        keys = [segment.get("id") for source in document.iterchildren("src") for segment in source.iter("seg")]
        for hypothesis in document.iterchildren("hyp"):
            of_id = {segment.get("id"): "".join(map(str, segment.itertext())) for segment in hypothesis.iter("seg")}
            texts.setdefault(hypothesis.get("system") or "", []).extend(of_id[key] for key in keys)
    for lines in texts.values():
        if len(lines) == len(test):
            yield lines, test.references


def times_table(data: Path) -> str:
    """Seconds of resampling four metrics, here and in sacrebleu."""
    test = named_test(str(data / "wmt" / "xml" / "newstest2021.ru-en.all.xml"), "ru", "en")
    [one, other, *_] = [
        hypotheses for hypotheses, _ in systems(data / "wmt" / "xml" / "newstest2021.ru-en.all.xml", test)
    ]
    metrics = load_metrics("13a", "en")
    ours, theirs = (count(metrics, hypotheses, test.references) for hypotheses in (one, other))
    lines = ["| lines | intervals, s | sacrebleu, s | both tests of two systems, s |", f"|{'---|' * 4}"]
    for n_lines in (2000, 20_000):
        places = np.array(random.Random(1).choices(range(len(test)), k=n_lines))
        a, b = (
            {name: Statistics(found.metric, found.counts[places]) for name, found in system.items()}
            for system in (ours, theirs)
        )
        rows = {name: found.counts.tolist() for name, found in a.items()}
        seconds = [
            seconds_of(lambda a=a: confidence_intervals(a)),  # type: ignore[misc]
            seconds_of(lambda rows=rows: [_bootstrap_resample(rows[k], metrics[k], RESAMPLES) for k in rows]),  # type: ignore[misc]
            seconds_of(lambda a=a, b=b: compare(a, b)),  # type: ignore[misc]
        ]
        lines.append(f"| {n_lines:,} | " + " | ".join(f"{each:.2f}" for each in seconds) + " |")
    return "\n".join(lines)


def seconds_of(work: Callable[[], object]) -> float:
    """The shortest of three times."""
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


if __name__ == "__main__":
    sys.exit(run_command(main))
