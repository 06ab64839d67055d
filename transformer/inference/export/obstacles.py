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


CTRANSLATE2 = Limits(
    "CTranslate2",
    lambda settings: [],  # it knows everything there is: tests/transformer/inference/export exports each setting
    (
        SearchLimit(
            "length_penalty",
            lambda settings: settings.length_penalty == "wu",
            {"length_penalty": "average", "alpha": 1.0},
            "does not know the penalty of Wu et al. 2016",
        ),
        SearchLimit(
            "stop",
            lambda settings: settings.stop == "exact" and settings.length_penalty != "none" and settings.beam_size > 1,
            {"stop": "first_n"},
            "stops when beam_size hypotheses have ended",
        ),
        SearchLimit(
            "max_source_length",
            lambda settings: (settings.max_source_length or 0) > LONGEST_SOURCE,
            {"max_source_length": LONGEST_SOURCE},
            "gets so many positions",
        ),
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
HUGGINGFACE = Limits("Hugging Face", lambda settings: [], ())

LIMITS = {"ctranslate2": CTRANSLATE2, "huggingface": HUGGINGFACE}
"""By the names that `--to` and the setting `export` take."""
