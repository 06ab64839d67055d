"""Checkpoints of jadore801120/attention-is-all-you-need-pytorch; docs/seed_repository.md tells what is what.

Its network can be written in our settings. Its vocabulary is a list of words in a pickle that only its own libraries
open, so it is given as two lists of JSON. Here it becomes a sentencepiece model that cuts text at spaces: lines are to
be tokenised as the training text was.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from data.errors import DataError
from data.vocabulary import EOS_ID, Vocabulary
from transformer.config import ModelSettings
from transformer.config_translate import TranslateSettings
from transformer.errors import RunError
from transformer.inference.imports.layout import NEVER_WRITTEN, Layout, rows_of
from transformer.inference.imports.sentencepiece_model import CONTROL, UNKNOWN, WORD, new_model
from transformer.model import Transformer
from transformer.model_directory import Model, load_weights

SPECIALS = ("<blank>", "<unk>", "<s>", "</s>")  # in our order
BEGIN = "<begin>"
"""The tag that stands before every source sentence: there sources begin with <s>, here only targets do."""

VOCABULARY_COMMAND = (
    "python -c \"import dill, json; v = dill.load(open('DATA.pkl', 'rb'))['vocab']; "
    "v = v if isinstance(v, dict) else {'src': v, 'trg': v}; "
    "[json.dump(v[s].vocab.itos, open(s + '.json', 'w')) for s in ('src', 'trg')]\""
)
"""Writes src.json and trg.json where the old libraries are."""

_SUBLAYERS = {"slf_attn": "self_attention", "enc_attn": "cross_attention"}


def import_seed(checkpoint: Path, src_list: Path, tgt_list: Path) -> Model:
    """Read a checkpoint and its two lists of words.

    Raises:
        RunError: not such a checkpoint, of an older revision, or the lists are not its.
    """
    weights, options = _load(checkpoint)
    settings = _model_settings(checkpoint, options)
    src, tgt = _layouts(src_list, tgt_list, settings)
    ours = _converted(checkpoint, weights, settings, src, tgt)
    vocabularies = [_vocabulary(layout, path) for layout, path in ((src, src_list), (tgt, tgt_list))]
    with torch.device("meta"):  # no time spent on initial values that are overwritten below
        network = Transformer(settings, *map(len, vocabularies))
    if settings.projection_bias:
        bias = torch.zeros(len(tgt.rows))
        bias[EOS_ID + 1] = NEVER_WRITTEN / network.logit_scale  # BEGIN, which only shares a table
        ours["projection.bias"] = bias
    load_weights(network, {name: ours[name] for name, _ in network.named_parameters()}, checkpoint)
    search = TranslateSettings(beam_size=5, length_penalty="average", alpha=0.7, max_length_ratio=0.0, tag=BEGIN)
    return Model(network.eval(), settings, search, vocabularies[0], vocabularies[1], "und", "und")


def _load(checkpoint: Path) -> tuple[Mapping[str, Tensor], Mapping[str, Any]]:
    """Tensors and options; of the pickle nothing else is let through."""
    try:
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles of other kinds, which are refused anyway
            content = torch.load(checkpoint, map_location="cpu", weights_only=True)
        weights, options = content["model"], vars(content["settings"])
        if not all(isinstance(tensor, Tensor) for tensor in weights.values()):
            raise TypeError("'model' holds other things than tensors")
    except (pickle.UnpicklingError, zipfile.BadZipFile, OSError, RuntimeError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RunError(
            f"{checkpoint}: not a checkpoint, damaged, or one that holds more than tensors and options, which is not "
            f"loaded here ({reason})"
        ) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{checkpoint}: not a checkpoint of attention-is-all-you-need-pytorch, which holds 'model' and 'settings' "
            f"({error!r})"
        ) from error
    return {name: tensor.float() for name, tensor in weights.items()}, options


# --- settings ---


def _model_settings(checkpoint: Path, options: Mapping[str, Any]) -> ModelSettings:
    needed = ("d_model", "d_inner_hid", "n_layers", "n_head", "d_k", "d_v", "dropout", "scale_emb_or_prj")
    if missing := [name for name in needed if name not in options]:
        raise RunError(
            f"{checkpoint}: its settings lack {', '.join(missing)}; only the revision with the option scale_emb_or_prj "
            "can be imported, see docs/seed_repository.md"
        )
    shares_projection, shares_embeddings = (
        bool(options.get(name)) for name in ("proj_share_weight", "embs_share_weight")
    )
    tie = {(True, True): "three_way", (True, False): "target", (False, True): "source_target"}
    scaling = {"emb": "embedding", "prj": "projection"} if shares_projection else {}
    try:
        return ModelSettings.model_validate(
            {
                "n_encoder_layers": options["n_layers"],
                "n_decoder_layers": options["n_layers"],
                "d_model": options["d_model"],
                "d_ff": options["d_inner_hid"],
                "n_heads": options["n_head"],
                "d_head": options["d_k"],
                "d_value": options["d_v"],
                "dropout": options["dropout"],
                "attention_dropout": 0.1,
                "embedding_norm": True,
                "scaling": scaling.get(options["scale_emb_or_prj"], "none"),
                "tie_embeddings": tie.get((shares_projection, shares_embeddings), "none"),
                "projection_bias": shares_embeddings,
            }
        )
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise RunError(f"{checkpoint}: settings that no network has ({problems})") from error


# --- vocabularies ---


def _layouts(src_list: Path, tgt_list: Path, settings: ModelSettings) -> tuple[Layout, Layout]:
    """Of both sides; a target that shares the source's table has its tag, too."""
    src, tgt = _layout(src_list, True), _layout(tgt_list, settings.projection_bias)
    if settings.projection_bias and src != tgt:
        raise RunError(f"{src_list} and {tgt_list}: the languages share their embeddings, but these lists differ")
    return src, tgt


