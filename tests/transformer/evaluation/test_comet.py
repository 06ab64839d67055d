"""COMET: what its model is given and what becomes of its scores, with a stand-in for the library."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from data.errors import DataError
from transformer.errors import ConfigError, RunError
from transformer.evaluation.comet import DEFAULT_MODEL, Comet
from transformer.evaluation.measurement import Measures, Output, measure
from transformer.evaluation.test_sets import TestSet

Call = Callable[..., Any]
TEST = TestSet("news", ["a b", "c", "d"], [["A B", "C", "D"], ["A", "C C", "D"]])


class Model:
    """Scores by the share of the reference's letters that the translation has."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []

    def predict(self, rows: list[dict[str, str]], batch_size: int, gpus: int, accelerator: str) -> SimpleNamespace:
        assert (gpus, accelerator) == (0, "cpu")
        self.asked += rows
        scores = [len(set(row["mt"]) & set(row["ref"])) / len(set(row["ref"])) for row in rows]
        return SimpleNamespace(scores=scores, system_score=sum(scores) / len(scores))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module, model = ModuleType("comet"), Model()
    module.__dict__.update(
        __version__="2.2.6",
        model=model,
        download_model=lambda name: f"cache/{name}.ckpt",
        load_from_checkpoint=lambda path: model,
    )
    monkeypatch.setitem(sys.modules, "comet", module)
    return module


def test_the_model_reads_source_translation_and_each_reference(library: ModuleType) -> None:
    evaluation, _ = measure(TEST, Output(["A B", "X", "D"]), Measures("en", "de", comet=Comet(DEFAULT_MODEL, False)))
    assert library.model.asked[:2] == [
        {"src": "a b", "mt": "A B", "ref": "A B"},
        {"src": "c", "mt": "X", "ref": "C"},
    ]
    assert len(library.model.asked) == 6
    figure = evaluation.metrics["comet"]
    assert figure.score == pytest.approx(100 * (1 + 0 + 1) / 3)
    assert figure.interval == pytest.approx((0, 100))
    assert figure.signature == f"nrefs:2|bs:1000|seed:12345|model:{DEFAULT_MODEL}|version:comet-2.2.6"


def test_without_sources_it_is_not_asked(library: ModuleType) -> None:
    measures = Measures("en", "de", comet=Comet(DEFAULT_MODEL, False))
    with pytest.raises(DataError, match="--src FILE"):
        measure(TestSet("news", None, TEST.references), Output(["A", "B", "C"]), measures)


def test_a_model_that_cannot_be_had_is_named_with_the_remedy(library: ModuleType) -> None:
    def fail(name: str) -> str:
        raise KeyError(f"Model '{name}' not supported by COMET.")

    library.__dict__["download_model"] = fail
    with pytest.raises(RunError, match=r"--comet Unbabel/none: cannot be loaded: .*FILE\.ckpt"):
        Comet("Unbabel/none", False)


def test_without_the_library_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(ConfigError, match="pip install unbabel-comet"):
        Comet(DEFAULT_MODEL, False)


def test_evaluate_prints_it_and_compares_by_it(library: ModuleType, tmp_path: Path, capsys: Any) -> None:
    import evaluate

    texts = {"src": ["a b", "c", "d"], "ref": ["A B", "C", "D"], "out": ["A B", "X", "D"], "other": ["A B", "C", "D"]}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = ["--reference", str(tmp_path / "ref"), "--src", str(tmp_path / "src"), "--comet", "--device", "cpu"]
    assert evaluate.main(["--hypothesis", str(tmp_path / "out"), *files]) == 0
    assert re.search(r"COMET +66\.67 \[.*model:Unbabel/wmt22-comet-da", capsys.readouterr().out)
    assert evaluate.main(["--compare", str(tmp_path / "out"), str(tmp_path / "other"), *files]) == 0
    assert "+33.33" in capsys.readouterr().out
