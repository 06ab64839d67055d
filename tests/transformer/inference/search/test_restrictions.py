"""Restricted searches as wide as the space against all outputs that keep to the restriction, one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from tests.transformer.inference.search.invented_steps import A, B, C, TableStep, every_output, random_table
from transformer.inference.search.beam_search import SearchRules, beam_search
from transformer.inference.search.length_penalty import none
from transformer.inference.search.required_phrases import RequiredPhrases
from transformer.inference.search.restrictions import build_restrictions
from transformer.inference.search.search_state import Hypothesis, Restriction

Output = tuple[int, ...]


def log_probs_of(table: Tensor, tokens: Sequence[int]) -> list[float]:
    """log P of each piece of an output of the sentence with this table (T, V, V)."""
    log_probs = table.double().clone()
    log_probs[..., [PAD_ID, BOS_ID]] = -torch.inf
    log_probs = log_probs.log_softmax(-1)
    return [log_probs[i, last, t].item() for i, (last, t) in enumerate(zip([BOS_ID, *tokens], tokens, strict=False))]


def best_outputs(table: Tensor, max_length: int, allowed: Callable[[Output], bool]) -> list[tuple[Output, float]]:
    """The outputs that are allowed, best first."""
    outputs = [output for output in every_output(max_length) if allowed(output)]
    return sorted(((output, sum(log_probs_of(table, output))) for output in outputs), key=lambda pair: -pair[1])


def search(
    table: Tensor,
    max_lengths: Sequence[int],
    restrictions: Sequence[Restriction],
    beam_size: int = 200,
    n_best: int = 12,
) -> list[list[Hypothesis]]:
    rules = SearchRules(beam_size, none(), n_best)
    return beam_search(TableStep(table), torch.tensor(max_lengths), rules, restrictions)


def assert_found(hypotheses: Sequence[Hypothesis], expected: Sequence[tuple[Output, float]]) -> None:
    assert [tuple(h.tokens) for h in hypotheses] == [output for output, _ in expected[: len(hypotheses)]]
    assert [h.score for h in hypotheses] == pytest.approx([score for _, score in expected[: len(hypotheses)]], abs=1e-4)
    assert len(hypotheses) == min(12, len(expected))


def pieces_of(output: Output) -> Output:
    return output[:-1] if output[-1] == EOS_ID else output


def holds(output: Sequence[int], phrase: Sequence[int]) -> bool:
    return any(list(output[i : i + len(phrase)]) == list(phrase) for i in range(len(output) - len(phrase) + 1))


def ngrams_repeat(output: Output, n: int) -> bool:
    pieces = pieces_of(output)
    ngrams = [pieces[i : i + n] for i in range(len(pieces) - n + 1)]
    return len(set(ngrams)) < len(ngrams)


def test_where_nothing_is_asked_there_is_no_restriction() -> None:
    assert build_restrictions(device="cpu") == ()
    assert build_restrictions(device="cpu", prefixes=[[], []], avoided=[[], []]) == ()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("min_length", [1, 2, 3, 4, 9])
def test_with_a_minimum_length_the_best_output_that_is_long_enough_is_found(min_length: int, seed: int) -> None:
    """An output may end at the limit of its sentence, if that is shorter."""
    table, max_lengths = random_table(seed), [5, 3]
    restrictions = build_restrictions(device="cpu", min_length=min_length)
    for i, hypotheses in enumerate(search(table, max_lengths, restrictions)):
        shortest = min(min_length, max_lengths[i] - 1)
        expected = best_outputs(table[i], max_lengths[i], lambda output: len(pieces_of(output)) >= shortest)  # noqa: B023
        assert_found(hypotheses, expected)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_is_repeated_and_the_best_of_these_outputs_is_found(n: int, seed: int) -> None:
    table, max_lengths = random_table(seed), [5, 4]
    restrictions = build_restrictions(device="cpu", no_repeat_ngram=n)
    for i, hypotheses in enumerate(search(table, max_lengths, restrictions)):
        assert_found(hypotheses, best_outputs(table[i], max_lengths[i], lambda output: not ngrams_repeat(output, n)))


@pytest.mark.parametrize("theta", [1.2, 5.0])
def test_the_repetition_penalty_multiplies_log_p_of_every_piece_that_is_there_already(theta: float) -> None:
    table, max_lengths = random_table(7), [5, 4]
    for i, hypotheses in enumerate(
        search(table, max_lengths, build_restrictions(device="cpu", repetition_penalty=theta))
    ):

        def penalised(output: Output) -> float:
            values = log_probs_of(table[i], output)  # noqa: B023
            return sum(theta * v if output[k] in output[:k] else v for k, v in enumerate(values))

        outputs = [(output, penalised(output)) for output in every_output(max_lengths[i])]
        assert_found(hypotheses, sorted(outputs, key=lambda pair: -pair[1]))


@pytest.mark.parametrize("seed", range(3))
def test_outputs_begin_with_their_prefix_and_its_log_p_is_in_the_score(seed: int) -> None:
    table, max_lengths, prefixes = random_table(seed, 4), [5, 5, 4, 2], [[A, B], [], [C], [B]]
    restrictions = build_restrictions(device="cpu", prefixes=prefixes)
    for i, hypotheses in enumerate(search(table, max_lengths, restrictions)):
        prefix = tuple(prefixes[i])
        expected = best_outputs(table[i], max_lengths[i], lambda output: output[: len(prefix)] == prefix)  # noqa: B023
        assert_found(hypotheses, expected)


@pytest.mark.parametrize("seed", range(3))
def test_outputs_hold_none_of_their_avoided_phrases(seed: int) -> None:
    table, max_lengths = random_table(seed, 4), [5, 5, 4, 5]
    avoided = [[[A], [B, C]], [], [[A, B, C]], [[C, C, C], [A, A], [B, C, A, B, A, C]]]
    restrictions = build_restrictions(device="cpu", avoided=avoided)
    for i, hypotheses in enumerate(search(table, max_lengths, restrictions)):
        expected = best_outputs(
            table[i],
            max_lengths[i],
            lambda output: not any(holds(output, phrase) for phrase in avoided[i]),  # noqa: B023
        )
        assert_found(hypotheses, expected)


def test_restrictions_hold_together() -> None:
    table, max_lengths, avoided = random_table(3), [5, 4], [[[B, C]], [[A]]]
    restrictions = build_restrictions(device="cpu", min_length=2, no_repeat_ngram=2, avoided=avoided)
    for i, hypotheses in enumerate(search(table, max_lengths, restrictions)):

        def allowed(output: Output) -> bool:
            avoids = not any(holds(output, phrase) for phrase in avoided[i])  # noqa: B023
            return len(pieces_of(output)) >= 2 and not ngrams_repeat(output, 2) and avoids

        assert_found(hypotheses, best_outputs(table[i], max_lengths[i], allowed))


def test_a_prefix_overrules_what_would_forbid_it() -> None:
    table, prefix = random_table(1, 1), [A, A, A, B]
    restrictions = build_restrictions(
        device="cpu",
        min_length=4,
        repetition_penalty=3.0,
        no_repeat_ngram=1,
        prefixes=[prefix],
        avoided=[[[A], [A, B]]],
        required=RequiredPhrases.of([[[C]]], 2, "cpu"),
    )
    [[hypothesis]] = search(table, [5], restrictions, beam_size=2, n_best=1)
    assert hypothesis.tokens in ([*prefix, C], [*prefix, EOS_ID])  # no room for C and </s>: either
    assert hypothesis.score == pytest.approx(sum(log_probs_of(table[0], hypothesis.tokens)), abs=1e-4)


def test_an_unknown_piece_in_a_prefix_stands_and_costs_nothing() -> None:
    table = random_table(1, 1)
    [[hypothesis]] = search(table, [3], build_restrictions(device="cpu", prefixes=[[UNK_ID, A]]), n_best=1)
    assert hypothesis.tokens[:2] == [UNK_ID, A]
    assert hypothesis.score == pytest.approx(sum(log_probs_of(table[0], hypothesis.tokens)[1:]), abs=1e-4)


def test_a_prefix_beyond_the_length_limit_is_cut_there() -> None:
    [[hypothesis]] = search(random_table(1, 1), [2], build_restrictions(device="cpu", prefixes=[[A, B, C]]), n_best=1)
    assert (hypothesis.tokens, hypothesis.complete) == ([A, B], False)


def test_an_avoided_phrase_within_a_required_one_is_not_avoided() -> None:
    required = RequiredPhrases.of([[[A, B]], []], 200, "cpu")
    restrictions = build_restrictions(device="cpu", avoided=[[[A], [C]], [[A], [C]]], required=required)
    first, second = search(random_table(2), [5, 5], restrictions)
    assert all(holds(h.tokens, [A, B]) and C not in h.tokens for h in first)
    assert all(A not in h.tokens and C not in h.tokens for h in second)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_sentence_that_nothing_may_follow_ends(beam_size: int) -> None:
    """No piece twice, three pieces, at least four; its neighbour, with other wishes, is as it would be alone."""
    table = random_table(4)
    both = {"device": "cpu", "min_length": 4, "no_repeat_ngram": 1}
    stuck, neighbour = search(table, [5, 3], build_restrictions(**both), beam_size, 1)
    assert sorted(stuck[0].tokens) == sorted([A, B, C, EOS_ID])
    assert stuck[0].complete
    assert stuck[0].score == pytest.approx(sum(log_probs_of(table[0], stuck[0].tokens)), abs=1e-4)
    assert neighbour == search(table[1:], [3], build_restrictions(**both), beam_size, 1)[0]
    [[none_left]] = search(
        table[:1], [5], build_restrictions(device="cpu", min_length=2, avoided=[[[A], [B], [C]]]), 3, 1
    )
    assert none_left.tokens == [EOS_ID]


wishes = st.fixed_dictionaries(
    {
        "prefix": st.lists(st.sampled_from([A, B, C, UNK_ID]), max_size=3),
        "avoided": st.lists(st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=3), max_size=4),
        "max_length": st.integers(1, 6),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(wishes, min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(0, 7),
    st.sampled_from([1.0, 1.5]),
    st.integers(0, 3),
    st.integers(0, 1000),
)
def test_every_result_is_finite_and_the_same_without_its_neighbours(
    sentences: list[dict[str, list[int]]], beam_size: int, min_length: int, theta: float, n: int, seed: int
) -> None:
    table = random_table(seed, len(sentences), 6)

    def results(chosen: Sequence[int]) -> list[list[Hypothesis]]:
        restrictions = build_restrictions(
            device="cpu",
            min_length=min_length,
            repetition_penalty=theta,
            no_repeat_ngram=n,
            prefixes=[sentences[i]["prefix"] for i in chosen],
            avoided=[sentences[i]["avoided"] for i in chosen],
        )
        max_lengths = [sentences[i]["max_length"] for i in chosen]
        return search(table[list(chosen)], max_lengths, restrictions, beam_size, beam_size)

    together = results(range(len(sentences)))
    for i, hypotheses in enumerate(together):
        assert hypotheses
        assert all(math.isfinite(h.score) and h.tokens for h in hypotheses)
        prefix = sentences[i]["prefix"][: sentences[i]["max_length"]]
        assert all(h.tokens[: len(prefix)] == prefix for h in hypotheses)
        assert [hypotheses] == results([i])
