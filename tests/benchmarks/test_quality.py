"""The table of what is reached says what was found; a recipe whose corpora are missing says which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.quality import RECIPES, available, render
from transformer.config_file import load_config
from transformer.errors import ConfigError


def figure(score: float, interval: tuple[float, float] | None, signature: str) -> dict[str, Any]:
    return {"score": score, "interval": interval, "signature": signature}


def result(recipe: str) -> dict[str, Any]:
    found = {
        "bleu": figure(39.784, (38.21, 41.26), "nrefs:1|case:mixed"),
        "chrf": figure(64.0, None, "nrefs:1|nc:6"),
        "literature": figure(40.1, (38.5, 41.6), "nrefs:1|case:lc"),
        "length_ratio": 1.0031,
        "n_lines": 1000,
    }
    return {
        "recipe": recipe,
        "tests": {"test_2016_flickr": found},
        "command": "python benchmarks/quality.py --data DIR " + recipe,
        "training_seconds": 1740,
        "updates": 4000,
        "target_tokens": 16_000_000,
        "target_tokens_per_second": 9400,
        "settings": {"train.lr": 0.005},
        "cores": 2,
        "cpu": "AMD EPYC",
        "date": "2026-11-30",
    }


def test_the_table_has_figures_with_intervals_signatures_and_what_was_published() -> None:
    page = render([result("multi30k-en-de"), result("multi30k-en-cs")])
    row = "| {} | test_2016_flickr | 39.78 (38.2–41.3) | 64.00 | 40.10 (38.5–41.6) | {} | 1.003 |"
    assert row.format("multi30k-en-de", "41.02") in page
    assert row.format("multi30k-en-cs", "") in page
    assert page.count("`nrefs:1|case:mixed`") == page.count("`nrefs:1|case:lc`") == 1
    assert "| 29 | 4,000 | 16.0 | 9,400 | 2 cores of AMD EPYC, 2026-11-30 |" in page


def test_a_recipe_without_its_corpora_is_left_out_and_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "multi30k"
    folder.mkdir()
    for split in ("train", "val", "test_2016_flickr"):
        for language in ("en", "cs"):
            (folder / f"{split}.{language}.gz").touch()
    assert available(tmp_path) == ["multi30k-en-cs"]
    said = capsys.readouterr().err
    assert "train.de.gz, val.de.gz, test_2016_flickr.de.gz not there" in said
    assert "tatoeba/train.en-de.en.gz" in said
    with pytest.raises(ConfigError, match=r"l10n/train\.en-de\.en\.gz"):
        RECIPES["small-en-de"].overrides(tmp_path)


def test_recipes_are_configs_that_name_their_languages(tmp_path: Path) -> None:
    for recipe in RECIPES.values():
        assert load_config(recipe.config).train.max_steps > 0
        assert recipe.name.endswith(f"-{recipe.src_lang}-{recipe.tgt_lang}")
