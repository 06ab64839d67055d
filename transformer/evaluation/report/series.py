"""Figures over updates, thinned out to what a screen can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transformer.evaluation.report.run import Line

POINTS = 240  # of a curve

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """A figure at some steps; `low` and `high` are the least and the most of what a point stands for."""

    steps: Floats
    values: Floats
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.steps)


def every(lines: Sequence[Line], key: str) -> Series:
    """A figure of metrics.jsonl at each step at which it is known."""
    known = [(line["step"], line[key]) for line in lines if key in line]
    steps, values = (np.array([pair[side] for pair in known], np.float64) for side in (0, 1))
    return Series(steps, values, values, values)


def series(lines: Sequence[Line], key: str) -> Series:
    """As `every`, at most POINTS of them: where there are more, a point is the mean of its neighbours."""
    whole = every(lines, key)
    steps, values = whole.steps, whole.values
    if len(steps) <= POINTS:
        return whole
    starts = np.linspace(0, len(steps), POINTS, endpoint=False).astype(np.int64)
    sizes = np.diff(np.append(starts, len(steps)))
    return Series(
        np.add.reduceat(steps, starts) / sizes,
        np.add.reduceat(values, starts) / sizes,
        np.minimum.reduceat(values, starts),
        np.maximum.reduceat(values, starts),
    )
