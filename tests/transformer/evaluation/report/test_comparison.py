"""Two runs are compared on the same sentences, by the words that differ, and by tests that know chance."""

from __future__ import annotations

import re
from typing import Any

import lxml.html
import pytest
from sacrebleu.metrics.bleu import BLEU

from transformer.evaluation.report import comparison
from transformer.evaluation.report.comparison import compare_runs
from transformer.evaluation.report.run import read_run
from transformer.evaluation.report.samples import Sample
from transformer.evaluation.sentence_statistics import Statistics, count

from .conftest import MakeRun


def gains(samples: list[Sample]) -> list[float]:
    return [sample.readings[1].chrf - sample.readings[0].chrf for sample in samples]


def test_two_runs_are_compared_where_they_differ_most_by_the_words_that_differ(make_run: MakeRun) -> None:
    good, bad = read_run(make_run("good")), read_run(make_run("bad", worse=0.4))
    [[found]] = compare_runs([good, bad])
    assert found.test_set == "news/2024"
    better, worse = found.rankings
    assert gains(better.samples) == sorted(gains(better.samples), reverse=True) and min(gains(better.samples)) > 0
    assert gains(worse.samples) == sorted(gains(worse.samples)) and max(gains(worse.samples)) < 0
    for sample in worse.samples:
        for reading, style in zip(sample.readings, ("of-r0", "of-r1"), strict=True):
            classes = {mark.get("class") for mark in lxml.html.fromstring(reading.text).iter("mark")}
            assert classes <= {style}
    rows = [found[1] for found in (good.tests["news/2024"], bad.tests["news/2024"])]
    figures = [
        BLEU().corpus_score([s.hypothesis for s in side], [[s.references[0] for s in side]]).score for side in rows
    ]
    assert f"BLEU {figures[0]:.2f} → {figures[1]:.2f}" in found.verdicts[0]
    assert re.search(r"more than chance; p (= 0\.00\d|< 0\.001) by paired bootstrap", found.verdicts[0])


def test_equal_runs_have_no_differences(make_run: MakeRun) -> None:
    one, other = read_run(make_run("one")), read_run(make_run("other"))
    [[found]] = compare_runs([one, other])
    assert found.rankings == [] and all("do not differ" in verdict for verdict in found.verdicts)


def test_without_common_test_sets_the_validations_are_compared(make_run: MakeRun) -> None:
    one, other = read_run(make_run("one")), read_run(make_run("other", worse=0.3))
    one.tests.clear()
    [[found]] = compare_runs([one, other])
    assert found.test_set == "validation" and found.rankings
    one.valid_text = None
    assert compare_runs([one, other]) == [[]]


def test_the_first_run_is_counted_once_and_each_other_one_is_told_as_alone(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [read_run(make_run(name, worse=worse)) for name, worse in (("a", 0.0), ("b", 0.2), ("c", 0.4))]
    for validations in (False, True):
        if validations:
            runs[0].tests.clear()
        counted: list[list[str]] = []

        def counting(*arguments: Any, counted: list[list[str]] = counted) -> dict[str, Statistics]:
            counted.append(arguments[1])
            return count(*arguments)

        monkeypatch.setattr(comparison, "count", counting)
        together = compare_runs(runs)
        assert len(counted) == 3 and len({*map(tuple, counted)}) == 3
        verdicts = [[one.verdicts for one in found] for found in together]
        alone = [[one.verdicts for one in compare_runs([runs[0], run])[0]] for run in runs[1:]]
        assert verdicts == alone and verdicts[0] != verdicts[1]
