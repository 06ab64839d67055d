"""How far figures can be trusted: confidence intervals, and tests whether one system is better than another.

All draws are those of sacrebleu with the same seed, and so are intervals and p-values, but its environment variable
SACREBLEU_SEED is not read: the seed is fixed and stands in the signature. sacrebleu picks the sentences of each
resampled set one by one; here a set is how often it has each sentence, and all sets together are one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from transformer.evaluation.sentence_statistics import Floats, Statistics

RESAMPLES = 1000
TRIALS = 10_000
SEED = 12345
SIGNIFICANCE = 0.05  # p below which a difference counts as more than chance

_DRAWN_AT_ONCE = 1 << 23  # numbers, to bound memory


@dataclass(frozen=True)
class PValues:
    """How likely it is that a difference as large is chance; `identical`: the translations do not differ at all."""

    bootstrap: float
    randomization: float
    identical: bool


def confidence_intervals(statistics: Mapping[str, Statistics]) -> dict[str, tuple[float, float]]:
    """95 % intervals of the figures of one system: percentiles of `RESAMPLES` test sets drawn from this one.

    Each set is as large as the test set, drawn with replacement (Koehn 2004).
    """
    figures = _resampled_figures([statistics])
    return {name: _interval(of_metric) for name, of_metric in figures[0].items()}


def compare(baseline: Mapping[str, Statistics], system: Mapping[str, Statistics]) -> dict[str, PValues]:
    """Whether the figures of a system differ from those of a baseline by more than chance, two-sided.

    By paired bootstrap resampling (Koehn 2004; centred, as Moses does it), and by paired approximate randomisation,
    which exchanges the systems' translations of random sentences (Riezler & Maxwell 2005).
    """
    resampled = _resampled_figures([baseline, system])
    shuffled = _shuffled_figures(baseline, system)
    results = {}
    for name in baseline:
        difference = abs(baseline[name].figure() - system[name].figure())
        drawn = np.abs(resampled[1][name] - resampled[0][name])
        exchanged = np.abs(shuffled[0][name] - shuffled[1][name])
        identical = bool(np.array_equal(baseline[name].counts, system[name].counts))
        results[name] = PValues(_p_value(drawn - drawn.mean(), difference), _p_value(exchanged, difference), identical)
    return results


def share_not_better(new: Floats, old: Floats, figure: Callable[[list[float]], float], seed: int) -> float:
    """The share of resampled test sets on which `new` has not the higher figure: a one-sided p-value (Koehn 2004).

    Args:
        new, old: what is summed over sentences: (N, counts).
        figure: of such sums, higher is better.
    """
    sums = resampled_sums(np.hstack([new, old]), seed).tolist()
    width = new.shape[1]
    return float(np.mean([not figure(row[:width]) > figure(row[width:]) for row in sums]))


def resampled_sums(counts: Floats, seed: int = SEED, n_sets: int = RESAMPLES) -> Floats:
    """The sums of the counts (N, K) over sets of N sentences, drawn with replacement: (n_sets, K)."""
    n = len(counts)
    random = np.random.default_rng(seed)
    sums = []
    for rows in _chunks(n_sets, n):
        drawn = random.integers(n, size=(rows, n))
        drawn += np.arange(rows)[:, None] * n
        times_drawn = np.bincount(drawn.reshape(-1), minlength=rows * n).reshape(rows, n)
        sums.append(times_drawn.astype(np.float64) @ counts)
    return np.concatenate(sums)


def _exchanged_sums(difference: Floats) -> Floats:
    """The sums of what differs (N, K) over random halves of the sentences: (TRIALS, K)."""
    n = len(difference)
    random = np.random.default_rng(SEED)
    halves = (random.integers(2, size=(rows, n), dtype=bool) for rows in _chunks(TRIALS, n))
    return np.concatenate([half.astype(np.float64) @ difference for half in halves])


def _chunks(n_rows: int, width: int) -> Iterator[int]:
    """Numbers of rows that are drawn at once; multiples of 32, as so many booleans are drawn from one random number."""
    at_once = max(32, _DRAWN_AT_ONCE // width // 32 * 32)
    for begin in range(0, n_rows, at_once):
        yield min(at_once, n_rows - begin)


def _resampled_figures(systems: Sequence[Mapping[str, Statistics]]) -> list[dict[str, Floats]]:
    """The figures on each resampled set, of every system and metric; all meet the same sets."""
    statistics = [one for system in systems for one in system.values()]
    sums = resampled_sums(np.hstack([one.counts for one in statistics]))
    # In single precision, as sacrebleu: a p-value counts how many figures are above another.
    ends = np.cumsum([one.counts.shape[1] for one in statistics])[:-1]
    parts = iter(np.split(sums.astype(np.float32), ends, axis=1))
    return [{name: _figures(one, list(next(parts))) for name, one in system.items()} for system in systems]


def _shuffled_figures(baseline: Mapping[str, Statistics], system: Mapping[str, Statistics]) -> list[dict[str, Floats]]:
    """The figures of the two systems that arise when translations of random sentences are exchanged."""
    differences = [baseline[name].counts - system[name].counts for name in baseline]
    moved = iter(
        np.split(_exchanged_sums(np.hstack(differences)), np.cumsum([d.shape[1] for d in differences])[:-1], 1)
    )
    results: list[dict[str, Floats]] = [{}, {}]
    for name, one in baseline.items():
        change = next(moved)
        results[0][name] = _figures(one, (system[name].counts.sum(0) + change).tolist())
        results[1][name] = _figures(one, (one.counts.sum(0) - change).tolist())
    return results


def _figures(statistics: Statistics, sums: Sequence[list[float] | npt.NDArray[np.float32]]) -> npt.NDArray[Any]:
    return np.array([statistics.figure_of(row) for row in sums])


def _interval(figures: Floats) -> tuple[float, float]:
    """The middle 95 %."""
    n_outside, ordered = len(figures) // 40, np.sort(figures)
    return float(ordered[n_outside]), float(ordered[len(figures) - n_outside - 1])


def _p_value(by_chance: Floats, difference: float) -> float:
    return (int((by_chance > difference).sum()) + 1) / (len(by_chance) + 1)
