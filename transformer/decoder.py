"""The decoder: the right half of figure 1."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from transformer.attention import KeyValues, MultiHeadAttention, Past
from transformer.cache import DecoderCache
from transformer.config import ModelSettings
from transformer.embeddings import Rotation, TokenEmbedding, rotary_positions, rotations
from transformer.layers import FeedForward, Residual, layer_drop, make_norm
from transformer.masks import PackedMask, for_products, positions_of, subsequent_mask
from transformer.precision import product_type


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
        mask: Tensor | PackedMask | None,
        past: Past | None,
        memory: KeyValues,
        src_mask: Tensor | PackedMask,
        rotation: Rotation | None,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """x (B, T, D) → the same shape; `weights` gets the encoder-decoder attention appended, (B, H, T, S)."""
        residual = self.self_attention_residual
        x = residual.add(x, self.self_attention(residual.enter(x), mask, past=past, rotation=rotation).output)

        residual = self.cross_attention_residual
        need_weights = weights is not None
        attended = self.cross_attention(residual.enter(x), src_mask, memory=memory, need_weights=need_weights)
        x = residual.add(x, attended.output)
        if weights is not None and attended.weights is not None:
            weights.append(attended.weights)

        residual = self.feed_forward_residual
        return residual.add(x, self.feed_forward(residual.enter(x)))


class Decoder(nn.Module):
    """Embedding and N identical layers; pre-norm adds a final norm.

    Training and decoding are one path, and differ in who sees what: T positions of one sentence, each the ones before
    it; or the newest pieces of W hypotheses of one sentence, each the pieces it descends from.
    """

    def __init__(self, vocab_size: int, settings: ModelSettings) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, settings)
        layers = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.n_decoder_layers))
        self.layers: Sequence[DecoderLayer] = layers  # type: ignore[assignment]  # a ModuleList does not know its type
        self.layer_drop = settings.layer_drop
        self.final_norm = make_norm(settings) if settings.norm_position == "pre" else nn.Identity()
        self.rotary_width = settings.key_width if settings.positions == "rotary" else None

    def forward(
        self, tgt: Tensor, memory: Tensor, src_mask: Tensor | PackedMask, weights: list[Tensor] | None = None
    ) -> Tensor:
        """Read T positions at once: tgt (B, T) ids, memory (B, S, D), src_mask (B, 1, 1, S); or packed, with B = 1.

        Returns (B, T, D), whose position t has seen no target after t. `weights` gets each layer's encoder-decoder
        attention (B, H, T, S) appended.
        """
        positions = positions_of(tgt, src_mask)
        rotation = rotations(positions, self.rotary_width) if self.rotary_width else None
        x = self.embedding(tgt, positions)
        dtype = product_type(x)
        mask: Tensor | PackedMask | None = None
        if isinstance(src_mask, PackedMask):
            mask = src_mask.among_queries()
        elif tgt.size(1) > 1:
            mask = for_products(subsequent_mask(tgt.size(1), device=tgt.device), dtype)
        src_mask = for_products(src_mask, dtype)
        for layer in layer_drop(self.layers, self.layer_drop, self.training):
            x = layer(x, mask, None, layer.cross_attention.keys_values(memory), src_mask, rotation, weights)
        hidden: Tensor = self.final_norm(x)
        return hidden

    def start(self, memory: Tensor, src_mask: Tensor) -> DecoderCache:
        """Project the encoder's output (B, S, D) for every layer, before the first position is read."""
        projected = [layer.cross_attention.keys_values(memory) for layer in self.layers]
        # Heads apart in memory: else every product with them would copy them first.
        return DecoderCache([KeyValues(*(part.contiguous() for part in layer)) for layer in projected], src_mask)

    def step(self, tgt: Tensor, cache: DecoderCache, weights: list[Tensor] | None = None) -> Tensor:
        """Read the next piece of each of the W hypotheses of each sentence: tgt (B, W) → (B, W, D).

        The cache remembers them. `weights` as in `forward`, (B, H, W, S).
        """
        position = cache.n_past
        mask = cache.read(tgt.size(1))
        rotation = rotary_positions(1, self.rotary_width, position, tgt.device) if self.rotary_width else None
        x = self.embedding(tgt, position)
        for layer, past, memory in zip(self.layers, cache.slots, cache.memory, strict=True):
            x = layer(x, mask, past, memory, cache.src_bias, rotation, weights)
        hidden: Tensor = self.final_norm(x)
        return hidden
