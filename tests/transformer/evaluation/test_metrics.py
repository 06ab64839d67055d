"""BLEU and chrF: equal to sacrebleu's command line, never on unequal lines, and explained where they are 0."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from sacremoses import MosesTokenizer

from data.errors import DataError
from transformer.errors import ConfigError
from transformer.evaluation.measurement import Measures, Output, measure
from transformer.evaluation.metrics import Scores, score
from transformer.evaluation.results import Figure
from transformer.evaluation.test_sets import TestSet

REFERENCE = ["I can't see the boss's car, sir.", "It costs $5.00 (about 4 euros)."]
HYPOTHESIS = ["I can't see the car of the boss, sir.", "It costs 5.00 dollars (about 4 euros)."]


def literature_figure(hypotheses: list[str], references: list[str]) -> Figure:
    test = TestSet("news", None, [references])
    figure = measure(test, Output(hypotheses), Measures("de", "en", literature=True))[0].literature
    assert figure is not None
    return figure


def test_scores_equal_those_of_sacrebleus_command_line(tmp_path: Path) -> None:
    paths = []
    for name, lines in (("ref", REFERENCE), ("hyp", HYPOTHESIS)):
        paths.append(tmp_path / name)
        paths[-1].write_text("".join(f"{line}\n" for line in lines))
    ours = score(HYPOTHESIS, REFERENCE)
    for metric, figure, signature in (
        ("bleu", ours.bleu, ours.bleu_signature),
        ("chrf", ours.chrf, ours.chrf_signature),
    ):
        command = [sys.executable, "-m", "sacrebleu", str(paths[0]), "-i", str(paths[1]), "-m", metric, "-w", "4"]
        printed = subprocess.run([*command, "-f", "text"], capture_output=True, text=True, check=True).stdout
        assert f"= {figure:.4f}" in printed
        assert signature in printed


@pytest.mark.parametrize(("n_hypotheses", "n_references"), [(2, 3), (3, 2)])
def test_b1_unequal_numbers_of_lines_are_an_error_with_both_numbers(n_hypotheses: int, n_references: int) -> None:
    lines = ["The dog bit the man.", "It was not a surprise.", "The man bit him first."]
    for scorer in (score, literature_figure):
        with pytest.raises(DataError, match=f"{n_hypotheses} hypotheses but {n_references} references"):
            scorer(lines[:n_hypotheses], lines[:n_references])


def test_b1_of_several_test_sets_the_one_that_is_wrong_is_named() -> None:
    test = TestSet("news", None, [["Ein Satz.", "Noch einer."]])
    with pytest.raises(DataError, match="1 hypotheses but 2 references of news"):
        measure(test, Output(["Ein Satz."]), Measures("en", "de"))


def test_no_lines_at_all_are_an_error() -> None:
    for scorer in (score, literature_figure):
        with pytest.raises(DataError, match="nothing to score"):
            scorer([], [])


def test_b2_corpus_bleu_without_any_4_gram_is_0_with_a_note() -> None:
    lines = ["Green Square"]
    scores = score(lines, lines)
    assert scores.bleu == 0.0
    assert "the longest hypothesis has 2 word(s) and corpus BLEU needs 4-grams" in scores.note
    assert sacrebleu.sentence_bleu(lines[0], lines).score == pytest.approx(100), "sentence mode is the other mode"


def test_b2_a_short_line_beside_a_long_one_does_not_spoil_the_corpus() -> None:
    lines = ["Green Square", "The small dog ran home ."]
    scores = score(lines, lines)
    assert scores.bleu == pytest.approx(100)
    assert scores.note == ""
    assert "eff:no" in scores.bleu_signature


@pytest.mark.parametrize(
    ("hypotheses", "reason"),
    [
        (["", ""], "every hypothesis is empty"),
        (["xx yy zz ww vv", "qq"], "shares a word"),
        (["car", ""], "has 1 word"),
    ],
)
def test_a_score_of_0_says_why(hypotheses: list[str], reason: str) -> None:
    scores = score(hypotheses, REFERENCE)
    assert scores.bleu == 0.0
    assert reason in scores.note
    assert reason in scores.formatted()


def test_b3_bleu_reads_raw_text_and_tokenised_text_scores_lower() -> None:
    tokenised = ["I can 't see the boss 's car , sir .", "It costs $ 5.00 ( about 4 euros ) ."]
    assert score(REFERENCE, REFERENCE).bleu == pytest.approx(100)
    assert score(tokenised, REFERENCE).bleu == pytest.approx(64.5643, abs=5e-5)


def test_bleu_minds_case() -> None:
    assert score([line.lower() for line in REFERENCE], REFERENCE).bleu < 100


@pytest.mark.parametrize(
    ("hypothesis", "reference", "bleu"),
    [("Hello there.", "", 81.3288), ("", "Hello there.", 65.1439), ("", "", 100.0)],
)
def test_b6_an_empty_line_counts_and_is_not_removed(hypothesis: str, reference: str, bleu: float) -> None:
    first = "The cat sat on the mat."
    scores = score([first, hypothesis], [first, reference])
    assert scores.bleu == pytest.approx(bleu, abs=5e-5)
    assert scores.n_lines == 2


def test_lengths_are_counted_in_bleus_words() -> None:
    scores = score(["Hello, world", "one two"], ["Hello, big world!", "one two"])
    assert (scores.hypothesis_words, scores.reference_words) == (3 + 2, 5 + 2)
    assert scores.length_ratio == pytest.approx(5 / 7)


def test_empty_references_leave_the_ratio_undefined_and_still_print() -> None:
    assert "nan" in score(["Hello there."], [""]).formatted()


def test_the_literature_form_is_bleu_of_lower_cased_moses_tokens() -> None:
    found = literature_figure(HYPOTHESIS, REFERENCE)
    tokenise = MosesTokenizer("en").tokenize
    sides = [[" ".join(tokenise(line.lower())) for line in side] for side in (HYPOTHESIS, REFERENCE)]
    expected = sacrebleu.corpus_bleu(sides[0], [sides[1]], tokenize="none", force=True)
    assert found.score == pytest.approx(expected.score)
    assert "case:lc" in found.signature
    assert "tok:none" in found.signature
    assert literature_figure([line.upper() for line in HYPOTHESIS], REFERENCE).score == pytest.approx(found.score)


def test_the_literature_form_names_the_package_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "sacremoses":
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigError, match="pip install sacremoses"):
        literature_figure(HYPOTHESIS, REFERENCE)


def test_scores_cannot_be_changed() -> None:
    scores = score(REFERENCE, REFERENCE)
    assert isinstance(scores, Scores)
    with pytest.raises(AttributeError):
        scores.bleu = 100.0  # type: ignore[misc]
