"""The processes that train together: one alone, or those that torchrun has started, on one machine or several.

Their number is no hyper-parameter: an update is the same sentences whatever it is, and each process takes a share.
What they tell each other travels through gloo on the CPU, but for gradients on a GPU, which travel through NCCL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as distributed
import torch.distributed.nn.functional  # before there is a group: its default arguments would hold it until the end
from torch import Tensor, nn

from transformer.errors import RunError
from transformer.torchrun import join, take_gpu, this_process

# Gradients are summed in pieces of so many numbers: enough for full speed, few enough to need little room beside them.
_NUMBERS_AT_A_TIME = 16 * 2**20
_LOST = ("Connection closed", "Connection reset", "Broken pipe", "Timed out waiting", "onnection refused", "NCCL")
_TIMEOUT = timedelta(minutes=60)  # the longest that one may do something alone: timing choices, validating, saving


class Group:
    """This process among those that train together."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Element by element over all processes, and the same everywhere; a tensor on the CPU, which it overwrites."""
        if self.size > 1:
            _together(lambda: distributed.all_reduce(values))
        return values

    def gather(self, value: Any) -> list[Any]:
        """Every process gets the values of all, by rank; anything that JSON can hold."""
        if self.size == 1:
            return [value]
        text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = torch.zeros(self.size, dtype=torch.int64)
        sizes[self.rank] = len(text)
        self.sum(sizes)
        longest = int(sizes.max())
        own = torch.zeros(longest, dtype=torch.uint8)
        own[: len(text)] = text
        texts = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
        _together(lambda: distributed.all_gather(texts, own))
        pairs = zip(texts, sizes.tolist(), strict=True)
        return [json.loads(text[:size].numpy().tobytes()) for text, size in pairs]

    def share(self, value: Any) -> Any:
        """The first process's value, everywhere; the others wait for it."""
        return self.gather(value if self.is_first else None)[0]

    def sum_gradients(self, network: nn.Module) -> None:
        """Give every process the sum of the gradients of all, once an update.

        Summed after the backward pass, in a fixed order: so the result is the same in every run, whatever finished
        first, and a process may go through its share again in smaller parts before (DistributedDataParallel overlaps
        both, and allows neither).
        """
        gradients = []
        for parameter in network.parameters():
            if parameter.requires_grad:
                if parameter.grad is None:  # of a layer that was left out: nothing, as where others left it out, too
                    parameter.grad = torch.zeros_like(parameter)
                gradients.append(parameter.grad)
        if self.size > 1:
            for some in _portions(gradients):
                flat = torch.cat([gradient.flatten() for gradient in some])
                _together(partial(distributed.all_reduce, flat))
                parts = torch.split(flat, [gradient.numel() for gradient in some])
                torch._foreach_copy_(some, [part.view_as(one) for part, one in zip(parts, some, strict=True)])


ALONE = Group()


@contextmanager
def training_group(device_type: str) -> Iterator[Group]:
    """The group that torchrun has put this process into, by the environment; without torchrun, a group of one.

    `device_type` is cuda, mps or cpu. On GPUs, process i of a machine uses the i-th of them.

    Raises:
        RunError: the processes cannot find each other, or there are more processes than GPUs.
    """
    process = this_process()
    if process.size == 1:
        yield ALONE
        return
    backend = "gloo"
    if device_type == "cuda":
        take_gpu(process, "set train.device=cpu")
        backend = "cpu:gloo,cuda:nccl"
    join(process, backend, _TIMEOUT)
    ended_well = False
    try:
        yield Group(process.rank, process.size)
        ended_well = True
    finally:
        if ended_well or backend == "gloo":  # NCCL would wait for the others, which wait for this one
            distributed.destroy_process_group()


def _portions(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Neighbours, together at most so many numbers; a larger one alone."""
    some: list[Tensor] = []
    n_numbers = 0
    for tensor in tensors:
        if some and n_numbers + tensor.numel() > _NUMBERS_AT_A_TIME:
            yield some
            some, n_numbers = [], 0
        some.append(tensor)
        n_numbers += tensor.numel()
    if some:
        yield some


def lost_others(error: RuntimeError) -> RunError | None:
    """What to tell the user if the error means that another process has ended; libraries have no class for that."""
    reason = str(error).strip().split("\n")[0]
    if not any(words in reason for words in _LOST):
        return None
    return RunError(f"another process of this run has ended or is out of reach: {reason}")


def _together(operation: Any) -> None:
    """What all processes do at the same time: where one has ended, the others are told."""
    try:
        operation()
    except RuntimeError as error:
        if explained := lost_others(error):
            raise explained from error
        raise
