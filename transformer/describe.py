"""What a network consists of and what it costs, before anything is trained: `python -m transformer describe`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from transformer.config import ModelSettings
from transformer.layers import Residual
from transformer.model import Transformer

TYPICAL_LENGTH = 30  # pieces, about a sentence of news
TRAINING_FACTOR = 3  # the backward pass takes two products, by input and by weight, for each one of the forward pass
VOCABULARY_PARTS = ("source embedding", "target embedding", "output projection")  # a row per entry


@dataclass(frozen=True)
class Part:
    """A row of the table: one kind of module, `count` times."""

    name: str
    shapes: list[str]  # of each parameter of one such module, as it is stored
    count: int
    parameters: int  # of all `count`; 0 where every matrix is shared with a part above
    flops: int  # of all `count`, per target token, forward


@dataclass(frozen=True)
class Description:
    """Parts in the order of figure 1, and their sums."""

    parts: list[Part]
    length: int  # source and target pieces per sentence, assumed

    @property
    def parameters(self) -> int:
        """All of them; a shared matrix counts once."""
        return sum(part.parameters for part in self.parts)

    @property
    def parameters_without_embeddings(self) -> int:
        """Without the matrices that have a row per vocabulary entry: embeddings and output projection."""
        return sum(part.parameters for part in self.parts if part.name not in VOCABULARY_PARTS)

    @property
    def flops(self) -> int:
        """Floating-point operations per target token, forward; training takes `TRAINING_FACTOR` times as many."""
        return sum(part.flops for part in self.parts)


def describe(
    settings: ModelSettings, src_vocab_size: int, tgt_vocab_size: int, length: int = TYPICAL_LENGTH
) -> Description:
    """Parts, shapes and parameters of the network itself, built without memory, and FLOPs by `part_flops`."""
    with torch.device("meta"):
        network = Transformer(settings, src_vocab_size, tgt_vocab_size)
    flops = part_flops(settings, tgt_vocab_size, length)
    counted: set[nn.Parameter] = set()
    parts = []
    for name, modules in _modules(network).items():
        if shapes := [_shape(parameter) for parameter in modules[0].parameters()]:
            new = {parameter for module in modules for parameter in module.parameters()} - counted
            counted |= new
            n_parameters = sum(parameter.numel() for parameter in new)
            parts.append(Part(name, shapes, len(modules), n_parameters, flops.get(name, 0)))
    assert counted == set(network.parameters()), "a module of the network is missing in _modules"
    return Description(parts, length)


def part_flops(settings: ModelSettings, tgt_vocab_size: int, length: int) -> dict[str, int]:
    """Floating-point operations of each part per target token, forward.

    Counted: matrix products, a multiplication and an addition as two; those behind a mask are computed, so they count.
    Not counted: norms, softmax, activations and positions, some per cent of the whole. Assumed: n = `length` source
    and as many target pieces, so that each target token pays for one source position too.

        projections of one attention   2 D (2 H K + 2 H d_v): queries, keys; values, output
        its two products               2 n (H K + H d_v)
        feed-forward                   2 (2 D d_ff), or 2 (3 D d_ff) with SwiGLU
        output projection              2 D V
    """
    queries, values = settings.n_heads * settings.key_width, settings.n_heads * settings.value_width
    attention = 2 * settings.d_model * (2 * queries + 2 * values) + 2 * length * (queries + values)
    n_matrices = 3 if settings.activation == "swiglu" else 2
    feed_forward = 2 * n_matrices * settings.d_model * settings.d_ff
    return {
        "encoder self-attention": settings.n_encoder_layers * attention,
        "encoder feed-forward": settings.n_encoder_layers * feed_forward,
        "decoder self-attention": settings.n_decoder_layers * attention,
        "encoder-decoder attention": settings.n_decoder_layers * attention,
        "decoder feed-forward": settings.n_decoder_layers * feed_forward,
        "output projection": 2 * settings.d_model * tgt_vocab_size,
    }


def format_description(description: Description) -> str:
    """The table, its sums, and what was assumed."""
    parts, n, flops = description.parts, description.length, description.flops
    shapes = [", ".join(part.shapes) for part in parts]
    width = max(map(len, shapes))
    rows = [f"{'part':26}  {'shapes':{width}}  count   parameters  MFLOP/token"]
    for part, shape in zip(parts, shapes, strict=True):
        count = f"{part.parameters:,}" if part.parameters else "shared"
        rows.append(f"{part.name:26}  {shape:{width}}  {part.count:5}  {count:>11}  {_mega(part.flops):>11}")
    rows.append("-" * len(rows[0]))
    label_width = width + 35
    rows.append(f"{'total':{label_width}}  {description.parameters:11,}  {_mega(flops):>11}")
    rows.append(
        f"{'without embeddings and output projection':{label_width}}  {description.parameters_without_embeddings:11,}"
    )
    return "\n".join(
        [
            *(row.rstrip() for row in rows),
            "",
            f"Forward: {_mega(flops)} MFLOP per target token, if a sentence has {n} source and {n} target pieces.",
            f"Training: {TRAINING_FACTOR} times as many, {_mega(TRAINING_FACTOR * flops)}.",
            "Counted are matrix products, a multiplication and an addition as two; norms, softmax and activations add",
            "some per cent. A shared matrix is counted once, where it comes first.",
        ]
    )


def _mega(flops: int) -> str:
    return f"{flops / 1e6:,.2f}" if flops else ""


def _shape(parameter: nn.Parameter) -> str:
    return "×".join(map(str, parameter.shape))


def _modules(network: Transformer) -> dict[str, list[nn.Module]]:
    """Every module that owns parameters, by the name of its row, from the bottom of figure 1 to the top."""
    encoder, decoder = network.encoder, network.decoder
    return {
        "source embedding": [encoder.embedding.table],
        "target embedding": [decoder.embedding.table],
        "embedding norms": [encoder.embedding.norm, decoder.embedding.norm],
        "encoder self-attention": _each(encoder.layers, "self_attention"),
        "encoder feed-forward": _each(encoder.layers, "feed_forward"),
        "encoder norms": [norm for layer in encoder.layers for norm in _norms(layer)],
        "decoder self-attention": _each(decoder.layers, "self_attention"),
        "encoder-decoder attention": _each(decoder.layers, "cross_attention"),
        "decoder feed-forward": _each(decoder.layers, "feed_forward"),
        "decoder norms": [norm for layer in decoder.layers for norm in _norms(layer)],
        "final norms": [encoder.final_norm, decoder.final_norm],
        "output projection": [network.projection],
    }


def _each(layers: Sequence[nn.Module], name: str) -> list[nn.Module]:
    return [layer.get_submodule(name) for layer in layers]


def _norms(layer: nn.Module) -> list[nn.Module]:
    return [module.norm for module in layer.children() if isinstance(module, Residual)]
