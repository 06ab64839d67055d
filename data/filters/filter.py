"""What a filter is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from data.pairs import Texts

Kept: TypeAlias = npt.NDArray[np.bool_]  # one for each pair; True = keep
Filter: TypeAlias = Callable[[Texts], Kept]


def primary(language: str) -> str:
    """The language of a code with country or script: `de` of `de-DE`, `zh` of `zh_Hans`, `no` of `nb`."""
    code = language.replace("_", "-").split("-")[0].lower()
    return {"nb": "no", "iw": "he", "in": "id", "cmn": "zh"}.get(code, code)
