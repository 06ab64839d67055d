"""Translations to read are chosen by rule: spread over lengths, best and worst, where two runs differ most."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from data.lines import write_lines
from transformer.evaluation.report.run import Run, read_run
from transformer.evaluation.report.samples import (
    SAMPLES,
    best_and_worst,
    choose_lines,
    last_validation,
    through_time,
)
from transformer.evaluation.results import Sentence

from .conftest import N_SENTENCES, STEPS, MakeRun, sentences


@given(lengths=st.lists(st.integers(0, 50), max_size=60))
def test_the_ten_are_spread_over_the_lengths_each_once_and_never_blank(lengths: list[int]) -> None:
    texts = ["x" * length for length in lengths]
    chosen = choose_lines(texts)
    known = sorted(length for length in lengths if length)
    assert len(chosen) == len(set(chosen)) == min(SAMPLES, len(known))
    assert [lengths[i] for i in chosen] == sorted(lengths[i] for i in chosen)
    if known:
        assert (lengths[chosen[0]], lengths[chosen[-1]]) == (known[0], known[-1])
    assert chosen == choose_lines(texts)


def test_every_validation_shows_the_same_sentences_and_equal_stages_are_told_once(make_run: MakeRun) -> None:
    path = make_run()
    same = (path / "validation" / "step-00000200.tsv").read_bytes()
    (path / "validation" / "step-00000300.tsv").write_bytes(same)
    samples = through_time([read_run(path)])
    assert [sample.number - 1 for sample in samples] == choose_lines(sentences(2))
    for sample in samples:
        assert [reading.steps for reading in sample.readings] in (["100", "200 to 300"], ["100 to 300"])
        assert str(sample.number - 1) in sample.src  # type: ignore[operator]


def test_of_many_validations_some_are_shown_with_the_first_and_the_last(make_run: MakeRun) -> None:
    path = make_run()
    draw = random.Random(1)
    for step in range(1000, 9000, 100):
        lines = (f"1.0\t{draw.random()}" for _ in range(N_SENTENCES))
        write_lines(path / "validation" / f"step-{step:08d}.tsv", lines)
    [first, *_] = through_time([read_run(path)])
    assert len(first.readings) == 12
    assert (first.readings[0].steps, first.readings[-1].steps) == ("100", "8,900")


def test_only_runs_with_the_same_validation_sentences_stand_side_by_side(make_run: MakeRun, tmp_path: Path) -> None:
    one, other, stranger = (read_run(make_run(name)) for name in ("one", "other", "stranger"))
    assert stranger.valid_text is not None
    stranger.valid_text = (stranger.valid_text[0], list(reversed(stranger.valid_text[1])))
    for sample in through_time([one, other, stranger]):
        assert {reading.run for reading in sample.readings} == {0, 1}


def test_without_prepared_data_or_validations_there_are_none() -> None:
    assert through_time([Run(Path("x"), "x")]) == last_validation(Run(Path("x"), "x")) == []


def row(i: int, chrf: float, hypothesis: str = "") -> Sentence:
    return Sentence(f"source {i}", [f"reference {i}"], hypothesis or f"text {i}", 0.0, chrf)


def test_the_best_are_the_highest_and_long_and_the_worst_the_lowest() -> None:
    rows = [row(i, float(i)) for i in range(30)] + [row(30, 29.0, "a much longer text")]
    best, worst = best_and_worst(Run(Path("x"), "x"), rows)
    assert [sample.number for sample in best.samples] == [31, *range(30, 21, -1)]
    assert [sample.number for sample in worst.samples] == [*range(1, 11)]


def test_few_sentences_are_not_best_and_worst_at_once() -> None:
    best, worst = best_and_worst(Run(Path("x"), "x"), [row(i, float(i)) for i in range(5)])
    assert [sample.number for sample in best.samples] == [5, 4]
    assert [sample.number for sample in worst.samples] == [1, 2]
    assert best_and_worst(Run(Path("x"), "x"), [row(1, 50.0)]) == []


def test_the_last_validation_is_told_like_a_test_set(make_run: MakeRun) -> None:
    rows = last_validation(read_run(make_run()))
    assert len(rows) == N_SENTENCES and [r.references[0] for r in rows] == sentences(2)
    assert max(STEPS) == 300 and all(0 <= r.chrf <= 100 and r.log_prob_per_token is None for r in rows)
