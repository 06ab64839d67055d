"""Validation: perplexity of the unsmoothed loss, and BLEU through the Translator that users get."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from data.batches import EpochPlan, collate
from data.prepared import Prepared
from transformer.config import Settings
from transformer.evaluation.metrics import score
from transformer.inference.translator import Translator
from transformer.model import Transformer
from transformer.training.choices import Choices, autocast
from transformer.training.loss import batch_loss


@dataclass(frozen=True)
class Validation:
    """The results of one validation."""

    step: int
    nll_per_token: float  # nats, unsmoothed
    bleu: float  # sacreBLEU, detokenised text against raw references

    @property
    def perplexity(self) -> float:
        """Of the unsmoothed loss."""
        return perplexity(self.nll_per_token)

    def key(self, best_by: str) -> float:
        """What is compared, higher is better."""
        return self.bleu if best_by == "bleu" else -self.nll_per_token


def perplexity(nll_per_token: float) -> float:
    """exp of the mean negative log-likelihood in nats; infinite instead of an overflow."""
    return math.exp(nll_per_token) if nll_per_token < 700 else math.inf


def validate(network: Transformer, prepared: Prepared, settings: Settings, choices: Choices, step: int) -> Validation:
    """Score the network, in evaluation mode, on the whole validation set; draws no random numbers."""
    training = network.training
    network.eval()
    try:
        nll = validation_nll(network, prepared, settings.train.max_tokens, choices)
        translate = settings.translate.model_copy(update={"beam_size": settings.train.validate_beam_size})
        translator = Translator(
            network, prepared.src_vocabulary, prepared.tgt_vocabulary, translate, torch.device(choices.device)
        )
        src, tgt = prepared.valid_text
        bleu = score(translator.translate(src), tgt).bleu
    finally:
        network.train(training)
    return Validation(step, nll, bleu)


@torch.no_grad()
def validation_nll(network: Transformer, prepared: Prepared, max_tokens: int, choices: Choices) -> float:
    """Nats per target token, every pair counted, also one that is longer than training's budget."""
    valid = prepared.valid
    longest = int(max(valid.src_lengths.max(initial=0), valid.tgt_lengths.max(initial=0))) + 1
    budget = max(max_tokens, longest)
    plan = EpochPlan(valid, batch_tokens=budget, max_tokens=budget, seed=0, epoch=0)
    total, n_tokens = torch.zeros((), dtype=torch.float64), 0
    for update in range(len(plan)):
        for sentences in plan.micro_batches(update):
            batch = collate(valid, sentences).to(torch.device(choices.device))
            with autocast(choices):
                total += batch_loss(network, batch, smoothing=0.0).nll.double().cpu()
            n_tokens += batch.n_tokens
    return float(total) / n_tokens
