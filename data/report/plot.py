"""Axes over a rectangle, as SVG without fonts or colours of its own: it follows the style of the page it stands on.

All pictures are 480 units wide for a column of a page; labels stay readable on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from xml.etree import ElementTree

from markupsafe import Markup

from data.report.visible import plain

_WIDTH, _BESIDE = 480.0, 12.0


class Plot:
    """Data come in units of their own, and leave as SVG; `title` says in words what the picture shows.

    `left`, `right`, `top` and `bottom` are the edges of the rectangle; `beside` is room right of it, for labels.
    """

    left, top = 66.0, 14.0

    def __init__(
        self,
        title: str,
        x_range: tuple[float, float],
        y_range: tuple[float, float],
        *,
        log_x: bool = False,
        log_y: bool = False,
        height: float = 340.0,
        beside: float = _BESIDE,
    ) -> None:
        box = f"0 0 {_WIDTH:g} {height:g}"
        self.svg = ElementTree.Element("svg", {"viewBox": box, "role": "img", "aria-label": plain(title)})
        self.right, self.bottom, self._height = _WIDTH - beside, height - 44.0, height
        self._log_x, self._log_y = log_x, log_y
        self._x0, self._x1 = (_scaled(value, log_x) for value in x_range)
        self._y0, self._y1 = (_scaled(value, log_y) for value in y_range)

    def x(self, value: float) -> float:
        """Where a value lies from the left."""
        share = (_scaled(value, self._log_x) - self._x0) / ((self._x1 - self._x0) or 1)
        return round(self.left + share * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        """Where a value lies from above."""
        share = (_scaled(value, self._log_y) - self._y0) / ((self._y1 - self._y0) or 1)
        return round(self.bottom - share * (self.bottom - self.top), 1)

    def add(self, tag: str, text: str = "", **attributes: float | str) -> ElementTree.Element:
        """An element on top of the others; an attribute's `_` stands for `-`, and one at its end for nothing."""
        names = {name.rstrip("_").replace("_", "-"): f"{value}" for name, value in attributes.items()}
        element = ElementTree.SubElement(self.svg, tag, names)
        element.text = plain(text) or None
        return element

    def points(self, xs: Iterable[float], ys: Iterable[float]) -> str:
        """Places as SVG writes them."""
        return " ".join(f"{self.x(x):g},{self.y(y):g}" for x, y in zip(xs, ys, strict=True))

    def grid(self, x_ticks: Mapping[float, str], y_ticks: Mapping[float, str], x_title: str, y_title: str) -> None:
        """Axes with titles, and a line for each y tick; `y_title` may be empty where there is nothing to count."""
        for value, label in y_ticks.items():
            y = self.y(value)
            self.add("path", d=f"M{self.left} {y}H{self.right}", class_="grid")
            self.add("text", label, x=self.left - 6, y=y + 4, text_anchor="end")
        for value, label in x_ticks.items():
            x = self.x(value)
            self.add("path", d=f"M{x} {self.bottom}v4", class_="axis")
            self.add("text", label, x=x, y=self.bottom + 17, text_anchor="middle")
        self.add("path", d=f"M{self.left} {self.bottom}H{self.right}", class_="axis")
        middle = (self.left + self.right) / 2
        self.add("text", x_title, x=middle, y=self._height - 6, text_anchor="middle", class_="title")
        middle = (self.top + self.bottom) / 2
        turned = f"rotate(-90 11 {middle:g})"
        if y_title:
            self.add("text", y_title, x=11, y=middle, text_anchor="middle", class_="title", transform=turned)

    def markup(self) -> Markup:
        """The picture, to stand in a page as it is: ElementTree has escaped it."""
        return Markup(ElementTree.tostring(self.svg, encoding="unicode"))


def _scaled(value: float, log: bool) -> float:
    return math.log10(value) if log else value


def round_ticks(largest: float, n_wanted: int = 5) -> list[float]:
    """About `n_wanted` round numbers from 0 to `largest`."""
    return ticks_between(0.0, largest, n_wanted) if largest > 0 else [0.0]


def ticks_between(lowest: float, highest: float, n_wanted: int = 5) -> list[float]:
    """About `n_wanted` round numbers, evenly apart, that lie in a range."""
    raw = (highest - lowest) / n_wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.ceil(lowest / step * 0.9999), math.floor(highest / step * 1.0001)
    return [step * i for i in range(first, last + 1)]


def log_ticks(lowest: float, highest: float) -> list[float]:
    """Round numbers in a range of a logarithmic axis: powers of ten, with 2 and 5 times these where that is few."""
    powers = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    few = len(powers) <= 5
    ticks = [factor * 10.0**power for power in powers for factor in ((1, 2, 5) if few else (1,))]
    return [tick for tick in ticks if lowest * 0.9999 <= tick <= highest * 1.0001]


def short_number(value: float) -> str:
    """1,500 as `1.5 k`, 2,000,000 as `2 M`."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
