"""The table of what is reached says what was found; a recipe whose corpora are missing says which."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import quality
from benchmarks.machine import machine_facts
from benchmarks.quality import RECIPES, Recipe, available, main, reach, render, where_trained
from benchmarks.scripts import ROOT, Work
from transformer.config import Settings
from transformer.config_file import load_config, save_settings
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


def test_a_folder_without_any_corpus_is_a_mistake_and_no_table_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quality, "RESULTS", tmp_path / "results")
    with pytest.raises(ConfigError, match=r"--data .*typo: has the corpora of no recipe"):
        main(["--data", str(tmp_path / "typo")])
    assert list(tmp_path.iterdir()) == []


DEVICES = {
    "cpu": {"type": "cpu", "name": "Old Processor", "count": 3, "threads": 2, "instructions": "AVX2"},
    "cuda": {"type": "cuda", "name": "Some GPU", "count": 1, "threads": 2, "instructions": "AVX2"},
}


def write_run(folder: Path, device: str, seconds: float) -> None:
    """What training and evaluation leave."""
    folder.mkdir(parents=True, exist_ok=True)
    save_settings(Settings(), folder / "settings.yaml")
    line = {"step": 9, "epoch": 1, "n_tokens": 900, "seconds": seconds, "tokens_per_second": 90.0}
    (folder / "metrics.jsonl").write_text(f"{json.dumps(line)}\n")
    (folder / "choices.json").write_text("{}")
    environment = {
        "versions": {"python": "3.11.1", "torch": "2.9.0", "sentencepiece": "0.1"},
        "git": None,
        "device": DEVICES[device],
        "processes": 1,
        "platform": {"system": "Linux", "machine": "x86_64"},
    }
    (folder / "record.json").write_text(json.dumps({"environment": environment}))


def test_where_a_run_was_trained_is_what_its_record_says(tmp_path: Path) -> None:
    write_run(tmp_path, "cpu", 60.0)
    facts = where_trained(tmp_path)
    assert (facts["cpu"], facts["cores"], facts["system"]) == ("Old Processor", 3, "Linux x86_64, Python 3.11.1")
    now = machine_facts()
    assert facts["libraries"] == {**now["libraries"], "torch": "2.9.0", "sentencepiece": "0.1"}
    write_run(tmp_path, "cuda", 60.0)
    assert "| 1 × Some GPU, 2026-11-30 |" in render(
        [{**result("multi30k-en-de"), "gpu": where_trained(tmp_path)["gpu"]}]
    )
    for damage in ('{"environment": {"device": {"type": "cpu", "name": "x", "count": 1}}}', "[]", "{"):
        (tmp_path / "record.json").write_text(damage)
        assert where_trained(tmp_path) == now
    (tmp_path / "record.json").unlink()
    assert where_trained(tmp_path) == now


def test_what_starts_the_scripts_is_small_as_its_memory_counts_among_theirs() -> None:
    asked = "import sys, benchmarks.quality; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"


def test_a_finished_run_that_is_started_again_keeps_its_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "RESULTS", tmp_path)
    monkeypatch.setattr(Recipe, "overrides", lambda recipe, data: [])
    monkeypatch.setattr(Work, "run", lambda *arguments: 0.0)
    name = "multi30k-en-de"
    told = []
    for today, seconds in (("2026-01-01", 60.0), ("2026-01-02", 60.0), ("2026-01-03", 70.0)):
        monkeypatch.setattr(quality, "machine_facts", lambda day=today: {**machine_facts(), "date": day})
        write_run(tmp_path / "work/runs" / name, "cpu", seconds)
        reach(RECIPES[name], tmp_path, Work(tmp_path / "work", name), [])
        told.append(json.loads((tmp_path / f"quality-{name}.json").read_text(encoding="utf-8"))["date"])
    assert told == ["2026-01-01", "2026-01-01", "2026-01-03"]


def test_recipes_are_configs_that_name_their_languages(tmp_path: Path) -> None:
    for recipe in RECIPES.values():
        assert load_config(recipe.config).train.max_steps > 0
        assert recipe.name.endswith(f"-{recipe.src_lang}-{recipe.tgt_lang}")
