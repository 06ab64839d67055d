"""Weights of Marian's networks, as Hugging Face names them, and ours.

Its network is ours with post-norm, biases everywhere, and positions laid out otherwise: there the first half of the
columns are sines and the second half cosines, here they alternate. Nothing else in the network knows one column of the
residual stream from another, so one permutation of all its columns turns either into the other, exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from data.vocabulary import BOS_ID, PAD_ID
from transformer.config import ModelSettings
from transformer.errors import RunError
from transformer.inference.imports.layout import NEVER_WRITTEN, Layout, rows_of

SUBLAYERS = {"self_attn": "self_attention", "encoder_attn": "cross_attention"}


class Tables(NamedTuple):
    """The matrices with a row for each piece, as they are there."""

    src: Tensor
    tgt: Tensor
    projection: Tensor


def find_tables(file: Path, weights: Mapping[str, Tensor]) -> Tables:
    """Files hold a shared matrix once, under one of its names. Raises RunError where there is none."""
    shared = weights.get("model.shared.weight", weights.get("lm_head.weight"))
    src = weights.get("model.encoder.embed_tokens.weight", shared)
    tgt = weights.get("model.decoder.embed_tokens.weight", shared)
    if src is None or tgt is None or src.dim() != 2 or tgt.dim() != 2:
        raise RunError(f"{file}: has no embeddings, neither model.shared.weight nor one for each side")
    return Tables(src, tgt, weights.get("lm_head.weight", tgt))


def find_ties(tables: Tables, one_vocabulary: bool) -> str:
    """Which of the matrices are one, as `model.tie_embeddings` says it."""
    src_is_tgt = one_vocabulary and torch.equal(tables.src, tables.tgt)
    if torch.equal(tables.tgt, tables.projection):
        return "three_way" if src_is_tgt else "target"
    return "source_target" if src_is_tgt else "none"


def convert_tables(tables: Tables, src: Layout, tgt: Layout, d_model: int) -> dict[str, Tensor]:
    """The same under our names, a row for each of our ids."""
    columns = interleaving(d_model)
    return {
        "encoder.embedding.table.weight": rows_of(tables.src, src)[:, columns],
        "decoder.embedding.table.weight": rows_of(tables.tgt, tgt)[:, columns],
        "projection.weight": rows_of(tables.projection, tgt)[:, columns],
    }


def convert_layers(file: Path, weights: Mapping[str, Tensor], settings: ModelSettings) -> dict[str, Tensor]:
    """Everything inside layers, under our names. Raises RunError where some is missing."""
    sources = dict(places(settings))
    if missing := [name for names in sources.values() for name in names if name not in weights]:
        raise RunError(f"{file}: lacks {', '.join(missing[:5])}{' …' * (len(missing) > 5)}")
    columns = interleaving(settings.d_model)
    return {
        place: permuted(place, torch.cat([weights[name] for name in names]), columns)
        for place, names in sources.items()
    }


def places(settings: ModelSettings) -> Iterator[tuple[str, list[str]]]:
    """Each tensor of our layers, and those there that are stacked in it, along dimension 0."""
    for side, n_layers in (("encoder", settings.n_encoder_layers), ("decoder", settings.n_decoder_layers)):
        attentions = list(SUBLAYERS.items())[: 1 if side == "encoder" else 2]
        for layer, kind in itertools.product(range(n_layers), ("weight", "bias")):
            here, there = f"{side}.layers.{layer}.", f"model.{side}.layers.{layer}."
            for name, own in attentions:
                yield f"{here}{own}.in_projection.{kind}", [f"{there}{name}.{part}_proj.{kind}" for part in "qkv"]
                yield f"{here}{own}.out_projection.{kind}", [f"{there}{name}.out_proj.{kind}"]
                yield f"{here}{own}_residual.norm.{kind}", [f"{there}{name}_layer_norm.{kind}"]
            yield f"{here}feed_forward.inner.{kind}", [f"{there}fc1.{kind}"]
            yield f"{here}feed_forward.outer.{kind}", [f"{there}fc2.{kind}"]
            yield f"{here}feed_forward_residual.norm.{kind}", [f"{there}final_layer_norm.{kind}"]


def interleaving(d_model: int) -> Tensor:
    """Which column there each of ours is: [0, 3, 1, 4, 2, 5] for 6, of sines 0 1 2 and cosines 3 4 5."""
    n_sines = (d_model + 1) // 2
    return torch.stack([torch.arange(n_sines), torch.arange(n_sines) + n_sines], 1).flatten()[:d_model]


def permuted(place: str, tensor: Tensor, columns: Tensor) -> Tensor:
    """The tensor of this name here, with these columns of the residual stream, which it reads, adds to or scales."""
    if place.endswith(("in_projection.weight", "inner.weight")):  # (out, D)
        return tensor[:, columns]
    return tensor if place.endswith(("in_projection.bias", "inner.bias")) else tensor[columns]  # (D, in) or (D,)


def convert_bias(weights: Mapping[str, Tensor], tgt: Layout) -> Tensor | None:
    """Of each target piece; None where it changes nothing. PAD and <s> are no outcomes here, and need none."""
    bias = torch.zeros(len(tgt.rows))
    if "final_logits_bias" in weights:
        bias = rows_of(weights["final_logits_bias"].flatten(), tgt)
    bias[[PAD_ID, BOS_ID]] = 0.0
    bias[len(bias) - tgt.n_unknown :] = NEVER_WRITTEN
    return bias if bias.any() else None
