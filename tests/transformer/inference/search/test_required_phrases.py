"""Phrases that must appear: against all outputs that hold them, one by one, and as laws over random models."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Vocabulary
from tests.transformer.inference.search.invented_steps import VOCAB_SIZE, A, B, C, TableStep, every_output, random_table
from transformer.inference.search.beam_search import SearchRules, beam_search
from transformer.inference.search.best import best_continuations
from transformer.inference.search.length_penalty import none, wu
from transformer.inference.search.required_phrases import (
    RequiredPhrases,
    contains,
    unmet,
    word_continuations,
)
from transformer.inference.search.restrictions import build_restrictions
from transformer.inference.search.search_state import BeamState, Candidates, Choice, Continuations, Hypothesis
from transformer.inference.sentence import phrase_ids

WORDS = torch.arange(VOCAB_SIZE) == C
Phrases = list[list[int]]


def search(
    table: Tensor,
    max_lengths: Sequence[int],
    phrases: Sequence[Phrases],
    beam_size: int,
    n_best: int = 1,
    words: Tensor | None = None,
    watched: Callable[[Choice], Choice] = lambda choose: choose,
) -> list[list[Hypothesis]]:
    required = RequiredPhrases.of(phrases, beam_size, "cpu", words)
    restrictions = build_restrictions(device="cpu", required=required)
    rules = SearchRules(beam_size, wu(0.6), n_best)
    return beam_search(TableStep(table), torch.tensor(max_lengths), rules, restrictions, watched(required.choose))


def score(table: Tensor, tokens: Sequence[int]) -> float:
    """Of an output of the sentence with this table (T, V, V)."""
    log_probs = table.double().clone()
    log_probs[..., [PAD_ID, BOS_ID]] = -torch.inf
    log_probs = log_probs.log_softmax(-1)
    total = sum(
        log_probs[i, last, t].item() for i, (last, t) in enumerate(zip([BOS_ID, *tokens], tokens, strict=False))
    )
    return total / wu(0.6)(torch.tensor(len(tokens))).item()


def holds_all(output: Sequence[int], phrases: Phrases, words: Tensor | None) -> bool:
    """As text: each piece a letter, and a word boundary behind a phrase where words count."""
    text = "".join("abc"[piece - A] if piece >= A else "." for piece in output) + "."
    wanted = ["".join("abc"[piece - A] for piece in phrase) for phrase in phrases]
    return all(
        any(text[i:].startswith(w) and (words is None or text[i + len(w)] != "c") for i in range(len(text)))
        for w in wanted
    )


@pytest.mark.parametrize("words", [None, WORDS], ids=["pieces", "words"])
@pytest.mark.parametrize(
    "phrases",
    [
        [[A]],
        [[A], [B]],
        [[A, C]],
        [[A], [B, C]],
        [[A, A, B]],  # overlaps itself
        [[A, B, A]],  # begins anew at its end
        [[A, C], [A, C], [B]],  # one of them twice
        [[A], [A, B]],  # one within the other
        [[A], [A, C]],  # with words, this one is not
    ],
    ids=str,
)
def test_a_beam_as_wide_as_the_space_finds_the_best_outputs_that_hold_the_phrases(
    phrases: Phrases, words: Tensor | None
) -> None:
    max_lengths = [5, 4, 5]
    table = random_table(sum(map(sum, phrases)), 3, 5)
    results = search(table, max_lengths, [phrases] * 3, 400, 20, words)
    for i, (hypotheses, max_length) in enumerate(zip(results, max_lengths, strict=True)):
        outputs = [output for output in every_output(max_length) if holds_all(output, phrases, words)]
        # What is required fits before </s>; an output that is cut at the limit with its last piece did not foresee it.
        outputs = [output for output in outputs if holds_all(output[: max_length - 1], phrases, words)]
        expected = sorted(((output, score(table[i], output)) for output in outputs), key=lambda pair: -pair[1])[:20]
        assert [tuple(h.tokens) for h in hypotheses] == [output for output, _ in expected]
        assert [h.score for h in hypotheses] == pytest.approx([value for _, value in expected], abs=1e-4)


phrases_of_sentence = st.lists(st.lists(st.integers(A, 8), min_size=1, max_size=4), max_size=4)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(phrases_of_sentence, st.integers(0, 4)), min_size=1, max_size=4),
    st.integers(1, 5),
    st.sampled_from([1.0, 4.0, 20.0]),
    st.sampled_from([None, (6,), (6, 7, 8)]),
    st.integers(0, 1000),
)
@example([([[4], [4, 6]], 0)], 1, 4.0, (6,), 0)
@example([([[5], [4, 5, 6]], 0)], 1, 4.0, (6,), 1)
@example([([[6], [4]], 0)], 2, 4.0, (6,), 2)
def test_whatever_fits_below_the_limit_is_met_and_neighbours_change_nothing(
    sentences: list[tuple[Phrases, int]], beam_size: int, scale: float, continuing: tuple[int, ...] | None, seed: int
) -> None:
    """Phrases share pieces, and lie within each other, as chance has it; there may be no room to spare."""
    words = None if continuing is None else torch.isin(torch.arange(9), torch.tensor(continuing))
    phrases = [of_sentence for of_sentence, _ in sentences]
    max_lengths = [sum(map(len, of_sentence)) + 1 + more for of_sentence, more in sentences]
    table = random_table(seed, len(sentences), max(max_lengths), scale, vocab_size=9)
    results = search(table, max_lengths, phrases, beam_size, beam_size, words)
    for i, hypotheses in enumerate(results):
        assert hypotheses
        for hypothesis in hypotheses:
            assert math.isfinite(hypothesis.score)
            assert not unmet(hypothesis.tokens, phrases[i], words)
            assert hypothesis.score == pytest.approx(score(table[i], hypothesis.tokens), abs=1e-3)
        assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses)
        assert search(table[i : i + 1], max_lengths[i : i + 1], [phrases[i]], beam_size, beam_size, words) == [
            hypotheses
        ]


@pytest.mark.parametrize("beam_size", [1, 2, 3])
@pytest.mark.parametrize("phrases", [[[5, 4], [4, 6]], [[4], [4, 6]], [[5, 4], [4, 6, 4], [4]]], ids=str)
def test_going_on_with_a_word_that_was_a_phrase_is_foreseen(phrases: Phrases, beam_size: int) -> None:
    """Piece 6 would complete one phrase and undo another, which there may be no room to write again."""
    for more in range(3):
        max_length = sum(map(len, phrases)) + 1 + more
        table = random_table(more, 40, max_length, scale=4.0)
        table[..., 6] += 4  # tempting
        for hypotheses in search(table, [max_length] * 40, [phrases] * 40, beam_size, beam_size, WORDS):
            assert not any(unmet(h.tokens, phrases, WORDS) for h in hypotheses)


def test_a_list_of_the_best_is_short_rather_than_filled_with_outputs_that_lack_a_phrase() -> None:
    """A must come, and nothing may stand beside it: there is one such output. The other hypotheses die."""
    required = RequiredPhrases.of([[[A]]], 3, "cpu")
    avoided = [[A, A], [A, B], [A, C], [B, A], [C, A]]
    restrictions = build_restrictions(device="cpu", required=required, avoided=[avoided])
    rules = SearchRules(3, none(), 3)
    [hypotheses] = beam_search(
        TableStep(random_table(0, 1, 5)), torch.tensor([5]), rules, restrictions, required.choose
    )
    assert [h.tokens for h in hypotheses] == [[A, EOS_ID]]


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_sentences_without_phrases_are_searched_as_if_nobody_had_any(beam_size: int) -> None:
    table = random_table(0, 6, 9)
    max_lengths = [9, 4, 9, 9, 7, 9]
    phrases: list[Phrases] = [[[A, B]], [], [[C], [A, A]], [], [], [[UNK_ID]]]  # the last cannot be met
    mixed = search(table, max_lengths, phrases, beam_size, beam_size)
    free = beam_search(TableStep(table), torch.tensor(max_lengths), SearchRules(beam_size, wu(0.6), beam_size))
    assert [mixed[i] for i in (1, 3, 4, 5)] == [free[i] for i in (1, 3, 4, 5)]
    assert search(table, max_lengths, [[]] * 6, beam_size, beam_size) == free


def needed_by(tokens: Sequence[int], phrases: Phrases) -> int:
    """By a loop, for phrases that share no piece: those not met, less the longest end of tokens that begins one."""
    missing = [phrase for phrase in phrases if not contains(tokens, phrase)]
    begun = [n for phrase in missing for n in range(1, len(phrase)) if list(tokens[-n:]) == phrase[:n]]
    return sum(map(len, missing)) - max(begun, default=0)


@pytest.mark.parametrize("beam_size", [1, 2, 3, 5, 8])
def test_the_beam_is_dealt_out_to_the_banks_in_turn(beam_size: int) -> None:
    """Among the first W candidates, no bank is two ahead of another that has more to give; nothing comes twice."""
    phrases = [[4, 5], [6, 7, 8], [9]]
    shares = []

    def watched(choose: Choice) -> Choice:
        def choose_and_look(continuations: Continuations, state: BeamState) -> Candidates:
            candidates = choose(continuations, state)
            best = best_continuations(continuations, 2 * beam_size)
            assert candidates.tokens.shape == best.tokens.shape
            for row in range(len(state.sentences)):
                all_of_row = list(
                    zip(
                        *(getattr(candidates, name)[row].tolist() for name in ("log_probs", "beams", "tokens")),
                        strict=True,
                    )
                )
                exist = [candidate for candidate in all_of_row if candidate[0] > -math.inf]
                assert all_of_row[: len(exist)] == exist
                assert len({candidate[1:] for candidate in exist}) == len(exist)
                for log_prob, beam, token in exist:
                    expected = continuations.logits[row, beam, token] + continuations.offset[row, beam]
                    assert log_prob == expected.item()
                banks = [needed_by([*state.tokens[row, beam].tolist(), t], phrases) for _, beam, t in exist]
                for bank in set(banks):
                    values = [c[0] for c, other in zip(exist, banks, strict=True) if other == bank]
                    assert values == sorted(values, reverse=True)
                for n in range(1, len(banks)):  # each is the next one's turn: no bank behind it has fewer so far
                    before, rest = Counter(banks[:n]), set(banks[n:])
                    assert all((before[banks[n]], banks[n]) <= (before[other], other) for other in rest)
                if len(exist) == 2 * beam_size:
                    shares.append(Counter(banks[:beam_size]))
            return candidates

        return choose_and_look

    table = random_table(beam_size, 4, 14, vocab_size=12)
    results = search(table, [14, 9, 12, 7], [phrases] * 4, beam_size, watched=watched)
    assert not any(unmet(hypotheses[0].tokens, phrases) for hypotheses in results)
    assert shares
    assert beam_size == 1 or any(len(share) > 1 for share in shares)


def test_a_required_piece_is_looked_at_however_improbable() -> None:
    """The model puts log P = -60 on it; a beam of 1 takes it at once, as the bank that needs less comes first."""
    table = torch.zeros(1, 8, VOCAB_SIZE, VOCAB_SIZE)
    table[..., B] = -60
    table[..., A] = 3
    [[hypothesis]] = search(table, [8], [[[B]]], 1)
    assert hypothesis.tokens[0] == B


def test_a_phrase_that_does_not_fit_is_given_up_and_the_translation_is_the_usual_one() -> None:
    table = random_table(5, 2, 6)
    free = beam_search(TableStep(table), torch.tensor([6, 3]), SearchRules(3, wu(0.6), 3))
    too_long = [[A, B, C, A, B, C]]
    assert search(table, [6, 3], [too_long, [[A, B, C]]], 3, 3) == free
    assert any(unmet(h.tokens, too_long) for h in free[0])


@pytest.mark.parametrize("beam_size", [1, 4])
def test_of_phrases_that_do_not_fit_together_the_shorter_ones_are_met(beam_size: int) -> None:
    phrases = [[A, A, A, A], [C, C], [B]]
    for hypotheses in search(random_table(6, 5, 7), [4, 5, 6, 7, 7], [phrases] * 5, beam_size, beam_size):
        assert hypotheses
        for hypothesis in hypotheses:
            assert math.isfinite(hypothesis.score)
            assert not unmet(hypothesis.tokens, [[C, C], [B]])


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_a_phrase_that_another_restriction_forbids_leaves_a_finite_result(beam_size: int) -> None:
    """Sentence 0 has room for four pieces: A B C is avoided, and so are the joints of A B + B C and of B C + A B."""
    table = random_table(8, 2, 5)
    required = RequiredPhrases.of([[[B, C], [A, B]], [[A]]], beam_size, "cpu")
    restrictions = build_restrictions(device="cpu", required=required, avoided=[[[C, A], [A, B, C], [B, B]], []])
    rules = SearchRules(beam_size, none(), 1)
    for i, [hypothesis] in enumerate(
        beam_search(TableStep(table), torch.tensor([5, 5]), rules, restrictions, required.choose)
    ):
        assert math.isfinite(hypothesis.score)
        assert i == 0 or not unmet(hypothesis.tokens, [[A]])


def test_with_a_prefix_and_a_minimum_length_phrases_are_met_in_what_is_left() -> None:
    for beam_size in (1, 2, 5):
        required = RequiredPhrases.of([[[A, B], [C]], [[C, A]]], beam_size, "cpu")
        restrictions = build_restrictions(device="cpu", min_length=5, prefixes=[[C, A], [B, C]], required=required)
        rules = SearchRules(beam_size, wu(0.6), beam_size)
        results = beam_search(
            TableStep(random_table(9, 2, 6)), torch.tensor([6, 6]), rules, restrictions, required.choose
        )
        for hypotheses, prefix, phrases in zip(results, ([C, A], [B, C]), ([[A, B], [C]], [[C, A]]), strict=True):
            for hypothesis in hypotheses:
                assert hypothesis.tokens[:2] == prefix
                assert len(hypothesis.tokens) == 6
                assert not unmet(hypothesis.tokens, phrases)


def test_an_output_holds_a_phrase_only_as_whole_words() -> None:
    assert contains([A, B, C], [B, C])
    assert contains([A, B, EOS_ID], [B], WORDS)
    assert not contains([A, B, C], [B], WORDS)
    assert contains([A, B, C, B, A], [B], WORDS)
    assert not unmet([A, B, C], [[B], [C]], WORDS)  # a phrase that is no word itself: parts of words are meant
    assert unmet([A, B, C], [[B], [A]], WORDS)
    assert not unmet([], [])
    assert unmet([EOS_ID], [[A]])


def test_pieces_that_go_on_with_a_word_begin_with_a_letter_or_digit_of_a_script_with_spaces() -> None:
    go_on = ["tür", "s", "9", "ое", "ا", "́", "ि"]
    do_not = ["▁Tür", "▁", ",", "-", "'s", "", "<0x41>", "</s>", "北京", "の", "カ", "々", "ー", "ไทย", "에서"]
    assert word_continuations(go_on + do_not).tolist() == [True] * len(go_on) + [False] * len(do_not)


def test_phrases_are_cut_as_they_are_inside_a_sentence_with_or_without_spaces() -> None:
    lines = ["我在北京住", "北京很大", "他去北京了", "the cat sat", "a cat ran", "cats ran"] * 20
    vocabulary = Vocabulary.learn(lines, size=40, byte_fallback=False)
    inside, outside, cat, nothing = phrase_ids(["北京", "東", "cat", ""], vocabulary)
    assert contains(vocabulary.encode(["我在北京住"])[0], inside)
    assert contains(vocabulary.encode(["the cat sat"])[0], cat, word_continuations(vocabulary.pieces(range(40))))
    assert not contains(vocabulary.encode(["cats ran"])[0], cat, word_continuations(vocabulary.pieces(range(40))))
    assert vocabulary.decode([inside, cat]) == ["北京", "cat"]
    assert outside[-1] == UNK_ID
    assert unmet([A, UNK_ID, B], [outside])
    assert nothing == []


def test_of_equal_banks_and_scores_the_order_is_by_hypothesis_then_id() -> None:
    """A flat model: nothing but ties."""
    flat = torch.zeros(1, 6, VOCAB_SIZE, VOCAB_SIZE)
    results = [search(flat.repeat(n, 1, 1, 1), [6] * n, [[[B, A]]] * n, 3, 3) for n in (1, 4)]
    assert results[1] == results[0] * 4
    for hypotheses in results[0]:
        assert all(later.score <= earlier.score for earlier, later in pairwise(hypotheses))
