"""Whether a text is what it is taken for: in its language, and not cut into tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from data.filters.filter import primary
from data.filters.language_scores import LARGEST, LanguageScorer, known_languages

_LOOKED_AT = 400  # lines
_TOGETHER = 10  # lines, so that names and short lines do not count
_CLEAR = 3.0  # lead in log-likelihood / √bytes; ten real sentences have 10 to 50, numbers and codes 0 to 1
_TOKENISED = 0.2  # of the lines end in a full stop that stands alone


def doubts_about(what: str, lines: Sequence[str], language: str, other: str) -> list[str]:
    """What a look at the lines says against them, each as a sentence; nothing where all seems well.

    Args:
        what: what they are, such as "the references of news".
        other: the language of the other side, for which they may have been mixed up.
    """
    found = []
    if (seems := seeming_language(lines, language, other)) is not None:
        found.append(f"{what} look like {seems} and not {language}: are the files the right ones?")
    if sum(line.rstrip().endswith(" .") for line in lines) > _TOKENISED * len(lines):
        found.append(
            f"{what} seem to be tokenised (lines end in ' .'): such figures cannot be compared with those of plain "
            "text. Detokenise them"
        )
    return found


def seeming_language(lines: Sequence[str], expected: str, other: str) -> str | None:
    """The language that most of a text seems to be in, if that is another than expected; see `LanguageScorer`.

    None where all is well, and where nothing can be told: languages that are not known, and hardly any letters.
    """
    code = primary(expected)
    if code not in known_languages():
        return None
    scorer = LanguageScorer([code, *LARGEST, *({primary(other)} & known_languages())])
    chosen = [line for line in lines[:: -(-len(lines) // _LOOKED_AT) or 1] if any(map(str.isalpha, line))]
    blocks = [" ".join(chosen[first : first + _TOGETHER]) for first in range(0, len(chosen), _TOGETHER)]
    if not blocks:
        return None
    evidence = scorer.evidence(blocks)  # blocks × languages, the expected one first
    clear = evidence.max(axis=1) - evidence[:, 0] > _CLEAR
    winners = Counter(scorer.languages[best] for best in np.where(clear, evidence.argmax(axis=1), 0).tolist())
    winner, n_blocks = winners.most_common(1)[0]
    return winner if winner != code and 2 * n_blocks > len(blocks) else None
