from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from markupsafe import Markup

from data.report.drawing import (
    Curve,
    agreement,
    joint_lengths,
    length_histogram,
    piece_curves,
)
from data.statistics import HISTOGRAM_EDGES, JOINT_EDGES

WIDTH, HEIGHT = 480, 340


def parsed(picture: Markup) -> ElementTree.Element:
    """The picture as XML, after a look that it is within its frame and tells what it shows."""
    svg = ElementTree.fromstring(picture)
    assert svg.get("role") == "img" and svg.get("aria-label")
    for element in svg.iter():
        for name, value in element.attrib.items():
            assert "nan" not in value and "inf" not in value, (element.tag, name, value)
        for x, y in (point.split(",") for point in element.get("points", "").split()):
            assert 0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT
    return svg


def points(svg: ElementTree.Element, style: str) -> list[tuple[float, float]]:
    line = next(one for one in svg.iter("polyline") if one.get("class") == f"line {style}")
    return [tuple(map(float, point.split(","))) for point in line.get("points", "").split()]  # type: ignore[misc]


def histogram(**counts: int) -> np.ndarray:
    made = np.zeros(len(HISTOGRAM_EDGES), np.int64)
    for length, n in counts.items():
        made[int(length[1:])] = n
    return made


def test_the_highest_step_of_a_histogram_is_the_most_frequent_length() -> None:
    svg = parsed(length_histogram([("en", "src", histogram(_5=10, _6=30, _7=10)), ("de", "tgt", histogram(_8=1))]))
    line = points(svg, "src")
    top = min(y for _, y in line)
    left, right = sorted({x for x, y in line if y == top})
    unit = right - left
    assert math.isclose((left - line[0][0]) / unit, 6, abs_tol=0.1)
    assert "en median 6, de median 8" in svg.get("aria-label", "")


def test_the_area_under_a_histogram_does_not_depend_on_the_number_of_sentences() -> None:
    few, many = histogram(_3=1, _9=2), histogram(_3=1000, _9=2000)
    assert length_histogram([("a", "src", few)]) == length_histogram([("a", "src", many)])


@pytest.mark.parametrize("length", [0, 1, 15, 16, 63, 64, 500, 4095])
def test_a_corpus_of_one_length_can_be_drawn(length: int) -> None:
    joint = np.zeros((len(JOINT_EDGES),) * 2, np.int64)
    where = np.searchsorted(JOINT_EDGES, length, side="right") - 1
    joint[where, where] = 3
    counts = np.zeros(len(HISTOGRAM_EDGES), np.int64)
    counts[np.searchsorted(HISTOGRAM_EDGES, length, side="right") - 1] = 3
    parsed(joint_lengths(joint, "en", "de"))
    parsed(length_histogram([("en", "src", counts), ("de", "tgt", counts)]))


def test_a_heat_map_covers_what_was_counted_and_nothing_else() -> None:
    draw = np.random.default_rng(1)
    joint = (draw.random((len(JOINT_EDGES),) * 2) < 0.2) * draw.integers(1, 10**6, (len(JOINT_EDGES),) * 2)
    joint[0, :], joint[:, 0] = 0, 0
    svg = parsed(joint_lengths(joint, "en", "de"))
    boxes = [box for one in svg.iter("path") if one.get("class") == "heat" for box in one.get("d", "").split("z")[:-1]]
    area = 0.0
    for box in boxes:
        left, top, right, bottom = map(float, re.fullmatch(r"M(.*) (.*)H(.*)V(.*)H.*", box).groups())  # type: ignore[union-attr]
        assert left < right and top < bottom
        area += (right - left) * (bottom - top)
    cell = (WIDTH - 66 - 12) * (HEIGHT - 14 - 44) / (len(JOINT_EDGES) - 1) ** 2
    assert math.isclose(area / cell, np.count_nonzero(joint), rel_tol=0.01)


def test_a_power_law_is_a_straight_line() -> None:
    ranks = np.array([1.0, 10, 100, 1000])
    line = points(parsed(piece_curves([Curve("en", "src", ranks, 1e6 / ranks)])), "src")
    slopes = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in pairwise(line)]
    assert np.allclose(slopes, slopes[0], rtol=0.01)


def test_findings_are_marked_where_they_are() -> None:
    drift = {"places": list(range(0, 10_001, 100)), "agreement": [0.8] * 101}
    svg = parsed(agreement(drift, [5000], "news"))
    [mark] = [one for one in svg.iter("path") if one.get("class") == "mark"]
    line = points(svg, "both")
    assert float(mark.get("d", "")[1:].split()[0]) == pytest.approx((line[0][0] + line[-1][0]) / 2, abs=0.2)
    assert "5,000" in [text.text for text in svg.iter("text")]


def test_lines_that_disagree_are_drawn_below_zero_beside_what_they_could_be() -> None:
    drift = {"places": list(range(0, 1000, 10)), "agreement": [3.0] * 50 + [-2.0] * 50, "best": [3.0] * 100}
    svg = parsed(agreement(drift, [500], "news"))
    zero = next(float(one.get("y", "")) - 4 for one in svg.iter("text") if one.text == "0" and one.get("x") == "60.0")
    assert {y > zero for x, y in points(svg, "both")[50:]} == {True}
    assert len({y for _, y in points(svg, "best")}) == 1


def test_a_long_corpus_is_drawn_short_with_its_falls() -> None:
    values = [0.9] * 50_000
    values[31_234] = 0.1
    line = points(parsed(agreement({"places": list(range(50_000)), "agreement": values}, [], "news")), "both")
    heights = sorted({y for _, y in line})
    assert len(line) <= 240 and len(heights) == 2


def test_agreement_unknown_in_places_is_left_out() -> None:
    drift = {"places": [1, 2, 3, 4], "agreement": [0.5, None, float("nan"), 0.7]}
    assert len(points(parsed(agreement(drift, [], "x")), "both")) == 2
