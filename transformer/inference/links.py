"""Which words of two sentences belong together, as numbers and as text."""

from __future__ import annotations

import re

from data.errors import DataError

Links = tuple[tuple[int, int], ...]  # (source word, target word), from 0, sorted

_LINK = re.compile(r"([0-9]+)-([0-9]+)")


def pharaoh(links: Links) -> str:
    """Links as the Pharaoh decoder wrote them and aligners still do: "0-0 1-2", source word first."""
    return " ".join(f"{src}-{tgt}" for src, tgt in links)


def parse_pharaoh(line: str, place: str) -> Links:
    """The links of a line in Pharaoh's form; an empty line has none.

    Raises:
        DataError: something else is there; `place` is named.
    """
    texts = line.split()
    found = [_LINK.fullmatch(text) for text in texts]
    wrong = [text for text, link in zip(texts, found, strict=True) if not link]
    if wrong:
        raise DataError(
            f"{place}: {wrong[0]!r:.40} is no link. A link is SOURCE-TARGET, two word numbers from 0: 0-0 1-2"
        )
    return tuple(sorted({(int(link[1]), int(link[2])) for link in found if link}))
