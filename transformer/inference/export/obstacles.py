"""Which settings an ecosystem cannot express: known before a model is trained, not after."""

from __future__ import annotations

from collections.abc import Callable

from transformer.config import ModelSettings


def obstacles(target: str, settings: ModelSettings) -> list[str]:
    """One sentence for each setting of the network that `target` cannot express: which, and what to change.

    None: the export is exact. `target` is a key of `TARGETS`.
    """
    return TARGETS[target](settings)


def _ctranslate2(settings: ModelSettings) -> list[str]:
    return []


def _huggingface(settings: ModelSettings) -> list[str]:
    return []


TARGETS: dict[str, Callable[[ModelSettings], list[str]]] = {"ctranslate2": _ctranslate2, "huggingface": _huggingface}
