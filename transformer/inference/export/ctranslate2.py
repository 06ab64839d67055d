"""Models of CTranslate2, through its own description of a Transformer.

It names the same parts; what it lays out otherwise is a change of form that leaves every output what it was:

- sinusoidal positions are a table, so there are only `N_POSITIONS` of them;
- where keys and values have different widths, the narrower ones are filled up with zeros;
- a scale of the logits stands before the output projection, not behind it;
- <pad> and <s>, which our search rules out before it normalises, have a bias of -10,000 in the output projection.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from data.vocabulary import Vocabulary
from transformer.attention import MultiHeadAttention
from transformer.config import ModelSettings
from transformer.embeddings import sinusoidal_positions
from transformer.inference.search.beam_search import IMPOSSIBLE
from transformer.layers import FeedForward, Residual
from transformer.model import Transformer
from transformer.model_directory import Model

N_POSITIONS = 2048
"""Of sinusoidal ones. No line is so long that is read at once, and 2,048 of the base model are 4 MiB."""

RULED_OUT = -1e4
"""e to this is 0 in fp32, and it is a number in fp16."""

Array = npt.NDArray[np.float32]


def specification(model: Model) -> Any:
    """The model as a `ctranslate2.specs.TransformerSpec`, ready to be saved."""
    from ctranslate2.specs import TransformerSpec  # an extra

    network, settings = model.network, model.settings
    spec = TransformerSpec(_encoder(network, settings), _decoder(network, settings))
    spec.register_source_vocabulary(_pieces(model.src_vocabulary))
    spec.register_target_vocabulary(_pieces(model.tgt_vocabulary))
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = settings.norm_epsilon
    return spec


def _encoder(network: Transformer, settings: ModelSettings) -> Any:
    from ctranslate2.specs.transformer_spec import TransformerEncoderSpec

    encoder = network.encoder
    spec = TransformerEncoderSpec(settings.n_encoder_layers, settings.n_heads, **_architecture(settings))
    _set_embedding(spec, spec.embeddings[0], encoder.embedding, settings)
    for layer_spec, layer in zip(spec.layer, encoder.layers, strict=True):
        _set_attention(layer_spec.self_attention, layer.self_attention, layer.self_attention_residual, settings)
        _set_feed_forward(layer_spec.ffn, layer.feed_forward, layer.feed_forward_residual)
    if settings.norm_position == "pre":
        _set_norm(spec.layer_norm, encoder.final_norm)
    return spec


def _decoder(network: Transformer, settings: ModelSettings) -> Any:
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec

    decoder = network.decoder
    spec = TransformerDecoderSpec(settings.n_decoder_layers, settings.n_heads, **_architecture(settings))
    _set_embedding(spec, spec.embeddings, decoder.embedding, settings)
    for layer_spec, layer in zip(spec.layer, decoder.layers, strict=True):
        _set_attention(layer_spec.self_attention, layer.self_attention, layer.self_attention_residual, settings)
        _set_attention(layer_spec.attention, layer.cross_attention, layer.cross_attention_residual, settings)
        _set_feed_forward(layer_spec.ffn, layer.feed_forward, layer.feed_forward_residual)
    if settings.norm_position == "pre":
        _set_norm(spec.layer_norm, decoder.final_norm)
    spec.projection.weight = _numbers(network.projection.weight)
    spec.projection.bias = np.zeros(len(spec.projection.weight), np.float32)
    spec.projection.bias[list(IMPOSSIBLE)] = RULED_OUT
    if network.logit_scale != 1.0:
        spec.scale_outputs = np.float32(network.logit_scale)
    return spec


def _architecture(settings: ModelSettings) -> dict[str, Any]:
    """What both sides of the network have in common, in CTranslate2's words."""
    from ctranslate2.specs.common_spec import Activation

    activations = {"relu": Activation.RELU, "gelu": Activation.GELU, "silu": Activation.SWISH}
    width = max(settings.key_width, settings.value_width)
    return {
        "pre_norm": settings.norm_position == "pre",
        "rms_norm": settings.norm == "rms_norm",
        "activation": activations.get(settings.activation, Activation.SWISH),
        "ffn_glu": settings.activation == "swiglu",
        "layernorm_embedding": settings.embedding_norm,
        "rotary_dim": settings.key_width if settings.positions == "rotary" else None,
        "rotary_interleave": True,  # columns 2i and 2i + 1 belong together
        "head_dim": width if width * settings.n_heads != settings.d_model else None,
    }


def _set_embedding(side: Any, spec: Any, embedding: Any, settings: ModelSettings) -> None:
    spec.weight = _numbers(embedding.table.weight)
    side.scale_embeddings = settings.scaling == "embedding"
    if settings.positions == "sinusoidal":
        side.position_encodings.encodings = _numbers(sinusoidal_positions(N_POSITIONS, settings.d_model))
    if settings.embedding_norm:
        _set_norm(side.layernorm_embedding, embedding.norm)


def _set_attention(spec: Any, attention: MultiHeadAttention, residual: Residual, settings: ModelSettings) -> None:
    """Queries, keys and values in one matrix for self-attention; keys and values in one for the encoder's output."""
    n_heads, width = settings.n_heads, max(settings.key_width, settings.value_width)

    def split(stacked: Array) -> list[Array]:
        parts = np.split(stacked, np.cumsum(attention.in_projection.widths)[:-1])
        parts = [_widened(part, n_heads, width) for part in parts]
        return [np.concatenate(parts)] if len(spec.linear) == 2 else [parts[0], np.concatenate(parts[1:])]

    inner, outer = attention.in_projection, attention.out_projection
    for linear, weight in zip(spec.linear, split(_numbers(inner.weight)), strict=False):
        linear.weight = weight
    spec.linear[-1].weight = _widened(_numbers(outer.weight).T, n_heads, width).T
    if inner.bias is not None:
        for linear, bias in zip(spec.linear, split(_numbers(inner.bias)), strict=False):
            linear.bias = bias
        spec.linear[-1].bias = _numbers(outer.bias)
    if width != settings.key_width:
        spec.queries_scale = np.float32(settings.key_width**-0.5)
    _set_norm(spec.layer_norm, residual.norm)


def _widened(rows: Array, n_heads: int, width: int) -> Array:
    """Rows of zeros behind those of each head, until it has `width` of them: (H · K, …) → (H · width, …)."""
    of_heads = rows.reshape(n_heads, -1, *rows.shape[1:])
    missing = [(0, 0), (0, width - of_heads.shape[1]), *[(0, 0)] * (rows.ndim - 1)]
    return np.pad(of_heads, missing).reshape(-1, *rows.shape[1:])


def _set_feed_forward(spec: Any, feed_forward: FeedForward, residual: Residual) -> None:
    """Two linear maps; or three, of which the first goes through the activation and gates the second."""
    inner = [spec.linear_0, spec.linear_0_noact] if feed_forward.gated else [spec.linear_0]
    weights, biases = (
        np.split(_numbers(part), len(inner)) for part in (feed_forward.inner.weight, feed_forward.inner.bias)
    )
    for linear, weight, bias in zip(inner, weights, biases, strict=True):
        linear.weight, linear.bias = weight, bias
    spec.linear_1.weight, spec.linear_1.bias = _numbers(feed_forward.outer.weight), _numbers(feed_forward.outer.bias)
    _set_norm(spec.layer_norm, residual.norm)


def _set_norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma = _numbers(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _numbers(norm.bias)


def _pieces(vocabulary: Vocabulary) -> list[str]:
    return vocabulary.pieces(range(len(vocabulary)))


def _numbers(tensor: Any) -> Array:
    return tensor.detach().cpu().numpy()
