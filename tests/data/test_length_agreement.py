"""Lengths of translations go with those of their sources, until a line is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data.length_agreement import describe_agreement, length_agreement
from data.lines import read_lines
from data.pairs import Texts


def agreement_of(src: list[str], tgt: list[str]) -> dict[str, object]:
    return describe_agreement(length_agreement(Texts(src, tgt), np.arange(1, len(src) + 1)))


def text_of(lengths: list[int]) -> list[str]:
    return ["x" * length for length in lengths]


def test_the_windows_hold_the_correlations_of_log_lengths() -> None:
    random = np.random.default_rng(1)
    src = random.integers(1, 200, 1500)
    tgt = (src * random.uniform(0.5, 2, 1500)).astype(int) + 1
    found = length_agreement(Texts(text_of(src.tolist()), text_of(tgt.tolist())), np.arange(1, 1501))
    for number, (place, correlation) in enumerate(found):
        window = slice(500 * number, 500 * (number + 1))
        expected = np.corrcoef(np.log1p(src[window]), np.log1p(tgt[window]))[0, 1]
        assert correlation == pytest.approx(expected, abs=1e-3)
        assert place == 500 * number + 251
    assert len(found) == 3


def test_a_line_less_on_one_side_shows_from_there_on(corpora: Path) -> None:
    src, tgt = (list(read_lines(corpora / "multi30k" / f"train.{language}.gz")) for language in ("en", "de"))
    assert agreement_of(src, tgt)["findings"] == []
    for missing in (5_000, 20_000):
        [finding] = agreement_of(src[:-1], tgt[:missing] + tgt[missing + 1 :])["findings"]  # type: ignore[misc]
        assert abs(finding["place"] - missing) <= 1000
        assert "28,7" in finding["text"]  # to the end


def test_text_whose_lengths_never_agree_is_accused_and_text_whose_lengths_never_differ_is_not() -> None:
    random = np.random.default_rng(1)
    src, tgt = (text_of(random.integers(1, 50, 5000).tolist()) for _ in range(2))
    assert agreement_of(src, tgt)["findings"]
    assert agreement_of(["same"] * 5000, ["gleich"] * 5000) == {"places": [], "agreement": [], "findings": []}
    assert agreement_of([], []) == {"places": [], "agreement": [], "findings": []}
