"""The text that is left after all filters but those of length in pieces: what a vocabulary is learnt from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data.parts import load_text_part
from data.selection import KEPT

Verdicts = npt.NDArray[np.int8]


class KeptText:
    """The pairs of all parts, without those that the verdicts drop."""

    def __init__(self, paths: Sequence[Path], repeats: Sequence[Verdicts], n_wanted: int) -> None:
        self._paths, self._repeats, self._n_wanted = paths, repeats, n_wanted
        self._n_pairs = sum(int((verdicts == KEPT).sum()) for verdicts in repeats)

    def of(self, *sides: str) -> EvenLines:
        """Evenly spread lines of these sides, one side after the other."""
        return EvenLines([_KeptSide(self._paths, self._repeats, side) for side in sides], self._n_pairs, self._n_wanted)


class _KeptSide:
    """One side of the text; read anew by each iteration."""

    def __init__(self, paths: Sequence[Path], repeats: Sequence[Verdicts], side: str) -> None:
        self._paths, self._repeats, self._side = paths, repeats, side

    def __iter__(self) -> Iterator[str]:
        for path, verdicts in zip(self._paths, self._repeats, strict=True):
            part = load_text_part(path)
            yield from compress(part.src if self._side == "src" else part.tgt, verdicts == KEPT)


class EvenLines:
    """At most `n_wanted` of the `n_lines` lines of each side, evenly spread; read anew by each iteration."""

    def __init__(self, sides: Sequence[Iterable[str]], n_lines: int, n_wanted: int) -> None:
        self.sides, self.n_lines, self.n_wanted = sides, n_lines, min(n_wanted, n_lines)

    def __len__(self) -> int:
        return self.n_wanted * len(self.sides)

    def __iter__(self) -> Iterator[str]:
        for side in self.sides:
            for i, line in enumerate(side):
                # i · wanted / lines passes a whole number exactly `wanted` times.
                if i * self.n_wanted // self.n_lines != (i + 1) * self.n_wanted // self.n_lines:
                    yield line
