"""What an ecosystem cannot express: known before a model is trained, not after.

Two kinds. A setting of the network without a counterpart keeps the model from being exported. A setting of the search
without one is replaced by the nearest that has one, as the weights are the same; whoever exports is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from transformer.config import ModelSettings
from transformer.config_translate import TranslateSettings

LONGEST_SOURCE = 2046
"""Pieces that CTranslate2 reads at once, with a tag and </s> 2,048: so many sinusoidal positions are exported."""

N_POSITIONS = LONGEST_SOURCE + 2
"""Of sinusoidal ones; for the base model they are 4 MiB."""

RULED_OUT = -1e4
"""The bias of pieces that are no outcomes: e to this is 0 in fp32, and it is a number in fp16."""


@dataclass(frozen=True)
class SearchLimit:
    """A setting of the search that an ecosystem has no counterpart for.

    Attributes:
        setting: its name in `translate`.
        is_crossed: whether these settings ask for it.
        instead: what takes its place, by the names of settings.
        why: what the ecosystem does not do.
    """

    setting: str
    is_crossed: Callable[[TranslateSettings], bool]
    instead: dict[str, Any]
    why: str


@dataclass(frozen=True)
class Limits:
    """Of an ecosystem: what messages call it, sentences about settings of the network, and limits of its search."""

    title: str
    network: Callable[[ModelSettings], list[str]]
    search: Sequence[SearchLimit]


def obstacles(target: str, settings: ModelSettings) -> list[str]:
    """A sentence for each setting of the network that `target` cannot express: which, and what to set instead.

    Where there is none, the export is exact.
    """
    return LIMITS[target].network(settings)


def fit_search(target: str, settings: TranslateSettings) -> tuple[TranslateSettings, list[str]]:
    """The nearest settings that `target` can search with, and a sentence for each that had to change."""
    limits, sentences = LIMITS[target], []
    for limit in limits.search:
        if limit.is_crossed(settings):
            there = f"translate.{limit.setting}: {_shown(getattr(settings, limit.setting))}"
            instead = ", ".join(f"translate.{name}={_shown(value)}" for name, value in limit.instead.items())
            sentences.append(f"{there}: {limits.title} {limit.why}. What it can do: {instead}")
            settings = settings.model_copy(update=limit.instead)
    return settings, sentences


def outlook(targets: Sequence[str], network: ModelSettings, search: TranslateSettings) -> list[str]:
    """What will become of exports of a model with these settings, a line each."""
    lines = []
    for target in targets:
        found = [f"cannot be exported: {sentence}" for sentence in obstacles(target, network)]
        found += [f"can be exported, but not {sentence}" for sentence in fit_search(target, search)[1] if not found]
        lines += [f"{target}: {sentence}" for sentence in found or ["can be exported"]]
    return lines


def _shown(value: object) -> str:
    """A value, about as a config has it."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _off(setting: str, default: Any, why: str) -> SearchLimit:
    return SearchLimit(setting, lambda settings: getattr(settings, setting) != default, {setting: default}, why)


_WU = SearchLimit(
    "length_penalty",
    lambda settings: settings.length_penalty == "wu",
    {"length_penalty": "average", "alpha": 1.0},
    "does not know the penalty of Wu et al. 2016",
)
_POSITIONS = SearchLimit(
    "max_source_length",
    lambda settings: (settings.max_source_length or 0) > LONGEST_SOURCE,
    {"max_source_length": LONGEST_SOURCE},
    "gets so many positions",
)

CTRANSLATE2 = Limits(
    "CTranslate2",
    lambda settings: [],  # it knows everything there is: tests/transformer/inference/export exports each setting
    (
        _WU,
        SearchLimit(
            "stop",
            lambda settings: settings.stop == "exact" and settings.length_penalty != "none" and settings.beam_size > 1,
            {"stop": "first_n"},
            "stops when beam_size hypotheses have ended",
        ),
        _POSITIONS,
        # These three it applies before it normalises, so that all other pieces gain: other scores, other translations.
        _off("min_length", 0, "has another rule against short translations"),
        _off("repetition_penalty", 1.0, "has another penalty of repetitions"),
        _off("no_repeat_ngram", 0, "has another rule against repetitions"),
        _off("coverage_penalty", 0.0, "does not look at the attention of all layers"),
        _off("copy_unknown", False, "does not look at the attention of all layers"),
        _off("alignment_layer", None, "aligns no words"),
        _off("diversity", None, "has no groups of beams"),
        _off("sampling", None, "draws other numbers"),
        _off("minimum_bayes_risk", None, "does not compare its hypotheses"),
        _off("precision", "fp32", "has the precision it was exported with (--quantization)"),
    ),
)


def _huggingface_network(settings: ModelSettings) -> list[str]:
    """MarianMTModel, or Pegasus where norms come first."""
    found = []
    if settings.norm != "layer_norm":
        found.append(f"model.norm: {settings.norm}: its classes have layer_norm")
    if settings.activation == "swiglu":
        found.append("model.activation: swiglu: its classes have no gate; set relu, gelu or silu")
    if settings.positions == "rotary":
        found.append("model.positions: rotary: its classes have sinusoidal ones")
    if settings.embedding_norm:
        found.append("model.embedding_norm: true: its classes have no norm there; set false")
    if settings.key_width * settings.n_heads != settings.d_model:
        found.append(f"model.d_head: {settings.key_width}: set d_model / n_heads, or null, which is that")
    if settings.value_width != settings.key_width:
        found.append(f"model.d_value: {settings.d_value}: set null, which is d_head")
    if settings.norm_position == "pre" and settings.tie_embeddings != "three_way":
        found.append(
            f"model.tie_embeddings: {settings.tie_embeddings}: with model.norm_position pre set three_way, or set "
            "model.norm_position post"
        )
    return found


HUGGINGFACE = Limits(
    "Hugging Face",
    _huggingface_network,
    (
        _WU,
        _POSITIONS,
        _off("min_length", 0, "counts otherwise"),
        _off("repetition_penalty", 1.0, "has another penalty of repetitions"),
        _off("no_repeat_ngram", 0, "counts otherwise"),
        _off("coverage_penalty", 0.0, "has no such penalty"),
        _off("copy_unknown", False, "copies nothing"),
        _off("alignment_layer", None, "aligns no words"),
        _off("diversity", None, "has no groups of beams"),
        _off("sampling", None, "draws other numbers"),
        _off("minimum_bayes_risk", None, "does not compare its hypotheses"),
        _off("precision", "fp32", "takes the precision when it loads a model"),
    ),
)

ONNX = Limits("ONNX Runtime", lambda settings: [], ())  # the network as it is; what searches is no part of it

LIMITS = {"ctranslate2": CTRANSLATE2, "huggingface": HUGGINGFACE, "onnx": ONNX}
"""By the names that `--to` and the setting `export` take."""
