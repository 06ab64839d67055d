"""Which training pairs are kept: a list of filters, each with a reason under which what it drops is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from data.contamination import HeldOut, Matches
from data.duplicates import DuplicateRule
from data.filters import Filter, make_filter
from data.pairs import Texts
from data.word_translation import WordTranslation

EMPTY, CONTAMINATION, TOO_LONG, LENGTH_RATIO = "empty", "contamination", "too_long", "length_ratio"
KEPT = -1


@dataclass(frozen=True)
class Rules:
    """What is asked of a training pair. `filters` are (name, settings), see `data.filters.make_filter`.

    Two names are not of single pairs: `duplicates`, which compares with all pairs before (`DuplicateRule`), and
    `word_translation`, which has to be learnt first.
    """

    filters: Sequence[tuple[str, Mapping[str, Any]]] = ()
    max_length: int = 256  # pieces, on either side
    max_length_ratio: float = 9.0  # longest side / shortest side, in pieces
    drop_contamination: bool = True  # leave out what is also in validation and test sets

    @property
    def duplicates(self) -> list[DuplicateRule]:
        """The rules about pairs that came before."""
        return [DuplicateRule(**options) for name, options in self.filters if name == "duplicates"]

    @property
    def word_translation(self) -> Mapping[str, Any] | None:
        """The settings of the filter that needs a model of the corpus, if there is one."""
        return next((options for name, options in self.filters if name == "word_translation"), None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """All reasons to drop a pair, in the order they are tried; a pair is counted under the first."""
        judged = [name for name, _ in self.filters if name != "duplicates"]
        repeated = [rule.reason for rule in self.duplicates]
        contamination = [CONTAMINATION] if self.drop_contamination else []
        return tuple(dict.fromkeys([EMPTY, *judged, *contamination, *repeated, TOO_LONG, LENGTH_RATIO]))

    def as_json(self) -> dict[str, Any]:
        """For the manifest: named as the settings are."""
        return {
            "filters": [{"filter": name, **options} for name, options in self.filters],
            "max_length": self.max_length,
            "max_length_ratio": self.max_length_ratio,
            "drop_contamination": self.drop_contamination,
        }


@dataclass(frozen=True)
class TextSelection:
    """Judges pairs by their text, thousands at a time. It travels to worker processes, and builds its filters there."""

    rules: Rules
    src_lang: str
    tgt_lang: str
    held_out: HeldOut
    word_translation: WordTranslation | None = field(default=None, repr=False)

    def judge(self, texts: Texts) -> tuple[npt.NDArray[np.int8], Matches]:
        """For each pair KEPT, or the reason as an index into `rules.reasons`; and what is held out among the pairs."""
        reasons = self.rules.reasons
        verdicts = np.full(len(texts), KEPT, np.int8)
        alive = _not_blank(texts)
        verdicts[~alive] = reasons.index(EMPTY)
        for name, filter_ in self._filters:
            places = np.flatnonzero(alive)
            dropped = places[~filter_(_pick(texts, alive))]
            verdicts[dropped] = reasons.index(name)
            alive[dropped] = False
        matches = self.held_out.match(texts)
        if self.rules.drop_contamination:
            verdicts[alive & (matches.kinds > 0)] = reasons.index(CONTAMINATION)
        return verdicts, matches

    @cached_property
    def _filters(self) -> list[tuple[str, Filter]]:
        made: list[tuple[str, Filter]] = []
        for name, options in self.rules.filters:
            if name == "word_translation":
                assert self.word_translation is not None, "learnt before pairs are judged"
                made.append((name, self.word_translation.filter(**options)))
            elif name != "duplicates":
                made.append((name, make_filter(name, options, self.src_lang, self.tgt_lang)))
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_filters"}


def judge_lengths(
    src_lengths: npt.NDArray[np.integer[Any]], tgt_lengths: npt.NDArray[np.integer[Any]], rules: Rules
) -> npt.NDArray[np.int8]:
    """For each pair of lengths in pieces KEPT, or the reason as an index into `rules.reasons`.

    Text without a single piece, such as control characters only, is as empty as a blank line.
    """
    longer, shorter = np.maximum(src_lengths, tgt_lengths), np.minimum(src_lengths, tgt_lengths)
    return np.select(
        [shorter == 0, longer > rules.max_length, longer > rules.max_length_ratio * shorter],
        [np.int8(rules.reasons.index(reason)) for reason in (EMPTY, TOO_LONG, LENGTH_RATIO)],
        np.int8(KEPT),
    )


def _not_blank(texts: Texts) -> npt.NDArray[np.bool_]:
    sides = zip(texts.src, texts.tgt, strict=True)
    return np.fromiter((bool(src.strip() and tgt.strip()) for src, tgt in sides), np.bool_, len(texts))


def _pick(texts: Texts, wanted: npt.NDArray[np.bool_]) -> Texts:
    if wanted.all():
        return texts
    meta = None if texts.meta is None else list(compress(texts.meta, wanted))
    return Texts(list(compress(texts.src, wanted)), list(compress(texts.tgt, wanted)), meta)
