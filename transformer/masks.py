"""Which positions may attend to which (§3.1, §3.2.3). Masks are boolean; True means "may attend".

Only in decoding, where many layers and steps use a mask, they are numbers to add; see `additive`.
"""

from __future__ import annotations

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
