"""Which languages a corpus seems to be in, from a sample of its lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from data.errors import DataError
from data.filters.language_scores import LARGEST, LanguageScorer
from data.pairs import Texts

_ONE_IN = 20  # lines
_FEWEST_LETTERS = 20  # shorter lines could be of many languages

Mix = dict[str, dict[str, int]]


@dataclass(frozen=True)
class LanguageMix:
    """Counts languages of both sides: the two at hand and the world's largest; nothing for those it does not know."""

    src_lang: str
    tgt_lang: str

    def count(self, texts: Texts) -> Mix:
        """How many lines of a sample seem to be in which language, for each side."""
        mix: Mix = {}
        for side, lines in (("src", texts.src), ("tgt", texts.tgt)):
            long = [line for line in lines[::_ONE_IN] if len(line) >= _FEWEST_LETTERS]
            if self._scorer is None or not long:
                continue
            names = [self._scorer.languages[best] for best in self._scorer.scores(long).argmax(axis=1).tolist()]
            mix[side] = dict(Counter(names))
        return mix

    @cached_property
    def _scorer(self) -> LanguageScorer | None:
        try:
            return LanguageScorer([self.src_lang, self.tgt_lang, *LARGEST])
        except DataError:  # a language that is not known: any count would be wrong
            return None

    def __getstate__(self) -> dict[str, Any]:
        return {"src_lang": self.src_lang, "tgt_lang": self.tgt_lang}

    @staticmethod
    def add(mixes: Sequence[Mix]) -> Mix:
        """The counts of several parts or corpora together."""
        total: dict[str, Counter[str]] = {}
        for mix in mixes:
            for side, counts in mix.items():
                total.setdefault(side, Counter()).update(counts)
        return {side: dict(counts) for side, counts in total.items()}
