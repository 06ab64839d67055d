"""Models of ONNX, which ONNX Runtime runs on servers, phones and in browsers, from many languages.

PyTorch traces two graphs out of the very modules that are trained, so that every setting of the network is in them.
With L decoder layers, S source pieces, and P pieces that were written before T others are read:

    encoder.onnx   src (B, S)
                   → memory_keys (L, B, H, S, K), memory_values (L, B, H, S, d_v)
    decoder.onnx   tokens (B, T), src, memory_keys, memory_values, past_keys (L, B, H, P, K), past_values
                   → log_probs (B, T, V), keys (L, B, H, P + T, K), values

The last two are `past_…` of the next call; P is 0 in the first. The log-probabilities are those of our search: <pad>
and <s> are no outcomes. A search is no part of the export; to compare it, ours runs the graphs.
"""

from __future__ import annotations

import logging
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from data.prepared import load_vocabularies
from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Vocabulary
from transformer.attention import KeyValues
from transformer.embeddings import rotations
from transformer.inference.export.description import ExportDescription, read_description
from transformer.inference.export.target import Target
from transformer.inference.line_translator import Progress
from transformer.inference.search.beam_search import IMPOSSIBLE, SearchRules, beam_search
from transformer.inference.search.length_penalty import average
from transformer.masks import additive, padding_mask
from transformer.model import Transformer
from transformer.model_directory import Model, save_vocabularies

OPSET = 18
LARGEST_FILE = 2**31 - 2**20  # bytes; larger ones have their weights beside them
N_AT_ONCE = 32  # sentences of a batch

INPUTS = {
    "tokens": {0: "batch", 1: "target"},
    "src": {0: "batch", 1: "source"},
    "memory_keys": {1: "batch", 3: "source"},
    "memory_values": {1: "batch", 3: "source"},
    "past_keys": {1: "batch", 3: "past"},
    "past_values": {1: "batch", 3: "past"},
}
"""Of the decoder, each with the dimensions that may have any size."""

Arrays = dict[str, npt.NDArray[Any]]


# --- graphs ---


