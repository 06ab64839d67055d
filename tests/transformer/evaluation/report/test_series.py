"""Curves are thinned out to what a screen shows, and no outlier is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.evaluation.report.series import POINTS, series

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=1500)


@given(values=VALUES)
def test_points_are_few_in_order_and_keep_the_mean_and_the_extremes(values: list[float]) -> None:
    lines = [{"step": 10.0 * i, "x": value} for i, value in enumerate(values)]
    found = series(lines, "x")
    assert len(found) == min(len(values), POINTS)
    assert np.all(np.diff(found.steps) > 0)
    slack = 1e-6
    assert np.all(found.low <= found.values + slack) and np.all(found.values <= found.high + slack)
    assert (found.low.min(), found.high.max()) == (min(values), max(values))
    if len(values) % len(found) == 0:  # every point then stands for equally many
        assert found.values.mean() == pytest.approx(np.mean(values), abs=1e-4)


def test_few_values_stay_as_they_are_and_lines_without_the_figure_are_passed_over() -> None:
    found = series([{"step": 1, "x": 5.0}, {"step": 2, "y": 9.0}, {"step": 3, "x": 7.0}], "x")
    assert found.steps.tolist() == [1, 3]
    assert found.values.tolist() == found.low.tolist() == found.high.tolist() == [5.0, 7.0]
    assert len(series([], "x")) == 0
