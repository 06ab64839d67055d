"""Forced decoding: how probable the network finds translations that are given, by the distribution the search uses."""

from __future__ import annotations

import torch
from torch import Tensor

from data.vocabulary import BOS_ID, PAD_ID
from transformer.inference.beam_search import IMPOSSIBLE, log_distribution
from transformer.inference.length_penalty import LengthPenalty
from transformer.masks import padding_mask
from transformer.model import Transformer


def target_log_probs(network: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    """log P of every piece of `tgt` given `src` and the pieces before it, fp32; 0 at padding.

    src (B, S) and tgt (B, T): pieces, </s>, padding, without <s>. Returns (B, T). The logits of all positions exist at
    once: B · T · V numbers in fp32, so the caller bounds the batch.
    """
    src_mask = padding_mask(src, PAD_ID)
    shifted = torch.cat([torch.full_like(tgt[:, :1], BOS_ID), tgt[:, :-1]], 1)  # §3.1: position t has read all before t
    hidden = network.decode(shifted, network.encode(src, src_mask), src_mask)
    log_probs = log_distribution(network.project(hidden), IMPOSSIBLE)  # (B, T, V)
    return log_probs.gather(2, tgt[:, :, None])[:, :, 0].masked_fill(tgt == PAD_ID, 0.0)


def target_scores(network: Transformer, src: Tensor, tgt: Tensor, penalty: LengthPenalty) -> Tensor:
    """The score beam search gives to each of these translations, log P / penalty(length): (B,).

    Shapes as in `target_log_probs`; a translation that was cut at the length limit stands without its </s>.
    """
    return target_log_probs(network, src, tgt).sum(1) / penalty((tgt != PAD_ID).sum(1))
