"""The greatest of many numbers: the k best continuations out of W · V, without sorting or normalising them all.

`torch.topk` looks at every number several times. Here each is looked at once, in blocks: the k best numbers lie in the
k blocks with the greatest maxima, since each of those holds one that is at least as great as any outside them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from transformer.inference.search.search_state import Candidates, Continuations

BLOCK = 64
"""Continuations per block; a balance between the number of maxima and of members to compare, flat around here."""


def best_continuations(continuations: Continuations, k: int) -> Candidates:
    """The k best, best first; of equal ones the first by beam, then by id. Fewer exist at the first step: -inf."""
    logits, offset = continuations.logits, continuations.offset
    vocab_size = logits.size(2)
    best, places = _best_in_blocks(logits, offset, k) if vocab_size >= 16 * BLOCK else _best_of_all(logits, offset, k)
    return Candidates(best, places // vocab_size, places % vocab_size)


def best_of(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k greatest of each row (all, if there are fewer) and their places; of equal ones, the first.

    values (B, n) → (B, min(k, n)) twice. torch.topk leaves open which of equal values it returns, and in which order.
    """
    n = values.size(1)
    k = min(k, n)
    best, places = values.topk(min(k + 1, n))
    if _tie(best, k):
        # A tie across the border, rare in fp32: take what is greater, then of what is equal the lowest places.
        last = best[:, k - 1 : k]
        index = torch.arange(n, device=values.device)
        rank = torch.where(values > last, index - n, torch.where(values == last, index, n))
        places = rank.topk(k, largest=False).indices
        best = values.gather(1, places)
    return _sorted(best[:, :k], places[:, :k])


def _best_of_all(logits: Tensor, offset: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """By log P: (B, W, V) and (B, W) → (B, k) twice, places in W · V."""
    best, places = best_of((logits + offset[:, :, None]).flatten(1), k)
    missing = k - best.size(1)
    if missing:
        pad = torch.nn.functional.pad
        best, places = pad(best, (0, missing), value=-torch.inf), pad(places, (0, missing))
    return best, places


def _best_in_blocks(logits: Tensor, offset: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """As `_best_of_all`, by blocks. One more than k is looked for, to see whether there is a tie at the border."""
    n, width, vocab_size = logits.shape
    n_blocks = vocab_size // BLOCK
    if k >= width * n_blocks:
        return _best_of_all(logits, offset, k)
    blocks = logits[:, :, : n_blocks * BLOCK].view(n, width, n_blocks, BLOCK)
    # Adding rounds, but never turns an order around: the maximum of the sums is the sum with the maximum.
    maxima = (blocks.amax(3) + offset[:, :, None]).flatten(1)
    chosen = maxima.topk(k + 1, sorted=False).indices  # (B, k + 1)
    beams, within = chosen // n_blocks, chosen % n_blocks
    rows = torch.arange(n, device=logits.device)[:, None]
    members = blocks[rows, beams, within] + offset.gather(1, beams)[:, :, None]  # (B, k + 1, 64)
    first_places = beams * vocab_size + within * BLOCK
    places = (first_places[:, :, None] + torch.arange(BLOCK, device=logits.device)).flatten(1)
    values = members.flatten(1)
    if n_blocks * BLOCK < vocab_size:  # what is left over behind the last whole block is looked at as it is
        rest = torch.arange(n_blocks * BLOCK, vocab_size, device=logits.device)
        rest_places = torch.arange(width, device=logits.device)[:, None] * vocab_size + rest  # (W, V % 64)
        values = torch.cat([values, (logits[:, :, n_blocks * BLOCK :] + offset[:, :, None]).flatten(1)], 1)
        places = torch.cat([places, rest_places.flatten().expand(n, -1)], 1)
    best, index = values.topk(k + 1)
    if _tie(best, k):
        return _best_of_all(logits, offset, k)
    return _sorted(best[:, :k], places.gather(1, index[:, :k]))


def _tie(best: Tensor, k: int) -> bool:
    """Whether the k-th and the next of rows sorted in descending order are equal numbers; waits for the device."""
    if best.size(1) <= k:
        return False
    last = best[:, k - 1]
    return bool(((best[:, k] == last) & (last > -torch.inf)).any())


def _sorted(best: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """The same pairs, greatest first, equal ones by place."""
    places, order = places.sort(dim=1)
    best, order = best.gather(1, order).sort(dim=1, descending=True, stable=True)
    return best, places.gather(1, order)
