from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from data.statistics import Statistics


@cache
def some_statistics(n: int, seed: int = 1) -> Statistics:
    draw = np.random.default_rng(seed)
    lengths = [draw.poisson(mean, n).astype(np.int64) + 1 for mean in (14, 16)]
    ids = [(260 + draw.zipf(1.5, int(one.sum())) % 7740).astype(np.uint16) for one in lengths]
    return Statistics.of(["one two three"] * n, ["eins zwei"] * n, ids[0], lengths[0], ids[1], lengths[1], 4, True)


@pytest.fixture
def manifest() -> dict[str, Any]:
    """What a preparation of two corpora tells."""
    statistics = {"news": some_statistics(3000), "books": some_statistics(500, 2)}
    return {
        "src_lang": "en",
        "tgt_lang": "de",
        "counts": {
            "train": [
                {
                    "name": "news",
                    "source": "n.en + n.de",
                    "read": 3456,
                    "kept": 3000,
                    "dropped": {"copied": 456, "x": 0},
                },
                {
                    "name": "books",
                    "source": "b.tmx",
                    "read": 700,
                    "kept": 500,
                    "dropped": {"too_long": 187, "copied": 13},
                },
            ],
            "valid": 1014,
            "test": {"wmt14": 2737},
        },
        "examples": {"news": {"copied": [{"place": 17, "src": "the copied source", "tgt": "the copied target"}]}},
        "statistics": {name: one.to_json() for name, one in statistics.items()},
        "statistics_all": sum(statistics.values(), Statistics()).to_json(),
        "contamination": {
            "valid": {"lines": 0, "exact": 0, "normalised": 0, "overlap": 0, "pairs_dropped": 0},
            "wmt14": {"lines": 41, "exact": 40, "normalised": 3, "overlap": 2, "pairs_dropped": 0},
        },
        "duplicates": {"pair": {"exact": 611, "normalised": 72}},
        "languages": {"news": {"src": {"en": 2950, "fr": 50}, "tgt": {"de": 3000}}},
        "drift": {
            "news": {
                "places": list(range(1, 3400, 100)),
                "agreement": [0.8] * 20 + [0.3] * 14,
                "findings": ["from line 2,012 on, the target is a line behind"],
            }
        },
        "settings": {"vocabulary": {"joint": True, "size": 8000}, "max_length": 256},
        "sources": {"train": [{"src": "n.en", "tgt": "n.de"}]},
        "tokens": {"train": {"src": 52_000, "tgt": 59_000}},
        "vocabulary_size": {"src": 8000, "tgt": 8000},
        "seconds": 71.0,
    }
