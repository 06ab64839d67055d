"""The page's pictures as SVG; each says in words what it shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from data.report.plot import Plot, round_ticks, short_number
from data.statistics import HISTOGRAM_EDGES, JOINT_EDGES

_SHADES = 9  # of the heat map
_POINTS = 240  # of a curve along a corpus

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """A named line or area; `style` is a class of the page: src, tgt or both."""

    name: str
    style: str
    x: Floats
    y: Floats


def quantile(counts: npt.NDArray[np.int64], edges: npt.NDArray[np.int64], share: float) -> int:
    """The lower edge of the bin that holds this share of what is counted from below."""
    covered = np.cumsum(counts)
    return int(edges[np.searchsorted(covered, share * covered[-1])])


def length_histogram(sides: Sequence[tuple[str, str, npt.NDArray[np.int64]]]) -> Markup:
    """Lengths in pieces of each side, given as (language, style, counts in the bins of HISTOGRAM_EDGES)."""
    edges = HISTOGRAM_EDGES
    last = max(quantile(counts, edges, 0.985) for _, _, counts in sides)
    n_bins = min(int(np.searchsorted(edges, max(last, 8), side="right")), len(edges) - 1)
    right_edges = edges[1 : n_bins + 1].astype(np.float64)
    heights = [counts[:n_bins] / (right_edges - edges[:n_bins]) / counts.sum() * 100 for _, _, counts in sides]
    highest = max(float(height.max()) for height in heights) * 1.05
    medians = [quantile(counts, edges, 0.5) for _, _, counts in sides]
    described = ", ".join(f"{name} median {median}" for (name, _, _), median in zip(sides, medians, strict=True))
    plot = Plot(f"Histogram of sentence lengths in pieces: {described}", (0, float(right_edges[-1])), (0, highest))
    plot.grid(
        {tick: f"{tick:g}" for tick in round_ticks(float(right_edges[-1]), 8)},
        {tick: f"{tick:g} %" for tick in round_ticks(highest)},
        "pieces per sentence",
        "sentences of that length",
    )
    steps = np.repeat(np.concatenate([edges[:1], right_edges]), 2)[1:-1]
    for (_, style, _), height in zip(sides, heights, strict=True):
        line = plot.points(steps, np.repeat(height, 2))
        floor = f"{plot.x(float(right_edges[-1])):g},{plot.y(0):g} {plot.x(0):g},{plot.y(0):g}"
        plot.add("polygon", points=f"{line} {floor}", class_=f"area {style}")
        plot.add("polyline", points=line, class_=f"line {style}")
    for row, ((name, style, _), median) in enumerate(zip(sides, medians, strict=True)):
        x = plot.x(min(median + 0.5, float(right_edges[-1])))
        plot.add("path", d=f"M{x} {plot.top}V{plot.bottom}", class_=f"median {style}")
        _legend(plot, row, style, f"{name}, median {median}")
    return plot.markup()


def _legend(plot: Plot, row: int, style: str, label: str) -> None:
    y = plot.top + 10 + 18 * row
    plot.add("rect", x=plot.right - 14, y=y - 9, width=11, height=11, rx=2, class_=f"swatch {style}")
    plot.add("text", label, x=plot.right - 20, y=y, text_anchor="end", class_="label")


def joint_lengths(counts: npt.NDArray[np.int64], src: str, tgt: str) -> Markup:
    """How often which source length meets which target length: a heat map, darker for more, in bins of JOINT_EDGES."""
    used = np.flatnonzero(counts.any(axis=0) | counts.any(axis=1))
    first, end = max(int(used[0]), 1) if len(used) else 1, (int(used[-1]) if len(used) else 1) + 1
    first = min(first, end - 1)
    plot = Plot(
        f"Heat map of the lengths of {src} and {tgt} sentences in pieces: the narrower the band, the better they match",
        (first, end),
        (first, end),
    )
    widths = np.diff(np.append(JOINT_EDGES, 2 * JOINT_EDGES[-1]))
    density = counts / np.outer(widths, widths)
    apart = (end - first) * 0.04  # ticks closer than that would run into each other
    doublings = [i for i in range(first, end) if _is_power_of_two(int(JOINT_EDGES[i]))]
    ticks = {float(i): f"{JOINT_EDGES[i]}" for i in doublings if JOINT_EDGES[i] >= 2 * apart}
    plot.grid(ticks, ticks, f"pieces of {src}", f"pieces of {tgt}")
    for shade, cells in enumerate(_shades(density[first:end, first:end]), 1):
        if boxes := "".join(_columns(plot, cells, first)):
            plot.add("path", d=boxes, class_="heat", fill_opacity=round(0.1 + 0.9 * (shade / _SHADES) ** 1.3, 2))
    corner = (plot.x(first), plot.y(first), plot.x(end), plot.y(end))
    plot.add("path", d=f"M{corner[0]} {corner[1]}L{corner[2]} {corner[3]}", class_="diagonal")
    return plot.markup()


def _is_power_of_two(length: int) -> bool:
    return length > 0 and length & (length - 1) == 0


def _shades(density: Floats) -> Iterable[npt.NDArray[np.bool_]]:
    """Cells of equal shade, from the faintest; shades grow with the logarithm."""
    levels = np.zeros(density.shape, np.int64)
    if (seen := density[density > 0]).size:
        low, high = math.log(float(seen.min())), math.log(float(seen.max()))
        depth = (np.log(np.maximum(density, math.exp(low))) - low) / ((high - low) or 1)
        levels = np.where(density > 0, 1 + np.minimum(depth * _SHADES, _SHADES - 1).astype(np.int64), 0)
    return [levels == level for level in range(1, _SHADES + 1)]


def _columns(plot: Plot, cells: npt.NDArray[np.bool_], first: int) -> Iterator[str]:
    """Boxes around the marked cells; those on top of each other share one."""
    for i, column in enumerate(cells):
        ends = np.flatnonzero(np.diff(np.concatenate([[False], column, [False]]).astype(np.int8)))
        for bottom, top in ends.reshape(-1, 2):
            left, right = plot.x(first + i), plot.x(first + i + 1)
            yield f"M{left:g} {plot.y(first + top):g}H{right:g}V{plot.y(first + bottom):g}H{left:g}z"


def piece_curves(curves: Sequence[Curve]) -> Markup:
    """How often the pieces of a vocabulary occur, the most frequent first; both axes logarithmic."""
    most_pieces = max(float(curve.x[-1]) for curve in curves)
    highest = max(float(curve.y[0]) for curve in curves)
    plot = Plot(
        "How often each piece occurs, by rank: "
        + "; ".join(f"{curve.name} {curve.y[0]:,.0f} times to {curve.y[-1]:,.0f}" for curve in curves),
        (1, max(most_pieces, 10)),
        (1, max(highest, 10)),
        log_x=True,
        log_y=True,
    )
    plot.grid(_powers(most_pieces), _powers(highest), "pieces, the most frequent first", "times it occurs")
    if highest > 100:
        y = plot.y(100)
        plot.add("path", d=f"M{plot.left} {y}H{plot.right}", class_="threshold")
        plot.add("text", "below 100: hardly learnt", x=plot.left + 6, y=y + 14, class_="label")
    for row, curve in enumerate(curves):
        plot.add("polyline", points=plot.points(curve.x, curve.y), class_=f"line {curve.style}")
        _legend(plot, row, curve.style, curve.name)
    return plot.markup()


def _powers(largest: float) -> dict[float, str]:
    return {10.0**power: short_number(10.0**power) for power in range(int(math.log10(max(largest, 10))) + 1)}


def _known(drift: Mapping[str, Any], what: str) -> tuple[Floats, Floats]:
    given = zip(drift.get("places") or [], drift.get(what) or [], strict=False)
    known = [(x, y) for x, y in given if y is not None and math.isfinite(y)]
    return np.array([x for x, _ in known], np.float64), np.array([y for _, y in known], np.float64)


def _lowest(xs: Floats, ys: Floats) -> tuple[Floats, Floats]:
    """At most _POINTS points, each the lowest of its neighbours: what falls must be seen."""
    if len(xs) <= _POINTS:
        return xs, ys
    starts = np.linspace(0, len(xs), _POINTS, endpoint=False).astype(np.int64)
    return xs[starts], np.minimum.reduceat(ys, starts)


def agreement(drift: Mapping[str, Any], marks: Sequence[int], corpus: str) -> Markup:
    """How well line N agrees with line N along a corpus, marks where it stops, and the `best` that shifting gives."""
    xs, ys = _lowest(*_known(drift, "agreement"))
    best_xs, best = _lowest(*_known(drift, "best"))
    heights = np.concatenate([ys, best])
    lowest, highest = min(0.0, float(heights.min())), max(float(heights.max()) * 1.08, 1e-9)
    last = max([float(xs[-1]), 1.0, *map(float, marks)])
    found = f"{len(marks)} marked places" if marks else "nothing found"
    plot = Plot(f"Agreement of the two sides along {corpus}: {found}", (0, last), (lowest, highest))
    x_ticks = {tick: short_number(tick) if tick else "0" for tick in round_ticks(last, 6)}
    steps = round_ticks(max(highest, -lowest), 4)
    y_ticks = {tick: f"{tick:.3g}" for tick in [*(-step for step in steps[1:]), *steps] if lowest <= tick <= highest}
    plot.grid(x_ticks, y_ticks, "line of the corpus", "agreement")
    line = plot.points(xs, ys)
    floor = f"{plot.x(float(xs[-1])):g},{plot.y(0):g} {plot.x(float(xs[0])):g},{plot.y(0):g}"
    plot.add("polygon", points=f"{line} {floor}", class_="area both")
    if len(best):
        plot.add("polyline", points=plot.points(best_xs, best), class_="line best")
    plot.add("polyline", points=line, class_="line both")
    for mark in marks:
        _mark(plot, mark)
    return plot.markup()


def _mark(plot: Plot, place: int) -> None:
    x = plot.x(place)
    at_right = x > plot.right * 0.77
    plot.add("path", d=f"M{x} {plot.top}V{plot.bottom}", class_="mark")
    anchor = "end" if at_right else "start"
    plot.add("text", f"{place:,}", x=x + (-5 if at_right else 5), y=plot.top + 9, text_anchor=anchor, class_="marked")
