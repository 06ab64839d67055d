"""fairseq with our weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks.decoding_peers.task import BOS_ID, Decoded, Peer, Task, in_batches, serve, sinusoidal_positions
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


def hashable_dataclass(cls: Any = None, **options: Any) -> Any:
    """`dataclass` whose instances may be defaults of fields, as before Python 3.11: they have a hash."""
    if cls is None:
        return lambda cls: hashable_dataclass(cls, **options)
    made = plain_dataclass(cls, **options)
    if made.__hash__ is None:
        made.__hash__ = object.__hash__
    return made


plain_dataclass = dataclasses.dataclass
dataclasses.dataclass = hashable_dataclass  # before fairseq and hydra are imported
from fairseq.data import Dictionary  # noqa: E402
from fairseq.models.transformer import TransformerConfig, TransformerModelBase  # noqa: E402
from fairseq.sequence_generator import SequenceGenerator  # noqa: E402

dataclasses.dataclass = plain_dataclass


def load(task: Task, options: dict[str, Any]) -> Peer:
    """`threads` of the options are PyTorch's."""
    torch.set_num_threads(options["threads"])
    dictionary = made_dictionary(task.vocab_size)
    network = filled(task, dictionary)
    generator = SequenceGenerator(
        [network],
        dictionary,
        beam_size=task.beam_size,
        max_len_a=0,
        max_len_b=(task.length or task.limit) - 1,  # </s> comes on top
        min_len=(task.length or 2) - 1,
        normalize_scores=True,
        len_penalty=1.0,
        unk_penalty=torch.inf,
    )

    def decode_batch(sources: list[list[int]]) -> Sequence[Sequence[int]]:
        src, lengths = padded(sources)
        sample = {"net_input": {"src_tokens": src, "src_lengths": lengths}}
        found = generator.generate([network], sample, bos_token=BOS_ID)
        return [hypotheses[0]["tokens"].tolist() for hypotheses in found]

    def decode(part: Task, batch_size: int) -> Decoded:
        return in_batches(part, batch_size, decode_batch)

    return Peer(f"fairseq {version('fairseq')}, torch {torch.__version__}", decode)


def made_dictionary(vocab_size: int) -> Dictionary:
    """One with our ids."""
    dictionary = Dictionary()
    for piece in range(len(dictionary), vocab_size):
        dictionary.add_symbol(str(piece))
    dictionary.pad_index, dictionary.unk_index, dictionary.bos_index, dictionary.eos_index = range(4)
    return dictionary


def made_network(sizes: Mapping[str, Any], dictionary: Dictionary) -> TransformerModelBase:
    """A model of fairseq's with the sizes and the dropout of our ModelSettings."""
    config = TransformerConfig()
    config.share_all_embeddings = True
    config.dropout = sizes["dropout"]
    for side, settings in (("encoder", config.encoder), ("decoder", config.decoder)):
        settings.embed_dim = sizes["d_model"]
        settings.ffn_embed_dim = sizes["d_ff"]
        settings.layers = sizes[f"n_{side}_layers"]
        settings.attention_heads = sizes["n_heads"]
    config.decoder.input_dim = config.decoder.output_dim = sizes["d_model"]
    languages = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    return TransformerModelBase.build_model(config, languages)


def filled(task: Task, dictionary: Dictionary) -> TransformerModelBase:
    """A model of fairseq's that computes what our network does."""
    network = made_network(task.network, dictionary).eval()
    weights = separate(task.weights())
    copy_into(network.encoder.embed_tokens.weight, weights[EMBEDDINGS])
    positions = sinusoidal_positions(LONGEST, task.network["d_model"])
    rows = torch.from_numpy(np.concatenate([np.zeros_like(positions[:1]), positions]))
    for side, names in (("encoder", FAIRSEQ_ENCODER), ("decoder", FAIRSEQ_DECODER)):
        half = getattr(network, side)
        half.embed_positions.weights = rows  # position p is row p + 1: row PAD_ID = 0 is that of padding
        fill_layers(half.layers, task, weights, side, names)
    return network


if __name__ == "__main__":
    serve(load)
