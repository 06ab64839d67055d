"""The whole of figure 1: encoder, decoder, and the projection to the vocabulary."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from transformer.attention import Attended, Form, MultiHeadAttention
from transformer.cache import DecoderCache
from transformer.config import ModelSettings
from transformer.decoder import Decoder
from transformer.encoder import Encoder
from transformer.masks import PackedMask, padding_mask

PAD_ID = 0  # the id that fills short rows; sentences never contain it


class AttentionWeights(NamedTuple):
    """The weights of every layer (list index) and head."""

    encoder: list[Tensor]  # (B, H, S, S)
    decoder: list[Tensor]  # (B, H, T, T)
    cross: list[Tensor]  # (B, H, T, S)


class Transformer(nn.Module):
    """The network of "Attention Is All You Need". Ids go in, logits come out; data, loss and search live elsewhere.

    Target ids are fed shifted right (§3.1): to predict [a, b, eos] the decoder reads [bos, a, b].
    """

    def __init__(self, settings: ModelSettings, src_vocab_size: int, tgt_vocab_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = Encoder(src_vocab_size, settings)
        self.decoder = Decoder(tgt_vocab_size, settings)
        self.projection = nn.Linear(settings.d_model, tgt_vocab_size, bias=settings.projection_bias)
        self.logit_scale = 1 / math.sqrt(settings.d_model) if settings.scaling == "projection" else 1.0
        self._initialise()
        self.tie()

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """src (B, S), tgt (B, T) ids → logits (B, T, V) of the token that follows each target position."""
        src_mask = padding_mask(src, PAD_ID)
        return self.project(self.decode(tgt, self.encode(src, src_mask), src_mask))

    def encode(self, src: Tensor, src_mask: Tensor | PackedMask) -> Tensor:
        """Source ids (B, S), src_mask (B, 1, 1, S) → memory (B, S, D).

        Sentences may be packed into one row without padding: B = 1, and a mask from source to source.
        """
        memory: Tensor = self.encoder(src, src_mask)
        return memory

    def decode(
        self, tgt: Tensor, memory: Tensor, src_mask: Tensor | PackedMask, weights: list[Tensor] | None = None
    ) -> Tensor:
        """All target positions at once: tgt (B, T), memory (B, S, D) → (B, T, D).

        Target padding needs no mask of its own: it stands at the end of a row, after everything that counts. Packed
        rows, B = 1, have a mask from target to source. `weights` gets each layer's encoder-decoder attention
        (B, H, T, S) appended; without it where rows are packed.
        """
        hidden: Tensor = self.decoder(tgt, memory, src_mask, weights)
        return hidden

    def start_cache(self, memory: Tensor, src_mask: Tensor) -> DecoderCache:
        """Begin to decode position by position; memory (B, S, D)."""
        return self.decoder.start(memory, src_mask)

    def decode_step(self, tgt: Tensor, cache: DecoderCache, weights: list[Tensor] | None = None) -> Tensor:
        """Read the next piece of each hypothesis: tgt (B, W) → (B, W, D); the cache holds them from then on.

        `weights` gets each layer's encoder-decoder attention (B, H, W, S) appended.
        """
        return self.decoder.step(tgt, cache, weights)

    def project(self, hidden: Tensor) -> Tensor:
        """(…, D) → logits (…, V); §3.4 shares its matrix with the embeddings."""
        logits: Tensor = self.projection(hidden)
        return logits if self.logit_scale == 1.0 else logits * self.logit_scale

    @torch.no_grad()
    def attention_weights(self, src: Tensor, tgt: Tensor) -> AttentionWeights:
        """The weights of every layer and head while src (B, S) and tgt (B, T) are read."""
        training = self.training
        self.eval()  # no layer is dropped
        with self._recorded_weights() as weights:
            self(src, tgt)
        self.train(training)
        return AttentionWeights(
            [weights[layer.self_attention] for layer in self.encoder.layers],
            [weights[layer.self_attention] for layer in self.decoder.layers],
            [weights[layer.cross_attention] for layer in self.decoder.layers],
        )

    def use_attention(self, form: Form | None) -> None:
        """Choose which of the two equal forms of attention runs everywhere; None: the device's usual one."""
        for module in self._attentions():
            module.form = form

    def _attentions(self) -> list[MultiHeadAttention]:
        return [module for module in self.modules() if isinstance(module, MultiHeadAttention)]

    @contextmanager
    def _recorded_weights(self) -> Iterator[dict[nn.Module, Tensor]]:
        """Only the explicit form has weights to show, so it runs meanwhile."""
        weights: dict[nn.Module, Tensor] = {}

        def record(module: nn.Module, _: object, attended: Attended) -> None:
            assert attended.weights is not None
            weights[module] = attended.weights

        forms = [(module, module.form) for module in self._attentions()]
        hooks = [module.register_forward_hook(record) for module, _ in forms]
        self.use_attention("explicit")
        try:
            yield weights
        finally:
            for hook in hooks:
                hook.remove()
            for module, form in forms:
                module.form = form

    def _initialise(self) -> None:
        """Xavier-uniform matrices (Glorot & Bengio 2010), zero biases, embeddings N(0, 1 / d_model).

        Multiplied by √d_model (§3.4) embeddings then have variance 1, like the positions they are added to; and as
        output projection they give logits of variance about 1. Matrices stacked in one store (W^Q, W^K, W^V; SwiGLU's
        pair) are one matrix here, as in nn.MultiheadAttention.

        With post-norm the gain is ½: what a sub-layer adds must start small beside what it adds to (DeepNorm, Wang et
        al. 2022, derives like factors), or a small model at a high rate learns the target language long before it
        looks at the source.
        """
        gain = 0.5 if self.settings.norm_position == "post" else 1.0
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight, gain=gain)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.settings.d_model**-0.5)

    def tie(self) -> None:
        """Share the matrices that §3.4 shares, or fewer; again after parameters were replaced."""
        tie, src, tgt = self.settings.tie_embeddings, self.encoder.embedding.table, self.decoder.embedding.table
        if tie in ("three_way", "source_target"):
            assert src.num_embeddings == tgt.num_embeddings, "a shared table needs one vocabulary"
            tgt.weight = src.weight
        if tie in ("three_way", "target"):
            self.projection.weight = tgt.weight
