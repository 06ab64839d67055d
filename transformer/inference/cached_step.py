"""The step function that beam search calls, made out of a Transformer and its key/value cache."""

from __future__ import annotations

from torch import Tensor

from transformer.masks import padding_mask
from transformer.model import PAD_ID, Transformer


class CachedStep:
    """Reads one target position per call and remembers the earlier ones.

    The encoder runs once, when this is made, and the keys and values of its output stay one row per sentence; only the
    decoder's own cache follows the hypotheses. src (B, S): pieces, </s>, padding.
    """

    def __init__(self, network: Transformer, src: Tensor, beam_size: int) -> None:
        self.network = network
        self.beam_size = beam_size
        self.width = 1  # rows per sentence of the previous call
        self.src_mask = padding_mask(src, PAD_ID)  # (B, 1, 1, S)
        self.cache = network.start_cache(network.encode(src, self.src_mask))

    def __call__(self, tokens: Tensor, origin: Tensor) -> Tensor:
        """`beam_search.Step`: tokens and origin (N,) → logits (N, V)."""
        if self.cache.n_past:
            self._follow(origin)
        hidden, self.cache = self.network.decode_step(tokens[:, None], self.src_mask, self.cache)
        return self.network.project(hidden[:, 0])

    def _follow(self, origin: Tensor) -> None:
        """Bring the cache from the previous call's rows to this one's.

        With two sentences and two beams, origin = [3, 2] says that sentence 0 (rows 0 and 1) has left, and that the
        beams of sentence 1 (rows 2 and 3) have changed places: sentences = [3 // 2] = [1].
        """
        n_sentences = len(origin) // self.beam_size
        some_left = n_sentences < len(self.src_mask)
        if some_left:
            sentences = origin[:: self.beam_size] // self.width
            self.src_mask = self.src_mask[sentences]
            self.cache = self.cache.select_sentences(sentences)
        if some_left or self.beam_size > 1:  # a greedy search never reorders: that copies the whole cache
            self.cache = self.cache.reorder(origin)
        self.width = self.beam_size
