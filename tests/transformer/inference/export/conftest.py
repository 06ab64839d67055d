"""Models of every kind, untrained, whose outputs depend strongly on their input; and lines that tell them apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from data.vocabulary import Vocabulary
from transformer.config import ModelSettings
from transformer.config_translate import TranslateSettings
from transformer.inference.export.gate_lines import GateLines
from transformer.model import Transformer
from transformer.model_directory import Model

TINY = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 32, "d_ff": 48, "n_heads": 4}
SEARCH = TranslateSettings(beam_size=4, length_penalty="average", alpha=1.0, max_length_ratio=0.5, max_extra_length=6)


@pytest.fixture(scope="session")
def tgt_vocabulary() -> Vocabulary:
    lines = [f"die katze nummer {i} sass auf w{i} der matte" for i in range(1, 400)]
    return Vocabulary.learn(lines, size=180, byte_fallback=False)


@pytest.fixture
def make_model(vocabulary: Vocabulary, tgt_vocabulary: Vocabulary) -> Callable[..., Model]:
    """A model of these settings; where nothing is shared between the sides, their vocabularies differ."""

    def make(translate: TranslateSettings = SEARCH, seed: int = 0, **settings: Any) -> Model:
        model = ModelSettings.model_validate(TINY | settings)
        apart = model.tie_embeddings in ("none", "target")
        vocabularies = vocabulary, tgt_vocabulary if apart else vocabulary
        torch.manual_seed(seed)
        network = Transformer(model, *map(len, vocabularies)).eval().requires_grad_(False)
        for name, parameter in network.named_parameters():
            if parameter.dim() == 1:  # gains, which are 1, and biases, which are 0
                parameter += 0.2 * torch.randn_like(parameter)
            elif "table" not in name:
                parameter *= 4 if "in_projection" in name else 2
        if model.scaling != "embedding" or model.tie_embeddings in ("none", "source_target"):
            network.projection.weight *= math.sqrt(model.d_model) / 4
        return Model(network, model, translate, *vocabularies, "en", "de")

    return make


@pytest.fixture(scope="session")
def few_lines() -> GateLines:
    """Lines of one word and of many, with characters that nobody knows."""
    lines = [f"the cat number {i} sat w{i} on the mat" for i in range(3, 400, 50)]
    return GateLines([*lines, "", "cat", "é ü 中 ½", "mat on sat " * 12], [], "a few lines")
