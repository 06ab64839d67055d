"""The filter for sources that stand untranslated where the target should be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from data.filters.filter import Filter, Kept, primary
from data.filters.language_scores import LARGEST, LanguageScorer, known_languages
from data.filters.prose import AROUND_WORDS, prose
from data.pairs import Texts

_FOLDED_FROM = 4  # words; `status` and `Status` may well translate each other
# Names of places, people and languages look like these rather than like what is spoken where they are read.
_OF_NAMES = ("ca", "cs", "eu", "fi", "ha", "hu", "id", "ig", "jv", "la", "mg", "ms", "pl", "qu", "ro", "so", "sq", "sw",
             "tl", "tr", "vi", "yo", "zu")  # fmt: skip
_BULLETS = ("* ", "- ", "• ")
_NO_NAME = 1.0  # what a word without a capital says for being a copy
_LONGEST_LOOKED_AT = 300  # characters


def copied(src_lang: str, tgt_lang: str, min_lead: float = -1.2) -> Filter:
    """Drop pairs whose sides are the same and hold words of the source language.

    In long lines case and punctuation may differ.

    Untranslated lines harm more than any other noise (Khayrallah & Koehn 2018), but `LibreOffice`, `OK`, `--help` and
    1.5 are translated by themselves. So code is taken away first, and of the words that are left, in lower case, the
    source language must be likelier than the target language and than all others: the two leads, as differences of
    log-likelihoods over √bytes by the filter language's model, must be `min_lead` together. Where that model does not
    know the languages, words are enough.
    """
    sides = primary(src_lang), primary(tgt_lang)
    known = set(sides) <= known_languages() and sides[0] != sides[1]
    scorer = LanguageScorer([*sides, *LARGEST, *_OF_NAMES]) if known else None

    def keep(texts: Texts) -> Kept:
        kept = np.ones(len(texts), np.bool_)
        same = [
            place
            for place, (src, tgt) in enumerate(zip(texts.src, texts.tgt, strict=True))
            if src == tgt or _nearly_same(src, tgt)
        ]
        words = [_words(texts.src[place][:_LONGEST_LOOKED_AT]) for place in same]
        worded = [number for number, text in enumerate(words) if text]
        if scorer is not None:
            leads = _leads(scorer, [words[number].lower() for number in worded])
            leads += [_NO_NAME * any(map(str.islower, words[number].split())) for number in worded]
            worded = [number for number, lead in zip(worded, leads.tolist(), strict=True) if lead >= min_lead]
        kept[[same[number] for number in worded]] = False
        return kept

    return keep


def _nearly_same(src: str, tgt: str) -> bool:
    """Whether long texts differ in case, spaces and punctuation around words only."""
    if abs(len(src) - len(tgt)) > 4 or src[:1].casefold() != tgt[:1].casefold():  # quick, and nearly always enough
        return False
    one, other = src.casefold().split(), tgt.casefold().split()
    return len(one) == len(other) >= _FOLDED_FROM and all(
        a.strip(AROUND_WORDS) == b.strip(AROUND_WORDS) for a, b in zip(one, other, strict=True)
    )


def _words(text: str) -> str:
    """The words that can be a copy: none where most is code, or a list of names."""
    words = prose(text, min_share=0.5)
    # `* Noto Sans Thai`: names
    is_name = text.lstrip()[:2] in _BULLETS and not any(map(str.islower, words.split()))
    return "" if is_name else words


def _leads(scorer: LanguageScorer, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    scores = scorer.evidence(texts)
    leads: npt.NDArray[np.float32] = 2 * scores[:, 0] - scores[:, 1] - scores[:, 1:].max(axis=1)
    return leads
