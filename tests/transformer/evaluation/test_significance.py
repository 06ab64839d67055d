"""Intervals and p-values: those of sacrebleu with the same seed, whatever the environment, and what they mean."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from transformer.evaluation import significance
from transformer.evaluation.sentence_statistics import Statistics, count
from transformer.evaluation.significance import (
    RESAMPLES,
    SEED,
    TRIALS,
    compare,
    confidence_intervals,
    resampled_sums,
    share_not_better,
)
from transformer.evaluation.tokenization import load_metrics

WORDS = ["red", "green", "blue", "cat", "dog", "bird", "sees", "hears", "and", "or", "the", "a"]


def sentences(n: int) -> list[str]:
    draw = random.Random(3)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 14))) + "." for _ in range(n)]


def garbled(lines: list[str], rate: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join("xyz" if draw.random() < rate else word for word in line.split()) for line in lines]


@pytest.fixture(params=[1, 2], ids=["one reference", "two references"])
def references(request: pytest.FixtureRequest) -> list[list[str]]:
    lines = sentences(120)
    return [lines, garbled(lines, 0.1, 9)][: request.param]


def test_intervals_are_sacrebleus(references: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    hypotheses = garbled(references[0], 0.3, 1)
    metrics = load_metrics("13a", "en")
    statistics = count(metrics, hypotheses, references)
    intervals = confidence_intervals(statistics)
    for name, metric in load_metrics("13a", "en").items():
        theirs = metric.corpus_score(hypotheses, references, n_bootstrap=RESAMPLES)
        low, high = intervals[name]
        assert (high - low) / 2 == pytest.approx(theirs._ci, rel=1e-5)
        assert statistics[name].figure() == pytest.approx(theirs.score, rel=1e-12)
        assert statistics[name].signature(bs=str(RESAMPLES), seed=str(SEED)) == str(metric.get_signature())
        assert low < theirs.score < high
    monkeypatch.setenv("SACREBLEU_SEED", "1")
    assert confidence_intervals(statistics) == intervals


@pytest.mark.parametrize("rate", [0.33, 0.36])
def test_p_values_are_sacrebleus(references: list[list[str]], rate: float) -> None:
    systems = [("a", garbled(references[0], 0.3, 1)), ("b", garbled(references[0], rate, 2))]
    ours = compare(*(count(load_metrics("13a", "en"), lines, references) for _, lines in systems))
    assert not any(values.identical for values in ours.values())
    for kind, attribute in (("bs", "bootstrap"), ("ar", "randomization")):
        _, found = PairedTest(systems, load_metrics("13a", "en"), references, test_type=kind)()
        theirs = [results[1].p_value for name, results in found.items() if name != "System"]
        expected = pytest.approx(theirs, abs=0 if len(references) == 1 else 2e-3)  # TER's mean lengths are rounded
        assert [getattr(values, attribute) for values in ours.values()] == expected


def test_figures_are_those_of_sacrebleus_command_line(tmp_path: Path) -> None:
    reference = sentences(40)
    hypotheses = garbled(reference, 0.2, 5)
    for name, lines in (("ref", reference), ("hyp", hypotheses)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = [str(tmp_path / "ref"), "-i", str(tmp_path / "hyp")]
    command = [sys.executable, "-m", "sacrebleu", *files, "-m", "bleu", "chrf", "ter", "--confidence", "-w", "6"]
    printed = subprocess.run([*command, "-f", "text"], capture_output=True, text=True, check=True).stdout
    statistics = count(load_metrics("13a", "en"), hypotheses, [reference])
    for name in ("bleu", "chrf", "ter"):
        assert f"= {statistics[name].figure():.6f} (μ = " in printed
        assert statistics[name].signature(bs=str(RESAMPLES), seed=str(SEED)) in printed


def test_draws_do_not_depend_on_how_many_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.random.default_rng(1).integers(0, 9, size=(77, 5)).astype(float)
    difference = counts - counts[::-1]
    whole = resampled_sums(counts), significance._exchanged_sums(difference)
    monkeypatch.setattr(significance, "_DRAWN_AT_ONCE", 77 * 70)
    parts = resampled_sums(counts), significance._exchanged_sums(difference)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)
    assert [len(sums) for sums in whole] == [RESAMPLES, TRIALS]


def test_sums_are_of_the_sentences_that_sacrebleu_draws() -> None:
    counts = np.random.default_rng(2).integers(0, 9, size=(50, 3)).astype(float)
    drawn = np.random.default_rng(SEED).choice(50, size=(RESAMPLES, 50), replace=True)
    np.testing.assert_array_equal(resampled_sums(counts), counts[drawn].sum(axis=1))


def test_a_one_sided_p_value_is_that_of_all_sets_that_could_be_drawn() -> None:
    """Of 4 sentences there are 4⁴ sets."""
    draw = np.random.default_rng(0)
    sets = np.array(list(itertools.product(range(4), repeat=4)))
    for seed in range(20):
        new, old = draw.normal(0.4, 1, size=(4, 1)), draw.normal(0, 1, size=(4, 1))
        expected = (new[sets].sum(axis=(1, 2)) <= old[sets].sum(axis=(1, 2))).mean()
        assert share_not_better(new, old, lambda sums: sums[0], seed) == pytest.approx(expected, abs=0.06)


def test_the_same_translations_are_called_so() -> None:
    """Where sacrebleu's formula gives p = 0.001."""
    reference = sentences(20)
    one, other = (Statistics.of(BLEU(), garbled(reference, 0.2, 1), [reference]) for _ in range(2))
    assert compare({"bleu": one}, {"bleu": other})["bleu"].identical


def test_few_systems_differ_significantly_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 pairs of systems that are equally good, about two have p < 0.05."""
    monkeypatch.setattr(significance, "TRIALS", 400)
    reference, n_significant = sentences(60), 0
    for seed in range(40):
        pair = (Statistics.of(CHRF(), garbled(reference, 0.3, 2 * seed + i), [reference]) for i in (0, 1))
        n_significant += compare(*({"chrf": one} for one in pair))["chrf"].randomization < 0.05
    assert n_significant <= 7
