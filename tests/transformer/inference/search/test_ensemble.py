"""Ensembles against the formula, and against the one model that they are when all their models are the same."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, Vocabulary
from transformer.config import ModelSettings
from transformer.errors import ConfigError
from transformer.inference.scoring import target_log_probs
from transformer.inference.search.beam_search import Hypothesis, SearchRules, beam_search
from transformer.inference.search.cached_step import CachedStep
from transformer.inference.search.ensemble import EnsembleStep, check_shared_vocabularies
from transformer.inference.search.length_penalty import none
from transformer.inference.search.search_state import Step
from transformer.model import Transformer

VOCAB_SIZE = 30
SRC = torch.tensor([[7, 8, 9, 10, EOS_ID], [4, 5, EOS_ID, PAD_ID, PAD_ID], [21, 22, 23, EOS_ID, PAD_ID]])


def small_network(seed: int) -> Transformer:
    torch.manual_seed(seed)
    settings = ModelSettings(n_encoder_layers=2, n_decoder_layers=2, d_model=16, n_heads=2, d_ff=32)
    return Transformer(settings, VOCAB_SIZE, VOCAB_SIZE).eval()


@torch.inference_mode()
def search(networks: list[Transformer], beam_size: int = 3) -> list[list[Hypothesis]]:
    steps: list[Step] = [CachedStep(network, SRC, beam_size) for network in networks]
    step = steps[0] if len(steps) == 1 else EnsembleStep(steps)
    return beam_search(step, torch.full((3,), 12), SearchRules(beam_size, none(), beam_size))


def constant(logits: Tensor) -> Step:
    """A step that ignores what it is asked."""
    return lambda tokens, origin: logits.expand(len(tokens), -1).clone()


def test_the_distribution_is_the_mean_of_the_distributions_without_padding_and_bos() -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 9) * 4
    logits[0, PAD_ID] = logits[1, BOS_ID] = 50.0  # would take all the share of a model, were they outcomes
    possible = [i for i in range(9) if i not in (PAD_ID, BOS_ID)]
    expected = logits.double()[:, possible].softmax(1).mean(0)
    rows = torch.arange(4)
    found = EnsembleStep([constant(row) for row in logits])(rows, rows)
    assert found.shape == (4, 9)
    torch.testing.assert_close(found[:, possible].double().exp(), expected.expand(4, -1))
    assert bool((found[:, [PAD_ID, BOS_ID]] == -torch.inf).all())


def test_improbable_pieces_stay_possible() -> None:
    steps = [constant(torch.tensor([0.0, 0.0, 0.0, 0.0, -300.0])), constant(torch.tensor([0.0, 0.0, 0.0, 0.0, -400.0]))]
    found = EnsembleStep(steps)(torch.tensor([BOS_ID]), torch.tensor([0]))[0, 4].item()
    assert found == pytest.approx(-300 - math.log(2) - math.log(2), abs=1e-3)  # two pieces share each distribution


@pytest.mark.parametrize("n", [2, 3])
def test_a_model_with_itself_is_the_model(n: int) -> None:
    network = small_network(0)
    alone, together = search([network]), search([network] * n)
    assert [[h.tokens for h in found] for found in together] == [[h.tokens for h in found] for found in alone]
    for found, expected in zip(together, alone, strict=True):
        assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-4)


def test_the_score_is_the_mean_probability_that_the_models_give_each_piece_when_forced() -> None:
    networks = [small_network(seed) for seed in range(3)]
    found = search(networks)
    assert found != search(networks[:1])
    for row, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            tgt = torch.tensor([hypothesis.tokens])
            with torch.inference_mode():
                each = torch.stack([target_log_probs(network, SRC[row : row + 1], tgt)[0] for network in networks])
            assert hypothesis.score == pytest.approx(each.double().exp().mean(0).log().sum().item(), abs=1e-4)


def test_the_order_of_the_models_does_not_matter() -> None:
    networks = [small_network(seed) for seed in range(3)]
    forwards, backwards = search(networks), search(networks[::-1])
    assert [[h.tokens for h in found] for found in forwards] == [[h.tokens for h in found] for found in backwards]


def test_distributions_are_averaged_in_fp32_and_what_a_step_returns_is_not_written_into() -> None:
    logits = torch.randn(VOCAB_SIZE).bfloat16()
    kept = logits.clone()
    step = EnsembleStep([lambda tokens, origin: logits.expand(len(tokens), -1)] * 2)
    assert step(torch.tensor([2, 2]), torch.tensor([0, 1])).dtype == torch.float32
    assert torch.equal(logits, kept)


# --- vocabularies ---


@pytest.fixture(scope="module")
def vocabularies() -> list[Vocabulary]:
    lines = ["the cat sat on the mat", "a dog ran in the park", "birds fly over the house"]
    return [Vocabulary.learn(lines, size=size, byte_fallback=False) for size in (30, 32, 34)]


def test_models_that_share_both_vocabularies_may_translate_together(vocabularies: list[Vocabulary]) -> None:
    a, b, _ = vocabularies
    check_shared_vocabularies({"runs/a": (a, b)})
    check_shared_vocabularies({"runs/a": (a, b), "runs/b": (a, b), "runs/c": (a, b)})


def test_the_models_that_do_not_fit_are_named_with_the_side_all_at_once(vocabularies: list[Vocabulary]) -> None:
    a, b, c = vocabularies
    models = {"runs/a": (a, b), "runs/b": (a, c), "runs/c": (c, b), "runs/d": (a, b), "runs/e": (b, a)}
    with pytest.raises(ConfigError) as caught:
        check_shared_vocabularies(models)
    message = str(caught.value)
    for words in (
        "source vocabulary of runs/c (34 pieces",
        "source vocabulary of runs/e (32 pieces",
        "target vocabulary of runs/b (34 pieces",
        "target vocabulary of runs/e (30 pieces",
        "that of runs/a (30 pieces",
        "that of runs/a (32 pieces",
        "--model",
    ):
        assert words in message
    assert "runs/d" not in message
