"""Marian's models as Hugging Face keeps them: OPUS-MT (Tiedemann & Thottingal 2020) and what is trained from it.

A folder holds config.json, model.safetensors, vocab.json, source.spm and target.spm. Everything in them becomes a part
of a model directory that computes the same.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from data.vocabulary import Vocabulary
from transformer.config import ModelSettings
from transformer.config_translate import TranslateSettings
from transformer.errors import RunError
from transformer.inference.imports.layout import Layout
from transformer.inference.imports.marian_vocabulary import Entries, arrange, build
from transformer.inference.imports.marian_weights import (
    Tables,
    convert_bias,
    convert_layers,
    convert_tables,
    find_tables,
    find_ties,
)
from transformer.inference.imports.sentencepiece_model import controls, read_model, text_pieces
from transformer.model import Transformer
from transformer.model_directory import Model, load_tensors, load_weights

CONFIG, WEIGHTS, PICKLE = "config.json", "model.safetensors", "pytorch_model.bin"
ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}

Config = Mapping[str, Any]


def is_marian(folder: Path) -> bool:
    """Whether this is a folder of Hugging Face's with a configuration, of whatever architecture."""
    return (folder / CONFIG).is_file()


def import_marian(folder: Path) -> Model:
    """Read a folder.

    Raises:
        RunError: files are missing, damaged or pickles, or the network is of another architecture; the message names
            all that there is to mend.
        ConfigError: protobuf is not installed.
    """
    config = _read_json(folder / CONFIG)
    if config.get("model_type") != "marian":
        raise RunError(
            f"{folder / CONFIG}: model_type is {config.get('model_type')!r}; only 'marian' can be imported (OPUS-MT, "
            "and what MarianMTModel saves)"
        )
    is_separate = bool(_optional_json(folder / "tokenizer_config.json").get("separate_vocabs"))
    _check_files(folder, is_separate)
    settings = _model_settings(folder, config)
    weights = {name: tensor.float() for name, tensor in load_tensors(folder / WEIGHTS).items()}
    tables = find_tables(folder / WEIGHTS, weights)
    src_vocabulary, tgt_vocabulary, src, tgt = _vocabularies(folder, config, tables, is_separate)
    try:
        ours = convert_layers(folder / WEIGHTS, weights, settings) | convert_tables(tables, src, tgt, settings.d_model)
        bias = convert_bias(weights, tgt)
    except (RuntimeError, IndexError) as error:
        raise RunError(f"{folder / WEIGHTS}: has tensors of other shapes than {CONFIG} says ({error})") from error
    if bias is not None:
        ours["projection.bias"] = bias
    ties = {"tie_embeddings": find_ties(tables, src == tgt), "projection_bias": bias is not None}
    settings = settings.model_copy(update=ties)
    with torch.device("meta"):  # no time spent on initial values that are overwritten below
        network = Transformer(settings, len(src_vocabulary), len(tgt_vocabulary))
    load_weights(network, {name: ours[name] for name, _ in network.named_parameters()}, folder / WEIGHTS)
    languages = _languages(folder)
    return Model(network.eval(), settings, _search_settings(folder, config), src_vocabulary, tgt_vocabulary, *languages)


# --- files ---


def _check_files(folder: Path, is_separate: bool) -> None:
    names = [WEIGHTS, "vocab.json", "source.spm", "target.spm", *(["target_vocab.json"] if is_separate else [])]
    missing = [name for name in names if not (folder / name).is_file()]
    if not missing:
        return
    message = f"{folder}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
    if WEIGHTS in missing and (folder / PICKLE).is_file():
        message += (
            f". {PICKLE} is a pickle, which may run any program when it is loaded, and is not read here. If you trust "
            f"where it is from, convert it once (only tensors are let through):\n\n{conversion_command(folder)}\n"
        )
    raise RunError(message)


