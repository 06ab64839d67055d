"""Our weights in the networks of other PyTorch toolkits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.decoding_peers.task import EOS_ID, PAD_ID, Task, Weights

EMBEDDINGS = "encoder.embedding.table.weight"  # tied with the target's and with the output projection

# What fairseq, and Marian after it, call the parts of a layer. q k v o: the four projections of an attention.
FAIRSEQ_ATTENTION = {
    "self_attention.q": "self_attn.q_proj",
    "self_attention.k": "self_attn.k_proj",
    "self_attention.v": "self_attn.v_proj",
    "self_attention.o": "self_attn.out_proj",
    "self_attention_residual.norm": "self_attn_layer_norm",
}
FAIRSEQ_CROSS_ATTENTION = {
    "cross_attention.q": "encoder_attn.q_proj",
    "cross_attention.k": "encoder_attn.k_proj",
    "cross_attention.v": "encoder_attn.v_proj",
    "cross_attention.o": "encoder_attn.out_proj",
    "cross_attention_residual.norm": "encoder_attn_layer_norm",
}
FAIRSEQ_FEED_FORWARD = {
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}
FAIRSEQ_ENCODER = FAIRSEQ_ATTENTION | FAIRSEQ_FEED_FORWARD
FAIRSEQ_DECODER = FAIRSEQ_ATTENTION | FAIRSEQ_CROSS_ATTENTION | FAIRSEQ_FEED_FORWARD


def separate(weights: Weights) -> Weights:
    """The weights with W^Q, W^K, W^V (q, k, v), which our network stacks, one by one, and W^O called o."""
    result: Weights = {}
    for name, value in weights.items():
        if name.endswith(".in_projection.weight"):
            stem = name.removesuffix("in_projection.weight")
            result |= {f"{stem}{letter}.weight": part for letter, part in zip("qkv", np.split(value, 3), strict=True)}
        else:
            result[name.replace(".out_projection.", ".o.")] = value
    return result


def fill_layers(layers: Iterable[nn.Module], task: Task, weights: Weights, side: str, names: Mapping[str, str]) -> None:
    """Give their layers the weights of ours; `weights` as `separate` gives them, side encoder or decoder.

    Biases that we do not have become zero, norms get our epsilon.
    """
    for number, layer in enumerate(layers):
        for ours, theirs in names.items():
            module = layer.get_submodule(theirs)
            stem = f"{side}.layers.{number}.{ours}"
            assert isinstance(module.weight, Tensor) and isinstance(module.bias, Tensor)
            copy_into(module.weight, weights[f"{stem}.weight"])
            copy_into(module.bias, weights.get(f"{stem}.bias", np.zeros(module.bias.shape, np.float32)))
            if isinstance(module, nn.LayerNorm):
                module.eps = task.network["norm_epsilon"]


@torch.no_grad()
def copy_into(parameter: Tensor, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
    """Overwrite a parameter."""
    assert parameter.shape == values.shape, (parameter.shape, values.shape)
    parameter.copy_(torch.from_numpy(values))


def padded(sources: Iterable[list[int]], pad_id: int = PAD_ID) -> tuple[Tensor, Tensor]:
    """Sources with </s> as (B, S), and their lengths (B,)."""
    rows = [torch.tensor([*source, EOS_ID]) for source in sources]
    src = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad_id)
    return src, torch.tensor([len(row) for row in rows])
