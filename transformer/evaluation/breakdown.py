"""Figures of some of the lines: by length of the source, by its rarest word, by domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from data.words import words_of
from transformer.evaluation.results import Bucket
from transformer.evaluation.sentence_statistics import Statistics

LENGTHS = {"under 10 words": 0, "10–19": 10, "20–29": 20, "30–39": 30, "40–59": 40, "60 or more": 60}
"""Label and shortest of each bucket; two characters of a script without blanks count as one word."""

TIMES = {"never": 0, "1–9 times": 1, "10–99": 10, "100–999": 100, "1,000 or more": 1000}
"""How often the rarest word of a source is in the training text."""

MOST_DOMAINS = 20


def by_length(src: Sequence[str], statistics: Mapping[str, Statistics]) -> list[Bucket]:
    """Lines of like length."""
    return _by_number(words_of(src).n_words, LENGTHS, statistics)


def by_rarest_word(times: npt.NDArray[np.int64], statistics: Mapping[str, Statistics]) -> list[Bucket]:
    """Lines whose rarest words are alike rare; `times` as of `word_frequency.rarest_words`."""
    return _by_number(times, TIMES, statistics)


def by_domain(domains: Sequence[str], statistics: Mapping[str, Statistics]) -> list[Bucket]:
    """Lines of a domain, the largest domains first; those beyond `MOST_DOMAINS` together."""
    named = [name for name, _ in Counter(domains).most_common(MOST_DOMAINS)]
    everywhere = np.array([named.index(domain) if domain in set(named) else MOST_DOMAINS for domain in domains])
    labels = [*(name or "(none)" for name in named), *["other"] * (MOST_DOMAINS + 1 - len(named))]
    return _buckets(everywhere, labels, statistics)


def _by_number(
    numbers: npt.NDArray[np.float64] | npt.NDArray[np.int64],
    lowest: Mapping[str, int],
    statistics: Mapping[str, Statistics],
) -> list[Bucket]:
    return _buckets(np.digitize(numbers, list(lowest.values())) - 1, list(lowest), statistics)


def _buckets(
    bucket_of: npt.NDArray[np.int64], labels: Sequence[str], statistics: Mapping[str, Statistics]
) -> list[Bucket]:
    buckets = []
    for bucket, label in enumerate(labels):
        places = np.flatnonzero(bucket_of == bucket)
        if len(places):
            bleu, chrf = (statistics[name].figure(places) for name in ("bleu", "chrf"))
            buckets.append(Bucket(label, len(places), bleu, chrf))
    return buckets
