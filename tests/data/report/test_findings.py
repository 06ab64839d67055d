from __future__ import annotations

from typing import Any

import pytest

from data.report.findings import contamination_verdict, drift_findings, findings, percent


def test_percent_never_says_none_or_all_of_what_is_not() -> None:
    assert percent(0, 10) == "0 %" and percent(10, 10) == "100 %" and percent(1, 0) == "–"
    for part in (1, 999_999):
        assert percent(part, 10**6) not in ("0 %", "0.0 %", "100 %", "100.0 %")
    assert percent(1, 8) == "12.5 %"


def test_worst_comes_first(manifest: dict[str, Any]) -> None:
    levels = [finding.level for finding in findings(manifest)]
    assert levels == ["error", "warning"]


def test_nothing_is_found_where_nothing_is_told() -> None:
    assert findings({}) == []


@pytest.mark.parametrize(
    ("pairs_dropped", "level"), [(0, "warning"), (44, "warning"), (45, "note")], ids=["none", "some", "all"]
)
def test_contamination_worries_as_long_as_a_pair_of_it_is_trained_on(pairs_dropped: int, level: str) -> None:
    counts = {"lines": 41, "exact": 40, "normalised": 3, "overlap": 2, "pairs_dropped": pairs_dropped}
    verdict = contamination_verdict(counts, 1000)
    assert verdict.level == level and "41 of 1,000 sentences (4.1 %)" in verdict.text


def test_a_corpus_of_which_most_is_dropped_is_named_with_the_reason() -> None:
    corpus = {"name": "web", "read": 100, "kept": 9, "dropped": {"language": 80, "too_long": 11}}
    [finding] = findings({"counts": {"train": [corpus]}})
    assert "web" in finding.text and "9.0 %" in finding.text and "language" in finding.text


def test_the_place_of_a_drift_is_read_from_its_sentence_or_beside_it() -> None:
    given = ["from line 17,412 on", {"place": 5, "text": "a line is missing"}, "the sides are out of step"]
    assert [place for _, place in drift_findings({"findings": given})] == [17412, 5, None]


def test_words_spelled_in_bytes_are_a_warning_when_they_are_many() -> None:
    side = {"words": 100, "broken": 3}
    manifest = {"tgt_lang": "th", "statistics": {"news": {"src": {"words": 100, "broken": 1}, "tgt": side}}}
    [finding] = findings(manifest)
    assert "3.0 % of the th words" in finding.text


def test_units_that_are_no_pair_are_told_by_reason() -> None:
    corpus = {"name": "memory", "read": 8, "kept": 8, "dropped": {}, "left_out": {"no de": 3, "untranslated": 1}}
    [finding] = findings({"counts": {"train": [corpus]}})
    assert finding.level == "note" and "memory" in finding.text and "3 no de, 1 untranslated" in finding.text
