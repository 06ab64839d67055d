"""The files that a translation reads, of which line N of one belongs to line N of all others."""

from __future__ import annotations

import hashlib
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from data.errors import DataError
from data.lines import decode_lines, read_lines
from data.pairs import Pair
from data.sources import read_sources
from transformer.inference.requests import Request, Wishes, read_requests

Replaced = Callable[[int], object]
"""Is told the number of a line in which U+FFFD has taken the place of what is not UTF-8."""

TYPED = "standard input"


class Line(NamedTuple):
    """A line of the input; the target of its pair is the reference, where there is one to be scored."""

    pair: Pair
    request: str | Request


@dataclass(frozen=True)
class Inputs:
    """What is to be translated, or scored.

    Attributes:
        path: a text or WMT test set, plain or compressed; None: lines from standard input.
        json_lines: each line is a request as JSON; see `parse_request`.
        replace_invalid: text that is not UTF-8 passes, with U+FFFD where it is not.
        wishes: what is wanted of the translations.
        scored: translations to score, in place of translating.
        glossary: where the glossary of the wishes was read from.
    """

    path: Path | None = None
    json_lines: bool = False
    replace_invalid: bool = False
    wishes: Wishes = field(default_factory=Wishes)
    scored: Path | None = None
    glossary: Path | None = None

    @property
    def name(self) -> str:
        """What messages call the input."""
        return TYPED if self.path is None else str(self.path)

    @property
    def is_lasting(self) -> bool:
        """Whether all of it can be read more than once: files, and no pipe."""
        return self.path is not None and not any(path.exists() and not path.is_file() for path in self._files.values())

    def lines(self, replaced: Replaced = lambda _: None) -> Iterator[Line]:
        """All lines, in order, each as soon as it is there.

        Raises:
            DataError: something cannot be read, is not as it should be, or has more or fewer lines than the input.
        """
        pairs = self._pairs(replaced if self.replace_invalid else None)
        if self.scored:
            return self._with_references(pairs, self.scored)
        if self.json_lines or self.wishes != Wishes():
            return self._with_wishes(pairs)
        return (Line(pair, pair.src) for pair in pairs)

    def described(self) -> dict[str, Any]:
        """What a translation of these depends on: the checksum of each file, and how it is read."""
        how = {"json_lines": self.json_lines, "replace_invalid": self.replace_invalid}
        avoided = list(self.wishes.avoided_everywhere)
        return {**{name: _checksum(path) for name, path in self._files.items()}, **how, "avoid_everywhere": avoided}

    @property
    def _files(self) -> dict[str, Path]:
        wishes = self.wishes
        named = {"input": self.path, "prefix": wishes.prefix, "require": wishes.required, "avoid": wishes.avoided}
        named |= {"glossary": self.glossary, "score": self.scored}
        return {name: path for name, path in named.items() if path}

    def _pairs(self, replaced: Replaced | None) -> Iterator[Pair]:
        if self.path:
            return read_sources(self.path, replaced)
        return (Pair(line, "") for line in decode_lines(sys.stdin.buffer, TYPED, replaced))

    def _with_wishes(self, pairs: Iterator[Pair]) -> Iterator[Line]:
        waiting: deque[Pair] = deque()

        def texts() -> Iterator[str]:
            for pair in pairs:
                waiting.append(pair)
                yield pair.src

        for request in read_requests(texts(), self.name, self.wishes, json_lines=self.json_lines):
            yield Line(waiting.popleft()._replace(src=request.text), request)

    def _with_references(self, pairs: Iterator[Pair], path: Path) -> Iterator[Line]:
        references = read_lines(path)
        n_lines = 0
        for pair in pairs:
            reference = next(references, None)
            if reference is None:
                raise unequal(self.name, n_lines + 1 + sum(1 for _ in pairs), path, n_lines)
            n_lines += 1
            yield Line(pair._replace(tgt=reference), pair.src)
        if more := sum(1 for _ in references):
            raise unequal(self.name, n_lines, path, n_lines + more)


def unequal(name: str, n_lines: int, reference: Path, n_references: int) -> DataError:
    """The error of an input and a reference that do not belong together."""
    return DataError(
        f"{name} has {n_lines} lines, {reference} has {n_references}: line N of the reference must translate line N of "
        "the input."
    )


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
