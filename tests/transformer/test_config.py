from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from transformer.config import (
    ModelSettings,
    Section,
    Settings,
    TrainSettings,
    TranslateSettings,
    VocabularySettings,
)
from transformer.config_corpora import CORPUS_KINDS
from transformer.config_schema import SECTIONS


def _numbers() -> list[tuple[str, str, dict[str, Any]]]:
    """(section, key, schema) of every number; of "a number or null" the number's schema."""
    return [
        (section, key, kind)
        for section, keys in SECTIONS.items()
        for key, schema in keys.items()
        for kind in schema.get("anyOf", [schema])
        if kind.get("type") in ("integer", "number")
    ]


def _one(section: str, key: str, value: object) -> Settings:
    return Settings.model_validate({section: {key: value}})


def test_every_setting_says_what_it_means() -> None:
    for kind in (Settings, *CORPUS_KINDS, *[type(getattr(Settings(), name)) for name in SECTIONS]):
        assert issubclass(kind, Section)
        for name, field in kind.model_fields.items():
            assert name in SECTIONS or field.description, f"{kind.__name__}.{name} has no description"


def test_the_defaults_are_the_base_model_of_the_paper() -> None:
    model, train, translate = ModelSettings(), TrainSettings(), TranslateSettings()
    assert (model.n_encoder_layers, model.n_decoder_layers) == (6, 6)  # table 3
    assert (model.d_model, model.d_ff, model.n_heads, model.key_width, model.value_width) == (512, 2048, 8, 64, 64)
    assert (model.dropout, train.label_smoothing, train.max_steps) == (0.1, 0.1, 100_000)
    assert (train.adam_beta1, train.adam_beta2, train.adam_epsilon, train.warmup_steps) == (0.9, 0.98, 1e-9, 4000)
    assert (translate.beam_size, translate.alpha, translate.max_extra_length) == (4, 0.6, 50)  # §6.1


def test_every_number_has_a_lower_bound_and_whole_numbers_an_upper_one() -> None:
    assert len(_numbers()) > 30
    for section, key, schema in _numbers():
        assert {"minimum", "exclusiveMinimum"} & schema.keys(), f"{section}.{key}"
        if schema["type"] == "integer":
            assert {"maximum", "exclusiveMaximum"} & schema.keys(), f"{section}.{key}"


def test_the_bounds_in_the_schema_are_the_bounds_in_force() -> None:
    def refused(value: float) -> bool:
        try:
            _one(section, key, value)
        except ValidationError as error:  # contradictions with other settings are another matter
            return any(finding["type"] != "value_error" for finding in error.errors())
        return False

    for section, key, schema in _numbers():
        step = 1 if schema["type"] == "integer" else 1e-6
        for bound, outwards in (("minimum", -step), ("maximum", step)):
            if bound in schema:
                assert not refused(schema[bound]), f"{section}.{key}"
                assert refused(schema[bound] + outwards), f"{section}.{key}"
            exclusive = "exclusive" + bound.capitalize()
            if exclusive in schema:
                assert refused(schema[exclusive]), f"{section}.{key}"
                assert not refused(schema[exclusive] - outwards), f"{section}.{key}"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), "1", True, None, [1]])
def test_a_number_is_nothing_but_a_finite_number(value: object) -> None:
    for section, key, _ in _numbers():
        if value is None and SECTIONS[section][key].get("anyOf"):
            continue
        with pytest.raises(ValidationError):
            _one(section, key, value)


def test_a_whole_number_may_be_written_with_an_exponent() -> None:
    settings = _one("train", "max_steps", 1e5)
    assert settings.train.max_steps == 100_000
    assert isinstance(settings.train.max_steps, int)
    with pytest.raises(ValidationError):
        _one("train", "max_steps", 1.5)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().train.lr = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": {"d_model": 100, "n_heads": 8}}, ["d_model 100", "n_heads 8", "d_head"]),
        ({"model": {"d_model": 36, "n_heads": 4, "positions": "rotary"}}, ["rotary", "d_head is 9"]),
        ({"model": {"d_head": 7, "positions": "rotary"}}, ["rotary", "d_head is 7"]),
        ({"train": {"cooldown_steps": 10, "max_steps": 10}}, ["cooldown_steps 10", "max_steps 10"]),
        ({"vocabulary": {"joint": False}}, ["three_way", "vocabulary.joint"]),
        ({"vocabulary": {"joint": False}, "model": {"tie_embeddings": "source_target"}}, ["source_target"]),
        ({"vocabulary": {"size": 260}}, ["260", "byte_fallback"]),
        ({"data": {"train": [{"hub": "x", "src_column": "en"}]}}, ["src_column", "tgt_column"]),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(settings)
    for word in words:
        assert word in str(caught.value)


def test_what_only_looks_like_a_contradiction_is_accepted() -> None:
    assert ModelSettings(d_model=100, n_heads=8, d_head=16).key_width == 16
    assert ModelSettings(d_head=16).value_width == 16
    assert ModelSettings(d_head=16, d_value=24).value_width == 24
    assert VocabularySettings(size=260, byte_fallback=False).size == 260
    Settings.model_validate({"vocabulary": {"joint": False}, "model": {"tie_embeddings": "target"}})


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "-x", "a b", "a\n", "a\0"])
def test_names_that_become_file_names_stay_in_their_folder(name: str) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"name": name})
    with pytest.raises(ValidationError):
        Settings.model_validate({"data": {"test": {name: {"src": "a", "tgt": "b"}}}})


def test_the_settings_of_a_model_survive_json() -> None:
    settings = ModelSettings(d_head=32, dropout=0.25, tie_embeddings="none", norm_epsilon=1e-9)
    assert ModelSettings.model_validate(json.loads(json.dumps(settings.model_dump()))) == settings
