"""Beam search against brute force, a plain re-statement of itself, and greedy search, with invented step functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from tests.transformer.inference.search.invented_steps import (
    Logits,
    Prefix,
    PrefixStep,
    log_distribution_of,
    only_sentence,
    random_logits,
)
from transformer.inference.search.beam_search import SearchRules, beam_search
from transformer.inference.search.length_penalty import LengthPenalty, average, length_penalty, none, wu
from transformer.inference.search.search_state import Hypothesis

PENALTIES = {"wu": wu(0.6), "strong wu": wu(2.0), "wu 0": wu(0.0), "average": average(1.0), "none": none()}


def every_output(logits: Logits, prefix: Prefix, max_length: int) -> Iterator[tuple[list[int], float]]:
    """All complete outputs of at most max_length pieces, and all cut ones of exactly as many, with their log P."""
    for token, log_prob in enumerate(log_distribution_of(logits(prefix))):
        if token in (PAD_ID, BOS_ID, UNK_ID):
            continue
        if token == EOS_ID or len(prefix) == max_length:
            yield [token], log_prob
        else:
            for rest, rest_log_prob in every_output(logits, (*prefix, token), max_length):
                yield [token, *rest], log_prob + rest_log_prob


def plain_beam_search(logits: Logits, max_length: int, rules: SearchRules) -> list[tuple[float, list[int]]]:
    """The same search for one sentence in lists and loops, always up to the length limit: it never stops early."""
    live: list[tuple[Tensor, list[int]]] = [(torch.tensor(0.0), [])]
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, max_length + 1):
        penalty = rules.penalty(torch.tensor(length))
        candidates = []
        for log_prob, tokens in live:
            values = torch.tensor([logits((0, *tokens))])
            values[:, list(rules.impossible)] = -torch.inf
            values = values.log_softmax(-1)  # then sums in this order: the same rounding makes the same ties
            for token, logit in enumerate(values[0]):
                if token not in (*rules.impossible, *rules.unwanted):
                    candidates.append((logit + log_prob, [*tokens, token]))
        candidates.sort(key=lambda candidate: -candidate[0].item())  # stable: by beam, then by id
        ended = [c for c in candidates[: rules.beam_size] if c[1][-1] == EOS_ID]
        live = [c for c in candidates if c[1][-1] != EOS_ID][: rules.beam_size]
        if length == max_length:
            ended += live
        finished += [((log_prob / penalty).item(), tokens) for log_prob, tokens in ended]
        finished.sort(key=lambda hypothesis: -hypothesis[0])
    return finished[: rules.n_best]


def search(logits: Logits, max_lengths: list[int], rules: SearchRules) -> list[list[Hypothesis]]:
    return beam_search(PrefixStep(logits), torch.tensor(max_lengths), rules)


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_as_wide_as_the_space_is_brute_force(seed: int, penalty: LengthPenalty) -> None:
    max_lengths = [4, 1, 3]
    logits = random_logits(seed, vocab_size=7)
    results = search(logits, max_lengths, SearchRules(beam_size=300, penalty=penalty, n_best=30))
    for sentence, (hypotheses, max_length) in enumerate(zip(results, max_lengths, strict=True)):
        outputs = [
            (tokens, log_prob / penalty(torch.tensor(len(tokens))).item())
            for tokens, log_prob in every_output(logits, (sentence,), max_length)
        ]
        outputs.sort(key=lambda output: -output[1])
        assert [h.tokens for h in hypotheses] == [tokens for tokens, _ in outputs[:30]]
        assert [h.score for h in hypotheses] == pytest.approx([score for _, score in outputs[:30]], abs=1e-5)
        assert all(h.complete == (h.tokens[-1] == EOS_ID) for h in hypotheses)


@pytest.mark.parametrize("whole_numbers", [False, True], ids=["no ties", "many ties"])
@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
@pytest.mark.parametrize("beam_size", [2, 3, 5])
def test_stopping_early_and_batching_change_nothing(
    beam_size: int, penalty: LengthPenalty, whole_numbers: bool
) -> None:
    max_lengths = [8, 3, 12, 1, 8]
    for n_best in (1, beam_size):
        rules = SearchRules(beam_size, penalty, n_best)
        logits = random_logits(beam_size, 8, whole_numbers)
        together = search(logits, max_lengths, rules)
        for sentence, max_length in enumerate(max_lengths):
            alone = only_sentence(logits, sentence)
            expected = plain_beam_search(alone, max_length, rules)
            assert [(h.score, h.tokens) for h in together[sentence]] == expected
            assert search(alone, [max_length], rules) == [together[sentence]]


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_first_n_stops_once_as_many_hypotheses_as_beams_have_ended(beam_size: int) -> None:
    """fairseq's rule, by a plain search that stops so."""
    logits = random_logits(11, vocab_size=8)
    rules = SearchRules(beam_size, wu(0.6), n_best=1, stop="first_n")
    for found, sentence in zip(search(logits, [9] * 6, rules), range(6), strict=True):
        alone = only_sentence(logits, sentence)
        ended: list[tuple[float, list[int]]] = []
        for length in range(1, 10):
            exhaustive = SearchRules(beam_size, wu(0.6), n_best=beam_size)
            found_by_now = plain_beam_search(alone, length, exhaustive)
            ended = [h for h in found_by_now if h[1][-1] == EOS_ID]
            if len(ended) == beam_size:
                break
        expected = ended if len(ended) == beam_size else plain_beam_search(alone, 9, exhaustive)
        assert [(h.score, h.tokens) for h in found] == expected[:1]


