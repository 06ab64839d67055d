"""Forced decoding: how probable networks find translations that are given, by the distribution the search uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from data.vocabulary import BOS_ID, PAD_ID
from transformer.inference.search.beam_search import IMPOSSIBLE, log_distribution
from transformer.inference.search.length_penalty import LengthPenalty
from transformer.masks import padding_mask
from transformer.model import Transformer


@dataclass(frozen=True)
class Forced:
    """What networks say about one translation."""

    log_probs: Tensor  # (T,) of each piece, fp32, on the CPU
    attention: Tensor  # (T, S) to the source pieces, the mean of the heads of a layer, or of all layers


def forced(
    networks: Sequence[Transformer], src: Tensor, targets: Sequence[Sequence[int]], layer: int | None = None
) -> list[Forced]:
    """Read translations as if the networks, together, had written them: by the mean of their distributions.

    Args:
        src: (B, S) pieces, </s>, padding.
        targets: B lists of ids, </s> included where it was written, none empty.
        layer: whose attention, 1 the lowest; None: the mean of all.
    """
    tgt = pad_sequence([torch.tensor(ids) for ids in targets], batch_first=True, padding_value=PAD_ID).to(src.device)
    log_probs, attention = [], []
    for network in networks:
        weights: list[Tensor] = []
        log_probs.append(target_log_probs(network, src, tgt, weights))
        chosen = weights if layer is None else [weights[layer - 1]]
        attention.append(torch.stack([heads.float().mean(1) for heads in chosen]).mean(0))  # (B, T, S)
    mean_log_probs = torch.stack(log_probs).logsumexp(0) - math.log(len(networks))
    mean_attention = torch.stack(attention).mean(0)
    return [
        Forced(one[: len(ids)], shares[: len(ids)])
        for one, shares, ids in zip(mean_log_probs.cpu(), mean_attention.cpu(), targets, strict=True)
    ]


def target_log_probs(network: Transformer, src: Tensor, tgt: Tensor, weights: list[Tensor] | None = None) -> Tensor:
    """log P of every piece of `tgt` given `src` and the pieces before it, fp32; 0 at padding.

    src (B, S) and tgt (B, T): pieces, </s>, padding, without <s>. Returns (B, T). The logits of all positions exist at
    once: B · T · V numbers in fp32, so the caller bounds the batch. `weights` gets each layer's encoder-decoder
    attention (B, H, T, S) appended.
    """
    src_mask = padding_mask(src, PAD_ID)
    shifted = torch.cat([torch.full_like(tgt[:, :1], BOS_ID), tgt[:, :-1]], 1)  # §3.1: position t has read all before t
    hidden = network.decode(shifted, network.encode(src, src_mask), src_mask, weights)
    log_probs = log_distribution(network.project(hidden), IMPOSSIBLE)  # (B, T, V)
    return log_probs.gather(2, tgt[:, :, None])[:, :, 0].masked_fill(tgt == PAD_ID, 0.0)


def target_scores(network: Transformer, src: Tensor, tgt: Tensor, penalty: LengthPenalty) -> Tensor:
    """The score beam search gives to each of these translations, log P / penalty(length): (B,).

    Shapes as in `target_log_probs`; a translation that was cut at the length limit stands without its </s>.
    """
    return target_log_probs(network, src, tgt).sum(1) / penalty((tgt != PAD_ID).sum(1))
