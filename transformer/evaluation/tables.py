"""Evaluations as text on a screen: figures with intervals, signatures once, breakdown, flaws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transformer.evaluation.results import METRICS, Evaluation, Figure

_LINES_NAMED = 5


@dataclass(frozen=True)
class Row:
    """An evaluation, and the system it is of where there are several."""

    evaluation: Evaluation
    system: str = ""

    @property
    def label(self) -> str:
        """What the row is called."""
        return f"{self.evaluation.test_set}  {self.system}" if self.system else self.evaluation.test_set


def format_evaluations(rows: Sequence[Row]) -> str:
    """One evaluation as a line for each metric, several as a table with a row for each; then all that is beside."""
    tests = list(dict.fromkeys(row.evaluation.test_set for row in rows))
    rows = sorted(rows, key=lambda row: tests.index(row.evaluation.test_set))  # systems stand beside each other
    figures = _one(rows[0].evaluation) if len(rows) == 1 else _table(rows)
    parts = [figures, *(_breakdown(row.evaluation) for row in rows if len(rows) == 1), _flaws(rows)]
    return "\n\n".join(part for part in parts if part)


def _one(evaluation: Evaluation) -> str:
    lines = [f"{evaluation.test_set}, {evaluation.n_lines:,} lines"]
    lines += [
        f"{METRICS[name]:10} {figure.score:6.2f} {_interval(figure):16} {figure.signature}"
        for name, figure in evaluation.metrics.items()
    ]
    if evaluation.literature:
        figure = evaluation.literature
        lines.append(f"literature {figure.score:6.2f} {_interval(figure):16} {figure.signature}")
        lines.append(_LITERATURE)
    lines.append(f"length     {_ratio(evaluation)}")
    return "\n".join([*lines, evaluation.note] if evaluation.note else lines)


_LITERATURE = "(literature: BLEU lower-cased, in Moses' tokens; only for beside published figures of that form)"


def _table(rows: Sequence[Row]) -> str:
    evaluations = [row.evaluation for row in rows]
    width = max(map(len, ["test set", *(row.label for row in rows)]))
    names = [name for name in METRICS if any(name in evaluation.metrics for evaluation in evaluations)]
    literature = any(evaluation.literature for evaluation in evaluations)
    titles = [METRICS[name] for name in names] + (["literature"] if literature else [])
    lines = [f"{'test set':{width}}  {''.join(f'{title:>6}{_GAP}' for title in titles)}length   lines"]
    for row, evaluation in zip(rows, evaluations, strict=True):
        figures = [evaluation.metrics.get(name) for name in names] + ([evaluation.literature] if literature else [])
        cells = "".join(f"{_cell(figure):{6 + len(_GAP)}}" for figure in figures)
        lines.append(f"{row.label:{width}}  {cells}{_ratio(evaluation)} {evaluation.n_lines:7,}")
    signatures = {  # test sets are scored alike, so each signature is printed once
        f"{METRICS[name]:10} {figure.signature}": None
        for name in names
        for evaluation in evaluations
        if (figure := evaluation.metrics.get(name))
    }
    signatures |= {f"literature {one.literature.signature}": None for one in evaluations if one.literature}
    notes = [_LITERATURE] if literature else []
    notes += [f"{row.label}: {row.evaluation.note}" for row in rows if row.evaluation.note]
    return "\n".join([*lines, "in brackets: 95 % confidence interval, by bootstrap", "", *signatures, *notes])


_GAP = " " * 16  # for an interval


def _cell(figure: Figure | None) -> str:
    return f"{figure.score:6.2f} {_interval(figure)}" if figure else ""


def _interval(figure: Figure) -> str:
    return f"[{figure.interval[0]:.1f}, {figure.interval[1]:.1f}]" if figure.interval else ""


def _ratio(evaluation: Evaluation) -> str:
    return "   nan" if evaluation.length_ratio is None else f"{evaluation.length_ratio:6.3f}"


def _breakdown(evaluation: Evaluation) -> str:
    blocks = []
    for title, buckets in evaluation.breakdown.items():
        width = max(len(title), *(len(bucket.label) for bucket in buckets)) if buckets else 0
        lines = [f"{title:{width}}    BLEU    chrF   lines"]
        lines += [f"{b.label:{width}}  {b.bleu:6.2f}  {b.chrf:6.2f} {b.n_lines:7,}" for b in buckets]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _flaws(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        kinds = [_flaw(kind, numbers) for kind, numbers in row.evaluation.shares.items() if numbers]
        if kinds:
            lines.append(f"{row.label}: {'; '.join(kinds)}")
    looked_for = ", ".join(dict.fromkeys(kind for row in rows for kind in row.evaluation.shares))
    return "\n".join(["flaws", *lines]) if lines else f"flaws      none found ({looked_for})"


def _flaw(kind: str, numbers: Sequence[int]) -> str:
    first = ", ".join(map(str, numbers[:_LINES_NAMED]))
    more = ", …" if len(numbers) > _LINES_NAMED else ""
    return f"{len(numbers):,} {kind} ({'line' if len(numbers) == 1 else 'lines'} {first}{more})"


def format_examples(
    n: int, src: Sequence[str] | None, references: Sequence[str], hypotheses: Sequence[str]
) -> list[str]:
    """n translations, spread evenly over the test set, each between its source and its reference."""
    n = min(n, len(hypotheses))
    return [
        (f"source       {src[line]}\n" if src is not None else "")
        + f"reference    {references[line]}\ntranslation  {hypotheses[line]}\n"
        for line in (i * len(hypotheses) // n for i in range(n))
    ]


def columns(rows: Sequence[tuple[str, Mapping[str, str]]], titles: Sequence[str], corner: str) -> str:
    """Rows of cells under titles, set to the right."""
    first = max(map(len, [corner, *(label for label, _ in rows)]))
    widths = {title: max(len(title), *(len(cells.get(title, "")) for _, cells in rows)) for title in titles}
    lines = [f"{corner:{first}}  " + "  ".join(f"{title:>{widths[title]}}" for title in titles)]
    lines += [
        f"{label:{first}}  " + "  ".join(f"{cells.get(title, ''):>{widths[title]}}" for title in titles)
        for label, cells in rows
    ]
    return "\n".join(line.rstrip() for line in lines)
