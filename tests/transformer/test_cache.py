"""What hypotheses share: decoding with any history of places changed and sentences left equals reading each alone."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from transformer.cache import ROOM
from transformer.config import ModelSettings
from transformer.decoder import Decoder
from transformer.masks import padding_mask

SRC = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0], [9, 9, 3, 0]])
VARIANTS = {"paper": {}, "pre-norm": {"norm_position": "pre"}, "rotary": {"positions": "rotary"}}


def make_decoder(**changes: object) -> Decoder:
    defaults = {"n_decoder_layers": 2, "d_model": 16, "d_ff": 24, "n_heads": 4, "d_value": 3, "dropout": 0.0}
    return Decoder(11, ModelSettings(**(defaults | changes))).eval()


def read_alone(decoder: Decoder, history: list[int], memory: Tensor, src_mask: Tensor) -> Tensor:
    return decoder(torch.tensor([history]), memory[None], src_mask[None])[0, -1]


@pytest.mark.parametrize("width", [1, 2, 5, 90])
@pytest.mark.parametrize("name", VARIANTS)
def test_any_history_of_a_search_reads_like_each_hypothesis_alone(name: str, width: int) -> None:
    """Random choices of whom to continue, sentences that leave, more positions than there is room for at first."""
    source = random.Random(width)
    decoder, src_mask, memory = make_decoder(**VARIANTS[name]), padding_mask(SRC, 0), torch.randn(3, 4, 16)
    cache = decoder.start(memory, src_mask)
    n_positions = 2 * ROOM + 3 if width < 90 else 4
    histories = [[[2]] for _ in SRC]  # sentences, hypotheses, pieces
    present = [0, 1, 2]
    for position in range(n_positions):
        hidden = decoder.step(torch.tensor([[h[-1] for h in rows] for rows in histories]), cache)
        for rows, sentence, found in zip(histories, present, hidden, strict=True):
            for history, one in list(zip(rows, found, strict=True))[:2]:
                expected = read_alone(decoder, history, memory[sentence], src_mask[sentence])
                assert_close(one, expected, atol=1e-5, rtol=1e-5)
        stay = None
        if position in (2, ROOM + 3):
            stay = torch.tensor([len(present) - 1, 0][: len(present) - 1])  # one leaves, the others change places
            present, histories = [present[i] for i in stay], [histories[i] for i in stay]
        beams = [[source.randrange(len(rows)) for _ in range(width)] for rows in histories]
        cache.follow(stay, torch.tensor(beams))
        histories = [
            [[*rows[beam], source.randrange(1, 11)] for beam in chosen]
            for rows, chosen in zip(histories, beams, strict=True)
        ]


def test_what_nobody_descends_from_is_dropped() -> None:
    decoder = make_decoder()
    cache = decoder.start(torch.randn(3, 4, 16), padding_mask(SRC, 0))
    beams = torch.zeros(3, 4, dtype=torch.int64)  # everyone continues the first hypothesis, at every position
    for position in range(10 * ROOM):
        decoder.step(torch.full((3, 1 if position == 0 else 4), 5), cache)
        cache.follow(None, beams)
    n_slots = cache.slots[0].n_used
    assert 10 * ROOM <= n_slots < 10 * ROOM + 4 * (ROOM + 8)  # not 4 · 10 · ROOM
    assert cache.n_past == 10 * ROOM


def test_a_greedy_search_needs_no_mask_and_one_slot_for_a_piece() -> None:
    decoder = make_decoder()
    cache = decoder.start(torch.randn(3, 4, 16), padding_mask(SRC, 0))
    for position in range(1, 3 * ROOM):
        assert cache.read(1) is None
        assert cache.seen.shape == (3, 1, position)


def test_the_memory_has_one_row_per_sentence_whatever_the_width() -> None:
    decoder = make_decoder()
    cache = decoder.start(torch.randn(3, 4, 16), padding_mask(SRC, 0))
    decoder.step(torch.full((3, 1), 2), cache)
    cache.follow(None, torch.zeros(3, 7, dtype=torch.int64))
    decoder.step(torch.full((3, 7), 4), cache)
    assert [layer.keys.size(0) for layer in cache.memory] == [3, 3]
    cache.follow(torch.tensor([2]), torch.zeros(1, 7, dtype=torch.int64))
    assert [layer.keys.size(0) for layer in cache.memory] == [1, 1]
    assert [layer.stored.keys.size(0) for layer in cache.slots if layer.stored] == [1, 1]
