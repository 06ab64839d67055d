"""Comparisons of what evaluations left: the same sentences, the same words, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.errors import DataError
from transformer.errors import ConfigError, RunError
from transformer.evaluation.comparison import evaluated_runs, format_comparison
from transformer.evaluation.measurement import Measures, Output, measure
from transformer.evaluation.results import save_evaluation
from transformer.evaluation.systems import distinct_names
from transformer.evaluation.test_sets import TestSet

REFERENCE = ["Der Hund lief schnell nach Hause.", "Es war ein schöner Tag.", "Niemand sah ihn kommen."]


def leave(folder: Path, hypotheses: list[str], name: str = "news", tokenizer: str | None = None, n: int = 3) -> None:
    """What evaluate.py leaves in a run."""
    test = TestSet(name, ["a", "b", "c"][:n], [REFERENCE[:n]])
    found = measure(test, Output(hypotheses[:n]), Measures("en", "de", tokenizer))
    save_evaluation(folder / "translations", *found)


def test_runs_are_compared_on_all_that_they_have_in_common(tmp_path: Path) -> None:
    worse = [line.replace("Hund", "Hase").replace("Tag", "Abend") for line in REFERENCE]
    for run, lines in (("a", REFERENCE), ("b", worse), ("c", REFERENCE)):
        leave(tmp_path / run, lines)
        leave(tmp_path / run, lines, name=f"only {run}")
    [compared] = evaluated_runs([tmp_path / run for run in "abc"], None)
    assert list(compared.hypotheses.items()) == [("a", REFERENCE), ("b", worse), ("c", REFERENCE)]
    rows = [line.split() for line in format_comparison(compared).splitlines()]
    assert rows[1][:3] == ["a", "(baseline)", "100.00"]
    assert [row[-1] for row in rows if row and row[0] == "p,"][2:] == ["same", "same"], "c is a"
    differences = [row[1:] for row in rows if row and row[0] == "difference"]
    assert differences[1] == ["+0.00"] * 4
    assert differences[0][0].startswith("-")
    assert differences[0][3].startswith("+"), "TER counts what is wrong"


def test_runs_without_a_test_set_in_common_are_not_compared(tmp_path: Path) -> None:
    leave(tmp_path / "a", REFERENCE, name="news")
    leave(tmp_path / "b", REFERENCE, name="talks")
    with pytest.raises(RunError, match="no test set on which all were evaluated: a: news; b: talks"):
        evaluated_runs([tmp_path / "a", tmp_path / "b"], None)


def test_what_else_is_in_a_run_is_no_evaluation(tmp_path: Path) -> None:
    leave(tmp_path / "a", REFERENCE)
    (tmp_path / "b").mkdir()
    for name in ("settings.yaml", "choices.json", "record.json"):
        (tmp_path / "b" / name).write_text("{}")
    with pytest.raises(RunError, match=r"b: not evaluated yet: run python evaluate\.py --model"):
        evaluated_runs([tmp_path / "a", tmp_path / "b"], None)


def test_figures_of_different_words_are_compared_only_when_one_kind_is_chosen(tmp_path: Path) -> None:
    leave(tmp_path / "a", REFERENCE)
    leave(tmp_path / "b", REFERENCE, tokenizer="char")
    with pytest.raises(DataError, match=r"tokenisers 13a and char.*--tokenize"):
        evaluated_runs([tmp_path / "a", tmp_path / "b"], None)
    [compared] = evaluated_runs([tmp_path / "a", tmp_path / "b"], "intl")
    assert compared.measures.tokenizer_used == "intl"


def test_case_b1_test_sets_of_different_length_are_not_compared(tmp_path: Path) -> None:
    leave(tmp_path / "a", REFERENCE)
    leave(tmp_path / "b", REFERENCE, n=2)
    with pytest.raises(DataError, match="news: a has 3 lines but b has 2"):
        evaluated_runs([tmp_path / "a", tmp_path / "b"], None)


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["runs/a", "runs/b"], ["a", "b"]),
        (["x/base", "y/base"], ["x/base", "y/base"]),
        (["runs/a/model", "runs/b/model", "c"], ["a/model", "b/model", "c"]),
        (["runs/a"], ["a"]),
        (["a", "x/a"], ["here/a", "x/a"]),
        (["."], ["here"]),
        ([""], ["here"]),
        (["..", "."], ["top", "here"]),
        (["runs/a/..", "runs/a/../b"], ["runs", "b"]),
        (["/a", "x/a"], ["/a", "x/a"]),
    ],
)
def test_systems_are_called_by_what_tells_their_paths_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paths: list[str], names: list[str]
) -> None:
    here = tmp_path / "top" / "here"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    assert distinct_names([Path(path) for path in paths]) == names


@pytest.mark.parametrize("again", ["runs/a", "./runs/b/../a", Path("runs/a").absolute()])
def test_the_same_system_twice_is_refused(again: str) -> None:
    with pytest.raises(ConfigError, match="the same one twice"):
        distinct_names([Path("runs/a"), Path(again)])
