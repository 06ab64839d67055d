"""Masks say who may attend to whom: True means "may attend"."""

from __future__ import annotations

import pytest
import torch

from transformer.masks import PackedMask, Segments, padding_mask, positions_of, subsequent_mask


@pytest.mark.parametrize("pad_id", [0, 3])
def test_every_query_may_attend_to_the_real_keys_of_its_own_sentence_only(pad_id: int) -> None:
    ids = torch.randint(0, 5, (4, 7))
    mask = padding_mask(ids, pad_id)
    assert mask.dtype == torch.bool
    assert mask.shape == (4, 1, 1, 7)
    for sentence, head, query, key in torch.cartesian_prod(*map(torch.arange, (4, 2, 5, 7))).tolist():
        allowed = mask.expand(4, 2, 5, 7)[sentence, head, query, key]
        assert bool(allowed) == (int(ids[sentence, key]) != pad_id)


def test_padding_anywhere_is_hidden_and_a_blank_sentence_hides_everything() -> None:
    mask = padding_mask(torch.tensor([[5, 0, 7, 3, 0], [0, 0, 0, 0, 0]]), 0)
    assert mask.flatten(1).tolist() == [[True, False, True, True, False], [False] * 5]


@pytest.mark.parametrize("n_past", [0, 1, 4])
@pytest.mark.parametrize("n_queries", [1, 2, 5])
def test_a_query_may_attend_to_itself_and_to_what_came_before(n_queries: int, n_past: int) -> None:
    mask = subsequent_mask(n_queries, n_past)
    assert mask.dtype == torch.bool
    for query in range(n_queries):
        assert mask[query].tolist() == [key <= n_past + query for key in range(n_past + n_queries)]


def test_the_mask_of_later_queries_is_the_last_rows_of_the_whole_mask() -> None:
    for n_past in range(6):
        assert torch.equal(subsequent_mask(6 - n_past, n_past), subsequent_mask(6)[n_past:])


def segments(lengths: list[int], longest: int = 9) -> Segments:
    positions = torch.tensor([i for length in lengths for i in range(length)], dtype=torch.int64)
    return Segments(torch.tensor([0, *lengths]).cumsum(0).to(torch.int32), positions, longest)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [([2, 3, 0, 1], [1, 4, 2, 2]), ([3], [2]), ([0, 2, 2], [3, 0, 1])])
def test_a_packed_mask_lets_sentences_attend_to_those_of_the_same_number(
    queries: list[int], keys: list[int], causal: bool
) -> None:
    mask = PackedMask(segments(queries), segments(keys), causal).dense()
    query_places = [(sentence, i) for sentence, length in enumerate(queries) for i in range(length)]
    key_places = [(sentence, i) for sentence, length in enumerate(keys) for i in range(length)]
    expected = [[q == k and (not causal or i >= j) for k, j in key_places] for q, i in query_places]
    assert mask.tolist() == expected


def test_of_one_sentence_the_decoders_mask_is_the_subsequent_mask() -> None:
    mask = PackedMask(segments([4]), segments([7])).among_queries()
    assert torch.equal(mask.dense(), subsequent_mask(4))


def test_positions_begin_anew_in_each_packed_sentence_only() -> None:
    ids = torch.zeros(1, 5, dtype=torch.int64)
    assert positions_of(ids, PackedMask(segments([2, 3]), segments([1, 1]))).tolist() == [0, 1, 0, 1, 2]
    assert positions_of(ids, padding_mask(ids, 0)).tolist() == [0, 1, 2, 3, 4]
