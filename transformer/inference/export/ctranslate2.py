"""Models of CTranslate2, through its own description of a Transformer.

It names the same parts; what it lays out otherwise is a change of form that leaves every output what it was:

- sinusoidal positions are a table, so there are only `N_POSITIONS` of them;
- where keys and values have different widths, the narrower ones are filled up with zeros;
- a scale of the logits stands before the output projection, not behind it;
- <pad> and <s>, which our search rules out before it normalises, have a bias of -10,000 in the output projection.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from data.vocabulary import UNK_ID
from transformer.attention import MultiHeadAttention
from transformer.config import ModelSettings
from transformer.embeddings import TokenEmbedding, sinusoidal_positions
from transformer.inference.ctranslate2_translator import CTranslate2Translator
from transformer.inference.export.description import ExportDescription
from transformer.inference.export.gate_lines import LONGEST
from transformer.inference.export.obstacles import LONGEST_SOURCE, N_POSITIONS, RULED_OUT
from transformer.inference.export.target import Target
from transformer.inference.line_translator import Progress
from transformer.inference.search.beam_search import IMPOSSIBLE
from transformer.layers import FeedForward, Residual
from transformer.model import Transformer
from transformer.model_directory import Model, save_vocabularies

Array = npt.NDArray[np.float32]


def write(model: Model, directory: Path, quantization: str | None) -> None:
    """The model, its vocabularies as sentencepiece knows them, and as CTranslate2 does."""
    spec = specification(model)
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(directory))
    save_vocabularies(directory, model)


def open_export(directory: Path) -> Opened:
    """Run what `write` has written, with as many threads as the origin has."""
    return Opened(CTranslate2Translator.load(directory, "cpu", threads=torch.get_num_threads()))


@dataclass
class Opened:
    """An export as `translate.py` runs it."""

    translator: CTranslate2Translator

    def translate(
        self, lines: Sequence[str], beam_size: int, limits: Sequence[int], progress: Progress = lambda _: None
    ) -> list[str]:
        """See `Exported.translate`."""
        wanted = {"beam_size": beam_size, "n_best": 1, "length_penalty": "average", "alpha": 1.0}
        self.translator.settings = self.translator.settings.model_copy(update=wanted)
        sources = self.translator.src_vocabulary.encode(lines)
        places = [place for place, source in enumerate(sources) if source]
        progress(len(lines) - len(places))
        found = self.translator.search(
            [sources[i] for i in places], [limits[i] for i in places], lambda batch: progress(len(batch))
        )
        texts = self.translator.tgt_vocabulary.decode([best.tokens for best, *_ in found])
        translated = dict(zip(places, texts, strict=True))
        return [translated.get(place, "") for place in range(len(lines))]

    def log_probs(self, lines: Sequence[str], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """See `Exported.log_probs`."""
        return self.translator.log_probs(self.translator.src_vocabulary.encode(lines), targets)


def usage(model: Model, description: ExportDescription) -> str:
    """How to translate with an export: Markdown."""
    joint = model.src_vocabulary.hash == model.tgt_vocabulary.hash
    settings = description.translate
    tag = "" if settings.tag is None else f"{[settings.tag]!r} + "
    alpha = 0.0 if settings.length_penalty == "none" else settings.alpha
    longest = settings.max_source_length or LONGEST
    target = (
        "target = source"
        if joint
        else 'target = sentencepiece.SentencePieceProcessor(model_file=f"{FOLDER}/tgt.model")'
    )
    return f"""\
With `pip install ctranslate2 sentencepiece`:

```python
import ctranslate2
import sentencepiece

FOLDER = "."  # where this file is
translator = ctranslate2.Translator(FOLDER, device="auto")
source = sentencepiece.SentencePieceProcessor(model_file=f"{{FOLDER}}/{"vocabulary" if joint else "src"}.model")
{target}


def translate(lines):
    results = translator.translate_batch(
        [{tag}source.encode(line, out_type=str) for line in lines],
        beam_size={settings.beam_size},
        length_penalty={alpha},
        max_batch_size={settings.max_tokens // settings.beam_size},
        batch_type="tokens",
        max_input_length={LONGEST_SOURCE},
        max_decoding_length={min(int(settings.max_length_ratio * longest) + settings.max_extra_length, LONGEST_SOURCE)},
        min_decoding_length=0,
        disable_unk=True,
    )
    return [target.decode(result.hypotheses[0]) for result in results]
```

With the program this model was trained with, whole files, in the same forms as from the model itself:

    python translate.py --backend ctranslate2 --model THIS_FOLDER < text.{description.src_lang}
"""


def next_step(directory: Path, description: ExportDescription) -> str:
    """A command to try."""
    return (
        f"python translate.py --backend ctranslate2 --model {shlex.quote(str(directory))} < text.{description.src_lang}"
    )


def specification(model: Model) -> Any:
    """The model as a `ctranslate2.specs.TransformerSpec`, ready to be saved."""
    from ctranslate2.specs import TransformerSpec  # an extra

    network, settings = model.network, model.settings
    spec = TransformerSpec(_encoder(network, settings), _decoder(network, settings))
    spec.register_source_vocabulary(model.src_vocabulary.all_pieces())
    spec.register_target_vocabulary(model.tgt_vocabulary.all_pieces())
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
    bias = network.projection.bias
    spec.projection.bias = np.zeros(len(spec.projection.weight), np.float32) if bias is None else _numbers(bias)
    if network.logit_scale != 1.0:
        spec.scale_outputs = np.float32(network.logit_scale)
        spec.projection.bias = spec.projection.bias * spec.scale_outputs
    spec.projection.bias[list(IMPOSSIBLE)] = RULED_OUT
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


def _set_embedding(side: Any, spec: Any, embedding: TokenEmbedding, settings: ModelSettings) -> None:
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
    weights = np.split(_numbers(feed_forward.inner.weight), len(inner))
    biases = np.split(_numbers(feed_forward.inner.bias), len(inner))
    for linear, weight, bias in zip(inner, weights, biases, strict=True):
        linear.weight, linear.bias = weight, bias
    spec.linear_1.weight, spec.linear_1.bias = _numbers(feed_forward.outer.weight), _numbers(feed_forward.outer.bias)
    _set_norm(spec.layer_norm, residual.norm)


def _set_norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
    spec.gamma = _numbers(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _numbers(norm.bias)


def _numbers(tensor: Tensor) -> Array:
    """A copy, which may be written to."""
    numbers: Array = tensor.detach().cpu().numpy().copy()
    return numbers


TARGET = Target(
    name="ctranslate2",
    library="ctranslate2",
    modules=("ctranslate2",),
    quantizations=("int8", "int8_float16", "int8_bfloat16", "float16", "bfloat16"),
    impossible=(*IMPOSSIBLE, UNK_ID),
    write=write,
    open=open_export,
    usage=usage,
    next_step=next_step,
)
