"""What turns lines into translations, by whatever program: the two ways in, in windows of lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from transformer.config_translate import TranslateSettings
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
