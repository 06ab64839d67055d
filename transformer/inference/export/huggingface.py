"""Models of Hugging Face's transformers, of its stock classes: MarianMTModel, or Pegasus where norms come first.

Both have our network in other clothes; three changes of form leave every output what it was:

- There the first half of a position's columns are sines and the second half cosines, here they alternate: one
  permutation of all columns of the residual stream.
- Their norms have an epsilon of 1e-5. norm(x, ε) = norm(c x, c² ε), so the residual stream is c = √(1e-5 / ε) times as
  large: what adds to it is multiplied, what reads it divided. Only Marian's positions cannot be multiplied, so the
  stream is larger from the first norm of each side on; that one adds 1e-5 to a variance of about 1, not ε.
- A scale of the logits becomes one of the last norm.

<pad> and <s>, which our search rules out before it normalises, have a bias of -10,000 in the output projection.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID, have_equal_ids
from transformer.config import ModelSettings
from transformer.embeddings import sinusoidal_positions
from transformer.inference.export.description import ExportDescription
from transformer.inference.export.gate_lines import LONGEST
from transformer.inference.export.obstacles import LONGEST_SOURCE, N_POSITIONS, RULED_OUT
from transformer.inference.export.target import Target
from transformer.inference.imports.marian_weights import interleaving, permuted, places
from transformer.inference.line_translator import Progress
from transformer.inference.search.beam_search import IMPOSSIBLE
from transformer.inference.units import in_batches
from transformer.inference.workers import Workers
from transformer.model_directory import Model, save_tensors

NORM_EPSILON = 1e-5

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}
N_AT_ONCE, CHARACTERS = 32, 2**13  # sentences of a batch, and characters with padding


def write(model: Model, directory: Path, quantization: str | None) -> None:
    """Weights and settings of the network, of the search and of the tokenizer."""
    save_tensors(directory / "model.safetensors", weights(model), {"format": "pt"})
    src, tgt = (vocabulary.all_pieces() for vocabulary in (model.src_vocabulary, model.tgt_vocabulary))
    files = {
        "config.json": network_config(model),
        "generation_config.json": search_config(model),
        "tokenizer_config.json": tokenizer_config(model),
        "vocab.json": {string: i for i, string in enumerate(src)},
    }
    if src != tgt:
        files["target_vocab.json"] = {string: i for i, string in enumerate(tgt)}
    for name, content in files.items():
        text = json.dumps(content, indent=2, ensure_ascii=False)
        (directory / name).write_text(text + "\n", encoding="utf-8", newline="\n")
    model.src_vocabulary.save(directory / "source.spm")
    model.tgt_vocabulary.save(directory / "target.spm")


# --- weights ---


def weights(model: Model) -> dict[str, Tensor]:
    """Their names → tensors."""
    settings, network = model.settings, model.network
    ours, columns = network.state_dict(), interleaving(settings.d_model).argsort()
    is_pre = settings.norm_position == "pre"
    stream = math.sqrt(NORM_EPSILON / settings.norm_epsilon)  # its scale
    of_tables = stream if is_pre else 1.0
    theirs: dict[str, Tensor] = {}
    sources = dict(places(settings))
    for place, names in sources.items():
        tensor = ours.get(place)
        if tensor is None:  # biases of attention
            tensor = torch.zeros(len(ours[place.removesuffix("bias") + "weight"]))
        tensor = permuted(place, tensor, columns) * _scale(place, is_pre, stream)
        widths = _widths(settings) if len(names) > 1 else [len(tensor)]
        theirs |= zip(names, torch.split(tensor, widths), strict=True)

    last = (
        "decoder.final_norm" if is_pre else f"decoder.layers.{settings.n_decoder_layers - 1}.feed_forward_residual.norm"
    )
    for kind in ("weight", "bias"):  # it alone feeds the projection, whose matrix may be that of the embeddings
        name = f"model.decoder.layer_norm.{kind}" if is_pre else sources[f"{last}.{kind}"][0]
        theirs[name] = ours[f"{last}.{kind}"][columns] * (network.logit_scale / of_tables)
        if is_pre:
            theirs[f"model.encoder.layer_norm.{kind}"] = ours[f"encoder.final_norm.{kind}"][columns]

    theirs |= {name: ours[place][:, columns] * of_tables for place, name in _tables(settings).items()}
    if is_pre:
        positions = sinusoidal_positions(N_POSITIONS, settings.d_model)[:, columns] * of_tables
        theirs |= {f"model.{side}.embed_positions.weight": positions.clone() for side in ("encoder", "decoder")}
    bias = torch.zeros(len(ours["projection.weight"])) if network.projection.bias is None else ours["projection.bias"]
    bias = bias * network.logit_scale
    bias[list(IMPOSSIBLE)] = RULED_OUT
    theirs["final_logits_bias"] = bias[None]
    return {name: tensor.contiguous() for name, tensor in theirs.items()}


def _scale(place: str, is_pre: bool, stream: float) -> float:
    """What a tensor is multiplied by where the residual stream is so many times as large."""
    before_first_norm = not is_pre and ".layers.0.self_attention." in place
    if place.endswith(("in_projection.bias", "inner.bias")) or before_first_norm:
        return 1.0
    if "out_projection" in place or "outer" in place:
        return stream
    return 1.0 if is_pre else stream if ".norm." in place else 1 / stream


def _widths(settings: ModelSettings) -> list[int]:
    """Rows of the stacked matrices of queries, keys and values."""
    return [settings.n_heads * width for width in (settings.key_width, settings.key_width, settings.value_width)]


def _tables(settings: ModelSettings) -> dict[str, str]:
    """The matrices with a row for each piece that are stored, by what they are called there."""
    src, tgt, projection = "encoder.embedding.table.weight", "decoder.embedding.table.weight", "projection.weight"
    if settings.tie_embeddings == "three_way":
        return {src: "model.shared.weight"}
    embeddings = {src: "model.encoder.embed_tokens.weight", tgt: "model.decoder.embed_tokens.weight"}
    return embeddings if settings.tie_embeddings == "target" else embeddings | {projection: "lm_head.weight"}


# --- settings ---


def network_config(model: Model) -> dict[str, Any]:
    """config.json."""
    settings = model.settings
    is_pre = settings.norm_position == "pre"
    config: dict[str, Any] = {
        "architectures": ["PegasusForConditionalGeneration" if is_pre else "MarianMTModel"],
        "model_type": "pegasus" if is_pre else "marian",
        "is_encoder_decoder": True,
        "dtype": "float32",
        "vocab_size": len(model.src_vocabulary),
        "d_model": settings.d_model,
        "encoder_layers": settings.n_encoder_layers,
        "decoder_layers": settings.n_decoder_layers,
        "encoder_attention_heads": settings.n_heads,
        "decoder_attention_heads": settings.n_heads,
        "encoder_ffn_dim": settings.d_ff,
        "decoder_ffn_dim": settings.d_ff,
        "activation_function": ACTIVATIONS[settings.activation],
        "scale_embedding": settings.scaling == "embedding",
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "activation_dropout": settings.feed_forward_dropout,
        "max_position_embeddings": N_POSITIONS,
        "tie_word_embeddings": settings.tie_embeddings in ("three_way", "target"),
        **_special_ids(),
        "forced_eos_token_id": None,
    }
    if not is_pre:
        config["decoder_vocab_size"] = len(model.tgt_vocabulary)
        config["share_encoder_decoder_embeddings"] = settings.tie_embeddings == "three_way"
    return config


def search_config(model: Model) -> dict[str, Any]:
    """generation_config.json: how it translates unless told otherwise."""
    settings = model.translate
    longest = settings.max_source_length or LONGEST
    return {
        **_special_ids(),
        "num_beams": settings.beam_size,
        "length_penalty": settings.alpha if settings.length_penalty == "average" else 0.0,
        "early_stopping": True if settings.stop == "first_n" else "never",
        "max_new_tokens": min(int(settings.max_length_ratio * longest) + settings.max_extra_length, LONGEST_SOURCE),
        "suppress_tokens": [UNK_ID],
    }


def _special_ids() -> dict[str, int]:
    return {
        "pad_token_id": PAD_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "decoder_start_token_id": BOS_ID,
    }


def tokenizer_config(model: Model) -> dict[str, Any]:
    """tokenizer_config.json."""
    vocabulary = model.src_vocabulary
    pad, unk, bos, eos, *tags = vocabulary.pieces(range(vocabulary.n_special))
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": model.src_lang,
        "target_lang": model.tgt_lang,
        "separate_vocabs": not have_equal_ids(vocabulary, model.tgt_vocabulary),
        "model_max_length": (model.translate.max_source_length or LONGEST) + 1,
        "clean_up_tokenization_spaces": False,
        "pad_token": pad,
        "unk_token": unk,
        "bos_token": bos,
        "eos_token": eos,
        "extra_special_tokens": tags,
    }


# --- the other side ---


@dataclass
class Opened:
    """An export as its users run it."""

    model: Any
    tokenizer: Any
    tag: str

    def translate(
        self, lines: Sequence[str], beam_size: int, limits: Sequence[int], progress: Progress = lambda _: None
    ) -> list[str]:
        """See `Exported.translate`."""
        found, lengths = [""] * len(lines), [len(line) for line in lines]
        places = sorted((place for place, line in enumerate(lines) if line.strip()), key=lengths.__getitem__)
        batches = list(in_batches(places, lengths, CHARACTERS, 1, N_AT_ONCE))[::-1]
        progress(len(lines) - len(places))

        def work(batch: list[int]) -> None:
            results = self._search([lines[place] for place in batch], beam_size, max(limits[place] for place in batch))
            for place, (text, n_tokens) in zip(batch, results, strict=True):
                if n_tokens > limits[place]:  # a batch has one limit there
                    [(text, _)] = self._search([lines[place]], beam_size, limits[place])
                found[place] = text

        for batch, _ in Workers("auto", self.model.device).run(work, batches):
            progress(len(batches[batch]))
        return found

    def _search(self, lines: Sequence[str], beam_size: int, limit: int) -> list[tuple[str, int]]:
        """Translations, and how many pieces they have."""
        ids = self.model.generate(
            **self._read(lines),
            num_beams=beam_size,
            length_penalty=1.0,
            early_stopping=beam_size > 1,
            max_new_tokens=limit,
        )
        lengths = (ids[:, 1:] != PAD_ID).sum(1).tolist()
        return list(zip(self.tokenizer.batch_decode(ids, skip_special_tokens=True), lengths, strict=True))

    @torch.no_grad()
    def log_probs(self, lines: Sequence[str], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """See `Exported.log_probs`."""
        found = []
        for line, target in zip(lines, targets, strict=True):
            decoder_input = torch.tensor([[BOS_ID, *target[:-1]]])
            logits = self.model(**self._read([line]), decoder_input_ids=decoder_input).logits[0]
            found.append(logits.log_softmax(-1).gather(1, torch.tensor(target)[:, None])[:, 0].tolist())
        return found

    def _read(self, lines: Sequence[str]) -> Mapping[str, Tensor]:
        batch: Mapping[str, Tensor] = self.tokenizer(
            [self.tag + line for line in lines], return_tensors="pt", padding=True
        )
        return batch


def open_export(directory: Path) -> Opened:
    """Load what `write` has written, as anybody would."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer  # an extra
    from transformers.utils import logging

    from transformer.inference.export.description import read_description

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = AutoModelForSeq2SeqLM.from_pretrained(str(directory), local_files_only=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(str(directory), local_files_only=True)
    return Opened(model, tokenizer, read_description(directory).translate.tag or "")


def usage(model: Model, description: ExportDescription) -> str:
    """How to translate with an export: Markdown."""
    tag = description.translate.tag
    lines = "lines" if tag is None else f"[{tag!r} + line for line in lines]"
    return f"""\
With `pip install "transformers>=5" sentencepiece`:

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

FOLDER = "."  # where this file is
tokenizer = AutoTokenizer.from_pretrained(FOLDER)
model = AutoModelForSeq2SeqLM.from_pretrained(FOLDER)


def translate(lines):
    batch = tokenizer({lines}, return_tensors="pt", padding=True)
    return tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
```

`generation_config.json` holds the settings of the search. To this tokenizer `</s>`, `<s>`, `<pad>` and `<unk>` in a
text are special pieces.
"""


def next_step(directory: Path, description: ExportDescription) -> str:
    """A command to try."""
    program = (
        "from transformers import AutoModelForSeq2SeqLM as M, AutoTokenizer as T; import sys; f, text = sys.argv[1:]; "
        "t = T.from_pretrained(f); ids = M.from_pretrained(f).generate(**t(text, return_tensors='pt')); "
        "print(t.decode(ids[0], skip_special_tokens=True))"
    )
    text = f"{description.translate.tag or ''}…"
    return f'python -c "{program}" {shlex.quote(str(directory))} {shlex.quote(text)}'


TARGET = Target(
    name="huggingface",
    library="transformers",
    modules=("transformers",),
    quantizations=(),
    impossible=IMPOSSIBLE,
    write=write,
    open=open_export,
    usage=usage,
    next_step=next_step,
)
