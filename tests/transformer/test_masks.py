"""Masks say who may attend to whom: True means "may attend"."""

from __future__ import annotations

import pytest
import torch

from transformer.masks import padding_mask, subsequent_mask


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
