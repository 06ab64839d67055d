"""A vocabulary and an untrained network that tell lines apart."""

from __future__ import annotations

import math

import pytest
import torch

from data.vocabulary import Vocabulary
from transformer.config import ModelSettings
from transformer.model import Transformer


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return Vocabulary.learn([f"w{i} the cat number {i} sat on the mat" for i in range(1, 876)], size=400)


@pytest.fixture
def network(vocabulary: Vocabulary) -> Transformer:
    """Untrained; its parameters are enlarged, so that its outputs depend strongly on its input."""
    settings = ModelSettings(n_encoder_layers=1, n_decoder_layers=1, d_model=32, d_ff=48, n_heads=4)
    torch.manual_seed(0)
    network = Transformer(settings, len(vocabulary), len(vocabulary)).eval().requires_grad_(False)
    for name, parameter in network.named_parameters():
        matrix = parameter.dim() == 2 and "table" not in name
        parameter *= (4 * math.sqrt(2) if "in_projection" in name else 4) if matrix else 2
    return network
