"""The decoder: the right half of figure 1. Training and cached decoding are one path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from transformer.attention import KeyValues, MultiHeadAttention
from transformer.config import ModelSettings
from transformer.embeddings import Rotation, TokenEmbedding, rotary_positions
from transformer.layers import FeedForward, Residual, layer_drop, make_norm
from transformer.masks import subsequent_mask


@dataclass(frozen=True)
class DecoderCache:
    """What the decoder knows before it reads its next position.

    Two kinds of rows: `memory` has one row for each of the B sentences, `past` one for each of their B · W hypotheses.
    A sentence's keys and values are never copied for its beams.
    """

    memory: Sequence[KeyValues]  # per layer: the encoder's output, (B, H, S, K) and (B, H, S, d_v)
    past: Sequence[KeyValues] | None = None  # per layer: the positions read so far, (B · W, H, P, K) …; None: none yet

    @property
    def n_past(self) -> int:
        """Positions read so far."""
        return self.past[0].keys.size(2) if self.past else 0

    def reorder(self, rows: Tensor) -> DecoderCache:
        """Continue from other hypotheses: row i of the result continues row rows[i]; rows (N,) integers."""
        return DecoderCache(self.memory, [layer.rows(rows) for layer in self.past] if self.past else None)

    def select_sentences(self, sentences: Tensor) -> DecoderCache:
        """Keep only these sentences' memory, in this order; `reorder` does the same for hypotheses."""
        return DecoderCache([layer.rows(sentences) for layer in self.memory], self.past)


class DecoderLayer(nn.Module):
    """Masked self-attention, encoder-decoder attention, feed-forward, each inside a residual connection (§3.1)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(settings)
        self.self_attention_residual = Residual(settings)
        self.cross_attention = MultiHeadAttention(settings)
        self.cross_attention_residual = Residual(settings)
        self.feed_forward = FeedForward(settings)
        self.feed_forward_residual = Residual(settings)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        past: KeyValues | None,
        memory: KeyValues,
        src_mask: Tensor,
        rotation: Rotation | None,
    ) -> tuple[Tensor, KeyValues]:
        """x (B · W, T, D) → the same shape, and the self-attention's keys and values, `past` included."""
        residual = self.self_attention_residual
        attended = self.self_attention(residual.enter(x), mask, past=past, rotation=rotation)
        x = residual.add(x, attended.output)

        residual = self.cross_attention_residual
        # The W hypotheses of a sentence are W · T queries to the same keys; in training W = 1.
        queries = residual.enter(x).view(memory.keys.size(0), -1, x.size(-1))  # (B · W, T, D) → (B, W · T, D)
        x = residual.add(x, self.cross_attention(queries, src_mask, memory=memory).output.view_as(x))

        residual = self.feed_forward_residual
        return residual.add(x, self.feed_forward(residual.enter(x))), attended.cache


class Decoder(nn.Module):
    """Embedding and N identical layers; pre-norm adds a final norm."""

    def __init__(self, vocab_size: int, settings: ModelSettings) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, settings)
        layers = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.n_decoder_layers))
        self.layers: Sequence[DecoderLayer] = layers  # type: ignore[assignment]  # a ModuleList does not know its type
        self.layer_drop = settings.layer_drop
        self.final_norm = make_norm(settings) if settings.norm_position == "pre" else nn.Identity()
        self.rotary_width = settings.key_width if settings.positions == "rotary" else None

    def start(self, memory: Tensor) -> DecoderCache:
        """Project the encoder's output (B, S, D) for every layer, before the first position is read."""
        return DecoderCache([layer.cross_attention.keys_values(memory) for layer in self.layers])

    def forward(self, tgt: Tensor, cache: DecoderCache, src_mask: Tensor) -> tuple[Tensor, DecoderCache]:
        """Read T further target positions after those in the cache.

        tgt (B · W, T) ids, src_mask (B, 1, 1, S). Returns (B · W, T, D), whose position t has seen no target after t,
        and the cache for what follows; nothing can follow where layer drop left out layers in training.
        """
        n_new, n_past = tgt.size(1), cache.n_past
        mask = subsequent_mask(n_new, n_past, tgt.device) if n_new > 1 else None  # one position may see all before it
        rotation = None
        if self.rotary_width:
            rotation = rotary_positions(n_new, self.rotary_width, n_past, tgt.device)
        x = self.embedding(tgt, n_past)
        pasts: Sequence[KeyValues | None] = cache.past or [None] * len(self.layers)
        layers = list(zip(self.layers, pasts, cache.memory, strict=True))
        read = []
        for layer, past, memory in layer_drop(layers, self.layer_drop, self.training):
            x, keys_values = layer(x, mask, past, memory, src_mask, rotation)
            read.append(keys_values)
        return self.final_norm(x), DecoderCache(cache.memory, read)
