"""What a metric counts in each sentence: summed over any sentences, it gives their figure.

BLEU's statistics are lengths and counts of n-grams, chrF's counts of n-grams, TER's edits and words. So breakdowns and
thousands of resampled test sets cost sums, and no text is read twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.bleu import BLEU
from tqdm import tqdm

_AT_ONCE = 100  # lines

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


class Summed(Protocol):
    """What makes a figure of sums: a metric of sacrebleu, or what does as one."""

    def _compute_score_from_stats(self, stats: Any) -> Any: ...

    def get_signature(self) -> Signature:
        """How figures are computed."""


@dataclass(frozen=True)
class Statistics:
    """The counts of one metric in each sentence: (N, counts), and the sum of any of them as a figure."""

    metric: Summed
    counts: Floats

    @classmethod
    def of(cls, metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Count; `references` are whole texts, each as long as the hypotheses, which the caller has checked."""
        # Of sacrebleu's public interface only its own tests read these, and they take neither a seed nor some lines.
        return cls(metric, np.array(metric._extract_corpus_statistics(hypotheses, references), dtype=np.float64))

    def figure(self, places: Places | None = None) -> float:
        """The figure of all sentences, or of those at these places."""
        counts = self.counts if places is None else self.counts[places]
        return self.figure_of(counts.sum(0).tolist())

    def figure_of(self, sums: Sequence[float] | npt.NDArray[np.float32]) -> float:
        """The figure that sums of the counts give; in the precision of the sums."""
        score: float = self.metric._compute_score_from_stats(sums).score
        return score

    def of_each(self) -> list[float]:
        """The figure of every sentence alone; BLEU then of the effective order."""
        metric = BLEU(tokenize="none", effective_order=True) if isinstance(self.metric, BLEU) else self.metric
        return [float(metric._compute_score_from_stats(row).score) for row in self.counts.tolist()]

    def signature(self, **marks: str) -> str:
        """How the figures are computed; `marks` such as bs="1000" are put where sacrebleu puts them."""
        signature = self.metric.get_signature()
        for key, value in marks.items():
            signature.update(key, value)
        return str(signature)


def count(
    metrics: Mapping[str, Metric], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, Statistics]:
    """The statistics of several metrics, with a bar where it takes long: TER is slow."""
    found: dict[str, list[Floats]] = {name: [] for name in metrics}
    with tqdm(total=len(hypotheses), desc="scoring", unit=" lines", disable=None, delay=2) as bar:
        for first in range(0, len(hypotheses), _AT_ONCE):
            lines = slice(first, first + _AT_ONCE)
            part, sides = hypotheses[lines], [side[lines] for side in references]
            for name, metric in metrics.items():
                found[name].append(Statistics.of(metric, part, sides).counts)
            bar.update(len(part))
    return {name: Statistics(metric, np.concatenate(found[name])) for name, metric in metrics.items()}
