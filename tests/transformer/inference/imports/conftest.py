"""A Marian folder as OPUS-MT's are: two unigram models, a vocab.json that is not quite theirs, a random network."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

ENGLISH = ["the cat sat on the mat", "a dog sang in the hall", "nobody knows what the cat wants", "it is 9 o'clock"]
GERMAN = ["die Katze saß auf der Matte", "ein Hund sang im Saal", "niemand weiß was die Katze will", "es ist 9 Uhr"]
ODD = [
    "",
    "  the   cat ",
    "cat ☃ dog",
    "ñ",
    "the ☃ Ж mat zzz",
    "ＦＵＬＬ ｗｉｄｔｈ",
    "line\tof\ttabs",
    "Katze und cat, 9!",
]

MakeMarian = Callable[..., Path]


def unigram(lines: list[str], size: int) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 20),
        model_writer=model,
        vocab_size=size,
        model_type="unigram",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def pieces_of(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(len(processor)) if not processor.is_control(i)][1:]


@pytest.fixture(scope="session")
def models() -> tuple[bytes, bytes]:
    return unigram(ENGLISH, 60), unigram(GERMAN, 70)


@pytest.fixture
def make_marian(tmp_path: Path, models: tuple[bytes, bytes]) -> MakeMarian:
    """Writes what MarianMTModel.save_pretrained and the tokenizer's files hold; arguments change the configuration."""
    transformers = pytest.importorskip("transformers")

    def make(name: str = "opus-mt-en-de", bias: bool = True, **changes: Any) -> Path:
        folder = tmp_path / name
        src, tgt = (pieces_of(model) for model in models)
        # Of each side a piece is lacking: vocab.json was counted on text whose best cuts are without it.
        lacking = {max(sorted({*src} - {*tgt}), key=len), max(sorted({*tgt} - {*src}), key=len)}
        strings = ["</s>", "<unk>", *dict.fromkeys(piece for piece in [*tgt, *src] if piece not in lacking)]
        vocab = {string: i for i, string in enumerate([*strings, ">>deu<<", "<pad>"])}
        pad = len(vocab) - 1
        config = {
            "vocab_size": len(vocab),
            "d_model": 16,
            "encoder_layers": 2,
            "decoder_layers": 1,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 24,
            "decoder_ffn_dim": 24,
            "activation_function": "swish",
            "scale_embedding": True,
            "pad_token_id": pad,
            "decoder_start_token_id": pad,
            "max_position_embeddings": 64,
            "init_std": 0.5,
        } | changes
        torch.manual_seed(1)
        model = transformers.MarianMTModel(transformers.MarianConfig(**config)).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 1:  # norms and biases, which begin as ones and zeros
                    parameter.add_(0.3 * torch.randn_like(parameter))
            if bias:
                model.final_logits_bias.normal_()
        model.generation_config.update(
            bad_words_ids=[[pad]], num_beams=3, max_length=20, forced_eos_token_id=None, decoder_start_token_id=pad
        )
        model.save_pretrained(folder)
        for file, content in zip(("source.spm", "target.spm"), models, strict=True):
            (folder / file).write_bytes(content)
        (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
        stated = {"source_lang": "en", "target_lang": "de", "separate_vocabs": False}
        (folder / "tokenizer_config.json").write_text(json.dumps(stated), encoding="utf-8")
        return folder

    return make
