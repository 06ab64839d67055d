"""eole: speed only. Its decoder is pre-norm, so ours do not fit: it has weights of its own, drawn at random."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import pyonmttok
import torch
from eole.config.models import TransformerModelConfig
from eole.config.run import PredictConfig
from eole.models.model import EncoderDecoderModel
from eole.predict import GNMTGlobalScorer, Translator
from torch import nn

from benchmarks.decoding_peers.task import Decoded, Peer, Task, in_batches, serve
from benchmarks.decoding_peers.torch_weights import padded

SPECIAL = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}


def load(task: Task, options: dict[str, Any]) -> Peer:
    """`threads` of the options are PyTorch's."""
    torch.set_num_threads(options["threads"])
    assert task.length, "a network with random weights needs a length to stop at"
    vocabularies = made_vocabularies(task.vocab_size)
    settings = model_settings(task.network)
    rules = PredictConfig(
        model_path="none",
        src="none",
        model=settings,
        beam_size=task.beam_size,
        length_penalty="avg",
        alpha=1.0,
        min_length=task.length,
        max_length=task.length,
        max_length_ratio=0,
        ban_unk_token=True,
        fuse_kvq=True,
        self_attn_backend="pytorch",
    )
    network = EncoderDecoderModel.build(settings, vocabularies, rules)
    draw_weights(network)
    network.eval()
    translator = Translator(
        network,
        vocabularies,
        rules,
        settings,
        device_id=-1,
        global_scorer=GNMTGlobalScorer.from_config(rules),
        report_score=False,
        logger=logging.getLogger("eole"),
    )

    @torch.inference_mode()
    def decode_batch(sources: list[list[int]]) -> Sequence[Sequence[int]]:
        src, lengths = padded(sources)
        batch = {"src": src, "srclen": lengths, "ind_in_bucket": list(range(len(src)))}
        found = translator.predict_batch(batch, attn_debug=False)
        return [hypotheses[0].tolist() for hypotheses in found["predictions"]]

    def decode(part: Task, batch_size: int) -> Decoded:
        return in_batches(part, batch_size, decode_batch)

    return Peer(f"eole {version('eole')}, torch {torch.__version__}", decode)


def made_vocabularies(vocab_size: int) -> dict[str, Any]:
    """Two, the same, with our ids."""
    pieces = [*SPECIAL.values(), *(str(piece) for piece in range(len(SPECIAL), vocab_size))]
    vocabulary = pyonmttok.build_vocab_from_tokens(pieces)
    vocabulary.default_id = pieces.index("<unk>")
    return {"src": vocabulary, "tgt": vocabulary, "specials": SPECIAL, "decoder_start_token": "<s>"}


def draw_weights(network: nn.Module) -> None:
    """Give weights to what eole leaves as it lay in memory."""
    torch.manual_seed(1)
    for name, parameter in network.named_parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)


def model_settings(sizes: Mapping[str, Any]) -> TransformerModelConfig:
    """The sizes of our ModelSettings."""
    return TransformerModelConfig(
        encoder={"layers": sizes["n_encoder_layers"]},
        decoder={"layers": sizes["n_decoder_layers"]},
        hidden_size=sizes["d_model"],
        transformer_ff=sizes["d_ff"],
        heads=sizes["n_heads"],
        add_ffnbias=True,
        embeddings={"word_vec_size": sizes["d_model"], "position_encoding": True},
        share_embeddings=True,
        share_decoder_embeddings=True,
    )


if __name__ == "__main__":
    serve(load)
