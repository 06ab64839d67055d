"""Diverse beam search against a plain re-statement of itself, and against the plain search it contains."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from tests.transformer.inference.search.invented_steps import (
    Logits,
    Prefix,
    PrefixStep,
    log_distribution_of,
    only_sentence,
    random_logits,
)
from transformer.inference.search.beam_search import SearchRules, beam_search, start
from transformer.inference.search.diversity import Diversity, diverse_beam_search, merged
from transformer.inference.search.length_penalty import LengthPenalty, average, none, wu
from transformer.inference.search.search_state import BeamState, Continuations, Hypothesis

PENALTIES = {"wu": wu(0.6), "average": average(1.0), "none": none()}


def search(
    logits: Logits, max_lengths: list[int], rules: SearchRules, groups: int, strength: float
) -> list[list[Hypothesis]]:
    return diverse_beam_search(PrefixStep(logits), torch.tensor(max_lengths), rules, groups, strength)


class PlainGroup:
    """The beam of one group of one sentence, in lists."""

    def __init__(self) -> None:
        self.live: list[tuple[float, list[int]]] = [(0.0, [])]
        self.finished: list[tuple[float, list[int]]] = []
        self.done = False


def plain_search(logits: Logits, max_length: int, rules: SearchRules, groups: int, strength: float) -> list[PlainGroup]:
    """The same search for one sentence in lists and loops, in double precision."""
    width = rules.beam_size // groups
    beams = [PlainGroup() for _ in range(groups)]
    for length in range(1, max_length + 1):
        penalty, last_penalty = (rules.penalty(torch.tensor(n)).item() for n in (length, max_length))
        counts: Counter[int] = Counter()
        for group in beams:
            if group.done:
                continue
            candidates = []
            for log_prob, tokens in group.live:
                for token, added in enumerate(log_distribution_of(logits((0, *tokens)))):
                    if token not in (PAD_ID, UNK_ID, BOS_ID):
                        worth = log_prob + added - strength * counts[token]
                        candidates.append((worth, log_prob + added, [*tokens, token]))
            candidates.sort(key=lambda candidate: -candidate[0])
            counts.update(tokens[-1] for _, _, tokens in candidates[:width])
            best = [(log_prob, tokens) for _, log_prob, tokens in candidates]
            ended = [(log_prob, tokens) for log_prob, tokens in best[:width] if tokens[-1] == EOS_ID]
            group.live = [(log_prob, tokens) for log_prob, tokens in best if tokens[-1] != EOS_ID][:width]
            group.done = length == max_length
            ended += group.live if group.done else []
            group.finished += [(log_prob / penalty, tokens) for log_prob, tokens in ended]
            group.finished.sort(key=lambda hypothesis: -hypothesis[0])
            n_kept = width if rules.stop == "first_n" else min(width, rules.n_best)
            if len(group.finished) >= n_kept:
                reachable = max(log_prob for log_prob, _ in group.live) / last_penalty
                at_once = width == 1 or rules.stop == "first_n"
                group.done |= at_once or group.finished[n_kept - 1][0] >= reachable
    return beams


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
@pytest.mark.parametrize(("beam_size", "groups"), [(4, 4), (4, 2), (6, 3), (6, 2)])
@pytest.mark.parametrize("stop", ["exact", "first_n"])
def test_it_is_the_search_that_the_paper_describes(
    beam_size: int, groups: int, penalty: LengthPenalty, stop: str
) -> None:
    max_lengths = [8, 3, 12, 1, 8, 5]
    for n_best in (1, groups, beam_size):
        rules = SearchRules(beam_size, penalty, n_best, stop)  # type: ignore[arg-type]
        logits = random_logits(beam_size, 9)
        together = search(logits, max_lengths, rules, groups, 0.7)
        for sentence, max_length in enumerate(max_lengths):
            alone = only_sentence(logits, sentence)
            plain = plain_search(alone, max_length, rules, groups, 0.7)
            kept = [group.finished[: min(beam_size // groups, n_best)] for group in plain]
            expected = merged([[Hypothesis(t, s, True) for s, t in finished] for finished in kept], n_best)
            assert [h.tokens for h in together[sentence]] == [h.tokens for h in expected]
            assert [h.score for h in together[sentence]] == pytest.approx([h.score for h in expected], abs=1e-5)
            assert search(alone, [max_length], rules, groups, 0.7) == [together[sentence]]


@pytest.mark.parametrize("strength", [0.0, 0.5, 100.0])
def test_one_group_is_plain_beam_search(strength: float) -> None:
    max_lengths, logits = [10, 2, 7, 10], random_logits(1, 9)
    rules = SearchRules(4, wu(0.6), 4)
    plain = beam_search(PrefixStep(logits), torch.tensor(max_lengths), rules)
    assert search(logits, max_lengths, rules, 1, strength) == plain


@pytest.mark.parametrize(("groups", "width"), [(2, 1), (3, 2), (2, 4)])
def test_groups_that_do_not_keep_apart_agree_on_what_a_narrower_search_finds(groups: int, width: int) -> None:
    max_lengths, logits = [10, 2, 7, 10, 1], random_logits(2, 9)
    rules = SearchRules(width, average(1.0), width)
    step = PrefixStep(logits)
    plain = beam_search(step, torch.tensor(max_lengths), rules, bonus=step.bonus)
    wide = SearchRules(groups * width, average(1.0), groups * width)
    step = PrefixStep(logits)
    found = diverse_beam_search(step, torch.tensor(max_lengths), wide, groups, 0.0, bonus=step.bonus)
    assert found == plain


def test_the_first_group_is_plain_beam_search_whatever_the_others_do() -> None:
    logits = random_logits(3, 9)
    plain = beam_search(PrefixStep(logits), torch.tensor([10] * 6), SearchRules(2, wu(0.6), 1))
    diverse = search(logits, [10] * 6, SearchRules(6, wu(0.6), 3), 3, 2.0)
    for [best], alternatives in zip(plain, diverse, strict=True):
        assert best in alternatives


def test_groups_that_keep_apart_at_any_price_share_no_piece_at_any_position() -> None:
    """Greedy groups, none of which may end: position by position all different, as long as there are enough pieces."""
    logits = random_logits(4, 12)

    def endless(prefix: Prefix) -> list[float]:
        return [x if i != EOS_ID else -1e5 for i, x in enumerate(logits(prefix))]

    for hypotheses in search(endless, [6] * 5, SearchRules(4, none(), 4), 4, 1000.0):
        assert len(hypotheses) == 4
        for pieces in zip(*(h.tokens for h in hypotheses), strict=True):
            assert len(set(pieces)) == 4


def test_the_stronger_the_more_different() -> None:
    """Pieces that two of the alternatives have at the same position, over 20 sentences."""
    logits = random_logits(5, 20)
    shared = []
    for strength in (0.2, 1.0, 5.0):
        results = search(logits, [10] * 20, SearchRules(4, wu(0.6), 4), 4, strength)
        pairs = [(a.tokens, b.tokens) for found in results for i, a in enumerate(found) for b in found[:i]]
        shared.append(sum(x == y for a, b in pairs for x, y in zip(a, b, strict=False)) / sum(map(len, sum(pairs, ()))))
    assert shared == sorted(shared, reverse=True)
    assert shared[0] > shared[-1]


def test_scores_are_log_probabilities_without_the_diversity_term() -> None:
    logits = random_logits(6, 9)
    for sentence, hypotheses in enumerate(search(logits, [7] * 4, SearchRules(6, wu(0.6), 6), 3, 3.0)):
        for h in hypotheses:
            prefixes = [(sentence, *h.tokens[:i]) for i in range(len(h.tokens))]
            log_prob = sum(log_distribution_of(logits(p))[t] for p, t in zip(prefixes, h.tokens, strict=True))
            assert h.score == pytest.approx(log_prob / wu(0.6)(torch.tensor(len(h.tokens))).item(), abs=1e-5)


def test_results_are_sorted_and_distinct_and_the_best_does_not_depend_on_how_many_are_asked_for() -> None:
    logits = random_logits(7, 9)
    one = search(logits, [9] * 6, SearchRules(6, wu(0.6), 1), 3, 0.5)
    for n_best in (2, 3, 6):
        for [best], hypotheses in zip(
            one, search(logits, [9] * 6, SearchRules(6, wu(0.6), n_best), 3, 0.5), strict=True
        ):
            assert hypotheses[0] == best
            assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
            assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses) <= n_best


def test_one_row_per_sentence_at_first_and_sentences_leave_with_all_their_groups() -> None:
    """Groups end after different numbers of pieces; the step sees the rows that it sees in a plain search."""

    def logits(prefix: Prefix) -> list[float]:
        ends = len(prefix) > 2 * prefix[0] + 1  # with 2, 4 and 6 pieces
        return [0.0, 0.0, 0.0, 50.0 if ends else -50.0, 2.0, 1.0, 0.0]

    step = PrefixStep(logits)
    results = diverse_beam_search(step, torch.tensor([30, 30, 30]), SearchRules(6, wu(0.6)), 3, 0.5)
    assert [len(hypotheses[0].tokens) for hypotheses in results] == [2, 4, 6]
    assert step.rows[:2] == [3, 18]
    assert all(rows % 6 == 0 for rows in step.rows[1:])
    assert step.rows[-1] == 6


def test_restrictions_see_the_sentences_of_the_batch() -> None:
    """Piece 4 + i is forbidden in sentence i."""

    def forbid(continuations: Continuations, state: BeamState) -> None:
        rows = torch.arange(len(state.sentences))
        continuations.logits[rows, :, 4 + state.sentences] = -torch.inf

    step = PrefixStep(random_logits(8, 9))
    results = diverse_beam_search(step, torch.tensor([8] * 5), SearchRules(4, none(), 4), 2, 0.5, [forbid])
    pieces = [{token for h in hypotheses for token in h.tokens} for hypotheses in results]
    assert all(4 + i not in found for i, found in enumerate(pieces))
    assert any(4 + j in found for i, found in enumerate(pieces) for j in range(5) if j != i)


def test_a_vocabulary_smaller_than_the_candidates_leaves_rows_empty() -> None:
    results = search(random_logits(9, 6), [1, 5], SearchRules(20, wu(0.6), 20), 2, 0.5)
    for hypotheses in results:
        assert hypotheses
        for h in hypotheses:
            assert math.isfinite(h.score)
            assert not {PAD_ID, UNK_ID, BOS_ID} & set(h.tokens)


def test_rows_that_hold_no_hypothesis_do_not_count() -> None:
    """The first group is dead in the second sentence: there the second group does as if alone."""
    torch.manual_seed(0)
    logits = torch.randn(2, 1, 2, 50).repeat(1, 2, 1, 1).flatten(0, 1)  # both groups alike
    offset = torch.zeros(4, 2)
    offset[2] = -torch.inf
    rules = SearchRules(2, none())
    state = replace(start(torch.full((4,), 9), rules), log_probs=torch.zeros(4, 2))
    found = Diversity(2, 5.0, rules)(Continuations(logits, offset), state)
    assert found.log_probs.shape == (4, 4)
    alone = Diversity(1, 5.0, rules)(Continuations(logits, torch.zeros(4, 2)), state)
    assert torch.equal(found.tokens[0], alone.tokens[0])
    assert not set(found.tokens[1, :2].tolist()) & set(found.tokens[0, :2].tolist())
    assert torch.equal(found.tokens[3], alone.tokens[3])
    assert bool((found.log_probs[2] == -torch.inf).all())


def test_of_several_groups_the_best_of_each_come_first() -> None:
    def hypotheses(*entries: tuple[int, float]) -> Sequence[Hypothesis]:
        return [Hypothesis([token, EOS_ID], score, True) for token, score in entries]

    found = [hypotheses((4, -1.0), (5, -1.1), (6, -1.2)), hypotheses((4, -1.0), (7, -3.0)), hypotheses((8, -2.0))]
    pieces = {n: [h.tokens[0] for h in merged(found, n)] for n in range(1, 7)}
    assert pieces == {1: [4], 2: [4, 8], 3: [4, 5, 8], 4: [4, 5, 8, 7], 5: [4, 5, 6, 8, 7], 6: [4, 5, 6, 8, 7]}
