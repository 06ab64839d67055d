"""Counts of sentences: their sum is the figure of the corpus, of any part of it, and of each sentence."""

from __future__ import annotations

import numpy as np
import pytest
import sacrebleu

from transformer.evaluation import sentence_statistics
from transformer.evaluation.sentence_statistics import count
from transformer.evaluation.tokenization import load_metrics

REFERENCE = ["I can't see the boss's car, sir.", "It costs $5.00 (about 4 euros).", "", "Green Square"]
HYPOTHESIS = ["I can't see the car of the boss, sir.", "It costs 5.00 dollars (about 4 euros).", "Oh!", "Green Square"]


def test_any_lines_have_the_figure_of_a_corpus_of_them() -> None:
    statistics = count(load_metrics("13a", "en"), HYPOTHESIS, [REFERENCE])
    for places in ([0, 1, 2, 3], [1], [0, 3, 3]):
        hypotheses, references = [HYPOTHESIS[i] for i in places], [[REFERENCE[i] for i in places]]
        for name, metric in load_metrics("13a", "en").items():
            expected = metric.corpus_score(hypotheses, references).score
            assert statistics[name].figure(np.array(places)) == pytest.approx(expected)


def test_sentences_alone_have_the_figures_of_sacrebleus_sentence_mode() -> None:
    statistics = count(load_metrics("13a", "en"), HYPOTHESIS, [REFERENCE])
    for line, pair in enumerate(zip(HYPOTHESIS, REFERENCE, strict=True)):
        assert statistics["bleu"].of_each()[line] == pytest.approx(sacrebleu.sentence_bleu(pair[0], [pair[1]]).score)
        assert statistics["chrf"].of_each()[line] == pytest.approx(sacrebleu.sentence_chrf(pair[0], [pair[1]]).score)
    assert statistics["bleu"].of_each()[3] == pytest.approx(100), "two words are enough for the effective order"


def test_lines_are_counted_in_pieces_as_sacrebleu_counts_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_statistics, "_AT_ONCE", 3)
    references = [REFERENCE, REFERENCE[::-1]]
    statistics = count(load_metrics("13a", "en"), HYPOTHESIS, references)
    for name, metric in load_metrics("13a", "en").items():
        expected = metric.corpus_score(HYPOTHESIS, references).score
        assert statistics[name].figure() == pytest.approx(expected)
        assert statistics[name].signature() == str(metric.get_signature())
