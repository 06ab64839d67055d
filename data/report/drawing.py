"""The page's pictures as SVG: small, without fonts or colours of their own, so that they follow the page's style.

All are drawn 480 units wide for a column of a page; labels stay readable on a phone. Each says in words what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from data.report.visible import plain
from data.statistics import HISTOGRAM_EDGES, JOINT_EDGES

_WIDTH, _HEIGHT = 480.0, 340.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 12.0, 14.0, 44.0
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


class _Plot:
    """Axes over a rectangle: data come in units of their own, and leave as SVG."""

    def __init__(self, title: str, x_range: tuple[float, float], y_range: tuple[float, float], *, log: bool = False):
        box = f"0 0 {_WIDTH:g} {_HEIGHT:g}"
        self.svg = ElementTree.Element("svg", {"viewBox": box, "role": "img", "aria-label": plain(title)})
        self._log = log
        (self._x0, self._x1), (self._y0, self._y1) = (self._scaled(*one) for one in (x_range, y_range))

    def _scaled(self, *values: float) -> tuple[float, ...]:
        return tuple(math.log10(value) for value in values) if self._log else values

    def x(self, value: float) -> float:
        share = (self._scaled(value)[0] - self._x0) / ((self._x1 - self._x0) or 1)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        share = (self._scaled(value)[0] - self._y0) / ((self._y1 - self._y0) or 1)
        return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM), 1)

    def add(self, tag: str, text: str = "", **attributes: float | str) -> ElementTree.Element:
        names = {name.rstrip("_").replace("_", "-"): f"{value}" for name, value in attributes.items()}
        element = ElementTree.SubElement(self.svg, tag, names)
        element.text = plain(text) or None
        return element

    def points(self, xs: Iterable[float], ys: Iterable[float]) -> str:
        return " ".join(f"{self.x(x):g},{self.y(y):g}" for x, y in zip(xs, ys, strict=True))

    def grid(self, x_ticks: Mapping[float, str], y_ticks: Mapping[float, str], x_title: str, y_title: str) -> None:
        left, right, top, bottom = _LEFT, _WIDTH - _RIGHT, _TOP, _HEIGHT - _BOTTOM
        for value, label in y_ticks.items():
            y = self.y(value)
            self.add("path", d=f"M{left} {y}H{right}", class_="grid")
            self.add("text", label, x=left - 6, y=y + 4, text_anchor="end")
        for value, label in x_ticks.items():
            x = self.x(value)
            self.add("path", d=f"M{x} {bottom}v4", class_="axis")
            self.add("text", label, x=x, y=bottom + 17, text_anchor="middle")
        self.add("path", d=f"M{left} {bottom}H{right}", class_="axis")
        self.add("text", x_title, x=(left + right) / 2, y=_HEIGHT - 6, text_anchor="middle", class_="title")
        middle = (top + bottom) / 2
        self.add(
            "text",
            y_title,
            x=11,
            y=middle,
            text_anchor="middle",
            class_="title",
            transform=f"rotate(-90 11 {middle:g})",
        )

    def markup(self) -> Markup:
        return Markup(ElementTree.tostring(self.svg, encoding="unicode"))  # ElementTree has escaped it


def round_ticks(largest: float, n_wanted: int = 5) -> list[float]:
    """About `n_wanted` round numbers from 0 to `largest`."""
    if largest <= 0:
        return [0.0]
    raw = largest / n_wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    return [step * i for i in range(int(largest / step * 1.0001) + 1)]


def short_number(value: float) -> str:
    """1,500 as `1.5 k`, 2,000,000 as `2 M`."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


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
    plot = _Plot(f"Histogram of sentence lengths in pieces: {described}", (0, float(right_edges[-1])), (0, highest))
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
        plot.add("path", d=f"M{x} {_TOP}V{_HEIGHT - _BOTTOM}", class_=f"median {style}")
        _legend(plot, row, style, f"{name}, median {median}")
    return plot.markup()


def _legend(plot: _Plot, row: int, style: str, label: str) -> None:
    y = _TOP + 10 + 18 * row
    plot.add("rect", x=_WIDTH - _RIGHT - 14, y=y - 9, width=11, height=11, rx=2, class_=f"swatch {style}")
    plot.add("text", label, x=_WIDTH - _RIGHT - 20, y=y, text_anchor="end", class_="label")


def joint_lengths(counts: npt.NDArray[np.int64], src: str, tgt: str) -> Markup:
    """How often which source length meets which target length: a heat map, darker for more, in bins of JOINT_EDGES."""
    used = np.flatnonzero(counts.any(axis=0) | counts.any(axis=1))
    first, end = max(int(used[0]), 1) if len(used) else 1, (int(used[-1]) if len(used) else 1) + 1
    first = min(first, end - 1)
    plot = _Plot(
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


def _columns(plot: _Plot, cells: npt.NDArray[np.bool_], first: int) -> Iterator[str]:
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
    plot = _Plot(
        "How often each piece occurs, by rank: "
        + "; ".join(f"{curve.name} {curve.y[0]:,.0f} times to {curve.y[-1]:,.0f}" for curve in curves),
        (1, max(most_pieces, 10)),
        (1, max(highest, 10)),
        log=True,
    )
    plot.grid(_powers(most_pieces), _powers(highest), "pieces, the most frequent first", "times it occurs")
    if highest > 100:
        y = plot.y(100)
        plot.add("path", d=f"M{_LEFT} {y}H{_WIDTH - _RIGHT}", class_="threshold")
        plot.add("text", "below 100: hardly learnt", x=_LEFT + 6, y=y + 14, class_="label")
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
    plot = _Plot(f"Agreement of the two sides along {corpus}: {found}", (0, last), (lowest, highest))
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


def _mark(plot: _Plot, place: int) -> None:
    x = plot.x(place)
    at_right = x > _WIDTH * 0.75
    plot.add("path", d=f"M{x} {_TOP}V{_HEIGHT - _BOTTOM}", class_="mark")
    anchor = "end" if at_right else "start"
    plot.add("text", f"{place:,}", x=x + (-5 if at_right else 5), y=_TOP + 9, text_anchor=anchor, class_="marked")
