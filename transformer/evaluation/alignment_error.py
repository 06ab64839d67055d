"""How far alignments are from those that people made: precision, recall, and alignment error rate.

Och & Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models", section 5: people mark links as sure
(S) where they are unambiguous, and as possible (P, which holds S) where one might well link. An alignment A should hold
what is sure and nothing that is not possible: recall = |A∩S| / |S|, precision = |A∩P| / |A|, and
AER = 1 - (|A∩S| + |A∩P|) / (|A| + |S|).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from transformer.evaluation.gold_alignments import Gold, Link


@dataclass(frozen=True)
class LinkCounts:
    """Numbers of links; shares of them, from 0 to 1, are nan where there is nothing to divide by."""

    n_links: int = 0  # |A|
    n_sure: int = 0  # |S|
    n_found_sure: int = 0  # |A∩S|
    n_found_possible: int = 0  # |A∩P|

    def __add__(self, other: LinkCounts) -> LinkCounts:
        return LinkCounts(
            self.n_links + other.n_links,
            self.n_sure + other.n_sure,
            self.n_found_sure + other.n_found_sure,
            self.n_found_possible + other.n_found_possible,
        )

    @property
    def precision(self) -> float:
        """Of the links, those that are possible."""
        return _share(self.n_found_possible, self.n_links)

    @property
    def recall(self) -> float:
        """Of the sure links, those that were found."""
        return _share(self.n_found_sure, self.n_sure)

    @property
    def error_rate(self) -> float:
        """0 at best."""
        return 1 - _share(self.n_found_sure + self.n_found_possible, self.n_links + self.n_sure)


def count_links(links: Iterable[Link], gold: Gold) -> LinkCounts:
    """The counts of one sentence, to be added up."""
    found = frozenset(links)
    return LinkCounts(len(found), len(gold.sure), len(found & gold.sure), len(found & gold.possible))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan
