"""How much memory a process needs to train: tensors that last, counted before they are there."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from data.batches import cut_micro_batches, longer_side
from data.packing import AnyBatch, PackedShape
from data.prepared import ParallelIds
from transformer.config import TrainSettings
from transformer.model import Transformer
from transformer.training.budget import all_layers, full_batch, kept_storages, packed_batch
from transformer.training.choices import Choices, autocast
from transformer.training.loss import batch_loss, chunk_rows
from transformer.training.state import TrainingState


class Shape(NamedTuple):
    """A padded micro-batch: B sentences, S source and T target positions, padding included."""

    rows: int
    src: int
    tgt: int

    @property
    def n_src(self) -> int:
        """Source tokens, padding included."""
        return self.rows * self.src

    @property
    def n_tgt(self) -> int:
        """Target tokens, padding included."""
        return self.rows * self.tgt


def estimate_memory(
    state: TrainingState, shapes: Sequence[Shape | PackedShape], settings: TrainSettings, choices: Choices
) -> dict[str, int]:
    """Bytes that an update needs whose largest micro-batch is one of `shapes`, by what they are for.

    Not counted is what lives only for a moment, and what libraries set aside.
    """
    network = state.network
    most_rows = chunk_rows(choices.device, choices.batching == "packed")
    n_rows = min(most_rows, max(shape.n_tgt for shape in shapes)) * (1 if settings.r_drop is None else 2)
    logit_bytes = 4 if choices.precision == "fp32" else 4 + 2  # a logit in fp32, and in the precision of the product
    return {
        "weights": _bytes(network.parameters()),
        "gradients": _bytes(parameter for parameter in network.parameters() if parameter.requires_grad),
        "optimizer moments": sum(_moment_bytes(optimizer) for optimizer in state.optimizers),
        "moving average": _bytes(state.average.parameters()) if state.average is not None else 0,
        "activations": max(activation_bytes(network, shape, settings, choices) for shape in shapes),
        "logits": n_rows * network.projection.out_features * logit_bytes,
    }


def activation_bytes(
    network: Transformer, shape: Shape | PackedShape, settings: TrainSettings, choices: Choices
) -> int:
    """`saved_bytes` of a micro-batch that may not fit: a constant, and equally much for each row.

    Found from two and three rows, because one row alone can do without some copies; packed, from as many tokens as two
    and three longest sentences have.
    """
    if isinstance(shape, PackedShape):
        two, three = (
            _saved_bytes(network, packed_batch(shape.longest, n * shape.longest), settings, choices) for n in (2, 3)
        )
        return round(two + (three - two) * ((shape.n_src + shape.n_tgt) / (2 * shape.longest) - 2))
    two, three = (saved_bytes(network, shape._replace(rows=rows), settings, choices) for rows in (2, 3))
    return two + (three - two) * (shape.rows - 2)


def saved_bytes(network: Transformer, shape: Shape, settings: TrainSettings, choices: Choices) -> int:
    """What a forward pass keeps for the backward pass, weights left out; runs it, on a batch without padding."""
    return _saved_bytes(network, full_batch(*shape), settings, choices)


def _saved_bytes(network: Transformer, batch: AnyBatch, settings: TrainSettings, choices: Choices) -> int:
    batch = batch.to(torch.device(choices.device))
    with all_layers(network), autocast(choices):
        stored = kept_storages(partial(batch_loss, network, batch, settings.label_smoothing, settings.r_drop))
    for parameter in network.parameters():
        stored.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(stored.values())


def longest_micro_batch(corpus: ParallelIds, batch_tokens: int, max_tokens: int) -> Shape:
    """The micro-batch of the longest pairs: as many as make an update, cut to the budget."""
    longer = longer_side(corpus)
    order = np.argsort(-longer, kind="stable")
    order = order[longer[order] <= max_tokens]
    tokens = np.cumsum(corpus.tgt_lengths[order] + 1, dtype=np.int64)
    pairs = order[: max(1, int(np.searchsorted(tokens, batch_tokens, side="right")))]
    pairs = pairs[cut_micro_batches(longer[pairs], max_tokens)[0]]
    return Shape(len(pairs), int(corpus.src_lengths[pairs].max()) + 1, int(corpus.tgt_lengths[pairs].max()) + 1)


def peak_memory(device: torch.device) -> int:
    """The most bytes so far: of tensors on a CUDA device, else of the whole process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _bytes(tensors: Iterator[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _moment_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Adam keeps a mean of the gradients and one of their squares, Muon the first alone."""
    n_moments = 1 if type(optimizer).__name__ == "Muon" else 2
    return n_moments * _bytes(parameter for group in optimizer.param_groups for parameter in group["params"])
