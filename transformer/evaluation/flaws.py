"""Translations whose lines tell that they are wrong: empty, copied, looping, truncated, in the wrong language.

The rules would rather overlook a line than name a sound one, and so each excuses what source or references do, too.
docs/evaluation.md says how often they name lines of references and of good systems.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from data.filters.filter import primary
from data.filters.language_scores import LanguageScorer, known_languages
from transformer.evaluation.tokenization import WITHOUT_BLANKS

EMPTY, COPIED, LOOPING, TRUNCATED, WRONG_LANGUAGE = "empty", "copied", "looping", "truncated", "wrong language"

LOOP_TIMES = 4
"""So often must something stand in a row: three times is also how people laugh and insist."""

SHORT = 0.5
"""Of the shortest reference: a translation that is shorter lacks half of it."""

LANGUAGE_MARGIN = 1.5
"""By how much the source's language must be likelier, as log-likelihoods / √bytes of the filter `language`."""

_LONGEST_LOOP = 60  # characters
_LOOP = re.compile(rf"(?=\S)(.{{2,{_LONGEST_LOOP}}}?)\1{{{LOOP_TIMES - 1},}}")
_LONG_ENOUGH = 40  # characters of a reference of which half can be missing; half as many where there are no blanks


@dataclass(frozen=True)
class Translated:
    """What flaws are looked for in: line N of each belongs to line N of the others.

    Attributes:
        src: None: not known; then copies cannot be told, and blank references excuse empty translations.
        references: one or more whole texts.
        finished: False where the search met its limit of length; None: not known.
    """

    src: Sequence[str] | None
    hypotheses: Sequence[str]
    references: Sequence[Sequence[str]]
    finished: Sequence[bool] | None
    src_lang: str
    tgt_lang: str


def find_flaws(text: Translated) -> dict[str, list[int]]:
    """The numbers of the lines, from 1, that have each flaw; a flaw that cannot be looked for is not among the keys."""
    found = {EMPTY: _numbers(_empty(text))}
    if text.src is not None:
        found[COPIED] = _numbers(_copied(text, text.src))
    found |= {LOOPING: _numbers(_looping(text)), TRUNCATED: _numbers(_truncated(text))}
    sides = [primary(text.src_lang), primary(text.tgt_lang)]
    if sides[0] != sides[1] and known_languages() >= set(sides):
        found[WRONG_LANGUAGE] = _numbers(_in_wrong_language(text, sides))
    return found


def _numbers(flawed: Sequence[bool]) -> list[int]:
    return [number for number, is_flawed in enumerate(flawed, 1) if is_flawed]


def _empty(text: Translated) -> list[bool]:
    """Nothing but blanks, where the source (or a reference, if there is no source) is more."""
    asked = text.src if text.src is not None else text.references[0]
    return [
        bool(line.strip()) and not hypothesis.strip() for line, hypothesis in zip(asked, text.hypotheses, strict=True)
    ]


def _copied(text: Translated, sources: Sequence[str]) -> list[bool]:
    """The letters and digits of the source, whatever case and punctuation, where no reference is the same."""
    flawed = []
    for line, (src, hypothesis) in enumerate(zip(sources, text.hypotheses, strict=True)):
        wanted = _fold(src)
        is_same = wanted == _fold(hypothesis) and any(map(str.isalpha, wanted))
        flawed.append(is_same and all(_fold(side[line]) != wanted for side in text.references))
    return flawed


def _fold(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _looping(text: Translated) -> list[bool]:
    """Up to 60 characters, a letter among them, `LOOP_TIMES` times in a row, unless source or a reference loops."""
    flawed = []
    for line, hypothesis in enumerate(text.hypotheses):
        excuses = [side[line] for side in text.references] + ([text.src[line]] if text.src is not None else [])
        flawed.append(loops(hypothesis) and not any(map(loops, excuses)))
    return flawed


def loops(text: str) -> bool:
    """Whether something with a letter in it stands there again and again."""
    return any(any(map(str.isalpha, found[1])) for found in _LOOP.finditer(text))


def _truncated(text: Translated) -> list[bool]:
    """Cut at the limit of length; or, where there are many characters to translate, half as long as every reference."""
    enough = _LONG_ENOUGH // 2 if primary(text.tgt_lang) in WITHOUT_BLANKS else _LONG_ENOUGH
    flawed = []
    for line, hypothesis in enumerate(text.hypotheses):
        shortest = min(len(side[line].strip()) for side in text.references)
        is_short = bool(hypothesis.strip()) and shortest >= enough and len(hypothesis.strip()) < SHORT * shortest
        flawed.append(is_short or (text.finished is not None and not text.finished[line]))
    return flawed


def _in_wrong_language(text: Translated, sides: Sequence[str]) -> list[bool]:
    """Far likelier in the source's language than in the target's, while every reference is not."""
    scorer = LanguageScorer(sides)
    leads = [np.subtract(*scorer.evidence(lines)[:, :2].T) for lines in (text.hypotheses, *text.references)]
    flawed: list[bool] = ((leads[0] > LANGUAGE_MARGIN) & (np.max(leads[1:], axis=0) <= 0)).tolist()
    return flawed
