"""Test results: every figure with its interval, and a picture of the intervals of several runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from data.report.plot import Plot, ticks_between
from data.report.visible import plain
from transformer.evaluation.report.run import Run
from transformer.evaluation.results import METRICS, Evaluation, Figure

_ROW = 24.0  # units, of the picture
_WIDTH_OF_LETTER = 8.5
_LINES_TOLD = 5  # of each flaw


@dataclass(frozen=True)
class Row:
    """The results of one run on one test set; `cells` are (figure, interval) in the order of the columns."""

    run: int
    name: str
    cells: list[tuple[str, str] | None]


def results(runs: Sequence[Run]) -> dict[str, Any] | None:
    """What the page tells of the test sets, or None where no run has results."""
    sets = list(dict.fromkeys(name for run in runs for name in run.tests))
    if not sets:
        return None
    keys = [key for key in METRICS if any(key in one.metrics for run in runs for one, _ in run.tests.values())]
    literature = any(one.literature for run in runs for one, _ in run.tests.values())
    columns = [METRICS[key] for key in keys] + ["BLEU of the literature"] * literature
    return {
        "columns": columns,
        "sets": [(plain(name), list(_rows(runs, name, keys, literature))) for name in sets],
        "signatures": _signatures(runs, keys),
        "picture": _forest(runs, sets),
        "flaws": [flaws for name in sets for i, run in enumerate(runs) if (flaws := _flaws(i, run, name, len(runs)))],
        "breakdowns": [one for name in sets for one in _breakdowns(runs, name)],
    }


def _rows(runs: Sequence[Run], name: str, keys: Sequence[str], literature: bool) -> Iterator[Row]:
    for i, run in enumerate(runs):
        if name in run.tests:
            evaluation = run.tests[name][0]
            figures = [evaluation.metrics.get(key) for key in keys] + [evaluation.literature] * literature
            yield Row(i, plain(run.name), [None if figure is None else _cell(figure) for figure in figures])


def _cell(figure: Figure) -> tuple[str, str]:
    interval = "" if figure.interval is None else f"{figure.interval[0]:.2f} to {figure.interval[1]:.2f}"
    return f"{figure.score:.2f}", interval


def _signatures(runs: Sequence[Run], keys: Sequence[str]) -> list[tuple[str, str]]:
    """Each way of computing a figure once."""
    found: dict[tuple[str, str], None] = {}
    for run in runs:
        for evaluation, _ in run.tests.values():
            for key in keys:
                if key in evaluation.metrics:
                    found[METRICS[key], plain(evaluation.metrics[key].signature)] = None
            if evaluation.literature:
                found["BLEU of the literature", plain(evaluation.literature.signature)] = None
    return sorted(found)


def _forest(runs: Sequence[Run], sets: Sequence[str]) -> Markup | None:
    """BLEU of each test set and run as a dot on a line that is its interval; None where there is little to compare."""
    rows = [
        (name, i, run.tests[name][0].metrics["bleu"])
        for name in sets
        for i, run in enumerate(runs)
        if name in run.tests and "bleu" in run.tests[name][0].metrics
    ]
    if len(rows) < 2:
        return None
    ends = [bound for _, _, bleu in rows for bound in (bleu.interval or (bleu.score, bleu.score))]
    air = max((max(ends) - min(ends)) * 0.08, 0.5)
    lowest, highest = max(min(ends) - air, 0), max(ends) + air
    title = "BLEU with 95 % confidence interval: " + "; ".join(f"{name} {bleu.score:.2f}" for name, _, bleu in rows)
    plot = Plot(title, (lowest, highest), (len(rows) - 0.4, -0.6), height=58 + _ROW * len(rows))
    plot.left = min(20 + _WIDTH_OF_LETTER * max(map(len, sets)), 210.0)
    plot.grid({tick: f"{tick:.4g}" for tick in ticks_between(lowest, highest)}, {}, "BLEU", "")
    for row, (name, i, bleu) in enumerate(rows):
        y = plot.y(row)
        if row == 0 or rows[row - 1][0] != name:
            label = plain(name)
            shown = label if len(label) <= 24 else f"{label[:11]}…{label[-12:]}"
            plot.add("text", shown, x=plot.left - 10, y=y + 4, text_anchor="end", class_="label")
        if bleu.interval is not None:
            low, high = map(plot.x, bleu.interval)
            plot.add("path", d=f"M{low} {y}H{high}", class_=f"line r{i}")
        plot.add("circle", cx=plot.x(bleu.score), cy=y, r=4.5, class_=f"dot-r{i}")
    return plot.markup()


def _flaws(i: int, run: Run, name: str, n_runs: int) -> str:
    """Which translations are flawed at a glance, in words."""
    if name not in run.tests:
        return ""
    evaluation = run.tests[name][0]
    told = [_lines(plain(flaw), lines) for flaw, lines in evaluation.shares.items() if lines]
    looked_for = ", ".join(map(plain, evaluation.shares))
    found = ", ".join(told) or (
        f"none of {evaluation.n_lines:,} translations is flawed (looked for: {looked_for})" if looked_for else ""
    )
    sentences = [f"{found}."] * bool(found) + [plain(evaluation.note)] * bool(evaluation.note)
    whose = plain(name) if n_runs == 1 else f"{plain(name)}, {plain(run.name)}"
    return f"{whose}: {' '.join(sentences)}" if sentences else ""


def _lines(flaw: str, lines: Sequence[int]) -> str:
    numbers = ", ".join(f"{line:,}" for line in lines[:_LINES_TOLD])
    more = ", …" if len(lines) > _LINES_TOLD else ""
    return f"{len(lines):,} {flaw} (line {numbers}{more})"


def _breakdowns(runs: Sequence[Run], name: str) -> Iterator[dict[str, Any]]:
    """BLEU of parts of a test set, one row for each part and a column for each run."""
    told = [(i, run, run.tests[name][0]) for i, run in enumerate(runs) if name in run.tests]
    for by in dict.fromkeys(by for _, _, evaluation in told for by in evaluation.breakdown):
        columns = [(i, plain(run.name), _buckets(evaluation, by)) for i, run, evaluation in told]
        labels = list(dict.fromkeys(label for _, _, buckets in columns for label in buckets))
        highest = max((bucket.bleu for _, _, buckets in columns for bucket in buckets.values()), default=0) or 1
        rows = [(plain(label), [buckets.get(label) for _, _, buckets in columns]) for label in labels]
        if rows:
            yield {
                "title": f"{plain(name)} by {plain(by)}",
                "columns": [(i, run) for i, run, _ in columns],
                "rows": rows,
                "highest": highest,
            }


def _buckets(evaluation: Evaluation, by: str) -> Mapping[str, Any]:
    return {bucket.label: bucket for bucket in evaluation.breakdown.get(by, [])}