def conversion_command(folder: Path) -> str:
    """The command that writes model.safetensors out of pytorch_model.bin."""
    paths = (shlex.quote(str((folder / name).absolute())) for name in (PICKLE, WEIGHTS))
    return (
        'python -c "import sys, torch; from safetensors.torch import save_file; old, new = sys.argv[1:]; '
        'weights = torch.load(old, weights_only=True); save_file({n: t.clone() for n, t in weights.items()}, new)" '
        + " ".join(paths)
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(content, ensure_ascii=False).encode()  # the half of a pair of surrogates is no text
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(content, dict):
        raise RunError(f"{path}: holds a {type(content).__name__}, not an object")
    return content


def _optional_json(path: Path) -> dict[str, Any]:
    return _read_json(path) if path.is_file() else {}


# --- settings ---


def _model_settings(folder: Path, config: Config) -> ModelSettings:
    """The network's, but for ties and the bias of the projection, which the weights tell."""
    problems = [
        f"{name}: {config.get('encoder_' + name)} of the encoder and {config.get('decoder_' + name)} of the decoder; "
        "here both have as many"
        for name in ("attention_heads", "ffn_dim")
        if config.get("encoder_" + name) != config.get("decoder_" + name)
    ]
    activation = str(config.get("activation_function"))
    if activation not in ACTIVATIONS:
        problems.append(f"activation_function: {activation!r} is not known here; {', '.join(ACTIVATIONS)} are")
    values = {
        "n_encoder_layers": config.get("encoder_layers"),
        "n_decoder_layers": config.get("decoder_layers"),
        "d_model": config.get("d_model"),
        "d_ff": config.get("encoder_ffn_dim"),
        "n_heads": config.get("encoder_attention_heads"),
        "dropout": config.get("dropout", 0.1),
        "attention_dropout": config.get("attention_dropout", 0.0),
        "feed_forward_dropout": config.get("activation_dropout", 0.0),
        "activation": ACTIVATIONS.get(activation, "silu"),
        "norm_epsilon": 1e-5,
        "attention_bias": True,
        "scaling": "embedding" if config.get("scale_embedding") else "none",
    }
    settings = ModelSettings()
    try:
        settings = ModelSettings.model_validate(values)
    except ValidationError as error:
        problems += [f"{'.'.join(map(str, e['loc'])) or 'the network'}: {e['msg']}" for e in error.errors()]
    if problems:
        raise RunError("\n".join(f"{folder / CONFIG}: {problem}" for problem in problems))
    return settings


def _search_settings(folder: Path, config: Config) -> TranslateSettings:
    """How the folder translates: generation_config.json, or what older ones have in config.json."""
    search = {**config, **_optional_json(folder / "generation_config.json")}
    stated = _optional_json(folder / "tokenizer_config.json").get("model_max_length")
    lengths = [n for n in (stated, config.get("max_position_embeddings")) if type(n) is int and n > 1]
    longest = search.get("max_length")  # counts what the decoder reads first
    values = {
        "beam_size": search.get("num_beams") or 1,
        "length_penalty": "average",
        "alpha": search["length_penalty"] if search.get("length_penalty") is not None else 1.0,
        "stop": "first_n" if search.get("early_stopping") is True else "exact",
        "max_length_ratio": 0.0,
        "max_extra_length": search.get("max_new_tokens") or (longest - 1 if type(longest) is int else 511),
        "max_source_length": min(lengths, default=512) - 1,  # </s> needs a place, too
    }
    try:
        return TranslateSettings.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise RunError(f"{folder}: settings of the search that cannot be kept ({problems})") from error


def _languages(folder: Path) -> tuple[str, str]:
    """Of tokenizer_config.json; und, ISO 639-2's undetermined, where it says none."""
    stated = _optional_json(folder / "tokenizer_config.json")
    src, tgt = (stated.get(key) for key in ("source_lang", "target_lang"))
    return (src if isinstance(src, str) and src else "und", tgt if isinstance(tgt, str) and tgt else "und")


# --- vocabularies ---


def _vocabularies(
    folder: Path, config: Config, tables: Tables, is_separate: bool
) -> tuple[Vocabulary, Vocabulary, Layout, Layout]:
    models = [read_model((folder / name).read_bytes(), str(folder / name)) for name in ("source.spm", "target.spm")]
    src_pieces, tags = text_pieces(models[0]), controls(models[0])
    if is_separate:
        src = arrange(_entries(folder, "vocab.json", len(tables.src), config, is_target=False), src_pieces, tags)
        tgt = arrange(_entries(folder, "target_vocab.json", len(tables.tgt), config, is_target=True), [])
    else:
        src = tgt = arrange(_entries(folder, "vocab.json", len(tables.tgt), config, is_target=True), src_pieces, tags)
    sides = zip(models, (src, tgt), ("source.spm", "target.spm"), strict=True)
    src_vocabulary, tgt_vocabulary = (build(model, layout, str(folder / name)) for model, layout, name in sides)
    return src_vocabulary, tgt_vocabulary, src, tgt


def _entries(folder: Path, name: str, n_rows: int, config: Config, is_target: bool) -> Entries:
    """One vocab.json, checked; only a target needs what the decoder reads first."""
    pieces = _read_json(folder / name)
    keys = ["pad_token_id", *(["decoder_start_token_id"] if is_target else [])]
    tokens = _optional_json(folder / "special_tokens_map.json")
    unk, eos = (_content(tokens.get(key), default) for key, default in (("unk_token", "<unk>"), ("eos_token", "</s>")))
    problems = [f"{token} is missing" for token in (unk, eos) if token not in pieces]
    ids = list(pieces.values())
    if not all(type(i) is int and 0 <= i < n_rows for i in ids) or len(set(ids)) < len(ids):
        problems.append(f"ids must be different whole numbers below {n_rows:,}, the rows in {WEIGHTS}")
    problems += [
        f"{key} of {CONFIG} is {config.get(key)!r}, not one of {n_rows:,} rows"
        for key in keys
        if type(config.get(key)) is not int or not 0 <= config[key] < n_rows
    ]
    if problems:
        raise RunError(f"{folder / name}: {'; '.join(problems)}")
    start = config["decoder_start_token_id"] if is_target else None
    return Entries(pieces, n_rows, pieces[unk], pieces[eos], config["pad_token_id"], start)


def _content(token: Any, default: str) -> str:
    """A special token is a string, or an object that has one."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else default
