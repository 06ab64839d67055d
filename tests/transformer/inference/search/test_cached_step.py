"""Cached decoding is full decoding, for every kind of network, and scoring agrees with it."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transformer.config import ModelSettings
from transformer.inference.scoring import target_log_probs, target_scores
from transformer.inference.search.beam_search import SearchRules, beam_search
from transformer.inference.search.cached_step import CachedStep
from transformer.inference.search.length_penalty import LengthPenalty, average, none, wu
from transformer.masks import padding_mask
from transformer.model import Transformer

VOCAB_SIZE = 14
PENALTIES = [pytest.param(wu(0.6), id="wu"), pytest.param(average(1.0), id="average"), pytest.param(none(), id="none")]
TINY = ModelSettings(n_encoder_layers=1, n_decoder_layers=2, d_model=16, d_ff=24, n_heads=2)
NETWORKS = {
    "paper": TINY,
    "pre-norm, RMSNorm, SwiGLU": TINY.model_copy(
        update={"norm_position": "pre", "norm": "rms_norm", "activation": "swiglu"}
    ),
    "rotary, biases": TINY.model_copy(update={"positions": "rotary", "attention_bias": True}),
    "deep encoder, wide heads": TINY.model_copy(
        update={"n_encoder_layers": 3, "n_decoder_layers": 1, "d_head": 12, "d_value": 6}
    ),
    "untied, norm after embeddings, scaled projection": TINY.model_copy(
        update={"embedding_norm": True, "scaling": "projection", "tie_embeddings": "none"}
    ),
}


class FullStep:
    """Re-reads every prefix from its beginning, for a copy of its source sentence."""

    def __init__(self, network: Transformer, src: Tensor) -> None:
        self.network, self.src = network, src
        self.prefixes = torch.empty(len(src), 0, dtype=torch.int64)
        self.logits: list[Tensor] = []

    def __call__(self, tokens: Tensor, origin: Tensor) -> Tensor:
        self.src = self.src[origin]
        self.prefixes = torch.cat([self.prefixes[origin], tokens[:, None]], 1)
        self.logits.append(self.network(self.src, self.prefixes)[:, -1])
        return self.logits[-1]


def make_network(settings: ModelSettings = TINY, seed: int = 0) -> Transformer:
    """An untrained network; its matrices are enlarged, so that its outputs depend strongly on its input."""
    torch.manual_seed(seed)
    network = Transformer(settings, VOCAB_SIZE, VOCAB_SIZE).eval().requires_grad_(False)
    for name, parameter in network.named_parameters():
        if parameter.dim() == 2 and "table" not in name:
            parameter *= 2 * math.sqrt(2) if "in_projection" in name else 2
    return network


def random_ids(lengths: list[int]) -> Tensor:
    """Rows of pieces, </s> and padding; lengths without </s>."""
    ids = torch.randint(EOS_ID + 1, VOCAB_SIZE, (len(lengths), max(lengths) + 1))
    for row, length in zip(ids, lengths, strict=True):
        row[length] = EOS_ID
        row[length + 1 :] = PAD_ID
    return ids


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("settings", NETWORKS.values(), ids=NETWORKS)
def test_cached_decoding_is_full_decoding(settings: ModelSettings, beam_size: int) -> None:
    network = make_network(settings)
    src = random_ids([3, 9, 1, 6, 4])
    limits = torch.tensor([5, 11, 3, 16, 8])  # sentences leave at different times
    rules = SearchRules(beam_size, wu(0.6), n_best=beam_size)
    full_step, cached_step = FullStep(network, src), CachedStep(network, src, beam_size)

    calls: list[Tensor] = []

    def noted(tokens: Tensor, origin: Tensor) -> Tensor:
        calls.append(cached_step(tokens, origin))
        return calls[-1]

    full, cached = beam_search(full_step, limits, rules), beam_search(noted, limits, rules)
    for logits, cached_logits in zip(full_step.logits, calls, strict=True):
        torch.testing.assert_close(cached_logits, logits, atol=1e-5, rtol=1e-5)
    for hypotheses, cached_hypotheses in zip(full, cached, strict=True):
        assert [h.tokens for h in cached_hypotheses] == [h.tokens for h in hypotheses]
        assert [h.score for h in cached_hypotheses] == pytest.approx([h.score for h in hypotheses], abs=1e-5)


def test_beam_1_is_a_greedy_loop_over_the_whole_network() -> None:
    network = make_network(seed=1)
    src = random_ids([7, 2, 5])
    rules = SearchRules(1, wu(0.6))
    found = beam_search(CachedStep(network, src, 1), torch.tensor([12, 12, 12]), rules)
    for row, [hypothesis] in zip(src, found, strict=True):
        tokens = [BOS_ID]
        while len(tokens) <= 12 and tokens[-1] != EOS_ID:
            logits = network(row[None], torch.tensor([tokens]))[0, -1]
            logits[[PAD_ID, UNK_ID, BOS_ID]] = -torch.inf
            tokens.append(int(logits.argmax()))
        assert hypothesis.tokens == tokens[1:]


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_beam_as_wide_as_the_space_finds_the_best_of_all_translations(penalty: LengthPenalty) -> None:
    network = make_network(seed=7)
    pieces = [id_ for id_ in range(VOCAB_SIZE) if id_ not in (PAD_ID, UNK_ID, BOS_ID, EOS_ID)]
    outputs = [[*prefix, EOS_ID] for n in range(3) for prefix in product(pieces, repeat=n)]
    outputs += [list(cut) for cut in product(pieces, repeat=3)]
    tgt = torch.tensor([output + [PAD_ID] * (3 - len(output)) for output in outputs])
    src = random_ids([4])
    scores = target_scores(network, src.expand(len(tgt), -1), tgt, penalty)
    best = scores.topk(20)
    beam_size = 2 * len(outputs)
    rules = SearchRules(beam_size, penalty, n_best=20)
    [found] = beam_search(CachedStep(network, src, beam_size), torch.tensor([3]), rules)
    assert [h.tokens for h in found] == [outputs[place] for place in best.indices.tolist()]
    assert [h.score for h in found] == pytest.approx(best.values.tolist(), abs=1e-5)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_score_of_the_search_is_the_score_of_forced_decoding(penalty: LengthPenalty) -> None:
    network = make_network(seed=10)
    src = random_ids([4, 8, 1])
    found = beam_search(CachedStep(network, src, 4), torch.tensor([6, 9, 12]), SearchRules(4, penalty, n_best=4))
    assert {h.complete for hypotheses in found for h in hypotheses} == {True, False}
    for row, hypotheses in zip(src, found, strict=True):
        tgt = torch.full((4, 12), PAD_ID)
        for place, hypothesis in enumerate(hypotheses):
            tgt[place, : len(hypothesis.tokens)] = torch.tensor(hypothesis.tokens)
        scores = target_scores(network, row.expand(4, -1), tgt, penalty)
        assert [h.score for h in hypotheses] == pytest.approx(scores.tolist(), abs=1e-4)


def test_forced_log_probs_are_a_distribution_without_padding_and_bos() -> None:
    network = make_network(seed=3)
    src, tgt = random_ids([5]), torch.tensor([[7, 8, EOS_ID]])
    total = torch.zeros(3)
    for piece in range(VOCAB_SIZE):
        if piece in (PAD_ID, BOS_ID):
            continue
        for place in range(3):
            other = tgt.clone()
            other[0, place] = piece
            total[place] += target_log_probs(network, src, other)[0, place].exp()
    torch.testing.assert_close(total, torch.ones(3))


def test_padding_changes_no_forced_score_and_counts_for_nothing() -> None:
    network = make_network(seed=4)
    src, tgt = random_ids([3, 9]), random_ids([2, 8])
    together = target_log_probs(network, src, tgt)
    alone = target_log_probs(network, src[:1, :4], tgt[:1, :3])
    torch.testing.assert_close(together[0, :3], alone[0], atol=1e-5, rtol=0)
    assert together[0, 3:].tolist() == [0.0] * 6


def test_a_row_without_a_single_source_piece_poisons_nobody() -> None:
    """Case M1 in decoding: an empty row beside [5, 6, 7, eos] changes nothing there, and is finite itself."""
    network = make_network(seed=5)
    src = torch.tensor([[5, 6, 7, EOS_ID], [PAD_ID] * 4])
    rules, limits = SearchRules(4, wu(0.6), n_best=4), torch.tensor([9, 9])
    row, empty = beam_search(CachedStep(network, src, 4), limits, rules)
    [alone] = beam_search(CachedStep(network, src[:1], 4), limits[:1], rules)
    assert [h.tokens for h in row] == [h.tokens for h in alone]
    assert [h.score for h in row] == pytest.approx([h.score for h in alone], abs=1e-5)
    assert torch.tensor([h.score for h in empty]).isfinite().all()


def test_encoder_states_do_not_depend_on_the_padding_of_the_batch() -> None:
    """Case X6: a sentence of 5 pieces alone, and padded to 50."""
    network = make_network(seed=6)
    src = random_ids([4, 49])
    memory = network.encode(src, padding_mask(src, PAD_ID))[0, :5]
    alone = network.encode(src[:1, :5], padding_mask(src[:1, :5], PAD_ID))[0]
    torch.testing.assert_close(memory, alone, atol=1e-5, rtol=0)


def test_a_sentence_keeps_one_row_of_memory_whatever_the_beam() -> None:
    network = make_network()
    step = CachedStep(network, random_ids([3, 4]), beam_size=5)
    beam_search(step, torch.tensor([2, 4]), SearchRules(5, wu(0.6)))
    assert [layer.keys.size(0) for layer in step.cache.memory] == [1, 1]  # sentence 0 has left
    assert [layer.stored.keys.size(0) for layer in step.cache.slots if layer.stored] == [1, 1]
