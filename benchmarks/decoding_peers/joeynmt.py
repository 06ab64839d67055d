"""JoeyNMT with our weights. Its search divides by Wu's penalty at every step, so its outputs are others than ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import torch
from joeynmt.batch import Batch
from joeynmt.model import Model, build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary

from benchmarks.decoding_peers.task import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Decoded, Peer, Task, in_batches, serve
from benchmarks.decoding_peers.torch_weights import EMBEDDINGS, copy_into, fill_layers, padded, separate

# Its own order of the special pieces: <unk> comes first, whatever the settings say.
SPECIAL = SimpleNamespace(
    unk_id=0,
    unk_token="<unk>",
    pad_id=1,
    pad_token="<pad>",
    bos_id=BOS_ID,
    bos_token="<s>",
    eos_id=EOS_ID,
    eos_token="</s>",
    sep_id=None,
    sep_token=None,
    lang_tags=[],
)
OURS = {SPECIAL.unk_id: UNK_ID, SPECIAL.pad_id: PAD_ID}

# What it calls the parts of a layer; q k v o: the four projections of an attention.
FEED_FORWARD = {
    "feed_forward.inner": "feed_forward.pwff_layer.0",
    "feed_forward.outer": "feed_forward.pwff_layer.3",
    "feed_forward_residual.norm": "feed_forward.layer_norm",
}
ENCODER = {
    "self_attention.q": "src_src_att.q_layer",
    "self_attention.k": "src_src_att.k_layer",
    "self_attention.v": "src_src_att.v_layer",
    "self_attention.o": "src_src_att.output_layer",
    "self_attention_residual.norm": "layer_norm",
    **FEED_FORWARD,
}
DECODER = {
    "self_attention.q": "trg_trg_att.q_layer",
    "self_attention.k": "trg_trg_att.k_layer",
    "self_attention.v": "trg_trg_att.v_layer",
    "self_attention.o": "trg_trg_att.output_layer",
    "self_attention_residual.norm": "x_layer_norm",
    "cross_attention.q": "src_trg_att.q_layer",
    "cross_attention.k": "src_trg_att.k_layer",
    "cross_attention.v": "src_trg_att.v_layer",
    "cross_attention.o": "src_trg_att.output_layer",
    "cross_attention_residual.norm": "dec_layer_norm",
    **FEED_FORWARD,
}


def load(task: Task, options: dict[str, Any]) -> Peer:
    """`threads` of the options are PyTorch's."""
    torch.set_num_threads(options["threads"])
    network = filled(task)

    def decode_batch(sources: list[list[int]]) -> Sequence[Sequence[int]]:
        src, lengths = padded(sources, SPECIAL.pad_id)
        batch = Batch(
            src=src,
            src_length=lengths,
            src_prompt_mask=None,
            trg=None,
            trg_prompt_mask=None,
            indices=torch.arange(len(src)),
            device=torch.device("cpu"),
            pad_index=SPECIAL.pad_id,
            eos_index=EOS_ID,
            is_train=False,
        )
        found, _, _ = search(
            network,
            batch,
            max_output_length=task.length or task.limit,
            beam_size=task.beam_size,
            beam_alpha=1.0,
            generate_unk=False,
            min_output_length=task.length or 1,
        )
        return [[OURS.get(piece, piece) for piece in row] for row in found.tolist()]

    def decode(part: Task, batch_size: int) -> Decoded:
        return in_batches(part, batch_size, decode_batch)

    return Peer(f"joeynmt {version('joeynmt')}, torch {torch.__version__}", decode)


def made_network(sizes: Mapping[str, Any], vocab_size: int) -> Model:
    """A model of JoeyNMT's with the sizes and the dropout of our ModelSettings."""
    sides = {}
    for side in ("encoder", "decoder"):
        sides[side] = {
            "type": "transformer",
            "num_layers": sizes[f"n_{side}_layers"],
            "num_heads": sizes["n_heads"],
            "embeddings": {"embedding_dim": sizes["d_model"], "scale": True},
            "hidden_size": sizes["d_model"],
            "ff_size": sizes["d_ff"],
            "dropout": sizes["dropout"],
            "layer_norm": "post",
        }
    vocabulary = Vocabulary([str(piece) for piece in range(4, vocab_size)], SPECIAL)
    config = {"tied_embeddings": True, "tied_softmax": True, **sides}
    return build_model(config, vocabulary, vocabulary)


def filled(task: Task) -> Model:
    """A model of JoeyNMT's that computes what our network does."""
    network = made_network(task.network, task.vocab_size).eval()
    weights = separate(task.weights())
    table = weights[EMBEDDINGS]
    copy_into(network.src_embed.lut.weight, table[[UNK_ID, PAD_ID, *range(2, len(table))]])
    fill_layers(network.encoder.layers, task, weights, "encoder", ENCODER)
    fill_layers(network.decoder.layers, task, weights, "decoder", DECODER)
    return network


if __name__ == "__main__":
    serve(load)
