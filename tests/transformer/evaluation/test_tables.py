"""Evaluations on a screen: every figure with its interval, each signature once, and nothing hidden."""

from __future__ import annotations

import dataclasses

from transformer.evaluation.results import Bucket, Evaluation, Figure
from transformer.evaluation.tables import Row, format_evaluations, format_examples

FIGURES = {"bleu": Figure(39.784, (38.15, 41.36), "tok:13a"), "ter": Figure(101.0, (99.5, 103.25), "tok:tercom")}
NEWS = Evaluation("news", "en", "de", 1000, "13a", {}, FIGURES, None, 0.987, "", {}, {"empty": [], "looping": [7, 9]})
LONGER = dataclasses.replace(NEWS, test_set="a much longer name", note="BLEU is 0 because.", shares={"empty": []})


def test_one_evaluation_has_a_line_for_each_metric_with_its_signature() -> None:
    buckets = [Bucket("under 10 words", 12, 1.0, 2.0), Bucket("10–19", 988, 40.0, 60.0)]
    out = format_evaluations([Row(dataclasses.replace(NEWS, breakdown={"source length": buckets}))])
    assert "BLEU        39.78 [38.1, 41.4]     tok:13a\n" in out
    assert "TER        101.00 [99.5, 103.2]    tok:tercom\n" in out
    assert out.startswith("news, 1,000 lines\n")
    assert "length      0.987\n" in out
    assert "under 10 words    1.00    2.00      12\n10–19            40.00   60.00     988" in out
    assert "2 looping (lines 7, 9)" in out


def test_several_have_a_row_each_in_columns_and_each_signature_once() -> None:
    rows = [Row(NEWS, "a"), Row(LONGER, "a"), Row(NEWS, "b"), Row(LONGER, "b")]
    lines = format_evaluations(rows).splitlines()
    assert [line.split("  ")[:2] for line in lines[1:5]] == [
        ["news", "a"],
        ["news", "b"],
        ["a much longer name", "a"],
        ["a much longer name", "b"],
    ]
    assert len({len(line) for line in lines[:5]}) == 1, "columns are aligned"
    assert sum("tok:13a" in line for line in lines) == 1
    assert sum("BLEU is 0 because." in line for line in lines) == 2


def test_that_nothing_was_found_is_said_with_what_was_looked_for() -> None:
    assert "flaws      none found (empty)" in format_evaluations([Row(LONGER)])


def test_many_flawed_lines_are_counted_and_the_first_named() -> None:
    out = format_evaluations([Row(dataclasses.replace(NEWS, shares={"copied": list(range(1, 1201)), "empty": [4]}))])
    assert "1,200 copied (lines 1, 2, 3, 4, 5, …); 1 empty (line 4)" in out


def test_examples_are_spread_over_the_test_set() -> None:
    src, references, hypotheses = ([f"{side}{i}" for i in range(6)] for side in "srh")
    assert format_examples(2, src, references, hypotheses) == [
        f"source       s{i}\nreference    r{i}\ntranslation  h{i}\n" for i in (0, 3)
    ]
    assert len(format_examples(9, None, references, hypotheses)) == 6
