"""The k best continuations by blocks are those of sorting all of them, ties, gaps and left-over columns included."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from transformer.inference.search.best import BLOCK, best_continuations, best_of
from transformer.inference.search.search_state import Candidates, Continuations


def by_sorting(continuations: Continuations, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """log P, beams and ids in the order that the rules of the search ask for: by log P, then beam, then id."""
    sums = (continuations.logits + continuations.offset[:, :, None]).flatten(1)
    best, places = sums.sort(dim=1, descending=True, stable=True)
    vocab_size = continuations.logits.size(2)
    return best[:, :k], places[:, :k] // vocab_size, places[:, :k] % vocab_size


def check(continuations: Continuations, k: int) -> Candidates:
    found = best_continuations(continuations, k)
    best, beams, tokens = by_sorting(continuations, k)
    n = best.size(1)
    assert found.log_probs.shape == (best.size(0), k)
    assert torch.equal(found.log_probs[:, :n], best)
    assert (found.log_probs[:, n:] == -torch.inf).all()
    exist = best > -torch.inf
    assert torch.equal(found.beams[:, :n][exist], beams[exist])
    assert torch.equal(found.tokens[:, :n][exist], tokens[exist])
    return found


VOCAB_SIZES = [1, 7, 16 * BLOCK - 1, 16 * BLOCK, 16 * BLOCK + 1, 20 * BLOCK + 37, 10_000]


@pytest.mark.parametrize("vocab_size", VOCAB_SIZES)
@pytest.mark.parametrize(("width", "k"), [(1, 2), (1, 10), (5, 10), (20, 40), (3, 1)])
def test_the_best_are_those_of_a_full_sort(vocab_size: int, width: int, k: int) -> None:
    torch.manual_seed(vocab_size + width)
    logits, offset = torch.randn(4, width, vocab_size), torch.randn(4, width)
    logits[0, :, ::3] = -torch.inf
    offset[1, 0] = -torch.inf  # no hypothesis
    check(Continuations(logits, offset), k)


@pytest.mark.parametrize("vocab_size", VOCAB_SIZES)
def test_in_half_precision_where_many_are_equal_too(vocab_size: int) -> None:
    torch.manual_seed(vocab_size)
    logits = torch.randn(6, 5, vocab_size).log_softmax(-1).bfloat16().float()
    logits[1] = logits[1].floor()
    offset = torch.randn(6, 5).bfloat16().float()
    offset[:, 1] = offset[:, 0]
    check(Continuations(logits, offset), 10)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 9))
def test_equal_ones_come_by_beam_and_id_wherever_the_blocks_end(seed: int, width: int, k: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    vocab_size = 16 * BLOCK + int(torch.randint(0, 2 * BLOCK, (), generator=generator))
    values = torch.tensor([-torch.inf, 0.0, 1.0, 2.0])
    few = torch.rand((3, 1, 1), generator=generator) * 0.02  # how many are not -inf: some ties are at the border
    drawn = torch.randint(1, 4, (3, width, vocab_size), generator=generator)
    logits = values[drawn.masked_fill(torch.rand(drawn.shape, generator=generator) > few, 0)]
    check(Continuations(logits, torch.zeros(3, width)), k)


def test_everything_impossible_gives_nothing_and_no_nan() -> None:
    nothing = Continuations(torch.full((2, 3, 2000), -torch.inf), torch.zeros(2, 3))
    assert (check(nothing, 6).log_probs == -torch.inf).all()


def test_the_best_of_equal_values_are_the_first() -> None:
    torch.manual_seed(0)
    for n in (1, 3, 50, 2000):
        for k in (1, 2, 8, 60):
            for values in (torch.randint(-2, 3, (6, n)).float(), torch.randn(6, n), torch.zeros(6, n)):
                values[1, ::2] = -torch.inf
                expected = values.sort(dim=1, descending=True, stable=True)
                best, places = best_of(values, k)
                assert torch.equal(best, expected.values[:, :k])
                finite = best > -torch.inf
                assert torch.equal(places[finite], expected.indices[:, :k][finite])


def test_any_numbers_that_exist_are_in_order() -> None:
    tiny = torch.finfo(torch.float32).smallest_normal
    values = torch.tensor([[-1.5, torch.inf, 0.0, -tiny, -0.0, 3e38, tiny, -torch.inf, -3e38, tiny / 2, 1.0, -1.0]])
    best, places = best_of(values, 12)
    expected = values.sort(dim=1, descending=True, stable=True)
    assert torch.equal(best, expected.values)
    assert torch.equal(places, expected.indices)
