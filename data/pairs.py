"""A sentence pair as it is read, and many of them as they are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

NO_META: Mapping[str, str] = MappingProxyType({})


class Pair(NamedTuple):
    """One sentence and its translation, neither of which holds a line feed, so that lines can be counted anywhere."""

    src: str
    tgt: str
    place: int = 0  # line, row, record or unit in the file it comes from, from 1
    meta: Mapping[str, str] = NO_META  # what else the form tells: score, domain, document …


@dataclass(frozen=True)
class Texts:
    """Some thousand pairs, side by side."""

    src: list[str]
    tgt: list[str]
    meta: list[Mapping[str, str]] | None = None  # None: nothing known of any pair

    def __len__(self) -> int:
        return len(self.src)
