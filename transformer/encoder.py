"""The encoder: the left half of figure 1."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from transformer.attention import MultiHeadAttention
from transformer.config import ModelSettings
from transformer.embeddings import Rotation, TokenEmbedding, rotations
from transformer.layers import FeedForward, Residual, layer_drop, make_norm
from transformer.masks import PackedMask, for_products, positions_of
from transformer.precision import product_type


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside a residual connection (§3.1)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(settings)
        self.self_attention_residual = Residual(settings)
        self.feed_forward = FeedForward(settings)
        self.feed_forward_residual = Residual(settings)

    def forward(self, x: Tensor, mask: Tensor | PackedMask, rotation: Rotation | None) -> Tensor:
        """x (B, S, D), mask (B, 1, 1, S) → (B, S, D); or packed, with B = 1."""
        residual = self.self_attention_residual
        x = residual.add(x, self.self_attention(residual.enter(x), mask, rotation=rotation).output)
        residual = self.feed_forward_residual
        return residual.add(x, self.feed_forward(residual.enter(x)))


class Encoder(nn.Module):
    """Embedding and N identical layers; pre-norm adds a final norm."""

    def __init__(self, vocab_size: int, settings: ModelSettings) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, settings)
        layers = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.n_encoder_layers))
        self.layers: Sequence[EncoderLayer] = layers  # type: ignore[assignment]  # a ModuleList does not know its type
        self.layer_drop = settings.layer_drop
        self.final_norm = make_norm(settings) if settings.norm_position == "pre" else nn.Identity()
        self.rotary_width = settings.key_width if settings.positions == "rotary" else None

    def forward(self, src: Tensor, src_mask: Tensor | PackedMask) -> Tensor:
        """Source ids (B, S), src_mask (B, 1, 1, S) → memory (B, S, D); or packed, with B = 1."""
        positions = positions_of(src, src_mask)
        rotation = rotations(positions, self.rotary_width) if self.rotary_width else None
        x = self.embedding(src, positions)
        mask = for_products(src_mask, product_type(x))
        for layer in layer_drop(self.layers, self.layer_drop, self.training):
            x = layer(x, mask, rotation)
        memory: Tensor = self.final_norm(x)
        return memory
