"""The card of a model: metadata that the hub takes, figures that the run has, a licence that stays."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from transformer.config import ModelSettings, Settings
from transformer.config_file import save_settings
from transformer.config_translate import TranslateSettings
from transformer.model_card import Licence, ModelFacts, RunFacts, front_matter, model_card, read_run, stated_licence

MODEL = ModelFacts("en", "de", ModelSettings(d_head=32), TranslateSettings(beam_size=7), 123456, 1000, 2000)
FIGURES: dict[str, Any] = {
    "test_set": 'flickr | 2016\n"x"',
    "n_lines": 1000,
    "metrics": {
        "bleu": {"score": 38.74, "interval": [37.61, 39.9], "signature": "nrefs:1|case:mixed|tok:13a"},
        "chrf": {"score": 64.0, "interval": None, "signature": "nrefs:1|nc:6"},
    },
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "runs" / "demo"
    (directory / "translations").mkdir(parents=True)
    settings = Settings(name="demo", train={"max_steps": 50, "warmup_steps": 9})  # type: ignore[arg-type]
    save_settings(settings, directory / "settings.yaml")
    (directory / "record.json").write_text(json.dumps({"corpora": {"news": 1000, "web|x": 34}}))
    (directory / "translations" / "flickr.json").write_text(json.dumps(FIGURES))
    return directory


def metadata_of(card: str) -> dict[str, Any]:
    begin, head, _ = re.split(r"^---\n", card, maxsplit=2, flags=re.MULTILINE)
    assert not begin
    loaded = yaml.safe_load(head)
    assert isinstance(loaded, dict)
    return loaded


def test_a_card_has_what_the_run_knows(run: Path) -> None:
    card = model_card(MODEL, read_run(run), {"license": "cc-by-4.0"})
    assert metadata_of(card)["license"] == "cc-by-4.0"
    assert metadata_of(card)["language"] == ["en", "de"]
    for words in (
        "123,456 parameters; 1,000 source and 2,000 target pieces",
        "| news | 1,000 |",
        "| web\\|x | 34 |",
        "| all | 1,034 |",
        '| flickr \\| 2016 "x" | 1000 | 38.7 (37.6–39.9) | 64.0 |',
        "- `nrefs:1|case:mixed|tok:13a`",
        "max_steps: 50",
        "beam_size: 7",
        "d_head: 32",
        'Translator.load("THIS_FOLDER")',
        "--to ctranslate2",
        "--to huggingface",
    ):
        assert words in card, words


def test_a_card_without_a_run_says_how_to_get_figures() -> None:
    card = model_card(MODEL, RunFacts())
    assert "python evaluate.py --model RUN" in card
    assert metadata_of(card)["license"] == "unknown"
    assert "model-index" not in metadata_of(card)


def test_the_hub_reads_the_metadata(run: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    data = hub.ModelCard(model_card(MODEL, read_run(run), {"license": "mit"})).data
    assert data.language == ["en", "de"]
    assert data.pipeline_tag == "translation"
    results = {result.metric_type: result.metric_value for result in data.eval_results}
    assert results == {"bleu": 38.74, "chrf": 64.0}
    assert data.eval_results[0].dataset_name == FIGURES["test_set"]


@given(st.text(), st.text(), st.text(min_size=1))
def test_any_text_stays_inside_its_field(src: str, tgt: str, licence: str) -> None:
    metadata = metadata_of(front_matter(src, tgt, {"license": licence}) + "\n")
    languages = [language for language in dict.fromkeys((src, tgt)) if language != "und"]
    assert metadata.get("language", []) == languages
    assert metadata["license"] == licence


@pytest.mark.parametrize(
    ("licence", "shown"),
    [
        ({"license": "apache-2.0"}, "apache-2.0"),
        ({"license": ["mit", "cc-by-4.0"]}, "mit, cc-by-4.0"),
        ({"license": "other", "license_name": "ours", "license_link": "https://example.org"}, "ours"),
    ],
    ids=str,
)
def test_a_licence_once_stated_is_found_again(tmp_path: Path, licence: Licence, shown: str) -> None:
    card = tmp_path / "README.md"
    card.write_text(model_card(MODEL, RunFacts(), licence), encoding="utf-8")
    assert stated_licence(card) == licence
    assert f"\n{shown}: the line `license:`" in card.read_text(encoding="utf-8")


HEADS = [b"", b"# no head\n", b"[1]\n", b": :\n", b"\xff", b"license: 5\n", b"license: []\n", b"license: [1]\n", b"x\n"]


@pytest.mark.parametrize("content", [*HEADS[:2], b"\xff", *(b"---\n%b---\n" % head for head in HEADS)])
def test_a_card_without_a_licence_has_an_unknown_one(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(content)
    assert stated_licence(tmp_path / "README.md") == stated_licence(tmp_path / "nothing") == {"license": "unknown"}


def test_damaged_facts_are_left_out(run: Path) -> None:
    (run / "record.json").write_text("{")
    (run / "translations" / "flickr.json").write_text(json.dumps({"metrics": {"bleu": {"score": "high"}}}))
    (run / "translations" / "other.json").write_text("[]")
    card = model_card(MODEL, read_run(run))
    assert "Not recorded here." in card
    for corpora in ([1], "news", 5, {"news": "many"}, {"news": 10**400}):
        (run / "record.json").write_text(json.dumps({"corpora": corpora}))
        assert read_run(run).corpora == {}
    (run / "settings.yaml").unlink()
    assert read_run(run) == RunFacts()


@pytest.mark.parametrize(
    "interval", ["x", "xy", [1], 5, [None, None], [1, "2"], {}, True, [1e400, 2], [float("nan"), 2]]
)
def test_an_interval_that_is_none_is_left_out(run: Path, interval: Any) -> None:
    figures = {"metrics": {"bleu": {"score": 38.74, "interval": interval}, "chrf": {"score": 10**400}}}
    (run / "translations" / "flickr.json").write_text(json.dumps(figures))
    card = model_card(MODEL, read_run(run))
    assert "| None | None | 38.7 |\n" in card
