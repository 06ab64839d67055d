"""What turns lines into translations, by whatever program: the two ways in, in windows of lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from pydantic import ValidationError

from transformer.config_translate import TranslateSettings
from transformer.errors import ConfigError
from transformer.inference.requests import Request
from transformer.inference.translation import Translation

WINDOW = 2048
"""Lines that are held and sorted by length together: enough for batches almost without padding, and few in memory."""

Progress = Callable[[int], object]
"""Is called with the number of lines of each batch that is done."""


class LineTranslator(Protocol):
    """What `translate.py` needs of a translator; see `translator.Translator`, of which it is a part."""

    settings: TranslateSettings
    src_lang: str
    tgt_lang: str

    def translations(
        self,
        requests: Iterable[str | Request],
        window: int = WINDOW,
        progress: Progress | None = None,
        annotate: bool = False,
        first_line: int = 0,
    ) -> Iterator[Translation]:
        """Translations with their scores, in the order of the lines."""
        ...

    def scored(
        self,
        pairs: Iterable[tuple[str, str]],
        window: int = WINDOW,
        progress: Progress | None = None,
        first_line: int = 0,
    ) -> Iterator[Translation]:
        """Given translations with the score that the search would give them."""
        ...


def override(settings: TranslateSettings, overrides: Mapping[str, Any]) -> TranslateSettings:
    """The settings with others in place of some, by name.

    Raises:
        ConfigError: one is no setting, or out of bounds.
    """
    try:
        return TranslateSettings.model_validate(settings.model_dump() | dict(overrides))
    except ValidationError as error:
        problems = [
            f"translate.{'.'.join(map(str, p['loc']))}: {p['msg']}, not {p['input']!r}" if p["loc"] else p["msg"]
            for p in error.errors()
        ]
        raise ConfigError("\n".join(problems)) from None
