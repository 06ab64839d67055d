"""What a config may say of filters is what the filters take."""

from __future__ import annotations

import inspect
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from data.filters import FACTORIES
from transformer.config_filters import FilterSettings
from transformer.config_section import Section

UNION = get_args(FilterSettings)[0]
SECTIONS: dict[str, type[Section]] = {kind.model_fields["filter"].default: kind for kind in get_args(UNION)}
adapter: TypeAdapter[Any] = TypeAdapter(FilterSettings)


@pytest.mark.parametrize("name", list(FACTORIES))
def test_settings_and_defaults_are_those_of_the_filter(name: str) -> None:
    parameters = inspect.signature(FACTORIES[name]).parameters
    wanted = {key: value.default for key, value in parameters.items() if key not in ("src_lang", "tgt_lang")}
    fields = {key: field for key, field in SECTIONS[name].model_fields.items() if key != "filter"}
    given = {key: inspect.Parameter.empty if field.is_required() else field.default for key, field in fields.items()}
    assert given == wanted


def test_every_setting_says_what_it_is() -> None:
    for section in SECTIONS.values():
        assert section.__doc__
        assert all(field.description for key, field in section.model_fields.items() if key != "filter")


def test_every_filter_there_is_can_be_configured() -> None:
    assert set(SECTIONS) == {*FACTORIES, "duplicates", "word_translation"}


@pytest.mark.parametrize(
    "entry",
    [{"filter": "lenght"}, {"max_words": 3}, {"filter": "length", "max_word": 3}, {"filter": "score"},
     {"filter": "ratio", "max_ratio": 0.5}, {"filter": "duplicates", "of": "both"}],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        adapter.validate_python(entry)
