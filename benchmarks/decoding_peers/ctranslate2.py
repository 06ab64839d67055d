"""CTranslate2 with our weights: `inter` translations at a time, `intra` threads each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec

from benchmarks.decoding_peers.task import Decoded, Peer, Task, Weights, n_pieces, serve, sinusoidal_positions

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]


def load(task: Task, options: dict[str, Any]) -> Peer:
    """`compute_type`, `inter` and `intra` of the options are CTranslate2's."""
    folder = task.folder / "ctranslate2"
    if not (folder / "model.bin").exists():
        convert(task, folder)
    ids = {piece: number for number, piece in enumerate(pieces(task))}
    translator = ctranslate2.Translator(
        str(folder),
        device="cpu",
        compute_type=options["compute_type"],
        inter_threads=options["inter"],
        intra_threads=options["intra"],
    )

    def decode(part: Task, batch_size: int) -> Decoded:
        results = translator.translate_batch(
            [[str(piece) for piece in source] for source in part.sentences],
            max_batch_size=batch_size,
            beam_size=part.beam_size,
            length_penalty=1,  # the mean of the log-probabilities
            disable_unk=True,
            min_decoding_length=part.length or 1,
            max_decoding_length=part.length or part.limit,
        )
        outputs = [[ids[piece] for piece in result.hypotheses[0]] for result in results]
        return Decoded(outputs, sum(n_pieces(output, part) for output in outputs))

    return Peer(f"ctranslate2 {ctranslate2.__version__}", decode)


def pieces(task: Task) -> list[str]:
    """Pieces are called by their numbers."""
    return [*SPECIAL, *(str(piece) for piece in range(len(SPECIAL), task.vocab_size))]


def convert(task: Task, folder: Path) -> None:
    """Write our network as a model of CTranslate2's."""
    weights = task.weights()
    network = task.network
    spec = TransformerSpec.from_config(
        (network["n_encoder_layers"], network["n_decoder_layers"]), network["n_heads"], pre_norm=False
    )
    positions = sinusoidal_positions(1024, network["d_model"])
    for side in (spec.encoder, spec.decoder):
        embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        embeddings.weight = weights["encoder.embedding.table.weight"]
        side.position_encodings.encodings = positions
    spec.decoder.projection.weight = weights["encoder.embedding.table.weight"]
    for number, layer in enumerate(spec.encoder.layer):
        set_attention(layer.self_attention, weights, f"encoder.layers.{number}.self_attention")
        set_feed_forward(layer.ffn, weights, f"encoder.layers.{number}.feed_forward")
    for number, layer in enumerate(spec.decoder.layer):
        set_attention(layer.self_attention, weights, f"decoder.layers.{number}.self_attention")
        set_attention(layer.attention, weights, f"decoder.layers.{number}.cross_attention")
        set_feed_forward(layer.ffn, weights, f"decoder.layers.{number}.feed_forward")
    spec.register_source_vocabulary(pieces(task))
    spec.register_target_vocabulary(pieces(task))
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = network["norm_epsilon"]
    spec.validate()
    spec.optimize()
    folder.mkdir(exist_ok=True)
    spec.save(str(folder))


def set_attention(spec: Any, weights: Weights, name: str) -> None:
    """Queries, keys and values in one matrix for self-attention; keys and values in one for the encoder's output."""
    stacked = weights[f"{name}.in_projection.weight"]
    if len(spec.linear) == 2:
        spec.linear[0].weight = stacked
    else:
        spec.linear[0].weight, spec.linear[1].weight = np.split(stacked, [len(stacked) // 3])
    spec.linear[-1].weight = weights[f"{name}.out_projection.weight"]
    set_norm(spec.layer_norm, weights, f"{name}_residual.norm")


def set_feed_forward(spec: Any, weights: Weights, name: str) -> None:
    """Two linear maps and the norm after them."""
    for linear, part in ((spec.linear_0, "inner"), (spec.linear_1, "outer")):
        linear.weight, linear.bias = weights[f"{name}.{part}.weight"], weights[f"{name}.{part}.bias"]
    set_norm(spec.layer_norm, weights, f"{name}_residual.norm")


def set_norm(spec: Any, weights: Weights, name: str) -> None:
    """Gain and bias."""
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


if __name__ == "__main__":
    serve(load)
