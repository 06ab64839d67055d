"""The step function that beam search calls, made out of a Transformer and its cache."""

from __future__ import annotations

import torch
from torch import Tensor

from transformer.masks import padding_mask
from transformer.model import PAD_ID, Transformer


class CachedStep:
    """Reads one target position per call and remembers the earlier ones.

    The encoder runs once, when this is made, and the keys and values of its output stay one row per sentence.

    Args:
        src: (B, S) pieces, </s>, padding.
        beam_size: rows per sentence of every call but the first.
        coverage: β of `coverage_bonus`; 0: attention is not looked at.
    """

    def __init__(self, network: Transformer, src: Tensor, beam_size: int, coverage: float = 0.0) -> None:
        self.network = network
        self.beam_size = beam_size
        self.width = 1  # rows per sentence of the previous call
        src_mask = padding_mask(src, PAD_ID)  # (B, 1, 1, S)
        self.cache = network.start_cache(network.encode(src, src_mask), src_mask)
        self.beta = coverage
        self.covered = src.new_zeros((len(src), 1, src.size(1)), dtype=torch.float32)  # (B, W, S)

    def __call__(self, tokens: Tensor, origin: Tensor) -> Tensor:
        """`search_state.Step`: tokens and origin (N,) → logits (N, V)."""
        sentences, beams = self._places(origin)
        if self.cache.n_past:
            self.cache.follow(sentences, beams)
        weights: list[Tensor] | None = [] if self.beta else None
        hidden = self.network.decode_step(tokens.view_as(beams), self.cache, weights)  # (B, W, D)
        if weights:
            covered = self.covered if sentences is None else self.covered[sentences]
            covered = covered.gather(1, beams[:, :, None].expand(-1, -1, covered.size(2)))
            self.covered = covered + torch.stack([layer.float().mean(1) for layer in weights]).mean(0)
        return self.network.project(hidden.flatten(0, 1))

    def coverage_bonus(self) -> Tensor:
        """β Σ_s log(min(Σ_t p_ts, 1)) of every row of the last call: Wu et al. 2016, equation 14; (N,), at most 0.

        p_ts is how much of its attention the decoder gave to source piece s at position t, the mean of its layers and
        heads. What no position looked at counts as the least number there is, not as nothing: a logarithm must exist.
        """
        log = self.covered.clamp(torch.finfo(torch.float32).tiny, 1.0).log()
        return self.beta * log.masked_fill(~self.cache.src_mask[:, 0], 0.0).sum(2).flatten()

    def _places(self, origin: Tensor) -> tuple[Tensor | None, Tensor]:
        """Which sentences of the previous call stay, (B',) or None for all, and which beam each row continues, (B', W).

        With two sentences and two beams, origin = [3, 2] says that sentence 0 (rows 0 and 1) has left, and that the
        beams of sentence 1 (rows 2 and 3) have changed places: sentences = [3 // 2] = [1], beams = [[3 % 2, 2 % 2]].
        """
        n_before = self.cache.src_mask.size(0)
        n_sentences = len(origin) // self.beam_size if self.cache.n_past else n_before
        rows, width = origin.view(n_sentences, -1), self.width
        self.width = rows.size(1)
        return rows[:, 0] // width if n_sentences < n_before else None, rows % width
