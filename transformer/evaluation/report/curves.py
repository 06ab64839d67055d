"""What is drawn over the updates: loss, BLEU, learning rate, gradient, speed and memory of one run or several."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from data.report.plot import Plot, log_ticks, short_number, ticks_between
from data.report.visible import plain
from transformer.evaluation.report.intervals import Interval
from transformer.evaluation.report.run import Line, Run
from transformer.evaluation.report.series import Series, every, series

HEIGHT = 300.0

_DOTS = 60  # of a curve; more would run into each other
_APART = 15.0  # units between labels at the ends of curves
_MOST_LETTERS = 14  # of a label there
_WIDTH_OF_LETTER = 8.5
_SMALLEST_SHARE = 1e-30  # of the largest value: no logarithmic axis reaches below it, nor to zero


@dataclass(frozen=True)
class Curve:
    """A line of a picture.

    Attributes:
        label: stands at its end; empty where it is the only one.
        style: classes of the page, such as `r0` for the colour of the first run.
        dotted: each point is a validation, to be seen and pointed at.
    """

    label: str
    style: str
    points: Series
    dotted: bool = False


@dataclass(frozen=True)
class Picture:
    """A picture with its title and what is said below."""

    title: str
    markup: Markup
    caption: str = ""


def pictures(runs: Sequence[Run], intervals: Sequence[Mapping[int, Interval]]) -> Iterator[Picture]:
    """Everything that the metrics of these runs can be drawn of; `intervals` are those of BLEU, of each run."""
    yield from _losses(runs)
    yield from _bleu(runs, intervals)
    yield from _one_figure(runs, "lr", "Learning rate", "", unit="learning rate")
    spiky = "Shown is the norm before clipping, the mean between two lines of the log."
    yield from _one_figure(runs, "grad_norm", "Gradient norm", spiky, unit="norm", log=True)
    speed = "Target tokens a second, validation and saving left out."
    yield from _one_figure(runs, "tokens_per_second", "Speed", speed, unit="tokens/s", from_zero=True)
    memory = "The most that the first process has used so far: of the GPU where it trains on one, else of main memory."
    yield from _one_figure(runs, "memory_gib", "Memory", memory, unit="GiB", from_zero=True)


def _labels(runs: Sequence[Run]) -> list[str]:
    """The names of the runs as they stand at the ends of curves: no two alike, and empty where there is one.

    A long one is without the letters that all names begin with, and if need be without its middle; if that makes two
    alike, they are numbered.
    """
    if len(runs) == 1:
        return [""]
    names = [plain(run.name) for run in runs]
    differ = (i for i, letters in enumerate(zip(*names, strict=False)) if len(set(letters)) > 1)
    begin = next(differ, min(map(len, names)))
    rests = [f"…{name[begin:]}" if begin > 1 and len(name) > _MOST_LETTERS else name for name in names]
    labels = [_shortened(rest, _MOST_LETTERS) for rest in rests]
    if len(set(labels)) < len(labels):
        labels = [f"{i} {_shortened(rest, _MOST_LETTERS - 2)}" for i, rest in enumerate(rests, 1)]
    return labels


def _shortened(name: str, most: int) -> str:
    """The name without its middle, of `most` letters."""
    end = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - 1 - end]}…{name[-end:]}"


def _losses(runs: Sequence[Run]) -> Iterator[Picture]:
    """Loss, and perplexity on a logarithmic axis: from where validations lie, so that their differences are seen."""
    for key, title, log in (("nll_per_token", "Loss", False), ("perplexity", "Perplexity", True)):
        curves = []
        for i, (run, label) in enumerate(zip(runs, _labels(runs), strict=True)):
            training, validation = series(run.updates, key), every(run.validations, f"valid_{key}")
            if log and len(validation):
                shown = training.values <= validation.values.max() * 1.05
                training = Series(*(part[shown] for part in (training.steps, training.values, *[training.values] * 2)))
            names = ("training", "validation") if len(runs) == 1 else ("", label)
            styles = ("r0", "r1") if len(runs) == 1 else (f"r{i} faint", f"r{i}")
            curves += [Curve(names[0], styles[0], training), Curve(names[1], styles[1], validation, dotted=True)]
        which = "" if len(runs) == 1 else "Dots are validations, thin lines are training. "
        remark = "Training is measured with dropout, so that it may lie above validation." if not log else ""
        unit = "nats a token" if not log else "perplexity, logarithmic"
        yield from _picture(title, curves, unit, caption=which + remark, log=log)


def _bleu(runs: Sequence[Run], intervals: Sequence[Mapping[int, Interval]]) -> Iterator[Picture]:
    curves = []
    for i, (run, label, known) in enumerate(zip(runs, _labels(runs), intervals, strict=True)):
        found = every(run.validations, "valid_bleu")
        bounds = [known.get(int(step), (math.nan, math.nan)) for step in found.steps]
        if len(found) and not np.isnan(bounds).all():
            low, high = np.array(bounds).T
            found = Series(found.steps, found.values, low, high)
        curves.append(Curve(label, f"r{i}" if len(runs) > 1 else "r1", found, dotted=True))
    band = "The band is the 95 % confidence interval, by bootstrap over the sentences." if any(intervals) else ""
    yield from _picture(
        "BLEU of validation", curves, "BLEU", caption=band, best=runs[0].best() if len(runs) == 1 else None
    )


def _one_figure(
    runs: Sequence[Run],
    key: str,
    title: str,
    caption: str,
    *,
    unit: str = "",
    log: bool = False,
    from_zero: bool = False,
) -> Iterator[Picture]:
    curves = [
        Curve(label, f"r{i}", series(run.updates, key))
        for i, (run, label) in enumerate(zip(runs, _labels(runs), strict=True))
    ]
    values = np.concatenate([curve.points.values for curve in curves]) if curves else np.empty(0)
    spread = log and len(values) > 0 and values.min() > 0 and values.max() > 20 * values.min()
    yield from _picture(title, curves, unit, caption=caption, log=bool(spread), from_zero=from_zero)


def _picture(
    title: str,
    curves: Sequence[Curve],
    unit: str,
    *,
    caption: str = "",
    log: bool = False,
    from_zero: bool = False,
    best: Line | None = None,
) -> Iterator[Picture]:
    """The picture of those curves that have points, if there are any; `best`: the validation that has its value."""
    curves = [curve for curve in curves if len(curve.points)]
    if not curves:
        return
    everything = np.concatenate([part for c in curves for part in (c.points.values, c.points.low, c.points.high)])
    everything = everything[np.isfinite(everything)]
    if everything.min() <= everything.max() * _SMALLEST_SHARE:
        log = False
    lowest, highest = _range(float(everything.min()), float(everything.max()), log, from_zero)
    last = max(float(curve.points.steps[-1]) for curve in curves)
    beside = 14 + _WIDTH_OF_LETTER * max(len(curve.label) for curve in curves)
    said = "; ".join(f"{curve.label} {curve.points.values[-1]:.4g}".strip() for curve in curves)
    plot = Plot(
        f"{title} over the updates, at the end {said}",
        (0, max(last, 1)),
        (lowest, highest),
        log_y=log,
        height=HEIGHT,
        beside=beside,
    )
    ticks, unit = _ticks(lowest, highest, log, unit)
    n_wanted = round((plot.right - plot.left) / 60)
    plot.grid(
        {x: short_number(x) if x else "0" for x in ticks_between(0, max(last, 1), n_wanted)}, ticks, "updates", unit
    )
    for curve in curves:
        _draw(plot, curve)
    _draw_labels(plot, [curve for curve in curves if curve.label])
    if best is not None:
        _mark_best(plot, best)
    thinned = any((curve.points.high > curve.points.low).any() for curve in curves if not curve.dotted)
    about = "The band holds all values where a point is the mean of several." if thinned else ""
    yield Picture(title, plot.markup(), " ".join(filter(None, (caption, about))))


def _range(lowest: float, highest: float, log: bool, from_zero: bool) -> tuple[float, float]:
    """The ends of an axis that holds these values, with some air."""
    if log:
        air = max((highest / lowest) ** 0.04, 1.02)
        return lowest / air, highest * air
    lowest = min(lowest, 0) if from_zero else lowest
    air = (highest - lowest) * 0.06 or abs(highest) * 0.05 or 1.0
    return (lowest - air if lowest < 0 else max(lowest - air, 0.0)), highest + air


def _ticks(lowest: float, highest: float, log: bool, unit: str) -> tuple[dict[float, str], str]:
    """Where the ticks are and what they say; very small numbers are told as so many of a power of ten."""
    places = log_ticks(lowest, highest) if log else []
    if len(places) < 3:
        places = ticks_between(lowest, highest, 6)
    largest = max(abs(lowest), abs(highest))
    if largest >= 1000:
        return {tick: short_number(tick) if tick else "0" for tick in places}, unit
    if largest >= 0.02:
        return {tick: f"{tick:.4g}" for tick in places}, unit
    power = math.floor(math.log10(largest))
    digits = str(-power).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return {tick: f"{tick / 10**power:.3g}" for tick in places}, f"{unit} × 10⁻{digits}".strip()


def _draw(plot: Plot, curve: Curve) -> None:
    points = curve.points
    known = np.isfinite(points.low) & np.isfinite(points.high)
    if (points.high[known] > points.low[known]).any():
        there = plot.points(points.steps[known], points.high[known])
        back = plot.points(points.steps[known][::-1], points.low[known][::-1])
        plot.add("polygon", points=f"{there} {back}", class_=f"area {curve.style}")
    plot.add("polyline", points=plot.points(points.steps, points.values), class_=f"line {curve.style}")
    if (curve.dotted and len(points) <= _DOTS) or len(points) == 1:
        for step, value, low, high in zip(points.steps, points.values, points.low, points.high, strict=True):
            dot = plot.add("circle", cx=plot.x(step), cy=plot.y(value), r=3, class_=f"dot-{curve.style}")
            title = plot.add(
                "title", f"{step:,.0f}: {value:.4g}" + (f" ({low:.4g} to {high:.4g})" if high > low else "")
            )
            plot.svg.remove(title)
            dot.append(title)


def _draw_labels(plot: Plot, curves: Sequence[Curve]) -> None:
    """The name of each curve beside its end, moved apart where ends lie close together."""
    ends = sorted((plot.y(curve.points.values[-1]), curve.label, i) for i, curve in enumerate(curves))
    places: list[float] = []
    for y, _, _ in ends:
        places.append(max(y, places[-1] + _APART) if places else y)
    for i in reversed(range(len(places))):  # not below the axis, where its ticks are
        lowest = places[i + 1] - _APART if i + 1 < len(places) else plot.bottom - 6
        places[i] = min(places[i], lowest)
    for place, (y, label, i) in zip(places, ends, strict=True):
        colour = curves[i].style.split()[0]
        x = plot.x(curves[i].points.steps[-1])
        if x < plot.right - 8:  # the curve ends early: a thin line leads to its name
            plot.add("path", d=f"M{x} {y}L{plot.right} {place:g}", class_=f"line {colour} leader")
        plot.add("text", label, x=plot.right + 7, y=round(place + 4, 1), class_=f"label ink-{colour}")


def _mark_best(plot: Plot, best: Line) -> None:
    x, y = plot.x(best["step"]), plot.y(best["valid_bleu"])
    plot.add("circle", cx=x, cy=y, r=6, class_="ring")
    anchor = "end" if x > plot.right - 60 else "middle"
    plot.add("text", f"{best['valid_bleu']:.2f}", x=x, y=round(y - 11, 1), text_anchor=anchor, class_="label")
