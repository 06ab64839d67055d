"""The filter for pairs in the wrong language, or with their sides swapped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from data.errors import DataError
from data.filters.filter import Filter, Kept, primary
from data.filters.language_scores import LARGEST, LanguageScorer, known_languages
from data.pairs import Texts

Leads = npt.NDArray[np.float32]

_FIRST_LOOK = 32  # characters; if they are clear, no more is looked at
_CLEAR = 0.7  # lead of the expected language that settles it
_LONGEST_LOOKED_AT = 300  # characters
_OF_OTHER_SIDE = 4  # × margin: names, loanwords and code of the other side's language stand where they should
_OF_BOTH_SIDES = 1.0  # the evidence for swapped sides adds up
_OF_ENGLISH = 2.5  # × margin: half of its words are French or Latin, and headings often hold no others
_SPACES = {0xA0: " ", 0x202F: " ", 0x200B: None, 0x2060: None, 0xFEFF: None, 0xAD: None}
_SHARED = 0.5  # of what speaks for a language on one side is expected on the other: names, commands


def language(
    src_lang: str,
    tgt_lang: str,
    model: Literal["py3langid", "lingua"] = "py3langid",
    margin: float = 0.85,
    min_letters: int = 4,
) -> Filter:
    """Drop pairs of which a side is in another language, or each in the language of the other.

    Compared are the two languages at hand and the ten largest. `margin`: by how much another language must be ahead, as
    a difference of log-likelihoods divided by √bytes, with which it grows for text of a language; with lingua, by
    margin / 4 of its confidence, which goes from 0 to 1. A side with fewer letters than `min_letters` passes, and so
    does one whose language the model does not know, see `unknown_to_py3langid`.

    Raises:
        DataError: lingua is asked for and not installed, or does not know a language.
    """
    sides = primary(src_lang), primary(tgt_lang)
    if model == "lingua":
        return _by_lingua(sides, margin / 4, min_letters)
    return _ByPy3langid(sides, margin, min_letters)


def unknown_to_py3langid(src_lang: str, tgt_lang: str) -> list[str]:
    """Which of two languages the filter lets pass unseen."""
    return [code for code in (src_lang, tgt_lang) if primary(code) not in known_languages()]


class _ByPy3langid:
    """How far another language is ahead is told by `leads`: pairs × languages, > 0 for more likely than expected."""

    def __init__(self, sides: tuple[str, str], margin: float, min_letters: int) -> None:
        known = [code for code in sides if code in known_languages()]
        self._scorer = LanguageScorer([*known, *LARGEST])
        self._columns = [self._scorer.languages.index(code) if code in known else None for code in sides]
        self._margin, self._min_letters = margin, min_letters

    def __call__(self, texts: Texts) -> Kept:
        kept = np.ones(len(texts), np.bool_)
        if self._columns == [None, None] or self._columns[0] == self._columns[1]:
            return kept
        everywhere = np.arange(len(texts))
        unclear = everywhere[~self._clear(self._leads(texts, everywhere, _FIRST_LOOK))]
        suspects = unclear[self._suspicious(self._leads(texts, unclear, _LONGEST_LOOKED_AT))]
        for place in suspects.tolist():
            src, tgt = texts.src[place], texts.tgt[place]
            kept[place] = src == tgt or min(_letters(src), _letters(tgt)) < self._min_letters
        return kept

    def _leads(self, texts: Texts, places: npt.NDArray[np.int64], n_characters: int) -> tuple[Leads, Leads]:
        cut = [[side[place][:n_characters] for place in places.tolist()] for side in (texts.src, texts.tgt)]
        if n_characters > _FIRST_LOOK:  # slow, and little is unclear for it
            cut = [[_plain(text) for text in of_side] for of_side in cut]
        scores = self._scorer.evidence(cut[0] + cut[1])
        leads = [
            np.zeros_like(of_side) if column is None else of_side - of_side[:, [column]]
            for of_side, column in zip((scores[: len(places)], scores[len(places) :]), self._columns, strict=True)
        ]
        return leads[0], leads[1]

    def _clear(self, leads: tuple[Leads, Leads]) -> Kept:
        clear = np.ones(len(leads[0]), np.bool_)
        for of_side, column in zip(leads, self._columns, strict=True):
            if column is not None:
                clear &= np.delete(of_side, column, axis=1).max(axis=1) < -_CLEAR
        return clear

    def _suspicious(self, leads: tuple[Leads, Leads]) -> Kept:
        """Which pairs have a side in a third language, or in that of the other side, or are swapped."""
        suspicious = np.zeros(len(leads[0]), np.bool_)
        src, tgt = self._columns
        for one, other, column, other_column in ((leads[0], leads[1], src, tgt), (leads[1], leads[0], tgt, src)):
            if column is None:
                continue
            third = one - _SHARED * np.maximum(other, 0)
            if other_column is not None:
                suspicious |= one[:, other_column] > _OF_OTHER_SIDE * self._margin
                third[:, other_column] = -np.inf
            is_english = self._scorer.languages[column] == "en"
            suspicious |= third.max(axis=1) > self._margin * (_OF_ENGLISH if is_english else 1)
        if src is not None and tgt is not None:
            suspicious |= leads[0][:, tgt] + leads[1][:, src] > _OF_BOTH_SIDES
        return suspicious


def _plain(text: str) -> str:
    """Without the signs beside which the model, which learnt from sentences, sees other languages."""
    return text if text.isascii() else text.translate(_SPACES)


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text[:_LONGEST_LOOKED_AT]))


def _by_lingua(sides: tuple[str, str], margin: float, min_letters: int) -> Filter:
    try:
        import lingua  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise DataError(
            "filter language, model: lingua: the library is not installed. Run "
            "`pip install lingua-language-detector`, or take model: py3langid"
        ) from None
    codes = {language.iso_code_639_1.name.lower(): language for language in lingua.Language.all()}
    if unknown := [code for code in sides if code not in codes]:
        raise DataError(
            f"filter language: lingua does not know {', '.join(unknown)}; it knows {', '.join(sorted(codes))}. "
            "Leave out the filter, or take model: py3langid"
        )
    expected = [codes[code] for code in sides]
    compared = dict.fromkeys([*sides, *LARGEST])
    detector = lingua.LanguageDetectorBuilder.from_languages(*(codes[code] for code in compared)).build()

    def keep(texts: Texts) -> Kept:
        kept = np.ones(len(texts), np.bool_)
        for side, right in zip((texts.src, texts.tgt), expected, strict=True):
            places = [place for place, text in enumerate(side) if _letters(text) >= min_letters]
            found = detector.compute_language_confidence_values_in_parallel([side[place] for place in places])
            for place, values in zip(places, found, strict=True):
                kept[place] &= not _ahead(values, right, margin)
        return kept

    return keep


def _ahead(values: Sequence[Any], right: Any, margin: float) -> bool:
    best = max(value.value for value in values)
    return bool(best - sum(value.value for value in values if value.language == right) > margin)
