"""Filters: which training pairs are left out. Each is made by a function named as in the config, from its settings.

A filter takes some thousand pairs and says which to keep. What compares a pair with all others (duplicates,
contamination) is no filter of this kind, see `data.duplicates` and `data.contamination`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from data.errors import DataError
from data.filters.agreement import markup, numbers, score
from data.filters.characters import garbage
from data.filters.copies import copied
from data.filters.encodings import mojibake
from data.filters.filter import Filter
from data.filters.language import language
from data.filters.lengths import length, ratio
from data.filters.scripts import script
from data.filters.segments import concatenated, repeats

__all__ = ["FACTORIES", "Filter", "make_filter"]

FACTORIES: dict[str, Callable[..., Filter]] = {
    factory.__name__: factory
    for factory in (
        length,
        ratio,
        garbage,
        mojibake,
        script,
        language,
        copied,
        concatenated,
        repeats,
        numbers,
        markup,
        score,
    )
}


def make_filter(name: str, options: Mapping[str, Any], src_lang: str, tgt_lang: str) -> Filter:
    """Make a filter of its settings; the languages go to those that ask for them.

    Raises:
        DataError: there is no filter of this name, or a filter cannot be made, with the remedy.
    """
    if name not in FACTORIES:
        raise DataError(f"{name}: no filter; there are {', '.join(FACTORIES)}")
    factory = FACTORIES[name]
    languages = {"src_lang": src_lang, "tgt_lang": tgt_lang}
    wanted = {key: value for key, value in languages.items() if key in inspect.signature(factory).parameters}
    return factory(**wanted, **options)
