"""Checks of lines side by side: the same on both sides, in the wrong language, the other way round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from data.doctor.findings import Tally
from data.errors import DataError
from data.filters.language_scores import LARGEST, LanguageScorer

_MARGIN = 20.0  # nats that another language must be likelier by
_CHARACTERS = 20  # shorter lines tell little
_MOST = 0.5  # of the lines that can be told
_MEASURABLE = 20  # lines, before a share of them means anything


class PairChecks:
    """Looks at pairs and remembers what it found."""

    def __init__(self, src_lang: str, tgt_lang: str) -> None:
        self.tallies: dict[str, Tally] = defaultdict(Tally)  # by kind
        self.wrong_language: tuple[Tally, Tally] = (Tally(), Tally())
        self.languages_seen: tuple[dict[str, int], dict[str, int]] = (defaultdict(int), defaultdict(int))
        self.unchecked = ""  # why languages are not looked at
        src, tgt = (language.replace("_", "-").split("-")[0].lower() for language in (src_lang, tgt_lang))
        self._sides = src, tgt
        self._n_told = 0
        self._scorer: LanguageScorer | None = None
        try:
            self._scorer = _scorer(*self._sides)
        except DataError as error:
            self.unchecked = str(error).split(";")[0]
        if self._sides[0] == self._sides[1]:
            self._scorer, self.unchecked = None, "both sides are of one language"

    def add(self, src: list[str], tgt: list[str], places: npt.NDArray[np.int64]) -> None:
        """The next pairs, and where they stand."""
        sides = zip(src, tgt, strict=True)
        same = np.fromiter((one == other and bool(one.strip()) for one, other in sides), np.bool_, len(src))
        for number in np.flatnonzero(same).tolist():
            self.tallies["identical"].add_pair(int(places[number]), src[number], tgt[number])
        if self._scorer and len(src):
            self._look_at_languages(self._scorer, src, tgt, places, ~same)

    def finish(self) -> None:
        """Judge what only the whole can tell: a corpus that is mostly the other way round, or in another language."""
        if self._n_told < _MEASURABLE:
            return
        if self.tallies["swapped"].count > _MOST * self._n_told:
            self.tallies["swapped_corpus"] = self.tallies.pop("swapped")

    @property
    def mostly_wrong(self) -> tuple[bool, bool]:
        """For each side, whether most of it is in another language."""
        enough = max(self._n_told * _MOST, _MEASURABLE)
        src, tgt = (tally.count > enough for tally in self.wrong_language)
        return src, tgt

    def _look_at_languages(
        self,
        scorer: LanguageScorer,
        src: Sequence[str],
        tgt: Sequence[str],
        places: npt.NDArray[np.int64],
        wanted: npt.NDArray[np.bool_],
    ) -> None:
        names = list(scorer.languages)
        own, other = names.index(self._sides[0]), names.index(self._sides[1])
        src_scores, tgt_scores = scorer.scores(src), scorer.scores(tgt)
        long = [np.fromiter((len(text) >= _CHARACTERS for text in side), np.bool_, len(src)) for side in (src, tgt)]
        swapped = wanted & (src_scores[:, other] - src_scores[:, own] > _MARGIN / 2)
        swapped &= tgt_scores[:, own] - tgt_scores[:, other] > _MARGIN / 2
        self._n_told += int((long[0] & long[1]).sum())
        for number in np.flatnonzero(swapped).tolist():
            self.tallies["swapped"].add_pair(int(places[number]), src[number], tgt[number])
        for side, (scores, expected) in enumerate(((src_scores, own), (tgt_scores, other))):
            lead = scores.max(1) - scores[:, expected]
            wrong = wanted & ~swapped & long[side] & (lead > _MARGIN)
            for number in np.flatnonzero(wrong).tolist():
                language = names[int(scores[number].argmax())]
                self.languages_seen[side][language] += 1
                self.wrong_language[side].add_pair(int(places[number]), src[number], tgt[number], f"{language}: ")


@cache  # of one pair of languages, mostly
def _scorer(src_lang: str, tgt_lang: str) -> LanguageScorer:
    return LanguageScorer([src_lang, tgt_lang, *LARGEST])
