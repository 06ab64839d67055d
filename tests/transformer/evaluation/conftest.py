"""A small untrained translator, for what is drawn and measured of any."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from data.vocabulary import Vocabulary
from transformer.config import ModelSettings, TranslateSettings
from transformer.inference.translator import Translator
from transformer.model import Transformer
from transformer.model_directory import Model, save_model


@pytest.fixture(scope="session")
def translator() -> Translator:
    lines = [f"w{i} the cat number {i} sat on the mat <b> & co" for i in range(1, 200)]
    vocabulary = Vocabulary.learn(lines, size=350)
    settings = ModelSettings(n_encoder_layers=1, n_decoder_layers=3, d_model=32, d_ff=48, n_heads=4)
    torch.manual_seed(0)
    network = Transformer(settings, len(vocabulary), len(vocabulary))
    search = TranslateSettings(max_length_ratio=0.0, max_extra_length=6)
    return Translator(network, vocabulary, vocabulary, search, "cpu")


@pytest.fixture(scope="session")
def model(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same translator, as a model directory."""
    directory = tmp_path_factory.mktemp("model")
    vocabularies = translator.src_vocabulary, translator.tgt_vocabulary
    save_model(
        directory,
        Model(translator.network, translator.network.settings, translator.settings, *vocabularies, "en", "de"),
    )
    return directory
