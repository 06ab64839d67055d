"""What of a text are words, where there are names of commands, markup and placeholders in it."""

from __future__ import annotations

import re

AROUND_WORDS = ".,:;!?…\"'()“”»«„"

# Roff and tags, entities, the marks of keyboard shortcuts, command lines
_MARKUP = re.compile(r"[BI]<[^<>]*>|<[^<>]*>|&[a-z]+;|[~&](?=\w)|\b_|(?<=[A-Z])_|^[#$] .*")
_CODE = re.compile(r"[\d=_<>{}\[\]()\\/$*@#|%+]|[a-z][A-Z]|^-|\w[-.,:;]\w")
_LONGEST_ACRONYM = 4  # letters; longer words in capitals are those of headings


def prose(text: str, *, min_share: float = 0.0) -> str:
    """The words of a text that are neither markup nor code; nothing if they are less than a share of all."""
    tokens = [token.strip(AROUND_WORDS) for token in _MARKUP.sub("", text).split()]
    words = [token for token in tokens if len(token) > 1 and not (_is_acronym(token) or _CODE.search(token))]
    return " ".join(words) if len(words) >= min_share * len(tokens) else ""


def _is_acronym(word: str) -> bool:
    return len(word) <= _LONGEST_ACRONYM and word.isupper()