def test_an_exact_search_finds_no_worse_than_one_that_stops_early() -> None:
    logits = random_logits(12, vocab_size=9)
    exact = search(logits, [12] * 20, SearchRules(4, average(1.0)))
    early = search(logits, [12] * 20, SearchRules(4, average(1.0), stop="first_n"))
    assert all(e[0].score >= f[0].score for e, f in zip(exact, early, strict=True))
    assert any(e[0].score > f[0].score for e, f in zip(exact, early, strict=True))


def test_asking_for_more_hypotheses_does_not_change_the_best() -> None:
    logits = random_logits(1, vocab_size=9)
    one = search(logits, [10] * 8, SearchRules(4, wu(1.0), n_best=1))
    four = search(logits, [10] * 8, SearchRules(4, wu(1.0), n_best=4))
    assert [hypotheses[:1] for hypotheses in four] == one
    for hypotheses in four:
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        assert len({tuple(h.tokens) for h in hypotheses}) == 4


@pytest.mark.parametrize("name", ["wu", "average", "none"])
def test_beam_1_is_greedy_search(name: str) -> None:
    max_lengths = [1, 2, 20, 20, 20, 20]
    logits = random_logits(3, vocab_size=7)
    results = search(logits, max_lengths, SearchRules(1, length_penalty(name, 2.0)))
    for sentence, ([hypothesis], max_length) in enumerate(zip(results, max_lengths, strict=True)):
        tokens: list[int] = []
        while len(tokens) < max_length and tokens[-1:] != [EOS_ID]:
            scores = logits((sentence, *tokens))
            tokens.append(max((i for i in range(7) if i not in (PAD_ID, BOS_ID, UNK_ID)), key=lambda i: scores[i]))
        assert hypothesis.tokens == tokens


def test_a_beam_wider_than_the_vocabulary_gives_finite_scores_and_no_specials() -> None:
    """Case X2: 4 specials and 3 pieces, beam 20; the same in batches of 1 and 4."""
    logits = random_logits(0, vocab_size=7)
    rules = SearchRules(20, wu(0.6), n_best=20)
    together = search(logits, [6] * 4, rules)
    for sentence, hypotheses in enumerate(together):
        assert len(hypotheses) == 20
        for hypothesis in hypotheses:
            assert math.isfinite(hypothesis.score)
            assert not {PAD_ID, UNK_ID, BOS_ID} & set(hypothesis.tokens)
            assert EOS_ID not in hypothesis.tokens[:-1]
        assert search(only_sentence(logits, sentence), [6], rules) == [hypotheses]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_without_eos_every_hypothesis_has_the_maximum_length_and_is_not_complete(beam_size: int) -> None:
    """Case X3, with sentence 1 of 3 able to finish: mixed batches return all."""
    base = random_logits(5, vocab_size=12)

    def logits(prefix: Prefix) -> list[float]:
        values = base(prefix)
        values[EOS_ID] = 50.0 if prefix[0] == 1 and len(prefix) > 2 else -1e4
        return values

    results = search(logits, [10, 10, 10], SearchRules(beam_size, wu(0.6), n_best=beam_size))
    for hypotheses in (results[0], results[2]):
        assert [len(h.tokens) for h in hypotheses] == [10] * beam_size
        assert not any(h.complete for h in hypotheses)
        assert all(math.isfinite(h.score) for h in hypotheses)
    assert results[1][0].complete
    assert len(results[1][0].tokens) == 3


