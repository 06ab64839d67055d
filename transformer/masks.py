"""Which positions may attend to which (§3.1, §3.2.3). Masks are boolean; True means "may attend".

Inside the network, where many layers use one, they are numbers to add; see `additive`. Sentences packed into one row
without padding have a mask that says where each begins; see `PackedMask`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """Hide padding: every query may attend to the real keys of its own sentence only.

    ids (B, S) integers → (B, 1, 1, S), to be broadcast over heads and queries.
    """
    return (ids != pad_id)[:, None, None, :]


def subsequent_mask(n_queries: int, n_past: int = 0, device: torch.device | None = None) -> Tensor:
    """Hide the future (§3.1, "prevent positions from attending to subsequent positions").

    The queries are positions n_past … n_past + n_queries − 1; the keys are positions 0 … n_past + n_queries − 1.
    With n_queries = 3 and n_past = 0: [[1 0 0], [1 1 0], [1 1 1]]; query i may attend to keys 0 … i + n_past.

    Returns (n_queries, n_past + n_queries).
    """
    n_keys = n_past + n_queries
    return torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(diagonal=n_past)


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a query may attend, the lowest number where not: one addition to the products hides keys.

    Meant for masks where every query has a key; one that has none attends to all alike.
    """
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min)


class Segments(NamedTuple):
    """Where the sentences of a packed row stand, one behind the other.

    Offsets [0, 2, 5, 5]: sentence 0 has tokens 0 and 1, sentence 1 has tokens 2, 3 and 4, sentence 2 has none; and the
    positions are 0 1 0 1 2.
    """

    offsets: Tensor  # (B + 1,) int32, from 0 to N
    positions: Tensor  # (N,) int64: of each token in its own sentence
    longest: int  # no sentence has more tokens


class PackedMask(NamedTuple):
    """Every sentence may attend to the sentence of the same number, and to no other."""

    queries: Segments  # T tokens
    keys: Segments  # S tokens
    causal: bool = False  # …and of it only to positions that are not later

    def among_queries(self) -> PackedMask:
        """What the decoder's self-attention may see: `subsequent_mask` within each sentence."""
        return PackedMask(self.queries, self.queries, causal=True)

    def dense(self) -> Tensor:
        """The same as an ordinary mask: (T, S), too large for training."""
        queries, keys = (_sentences(side) for side in (self.queries, self.keys))
        mask = queries[:, None] == keys  # (T, 1), (S,) → (T, S)
        return mask & (self.queries.positions[:, None] >= self.keys.positions) if self.causal else mask


def for_products(mask: Tensor | PackedMask, dtype: torch.dtype) -> Tensor | PackedMask:
    """The mask as layers use it: made `additive` once for all of them; a packed one as it is."""
    return mask if isinstance(mask, PackedMask) else additive(mask, dtype)


def positions_of(ids: Tensor, mask: Tensor | PackedMask) -> Tensor:
    """Where each token of a row stands in its sentence, whose mask it is: (T,); 0, 1, 2, … unless packed."""
    if isinstance(mask, PackedMask):
        return mask.queries.positions
    return torch.arange(ids.size(1), device=ids.device)


def _sentences(segments: Segments) -> Tensor:
    """The number of the sentence of each token: (N,)."""
    places = torch.arange(len(segments.positions), device=segments.offsets.device)
    return torch.searchsorted(segments.offsets, places, right=True)
