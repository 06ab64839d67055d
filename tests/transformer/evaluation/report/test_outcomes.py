"""Test results are told with interval and signature, of every run that has them."""

from __future__ import annotations

from xml.etree import ElementTree

from transformer.evaluation.report.outcomes import results
from transformer.evaluation.report.run import read_run

from .conftest import MakeRun


def test_every_figure_has_its_interval_and_signature(make_run: MakeRun) -> None:
    run = read_run(make_run())
    bleu = run.tests["news/2024"][0].metrics["bleu"]
    found = results([run])
    assert found is not None and found["columns"] == ["BLEU", "TER"] and bleu.interval is not None
    [(name, [row])] = found["sets"]
    assert name == "news/2024"
    assert row.cells == [(f"{bleu.score:.2f}", f"{bleu.interval[0]:.2f} to {bleu.interval[1]:.2f}"), ("33.12", "")]
    assert found["signatures"] == [("BLEU", "nrefs:1|tok:13a"), ("TER", "t")]
    assert found["flaws"] == ["news/2024: 2 copied (line 3, 4)."]
    assert [label for label, _ in found["breakdowns"][0]["rows"]] == ["1 to 9", "10 and more"]
    assert found["picture"] is None  # one dot is no comparison


def test_runs_stand_below_each_other_in_table_and_picture(make_run: MakeRun) -> None:
    runs = [read_run(make_run("one")), read_run(make_run("other", worse=0.3)), read_run(make_run("third"))]
    runs[2].tests.clear()
    found = results(runs)
    assert found is not None
    [(_, rows)] = found["sets"]
    assert [(row.run, row.name) for row in rows] == [(0, "one"), (1, "other")]
    svg = ElementTree.fromstring(found["picture"])
    x0, x1 = (float(dot.get("cx", "")) for dot in svg.iter("circle"))
    assert x0 > x1  # the better one
    assert [len(buckets) for _, buckets in found["breakdowns"][0]["rows"]] == [2, 2]


def test_without_results_there_is_no_table(make_run: MakeRun) -> None:
    run = read_run(make_run())
    run.tests.clear()
    assert results([run]) is None
