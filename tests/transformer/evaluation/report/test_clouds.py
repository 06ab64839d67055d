"""Dots lie where sentences are: words by words, and chrF by probability."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np

from transformer.evaluation.report.clouds import confidence, lengths
from transformer.evaluation.report.curves import Picture
from transformer.evaluation.results import Sentence


def sentence(hypothesis: str, reference: str, chrf: float = 50.0, log_prob: float | None = None) -> Sentence:
    return Sentence(None, [reference], hypothesis, 0.0, chrf, log_prob)


def dots(picture: Picture | None) -> list[tuple[float, float]]:
    assert picture is not None
    paths = [
        path.get("d", "")
        for path in ElementTree.fromstring(picture.markup).iter("path")
        if path.get("class") == "cloud"
    ]
    return [(float(x), float(y)) for d in paths for x, y in re.findall(r"M(\S+) (\S+?)h0", d)]


def test_equal_lengths_lie_on_the_diagonal_and_sentences_in_one_place_share_a_larger_dot() -> None:
    pairs = [sentence("w " * n, "v " * n) for n in range(1, 20)] + [sentence("a b", "c d")] * 5
    picture = lengths(pairs)
    xs, ys = np.array(dots(picture)).T
    assert len(xs) == 19 and np.abs(np.corrcoef(xs, ys)[0, 1] + 1) < 1e-4  # SVG counts from above
    assert picture is not None and "1.000 words" in picture.caption
    widths = {path.get("stroke-width") for path in ElementTree.fromstring(picture.markup).iter("path")} - {None}
    assert len(widths) == 2


def test_lengths_of_chinese_are_not_one_word() -> None:
    assert len(dots(lengths([sentence("我喜欢猫", "我喜欢狗"), sentence("我喜欢猫我喜欢猫", "我")]))) == 2


def test_a_few_very_long_ones_are_told_not_drawn() -> None:
    picture = lengths([sentence("a b c", "d e f")] * 999 + [sentence("w " * 5000, "v")])
    assert picture is not None and "1 longer than" in picture.caption
    assert len(dots(picture)) == 1


def test_confidence_rises_with_probability() -> None:
    rows = [sentence("a", "b", chrf=float(i), log_prob=math.log(0.3 + i / 200)) for i in range(100)]
    picture = confidence(rows)
    xs, ys = np.array(dots(picture)).T
    assert np.corrcoef(xs, ys)[0, 1] < -0.99
    assert picture is not None and "correlation is 1.00" in picture.caption and "line r1" in picture.markup


def test_what_is_not_known_has_no_picture() -> None:
    assert confidence([sentence("a", "b")]) is None and lengths([Sentence(None, [], "a", 0, 0)]) is None
    assert lengths([]) is None and confidence([]) is None


def test_empty_translations_and_one_sentence_are_drawn() -> None:
    assert len(dots(lengths([sentence("", ""), sentence("", "a")]))) == 2
    assert len(dots(confidence([sentence("", "a", 0.0, 0.0)]))) == 1
