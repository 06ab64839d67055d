"""A small untrained translator, for what is drawn and measured of any."""

from __future__ import annotations

import pytest
import torch

from data.vocabulary import Vocabulary
from transformer.config import ModelSettings, TranslateSettings
from transformer.inference.translator import Translator
from transformer.model import Transformer


@pytest.fixture(scope="session")
def translator() -> Translator:
    lines = [f"w{i} the cat number {i} sat on the mat <b> & co" for i in range(1, 200)]
    vocabulary = Vocabulary.learn(lines, size=350)
    settings = ModelSettings(n_encoder_layers=1, n_decoder_layers=3, d_model=32, d_ff=48, n_heads=4)
    torch.manual_seed(0)
    network = Transformer(settings, len(vocabulary), len(vocabulary))
    search = TranslateSettings(max_length_ratio=0.0, max_extra_length=6)
    return Translator(network, vocabulary, vocabulary, search, "cpu")
