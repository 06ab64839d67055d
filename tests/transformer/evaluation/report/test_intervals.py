"""Intervals of validations are sacrebleu's, and only of the translations whose BLEU was logged."""

from __future__ import annotations

import pytest
from sacrebleu.metrics.bleu import BLEU

from transformer.evaluation.report import intervals
from transformer.evaluation.report.intervals import validation_intervals
from transformer.evaluation.report.run import read_run

from .conftest import STEPS, MakeRun, sentences


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "_known", {})


def test_they_are_as_wide_as_those_of_sacrebleu_and_hold_the_figure(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    run = read_run(make_run())
    found = validation_intervals(run)
    assert set(found) == set(STEPS)
    for line in run.validations:
        low, high = found[int(line["step"])]
        assert low < line["valid_bleu"] < high
        theirs = BLEU().corpus_score(run.hypotheses(int(line["step"])), [sentences(2)], n_bootstrap=1000)
        assert (high - low) / 2 == pytest.approx(theirs._ci, rel=1e-3)


def test_a_quick_page_finds_the_newest_first_and_the_others_later(make_run: MakeRun) -> None:
    run = read_run(make_run())
    assert [sorted(validation_intervals(run, most_new=n)) for n in (0, 1, 0, 1, 1)] == [
        [],
        [300],
        [300],
        [200, 300],
        [100, 200, 300],
    ]


def test_where_the_references_have_changed_there_are_none_and_it_is_said(make_run: MakeRun) -> None:
    path = make_run()
    (path / "../../prepared/tiny/valid.tgt.txt").write_text("".join(f"{line}\n" for line in reversed(sentences(2))))
    run = read_run(path)
    assert validation_intervals(run) == {}
    assert "3 validations (the first at 100) have not the BLEU that was logged" in run.problems[0]
