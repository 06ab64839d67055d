"""What the decoder remembers while it writes position by position, for all hypotheses of all sentences of a batch.

Every piece that some hypothesis has read holds one *slot*: its keys and values in each layer. A mask, `seen`, says
which slots each hypothesis descends from. So hypotheses of a sentence that begin alike share slots, and when a search
lets one hypothesis continue another, the rows of `seen` change places, a few bytes; no key or value is moved for that.
With W = 2, three positions read, and both hypotheses descending from the first one of position 2:

    slot          0   1 2   3 4         slots are appended position by position, W at a time (position 1: one row)
    hypothesis 0  ✓   ✓ ·   ✓ ·
    hypothesis 1  ✓   ✓ ·   · ✓         slot 2 was read by a hypothesis that nobody continues

Slots that nobody descends from are dropped when the room ends, or when sentences leave: one copy, then.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from transformer.attention import KeyValues
from transformer.masks import additive

ROOM = 8
"""Positions there is room for before slots are looked through: what is dropped then need not be attended to."""


class Slots:
    """Keys and values of one layer, with room for more behind them."""

    def __init__(self) -> None:
        self.n_used = 0
        self.stored: KeyValues | None = None  # (B, H, capacity, K) and (B, H, capacity, d_v)

    def append(self, keys: Tensor, values: Tensor) -> KeyValues:
        """Write these (B, H, W, ·) behind what there is, in place; returns views of all: (B, H, n, ·)."""
        if self.stored is None:
            room = keys.size(2) + 7 * ROOM
            self.stored = KeyValues(*(_empty(part, len(part), room) for part in (keys, values)))
        first, self.n_used = self.n_used, self.n_used + keys.size(2)
        self.stored.keys[:, :, first : self.n_used] = keys
        self.stored.values[:, :, first : self.n_used] = values
        return KeyValues(self.stored.keys[:, :, : self.n_used], self.stored.values[:, :, : self.n_used])

    @property
    def capacity(self) -> int:
        """Slots that fit."""
        return self.stored.keys.size(2) if self.stored else 0

    def keep(self, sentences: Tensor, slots: Tensor, room: int) -> None:
        """Keep of these sentences (B',) these slots (B', n), and make room for so many more."""
        if self.stored is not None:
            self.stored = KeyValues(*(_gathered(part, sentences, slots, room) for part in self.stored))
            self.n_used = slots.size(1)


class DecoderCache:
    """Rows of `memory` and `src_mask` are sentences (B); hypotheses are rows of `seen`, and no more than that.

    Args:
        memory: per layer the keys and values of the encoder's output, (B, H, S, K) and (B, H, S, d_v): one row per
            sentence, never copied for its beams.
        src_mask: (B, 1, 1, S).
    """

    def __init__(self, memory: Sequence[KeyValues], src_mask: Tensor) -> None:
        self.memory = memory
        self.src_mask = src_mask
        self.src_bias = additive(src_mask, memory[0].keys.dtype)  # the same, as a sum
        self.slots = [Slots() for _ in memory]
        self.n_past = 0  # positions read so far
        n_sentences = src_mask.size(0)
        self.seen = torch.zeros(n_sentences, 1, 0, dtype=torch.bool, device=src_mask.device)  # (B, W, n)

    def read(self, n_hypotheses: int) -> Tensor | None:
        """Count a position of which each of the W hypotheses reads a piece.

        Returns who sees what, `masks.additive`, (B, 1, W, n + W). None: everyone sees everything, as in greedy search.
        """
        n_sentences = self.seen.size(0)
        own = torch.eye(n_hypotheses, dtype=torch.bool, device=self.seen.device).expand(n_sentences, -1, -1)
        before = self.seen if self.n_past else self.seen.expand(-1, n_hypotheses, -1)  # whoever they are, none saw any
        self.seen = torch.cat([before, own], 2)
        self.n_past += 1
        if n_hypotheses == 1 and self.seen.size(2) == self.n_past:
            return None
        return additive(self.seen[:, None], self.src_bias.dtype)

    def follow(self, sentences: Tensor | None, beams: Tensor) -> None:
        """Let hypothesis w of sentence b continue what was hypothesis beams[b, w] until now.

        sentences (B',): only these stay in the batch, in this order; None: all. beams (B', W).
        """
        if sentences is not None:
            self.memory = [KeyValues(*(part.index_select(0, sentences) for part in layer)) for layer in self.memory]
            self.src_mask = self.src_mask.index_select(0, sentences)
            self.src_bias = self.src_bias.index_select(0, sentences)
            self.seen = self.seen.index_select(0, sentences)
        n_slots, n_hypotheses = self.seen.size(2), beams.size(1)
        self.seen = self.seen.gather(1, beams[:, :, None].expand(-1, -1, n_slots))
        if sentences is None and n_slots + n_hypotheses <= self.slots[0].capacity:
            return
        if sentences is None:
            sentences = torch.arange(self.seen.size(0), device=self.seen.device)
        used = self.seen.any(1)  # (B', n)
        n_kept = int(used.sum(1).max())  # waits for the device; once in several positions
        kept = used.int().sort(dim=1, descending=True, stable=True).indices[:, :n_kept]  # those in use, in their order
        self.seen = self.seen.gather(2, kept[:, None].expand(-1, n_hypotheses, -1))
        for layer in self.slots:
            layer.keep(sentences, kept, ROOM * n_hypotheses)


def _empty(part: Tensor, n_sentences: int, n_slots: int) -> Tensor:
    """Room for so many slots like those of part (B, H, ·, K)."""
    return part.new_empty(n_sentences, part.size(1), n_slots, part.size(3))


def _gathered(part: Tensor, sentences: Tensor, slots: Tensor, room: int) -> Tensor:
    """part (B, H, capacity, K) → (B', H, n + room, K), its first n slots filled; sentences (B',), slots (B', n)."""
    _, n_heads, capacity, width = part.shape
    heads = torch.arange(n_heads, device=part.device)
    # Slot 3 of head 1 of sentence 2 is row (2 · H + 1) · capacity + 3 of all of them.
    rows = (sentences[:, None, None] * n_heads + heads[:, None]) * capacity + slots[:, None]  # (B', H, n)
    kept = _empty(part, len(sentences), slots.size(1) + room)
    kept[:, :, : slots.size(1)] = part.view(-1, width).index_select(0, rows.flatten()).view(*rows.shape, width)
    return kept
