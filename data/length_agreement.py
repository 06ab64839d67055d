"""Whether two sides of a corpus are in step, seen while it is read: lengths of sentences and translations go together.

The correlation of their logarithms, over windows of a few hundred pairs, is 0.7 to 0.95 in text that is in step, and
near 0 from a missing line on. That costs next to nothing; where exactly a line is missing, the doctor finds out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from data.pairs import Texts

PAIRS_PER_WINDOW = 500
_FEWEST = 100  # pairs that tell something
_OUT_OF_STEP = 0.15
_POINTS = 400  # of a picture

Agreement = list[tuple[int, float]]  # place of the middle pair of a window, correlation in it


def length_agreement(texts: Texts, places: npt.NDArray[np.int64]) -> Agreement:
    """The correlation in each window of a batch; windows of equal lengths throughout tell nothing and are left out."""
    src, tgt = (np.log1p(np.fromiter(map(len, side), np.float64, len(side))) for side in (texts.src, texts.tgt))
    found = []
    for window in np.array_split(np.arange(len(texts)), max(1, round(len(texts) / PAIRS_PER_WINDOW))):
        window = window[(src[window] > 0) & (tgt[window] > 0)]
        if len(window) < _FEWEST or not (np.ptp(src[window]) and np.ptp(tgt[window])):
            continue
        correlation = float(np.corrcoef(src[window], tgt[window])[0, 1])
        found.append((int(places[window[len(window) // 2]]), round(correlation, 3)))
    return found


def describe_agreement(agreement: Agreement) -> dict[str, Any]:
    """For the manifest: at most a few hundred points for a picture, and a sentence for each stretch out of step."""
    thinned = agreement[:: max(1, -(-len(agreement) // _POINTS))]
    return {
        "places": [place for place, _ in thinned],
        "agreement": [correlation for _, correlation in thinned],
        "findings": list(_findings(agreement)),
    }


def _findings(agreement: Agreement) -> Iterator[dict[str, Any]]:
    correlations = np.array([correlation for _, correlation in agreement])
    for first, last in _runs((correlations < _OUT_OF_STEP).tolist()):
        start, end = agreement[first][0], agreement[last][0]
        yield {
            "place": start,
            "text": f"from about line {start:,} to {end:,} the lengths of the two sides have nothing to do with each "
            "other: they seem to be out of step. preprocess.py --check finds the line",
        }


def _runs(is_low: Sequence[bool]) -> list[tuple[int, int]]:
    """First and last of each run of at least two windows: a single one may be chance."""
    edges = np.flatnonzero(np.diff(np.array([False, *is_low, False], np.int8))).tolist()
    return [(start, end - 1) for start, end in pairwise(edges) if is_low[start] and end - start >= 2]
