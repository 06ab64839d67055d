"""Weights shared out among processes (FSDP2), for networks that do not fit into the memory of one device.

Each process keeps a share of every tensor: weights, gradients, optimizer and moving average. A layer is made whole
just before it is used, and falls apart again after it. What is saved is whole, so that a run can go on with any number
of processes. (The imports that take a second are made where weights are shared out.)
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from data.packing import AnyBatch
from transformer.model import Transformer
from transformer.training.loss import Loss, batch_loss


class LossModule(nn.Module):
    """`batch_loss` as the forward pass of a module: where FSDP makes embeddings and projection whole."""

    def __init__(self, network: Transformer) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: AnyBatch, smoothing: float, r_drop: float | None) -> Loss:
        """The sums of `batch_loss`."""
        return batch_loss(self.network, batch, smoothing, r_drop)


def shard(network: Transformer) -> LossModule:
    """Share out the weights of a network, which are equal on all processes, in place."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    module = LossModule(network)
    device = next(network.parameters()).device.type
    mesh = init_device_mesh(device, (torch.distributed.get_world_size(),))
    for attention in [layer.cross_attention for layer in network.decoder.layers]:
        fully_shard(attention, mesh=mesh)
        register_fsdp_forward_method(attention, "keys_values")  # of the memory: made before the layers run
    for layer in (*network.encoder.layers, *network.decoder.layers):
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    return module


def whole_network(network: Transformer) -> Transformer:
    """The network itself, or if its weights are shared out a copy that has them all; every process must call this."""
    if not any(is_share(parameter) for parameter in network.parameters()):
        return network
    weights = {name: whole(parameter.detach()) for name, parameter in network.named_parameters()}
    sizes = (side.embedding.table.num_embeddings for side in (network.encoder, network.decoder))
    with torch.device("meta"):  # no time spent on initial values
        copy = Transformer(network.settings, *sizes)
    copy.load_state_dict(weights, strict=False, assign=True)
    copy.tie()
    return copy.eval()


def is_share(tensor: Tensor) -> bool:
    """Whether processes share this tensor (a DTensor)."""
    return type(tensor).__name__ == "DTensor"


def whole(tensor: Tensor) -> Tensor:
    """The tensor with every process's share; every process must call this."""
    found: Tensor = cast(Any, tensor).full_tensor() if is_share(tensor) else tensor
    return found


def own_share(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor, sharing memory with it."""
    found: Tensor = cast(Any, tensor).to_local() if is_share(tensor) else tensor
    return found


def like(tensor: Tensor, model: Tensor) -> Tensor:
    """The tensor shared out as `model` is, where shapes are equal."""
    if not is_share(model) or tensor.shape != model.shape:
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(model, DTensor)
    return distribute_tensor(tensor.to(model.device), model.device_mesh, model.placements, src_data_rank=None)