class EncoderGraph(nn.Module):
    """encoder.onnx."""

    def __init__(self, network: Transformer) -> None:
        super().__init__()
        self.network = network

    def forward(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """Shapes are those at the top of the module."""
        memory = self.network.encode(src, padding_mask(src, PAD_ID))
        layers = [layer.cross_attention.keys_values(memory) for layer in self.network.decoder.layers]
        keys, values = zip(*layers, strict=True)
        return torch.stack(keys), torch.stack(values)


class DecoderGraph(nn.Module):
    """decoder.onnx."""

    def __init__(self, network: Transformer) -> None:
        super().__init__()
        self.network = network
        self.ruled_out = torch.zeros(network.projection.out_features)
        self.ruled_out[list(IMPOSSIBLE)] = -torch.inf

    def forward(
        self,
        tokens: Tensor,
        src: Tensor,
        memory_keys: Tensor,
        memory_values: Tensor,
        past_keys: Tensor,
        past_values: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Shapes are those at the top of the module."""
        decoder, n_past = self.network.decoder, past_keys.size(3)
        places = torch.arange(n_past + tokens.size(1))
        positions = places[n_past:]
        rotation = rotations(positions, decoder.rotary_width) if decoder.rotary_width else None
        x = decoder.embedding(tokens, positions)
        mask = additive(positions[:, None] >= places, x.dtype)  # (T, P + T)
        src_mask = additive(padding_mask(src, PAD_ID), x.dtype)
        memory = map(KeyValues, memory_keys, memory_values)
        read = list(map(_Read, past_keys, past_values))
        for layer, slots, attended_to in zip(decoder.layers, read, memory, strict=True):
            x = layer(x, mask, slots, attended_to, src_mask, rotation)
        logits = self.network.project(decoder.final_norm(x))
        keys, values = zip(*(slots.all for slots in read), strict=True)
        return (logits + self.ruled_out).log_softmax(-1), torch.stack(keys), torch.stack(values)


class _Read:
    """`attention.Past` of one layer, as input and output of a graph."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.all = KeyValues(keys, values)

    def append(self, keys: Tensor, values: Tensor) -> KeyValues:
        self.all = KeyValues(torch.cat([self.all.keys, keys], 2), torch.cat([self.all.values, values], 2))
        return self.all


def write(model: Model, directory: Path, quantization: str | None) -> None:
    """Both graphs, and the vocabularies."""
    settings, widths = model.settings, (model.settings.key_width, model.settings.value_width)
    shape = settings.n_decoder_layers, 2, settings.n_heads  # every size that may change has a value of its own
    src, tokens = torch.full((2, 5), UNK_ID), torch.full((2, 3), BOS_ID)
    memory, past = ([torch.zeros(*shape, n, width) for width in widths] for n in (5, 4))
    _save(EncoderGraph(model.network), directory / "encoder.onnx", {"src": src}, ["memory_keys", "memory_values"])
    inputs = dict(zip(INPUTS, (tokens, src, *memory, *past), strict=True))
    _save(DecoderGraph(model.network), directory / "decoder.onnx", inputs, ["log_probs", "keys", "values"])
    save_vocabularies(directory, model)


@torch.no_grad()
def _save(graph: nn.Module, path: Path, inputs: dict[str, Tensor], outputs: list[str]) -> None:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it tells which libraries it does not need
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that inputs share a size
        torch.onnx.export(
            graph.eval(),
            tuple(inputs.values()),
            path,
            input_names=list(inputs),
            output_names=outputs,
            dynamic_shapes={name: INPUTS[name] for name in inputs},
            opset_version=OPSET,
            dynamo=True,
            external_data=sum(each.nbytes for each in graph.parameters()) > LARGEST_FILE,
            verbose=False,
        )


# --- the other side ---


@dataclass
class Opened:
    """An export as ONNX Runtime runs it, within our search.

    Attributes:
        encoder, decoder: `onnxruntime.InferenceSession`.
        prefix: ids that stand before every source sentence.
    """

    encoder: Any
    decoder: Any
    src_vocabulary: Vocabulary
    tgt_vocabulary: Vocabulary
    prefix: list[int]

    def translate(
        self, lines: Sequence[str], beam_size: int, limits: Sequence[int], progress: Progress = lambda _: None
    ) -> list[str]:
        """See `Exported.translate`."""
        rules = SearchRules(beam_size, average(1.0), stop="first_n")
        sources, found = self.src_vocabulary.encode(lines), [""] * len(lines)
        order = sorted((place for place, ids in enumerate(sources) if ids), key=lambda place: len(sources[place]))
        progress(len(lines) - len(order))
        for first in range(0, len(order), N_AT_ONCE):
            batch = order[first : first + N_AT_ONCE]
            step = Step(self.decoder, self.read([sources[place] for place in batch]))
            results = beam_search(step, torch.tensor([limits[place] for place in batch]), rules)
            texts = self.tgt_vocabulary.decode([best.tokens for best, *_ in results])
            for place, text in zip(batch, texts, strict=True):
                found[place] = text
            progress(len(batch))
        return found

    def log_probs(self, lines: Sequence[str], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """See `Exported.log_probs`."""
        found = []
        for source, target in zip(self.src_vocabulary.encode(lines), targets, strict=True):
            tokens = np.array([[BOS_ID, *target[:-1]]])
            log_probs, *_ = self.decoder.run(None, {"tokens": tokens, **self.read([source])})
            found.append(log_probs[0, range(len(target)), target].tolist())
        return found

    def read(self, sources: Sequence[Sequence[int]]) -> Arrays:
        """All inputs of the decoder but the tokens, before the first of them."""
        rows = [[*self.prefix, *source, EOS_ID] for source in sources]
        longest = max(map(len, rows))
        src = np.array([row + [PAD_ID] * (longest - len(row)) for row in rows])
        memory = self.encoder.run(None, {"src": src})
        return dict(zip(list(INPUTS)[1:], (src, *memory, *(part[:, :, :, :0] for part in memory)), strict=True))


class Step:
    """The decoder as `search_state.Step`; every hypothesis has its own rows of all there is, of the source, too."""

    def __init__(self, decoder: Any, inputs: Arrays) -> None:
        self.decoder = decoder
        self.inputs = inputs

    def __call__(self, tokens: Tensor, origin: Tensor) -> Tensor:
        """tokens and origin (N,) → log P (N, V)."""
        rows = origin.numpy()
        inputs = {name: part[rows] if name == "src" else part[:, rows] for name, part in self.inputs.items()}
        log_probs, keys, values = self.decoder.run(None, {"tokens": tokens.numpy()[:, None], **inputs})
        self.inputs = inputs | {"past_keys": keys, "past_values": values}
        return torch.from_numpy(log_probs[:, 0])


def open_export(directory: Path) -> Opened:
    """Load what `write` has written."""
    import onnxruntime  # an extra

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors
    encoder, decoder = (
        onnxruntime.InferenceSession(str(directory / name), options, providers=["CPUExecutionProvider"])
        for name in ("encoder.onnx", "decoder.onnx")
    )
    src_vocabulary, tgt_vocabulary = load_vocabularies(directory)
    tag = read_description(directory).translate.tag
    found = None if tag is None else src_vocabulary.tag_id(tag)
    return Opened(encoder, decoder, src_vocabulary, tgt_vocabulary, [] if found is None else [found])


def usage(model: Model, description: ExportDescription) -> str:
    """How to translate with an export: Markdown."""
    joint, settings = model.src_vocabulary.hash == model.tgt_vocabulary.hash, description.translate
    source, target = ("vocabulary", "vocabulary") if joint else ("src", "tgt")
    tag = "" if settings.tag is None else f"source.piece_to_id({settings.tag!r}), "
    return f"""\
With `pip install onnxruntime sentencepiece`, greedily:

```python
import numpy as np
import onnxruntime
import sentencepiece

FOLDER = "."  # where this file is
PAD, UNK, BOS, EOS = range(4)
source = sentencepiece.SentencePieceProcessor(model_file=f"{{FOLDER}}/{source}.model")
target = sentencepiece.SentencePieceProcessor(model_file=f"{{FOLDER}}/{target}.model")
encoder = onnxruntime.InferenceSession(f"{{FOLDER}}/encoder.onnx", providers=["CPUExecutionProvider"])
decoder = onnxruntime.InferenceSession(f"{{FOLDER}}/decoder.onnx", providers=["CPUExecutionProvider"])


def translate(lines):
    rows = [[{tag}*source.encode(line), EOS] for line in lines]
    longest = max(map(len, rows))
    src = np.array([row + [PAD] * (longest - len(row)) for row in rows])
    keys, values = encoder.run(None, {{"src": src}})
    inputs = {{"src": src, "memory_keys": keys, "memory_values": values}}
    past = {{"past_keys": keys[:, :, :, :0], "past_values": values[:, :, :, :0]}}  # nothing yet
    tokens = np.full((len(rows), 1), BOS)
    found = [[] for _ in rows]
    for _ in range(int({settings.max_length_ratio} * longest) + {settings.max_extra_length}):
        log_probs, keys, values = decoder.run(None, {{"tokens": tokens, **inputs, **past}})
        past = {{"past_keys": keys, "past_values": values}}
        log_probs[:, :, UNK] = -np.inf
        tokens = log_probs.argmax(2)
        for ids, token in zip(found, tokens[:, 0].tolist()):
            if EOS not in ids:
                ids.append(token)
        if all(EOS in ids for ids in found):
            break
    return [target.decode(ids) for ids in found]
```

`log_probs` are natural logarithms, which a search with a beam adds up; the settings of ours are in `export.json`. Rows
may change places between two calls, and be repeated: axis 0 of `src`, axis 1 of keys and values.
"""


def next_step(directory: Path, description: ExportDescription) -> str:
    """A command to try: README.md holds a program."""
    return f"less {shlex.quote(str(directory / 'README.md'))}"


TARGET = Target(
    name="onnx",
    library="onnx",
    modules=("onnx", "onnxruntime", "onnxscript"),
    quantizations=(),
    impossible=IMPOSSIBLE,
    write=write,
    open=open_export,
    usage=usage,
    next_step=next_step,
)
