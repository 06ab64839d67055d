"""The greatest of many numbers: the k best continuations out of W · V, without sorting or normalising them all.

`torch.topk` looks at every number several times. Here each is looked at once, in blocks: the k best numbers lie in the
k blocks with the greatest maxima, since each of those holds one that is at least as great as any outside them.

Equal numbers are ordered by their places, which torch.topk leaves open. So it gets no floats, but integers that hold
the number and, below it, the place: no two are equal. In half precision many numbers are.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer.inference.search.search_state import Candidates, Continuations

BLOCK = 64
"""Continuations per block; a balance between the number of maxima and of members to compare, flat around here."""


def best_continuations(continuations: Continuations, k: int) -> Candidates:
    """The k best, best first; of equal ones the first by beam, then by id. Fewer exist at the first step: -inf."""
    logits, offset = continuations.logits, continuations.offset
    _, width, vocab_size = logits.shape
    in_blocks = k < width * (vocab_size // BLOCK) and vocab_size >= 16 * BLOCK
    best, places = (_best_in_blocks if in_blocks else _best_of_all)(logits, offset, k)
    return Candidates(best, places // vocab_size, places % vocab_size)


def best_of(values: Tensor, k: int, places: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The k greatest of each row (all, if there are fewer), greatest first, and their places; of equal ones, the first.

    values (B, n) fp32 → (B, min(k, n)) twice. places (B, n) or (n,), below 2³²; None: 0 … n - 1.
    """
    if places is None:
        places = torch.arange(values.size(1), device=values.device)
    # As integers, floats of one sign are ordered like themselves; negative ones the other way round.
    bits = (values + 0.0).view(torch.int32)  # -0.0 becomes 0.0, which it is equal to
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    keys = (ordered.long() << 32) + (2**32 - 1 - places)
    index = keys.topk(min(k, values.size(1)), dim=1).indices
    return values.gather(1, index), places.expand_as(values).gather(1, index)


def _best_of_all(logits: Tensor, offset: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """By log P: (B, W, V) and (B, W) → (B, k) twice, places in W · V."""
    best, places = best_of((logits + offset[:, :, None]).flatten(1), k)
    missing = (0, k - best.size(1))
    return F.pad(best, missing, value=-torch.inf), F.pad(places, missing)


def _best_in_blocks(logits: Tensor, offset: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """As `_best_of_all`, by blocks."""
    n, width, vocab_size = logits.shape
    n_blocks = vocab_size // BLOCK
    blocks = logits[:, :, : n_blocks * BLOCK].view(n, width, n_blocks, BLOCK)
    # Adding rounds, but never turns an order around: the maximum of the sums is the sum with the maximum.
    _, chosen = best_of((blocks.amax(3) + offset[:, :, None]).flatten(1), k)  # (B, k)
    beams, within = chosen // n_blocks, chosen % n_blocks
    rows = torch.arange(n, device=logits.device)[:, None]
    values = (blocks[rows, beams, within] + offset.gather(1, beams)[:, :, None]).flatten(1)  # (B, k · 64)
    first_places = beams * vocab_size + within * BLOCK
    places = (first_places[:, :, None] + torch.arange(BLOCK, device=logits.device)).flatten(1)
    if n_blocks * BLOCK < vocab_size:  # what is left over behind the last whole block is looked at as it is
        rest = torch.arange(n_blocks * BLOCK, vocab_size, device=logits.device)
        rest_places = torch.arange(width, device=logits.device)[:, None] * vocab_size + rest  # (W, V % 64)
        values = torch.cat([values, (logits[:, :, n_blocks * BLOCK :] + offset[:, :, None]).flatten(1)], 1)
        places = torch.cat([places, rest_places.flatten().expand(n, -1)], 1)
    return best_of(values, k, places)
