"""Hugging Face's MarianMTModel with our weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import transformers
from transformers import MarianConfig, MarianMTModel

from benchmarks.decoding_peers.task import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    Decoded,
    Peer,
    Task,
    in_batches,
    serve,
    sinusoidal_positions,
)
from benchmarks.decoding_peers.torch_weights import (
    EMBEDDINGS,
    FAIRSEQ_DECODER,
    FAIRSEQ_ENCODER,
    copy_into,
    fill_layers,
    padded,
    separate,
)

LONGEST = 1024


def load(task: Task, options: dict[str, Any]) -> Peer:
    """`threads` of the options are PyTorch's."""
    torch.set_num_threads(options["threads"])
    network = filled(task)

    @torch.inference_mode()
    def decode_batch(sources: list[list[int]]) -> Sequence[Sequence[int]]:
        src, _ = padded(sources)
        found = network.generate(
            input_ids=src,
            attention_mask=(src != PAD_ID).long(),
            num_beams=task.beam_size,
            do_sample=False,
            length_penalty=1.0,
            early_stopping=True,  # once num_beams hypotheses are finished, as fairseq and CTranslate2 do
            suppress_tokens=[PAD_ID, UNK_ID, BOS_ID],
            max_length=None,
            max_new_tokens=task.length or task.limit,
            min_new_tokens=task.length,
        )
        outputs: list[list[int]] = found[:, 1:].tolist()  # <s> comes first
        return [[piece for piece in row if piece != PAD_ID] for row in outputs]

    def decode(part: Task, batch_size: int) -> Decoded:
        return in_batches(part, batch_size, decode_batch)

    return Peer(f"transformers {transformers.__version__}, torch {torch.__version__}", decode)


def made_network(sizes: Mapping[str, Any], vocab_size: int) -> MarianMTModel:
    """A MarianMTModel with the sizes and the dropout of our ModelSettings."""
    config = MarianConfig(
        vocab_size=vocab_size,
        d_model=sizes["d_model"],
        encoder_layers=sizes["n_encoder_layers"],
        decoder_layers=sizes["n_decoder_layers"],
        encoder_attention_heads=sizes["n_heads"],
        decoder_attention_heads=sizes["n_heads"],
        encoder_ffn_dim=sizes["d_ff"],
        decoder_ffn_dim=sizes["d_ff"],
        dropout=sizes["dropout"],
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=LONGEST,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        pad_token_id=PAD_ID,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
        decoder_start_token_id=BOS_ID,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config)


def filled(task: Task) -> MarianMTModel:
    """A MarianMTModel that computes what our network does."""
    network = made_network(task.network, task.vocab_size).eval()
    weights = separate(task.weights())
    copy_into(network.model.shared.weight, weights[EMBEDDINGS])
    network.tie_weights()
    for side, names in (("encoder", FAIRSEQ_ENCODER), ("decoder", FAIRSEQ_DECODER)):
        half = getattr(network.model, side)
        copy_into(half.embed_positions.weight, sinusoidal_positions(LONGEST, task.network["d_model"]))
        fill_layers(half.layers, task, weights, side, names)
    return network


if __name__ == "__main__":
    serve(load)