def _layout(path: Path, with_tag: bool) -> Layout:
    """pad, unk, bos, eos, the tag, all else in its order."""
    try:
        words = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(words, ensure_ascii=False).encode()  # the half of a pair of surrogates is no text
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words) or {*SPECIALS} - {*words}:
        raise RunError(
            f"{path}: not a list of all words, {', '.join(SPECIALS)} among them, in the order of their ids. Where the "
            f"old libraries are, this writes both lists:\n\n{VOCABULARY_COMMAND}\n"
        )
    rows = [*map(words.index, SPECIALS), *([words.index("<s>")] if with_tag else [])]
    rest = [row for row, word in enumerate(words) if word not in SPECIALS]
    strings = [*SPECIALS, *([BEGIN] if with_tag else []), *(f"▁{words[row].replace(' ', '▁')}" for row in rest)]
    return Layout(strings, [*rows, *rest], int(with_tag), 0)


def _vocabulary(layout: Layout, path: Path) -> Vocabulary:
    """A sentencepiece model whose pieces are words."""
    model = new_model(WORD)
    for i, string in enumerate(layout.strings):
        if i > EOS_ID + layout.n_tags:
            model.pieces.add(piece=string, score=0.0)
        else:
            model.pieces.add(piece=string, score=0.0, type=UNKNOWN if string == "<unk>" else CONTROL)
    spec = model.trainer_spec
    spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece = SPECIALS
    try:
        return Vocabulary(model.SerializeToString(), str(path))
    except DataError as error:
        raise RunError(f"{path}: words that cannot be a vocabulary, such as twice the same") from error


# --- weights ---


def _converted(
    checkpoint: Path, weights: Mapping[str, Tensor], settings: ModelSettings, src: Layout, tgt: Layout
) -> dict[str, Tensor]:
    """Our names → tensors."""
    sources = dict(_places(settings.n_encoder_layers))
    if missing := [name for names in sources.values() for name in names if name not in weights]:
        raise RunError(
            f"{checkpoint}: lacks {', '.join(missing[:5])}{' …' * (len(missing) > 5)}; see docs/seed_repository.md for "
            "the revisions that can be imported"
        )
    ours = {place: torch.cat([weights[name] for name in names]) for place, names in sources.items()}
    for place, layout in (
        ("encoder.embedding.table.weight", src),
        ("decoder.embedding.table.weight", tgt),
        ("projection.weight", tgt),
    ):
        n_words = len(layout.rows) - layout.n_tags
        if len(ours[place]) != n_words:
            raise RunError(f"{checkpoint}: {place} has {len(ours[place]):,} rows, but the list has {n_words:,} words")
        ours[place] = rows_of(ours[place], layout)
    return ours


def _places(n_layers: int) -> Iterator[tuple[str, list[str]]]:
    """Each tensor here, and those there that are stacked in it, along dimension 0."""
    yield "encoder.embedding.table.weight", ["encoder.src_word_emb.weight"]
    yield "decoder.embedding.table.weight", ["decoder.trg_word_emb.weight"]
    yield "projection.weight", ["trg_word_prj.weight"]
    for side, kind in itertools.product(("encoder", "decoder"), ("weight", "bias")):
        yield f"{side}.embedding.norm.{kind}", [f"{side}.layer_norm.{kind}"]
        for layer in range(n_layers):
            here, there = f"{side}.layers.{layer}.", f"{side}.layer_stack.{layer}."
            for name, own in list(_SUBLAYERS.items())[: 1 if side == "encoder" else 2]:
                if kind == "weight":
                    stacked = [f"{there}{name}.{part}.weight" for part in ("w_qs", "w_ks", "w_vs")]
                    yield f"{here}{own}.in_projection.weight", stacked
                    yield f"{here}{own}.out_projection.weight", [f"{there}{name}.fc.weight"]
                yield f"{here}{own}_residual.norm.{kind}", [f"{there}{name}.layer_norm.{kind}"]
            yield f"{here}feed_forward.inner.{kind}", [f"{there}pos_ffn.w_1.{kind}"]
            yield f"{here}feed_forward.outer.{kind}", [f"{there}pos_ffn.w_2.{kind}"]
            yield f"{here}feed_forward_residual.norm.{kind}", [f"{there}pos_ffn.layer_norm.{kind}"]