def test_padding_and_bos_are_left_out_before_the_softmax() -> None:
    """Case X8: logits pad 10, a 1, b 1; log P(a) is log ½, not -9.0002. bos as tempting as pad."""
    a, b = 4, 5

    def logits(prefix: Prefix) -> list[float]:
        values = [-1e4] * 6
        values[PAD_ID] = values[BOS_ID] = 10.0
        values[a] = values[b] = 1.0
        return values

    [[first, second]] = search(logits, [1], SearchRules(2, none(), n_best=2))
    assert (first.tokens, second.tokens) == ([a], [b])
    assert first.score == pytest.approx(-0.6931, abs=1e-4)
    assert first.score == pytest.approx(math.log(0.5))


def test_unk_keeps_its_probability_but_is_never_chosen() -> None:
    def logits(prefix: Prefix) -> list[float]:
        return [0.0, 5.0, 0.0, 1.0, 1.0]

    [[hypothesis]] = search(logits, [1], SearchRules(1, none()))
    assert hypothesis.tokens == [EOS_ID]
    assert hypothesis.score == pytest.approx(1 - math.log(math.exp(5) + 2 * math.exp(1)))


def test_one_row_per_sentence_at_first_then_beam_size_rows_and_none_for_sentences_that_are_done() -> None:
    def logits(prefix: Prefix) -> list[float]:
        ends = len(prefix) > 2 * prefix[0] + 1  # with 2, 4 and 6 pieces
        return [0.0, 0.0, 0.0, 50.0 if ends else -50.0, 2.0, 1.0, 0.0]

    step = PrefixStep(logits)
    results = beam_search(step, torch.tensor([30, 30, 30]), SearchRules(3, wu(0.6)))
    assert [len(hypotheses[0].tokens) for hypotheses in results] == [2, 4, 6]
    assert step.rows == [3, 9, 6, 6, 3, 3]


def test_a_sentence_stops_only_once_nothing_better_can_come() -> None:
    """Ending at once has P = 0.4; the mean log P of the longer output is higher, but only after five steps."""

    def logits(prefix: Prefix) -> list[float]:
        ends = 0.4 if len(prefix) == 1 else 0.98 if len(prefix) == 5 else 0.01
        return [0.0, -1e4, 0.0, math.log(ends), math.log(1 - ends), -1e4]

    [[by_mean]] = search(logits, [5], SearchRules(2, average(1.0)))
    [[by_sum]] = search(logits, [5], SearchRules(2, none()))
    assert len(by_mean.tokens) == 5
    assert len(by_sum.tokens) == 5  # 0.6 · 0.99³ · 0.98 > 0.4
    [[short]] = search(lambda prefix: [0.0, -1e4, 0.0, 1.0, 0.0, -1e4], [5], SearchRules(2, none()))
    assert short.tokens == [EOS_ID]


def test_scores_are_fp32_whatever_the_precision_of_the_logits() -> None:
    logits = random_logits(2, vocab_size=8)
    rules = SearchRules(3, wu(0.6), n_best=3)
    step = PrefixStep(logits)
    low = beam_search(lambda tokens, origin: step(tokens, origin).bfloat16(), torch.tensor([9, 9]), rules)
    rounded = search(lambda prefix: torch.tensor(logits(prefix)).bfloat16().tolist(), [9, 9], rules)
    assert low == rounded


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 3.0])
def test_length_penalties_are_their_formulas_and_never_fall(alpha: float) -> None:
    lengths = torch.arange(1, 500)
    formulas: dict[str, Callable[[int], float]] = {
        "wu": lambda n: (5 + n) ** alpha / (5 + 1) ** alpha,  # as equation 14 prints it
        "average": lambda n: n**alpha,
        "none": lambda n: 1.0,
    }
    for name, formula in formulas.items():
        penalties = length_penalty(name, alpha)(lengths)
        assert penalties.dtype == torch.float32
        assert penalties.tolist() == pytest.approx([formula(n) for n in lengths.tolist()], rel=1e-5)
        assert bool((penalties.diff() >= 0).all())
        assert penalties[0] == 1
