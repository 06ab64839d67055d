"""Validation: the perplexity of the unsmoothed loss, and the BLEU users would measure themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from data.errors import DataError
from data.prepared import IdSequences, ParallelIds, Prepared
from data.vocabulary import BOS_ID, EOS_ID
from transformer.config import Settings
from transformer.evaluation.metrics import score
from transformer.inference.translator import Translator
from transformer.model import Transformer
from transformer.model_directory import Model
from transformer.training.checkpoint import TrainingState
from transformer.training.choices import Choices
from transformer.training.validation import Validation, perplexity, validate, validation_nll

MakeSettings = Callable[..., Settings]
ON_CPU = Choices("cpu", "fp32", "explicit", {})


@pytest.fixture
def network(make_settings: MakeSettings, make_state: Callable[[Settings], tuple[TrainingState, Model]]) -> Transformer:
    return make_state(make_settings())[0].network


def nll_one_by_one(network: Transformer, valid: ParallelIds) -> float:
    """Nats per target token, sentence by sentence, without padding, by PyTorch's cross-entropy."""
    network.eval()
    total, n_tokens = 0.0, 0
    for i in range(len(valid)):
        src = torch.tensor([[*valid.src[i].tolist(), EOS_ID]])
        tgt = valid.tgt[i].tolist()
        logits = network(src, torch.tensor([[BOS_ID, *tgt]]))[0]
        total += F.cross_entropy(logits, torch.tensor([*tgt, EOS_ID]), reduction="sum").item()
        n_tokens += len(tgt) + 1
    network.train()
    return total / n_tokens


def first(side: IdSequences, n: int) -> IdSequences:
    return IdSequences(side.ids[: side.offsets[n]], side.offsets[: n + 1])


def first_pairs(prepared: Prepared, n: int) -> Prepared:
    """The same with only n pairs to validate on."""
    valid = ParallelIds(first(prepared.valid.src, n), first(prepared.valid.tgt, n))
    return replace(prepared, valid=valid, valid_text=(prepared.valid_text[0][:n], prepared.valid_text[1][:n]))


@pytest.mark.parametrize("max_tokens", [3, 20, 1000])
def test_every_pair_counts_whatever_the_budget_of_training(
    max_tokens: int, network: Transformer, prepared: Prepared
) -> None:
    """With 3, most pairs are longer than training's budget: left out there, counted here."""
    assert (prepared.valid.tgt_lengths + 1 > 3).sum() > 1
    network.eval()
    found = validation_nll(network, prepared, max_tokens, ON_CPU)
    assert found == pytest.approx(nll_one_by_one(network, prepared.valid), rel=1e-5)


@pytest.mark.parametrize("n", [1, 2])
def test_one_sentence_is_enough(n: int, network: Transformer, prepared: Prepared, make_settings: MakeSettings) -> None:
    few = first_pairs(prepared, n)
    found = validate(network, few, make_settings(), ON_CPU, step=7)
    assert found.step == 7
    assert found.nll_per_token == pytest.approx(nll_one_by_one(network, few.valid), rel=1e-5)
    assert 0 <= found.bleu <= 100


def test_an_empty_sentence_is_one_token_eos(network: Transformer, prepared: Prepared) -> None:
    """Validation data are never filtered."""
    side = IdSequences(prepared.valid.src.ids[:3], prepared.valid.src.offsets[:1].repeat(2))
    found = validation_nll(network.eval(), replace(prepared, valid=ParallelIds(side, side)), 10, ON_CPU)
    logits = network(torch.tensor([[EOS_ID]]), torch.tensor([[BOS_ID]]))[0]
    assert found == pytest.approx(F.cross_entropy(logits, torch.tensor([EOS_ID])).item(), rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_perplexity_knows_no_smoothing(
    smoothing: float, network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    found = validate(network, prepared, make_settings(train={"label_smoothing": smoothing}), ON_CPU, 1)
    assert found.perplexity == pytest.approx(math.exp(nll_one_by_one(network, prepared.valid)), rel=1e-4)


def test_case_l2_half_the_probability_on_every_target_is_perplexity_2() -> None:
    assert f"{perplexity(-math.log(0.5)):.4f}" == "2.0000"
    assert perplexity(1e6) == math.inf  # not an OverflowError


@pytest.mark.parametrize("beam_size", [1, 3])
def test_bleu_is_that_of_the_translator_users_get(
    beam_size: int, network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    """On detokenised text against raw references; the beam is that of validation, the rest as users translate."""
    settings = make_settings(train={"validate_beam_size": beam_size}, translate={"beam_size": 2, "max_extra_length": 9})
    with torch.no_grad():  # an untrained network says less than four words, unless it is made to rave
        for parameter in network.parameters():
            parameter.mul_(2 if parameter.dim() == 2 else 1)

    def translations(beam_size: int) -> list[str]:
        wanted = settings.translate.model_copy(update={"beam_size": beam_size})
        vocabularies = (prepared.src_vocabulary, prepared.tgt_vocabulary)
        return Translator(network, *vocabularies, wanted, "cpu").translate(prepared.valid_text[0])

    references = [line + "." for line in translations(beam_size)]  # almost right, so that BLEU is neither 0 nor 100
    data = replace(prepared, valid_text=(prepared.valid_text[0], references))
    found = validate(network, data, settings, ON_CPU, 1)
    assert found.bleu == score(translations(beam_size), references).bleu
    assert 1 < found.bleu < 100
    assert found.bleu != score(translations(2), references).bleu


def test_case_b1_unequal_line_counts_are_refused_here_too(
    network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    src, tgt = prepared.valid_text
    with pytest.raises(DataError, match=r"5.*4|4.*5"):
        validate(network, replace(prepared, valid_text=(src, tgt[:-1])), make_settings(), ON_CPU, 1)


@pytest.mark.parametrize("training", [True, False])
def test_validation_draws_no_random_numbers_and_leaves_the_network_as_it_was(
    training: bool, network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    network.train(training)
    before = torch.get_rng_state()
    results = [validate(network, prepared, make_settings(), ON_CPU, 1) for _ in range(2)]
    assert results[0] == results[1]  # dropout is off
    assert torch.equal(torch.get_rng_state(), before)
    assert all(module.training is training for module in network.modules())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_the_network_trains_on_after_a_validation_that_failed(
    network: Transformer, prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr("transformer.training.validation.score", fail)
    with pytest.raises(RuntimeError):
        validate(network, prepared, make_settings(), ON_CPU, 1)
    assert network.training


def test_in_bf16_the_perplexity_is_close(network: Transformer, prepared: Prepared) -> None:
    network.eval()
    expected = validation_nll(network, prepared, 100, ON_CPU)
    found = validation_nll(network, prepared, 100, Choices("cpu", "bf16", "explicit", {}))
    assert found == pytest.approx(expected, rel=1e-2)
    assert found != expected


def test_a_higher_key_is_a_better_validation() -> None:
    worse, better = Validation(1, nll_per_token=2.0, bleu=10.0), Validation(2, nll_per_token=1.0, bleu=20.0)
    assert better.key("bleu") > worse.key("bleu")
    assert better.key("nll") > worse.key("nll")
