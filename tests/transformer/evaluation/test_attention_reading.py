"""What is drawn is what the network attends to when it translates: tags, forced decoding, limits."""

from __future__ import annotations

import pytest
import torch

from data.vocabulary import EOS_ID, Vocabulary
from transformer.config import ModelSettings
from transformer.errors import ConfigError
from transformer.evaluation.attention_reading import mean_of, read_attention
from transformer.inference.scoring import forced
from transformer.inference.translator import Translator
from transformer.model import Transformer


def with_settings(translator: Translator, **settings: object) -> Translator:
    vocabularies = translator.src_vocabulary, translator.tgt_vocabulary
    return Translator(translator.networks, *vocabularies, translator.settings.model_copy(update=settings), "cpu")


@pytest.fixture
def tagged(translator: Translator) -> Translator:
    """One that puts a tag before each sentence."""
    vocabulary = Vocabulary.learn(["the cat sat on the mat"], size=290, tags=["<news>"])
    sizes = ModelSettings(n_encoder_layers=1, n_decoder_layers=2, d_model=16, d_ff=16, n_heads=2)
    network = Transformer(sizes, len(vocabulary), len(vocabulary)).eval()
    settings = translator.settings.model_copy(update={"tag": "<news>"})
    return Translator(network, vocabulary, vocabulary, settings, "cpu")


def test_the_mean_of_encoder_decoder_attention_is_that_of_forced_decoding(tagged: Translator) -> None:
    reading = read_attention(tagged, "the cat", "sat on")
    [src], [tgt] = tagged.src_vocabulary.encode(["the cat"]), tagged.tgt_vocabulary.encode(["sat on"])
    [read] = forced(tagged.networks, torch.tensor([[*tagged.prefix, *src, EOS_ID]]), [[*tgt, EOS_ID]])
    torch.testing.assert_close(mean_of(reading.weights.cross), read.attention)
    assert reading.src_pieces[0] == "<news>"
    assert mean_of(reading.weights.cross).shape == (len(reading.written), len(reading.src_pieces))


def test_without_a_translation_the_translators_own_is_read(translator: Translator) -> None:
    [translation] = translator.translate(["w7 the cat"])
    own, given = read_attention(translator, "w7 the cat"), read_attention(translator, "w7 the cat", translation)
    assert own.title == given.title == f"w7 the cat\n{translation}"
    torch.testing.assert_close(own.weights, given.weights)


def test_a_sentence_that_is_translated_in_parts_has_no_one_picture(translator: Translator) -> None:
    short = with_settings(translator, max_source_length=3)
    with pytest.raises(ConfigError, match="translates at most 3"):
        read_attention(short, "the cat sat on the mat")
    assert read_attention(short, "the cat sat on the mat", "the mat").translation == "the mat"
