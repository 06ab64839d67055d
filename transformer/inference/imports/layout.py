"""How the rows of another program's tables become ours."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

NEVER_WRITTEN = -50.0
"""The bias of pieces that are no outcomes: e to this is 0 beside 1 in fp32, and label smoothing can bear it."""


@dataclass(frozen=True)
class Layout:
    """The order of our ids: of each the string, and the row it is made of, None being a row of zeros.

    The last `n_unknown` are pieces that the source's sentencepiece model cuts, but which vocab.json lacks, so that
    they are read as <unk>: each has a copy of its row, and is never written.
    """

    strings: list[str]
    rows: list[int | None]
    n_tags: int
    n_unknown: int


def rows_of(table: Tensor, layout: Layout) -> Tensor:
    """The rows of a matrix, or the numbers of a bias, in the order of our ids."""
    rows = torch.tensor([-1 if row is None else row for row in layout.rows])
    return torch.where((rows < 0).view(-1, *[1] * (table.dim() - 1)), 0.0, table[rows])
