"""What an ecosystem cannot express is named, setting by setting; what is left is what it can do."""

from __future__ import annotations

from typing import Any

import pytest

from transformer.config import ModelSettings, Settings
from transformer.config_translate import DiversitySettings, SamplingSettings, TranslateSettings
from transformer.inference.export.obstacles import LIMITS, LONGEST_SOURCE, fit_search, obstacles, outlook

WITHIN = TranslateSettings(length_penalty="average", alpha=1.0)
BEYOND: dict[str, Any] = {
    "length_penalty": "wu",
    "stop": "exact",
    "max_source_length": LONGEST_SOURCE + 1,
    "min_length": 3,
    "repetition_penalty": 1.2,
    "no_repeat_ngram": 3,
    "coverage_penalty": 0.2,
    "copy_unknown": True,
    "alignment_layer": 1,
    "diversity": DiversitySettings(),
    "sampling": SamplingSettings(),
    "minimum_bayes_risk": "chrf",
    "precision": "bf16",
}
"""A value of each setting of the search that CTranslate2 does not know."""

KNOWN = {
    "beam_size": 7,
    "n_best": 2,
    "alpha": 0.6,
    "max_length_ratio": 2.0,
    "max_extra_length": 3,
    "long_input": "truncate",
    "max_tokens": 100,
    "workers": 3,
    "tag": "<bt>",
}
"""A value, other than the default, of each of the others."""


def test_every_setting_of_the_search_is_known_or_not() -> None:
    assert set(BEYOND) | set(KNOWN) == set(TranslateSettings.model_fields)
    assert set(BEYOND) == {limit.setting for limit in LIMITS["ctranslate2"].search}


@pytest.mark.parametrize("setting", BEYOND)
def test_a_setting_that_ctranslate2_does_not_know_is_named_and_replaced(setting: str) -> None:
    asked = WITHIN.model_copy(update={setting: BEYOND[setting]})
    fitted, [sentence] = fit_search("ctranslate2", asked)
    assert sentence.startswith(f"translate.{setting}: ")
    assert "CTranslate2" in sentence
    assert f"translate.{setting}=" in sentence.split("What it can do")[1]
    assert fit_search("ctranslate2", fitted) == (fitted, [])
    assert getattr(fitted, setting) != BEYOND[setting]


def test_settings_that_ctranslate2_knows_stay_as_they_are() -> None:
    asked = WITHIN.model_copy(update=KNOWN)
    assert fit_search("ctranslate2", asked) == (asked, [])
    assert fit_search("ctranslate2", TranslateSettings(length_penalty="none", stop="exact"))[1] == []


def test_all_that_is_not_known_is_named_at_once() -> None:
    _, sentences = fit_search("ctranslate2", TranslateSettings().model_copy(update=BEYOND))
    assert [sentence.split(":")[0] for sentence in sentences] == [f"translate.{setting}" for setting in BEYOND]


def test_the_outlook_has_a_line_for_every_setting_in_the_way() -> None:
    settings = Settings(export=["ctranslate2"])
    lines = outlook(settings.export, settings.model, settings.translate)
    assert [line.split(":")[:3] for line in lines] == [
        ["ctranslate2", " can be exported, but not translate.length_penalty", " wu"]
    ]
    assert outlook(["ctranslate2"], ModelSettings(), WITHIN) == ["ctranslate2: can be exported"]
    assert outlook([], ModelSettings(), WITHIN) == []


def test_the_network_of_the_paper_can_be_exported_everywhere() -> None:
    assert all(obstacles(target, ModelSettings(scaling="embedding")) == [] for target in LIMITS)
