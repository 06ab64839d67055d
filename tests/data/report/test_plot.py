from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from data.report.plot import Plot, log_ticks, round_ticks, short_number, ticks_between

REAL = st.floats(-1e9, 1e9)


@given(st.floats(1e-6, 1e12))
def test_ticks_are_few_even_and_within_range(largest: float) -> None:
    ticks = round_ticks(largest)
    assert 2 <= len(ticks) <= 7 and ticks[0] == 0 and ticks[-1] <= largest * 1.001
    assert np.allclose(np.diff(ticks), ticks[1])


def test_short_numbers() -> None:
    assert [short_number(n) for n in (7, 1500, 2e6, 3e9)] == ["7", "1.5 k", "2 M", "3 G"]


@given(REAL, REAL)
def test_ticks_of_any_range_are_few_even_round_and_within_it(one: float, other: float) -> None:
    lowest, highest = sorted((one, other))
    assume(highest - lowest > 1e-3 * max(abs(lowest), abs(highest), 1e-6))
    ticks = ticks_between(lowest, highest)
    slack = (highest - lowest) * 0.01
    assert 2 <= len(ticks) <= 7 and lowest - slack <= ticks[0] and ticks[-1] <= highest + slack
    assert np.allclose(np.diff(ticks), ticks[1] - ticks[0])
    assert f"{ticks[1] - ticks[0]:e}".split("e")[0].rstrip("0") in ("1.", "2.", "2.5", "5.")


@given(st.floats(1e-9, 1e9), st.floats(2.6, 1e9))
def test_ticks_of_a_logarithmic_axis_are_round_and_within_it(lowest: float, ratio: float) -> None:
    ticks = log_ticks(lowest, lowest * ratio)
    assert ticks and lowest * 0.999 <= ticks[0] and ticks[-1] <= lowest * ratio * 1.001
    assert all(f"{tick:.3e}"[0] in "125" and f"{tick:.3e}"[1:5] == ".000" for tick in ticks)


@pytest.mark.parametrize("log", [False, True])
def test_a_range_fills_the_rectangle(log: bool) -> None:
    plot = Plot("x", (1, 100), (10, 1000), log_x=log, log_y=log, height=300, beside=50)
    assert [plot.x(1), plot.x(100), plot.y(10), plot.y(1000)] == [plot.left, plot.right, plot.bottom, plot.top]
    middle = (plot.left + plot.right) / 2
    assert plot.x(10 if log else 50.5) == pytest.approx(middle, abs=0.1)
