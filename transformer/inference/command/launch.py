"""This process among those that torchrun has started to translate together, on one machine or several.

They share their work through the disk (see `parts`). They meet once, at the beginning: else one that starts late could
find that the others have finished and tidied up, and begin all over again.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import NamedTuple

import torch
from torch import distributed

from transformer.errors import RunError

_TIMEOUT = timedelta(minutes=30)  # that one may need longer than another to read its input and load its model


class Process(NamedTuple):
    """One of `size` processes; without torchrun, the only one."""

    rank: int = 0
    local_rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the one that speaks."""
        return self.rank == 0


def this_process() -> Process:
    """What the environment says; variables of other launchers, of which one is missing here, say nothing."""
    values = [os.environ.get(name, "") for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")]
    return Process(*map(int, values)) if all(value.isdecimal() for value in values) else Process()


def take_gpu(process: Process) -> None:
    """Use the GPU that is this process's own: the i-th of its machine for the i-th process there.

    Raises:
        RunError: there are more processes than GPUs.
    """
    if process.local_rank >= torch.cuda.device_count():
        raise RunError(
            f"process {process.local_rank + 1} of this machine has no GPU: there are {torch.cuda.device_count()}. "
            "Start at most so many (torchrun --nproc-per-node), or give --device cpu"
        )
    torch.cuda.set_device(process.local_rank)


def meet(process: Process) -> None:
    """Wait until all processes have come here.

    Raises:
        RunError: the others do not come, or cannot be found.
    """
    if process.size == 1:
        return
    try:
        distributed.init_process_group("gloo", timeout=_TIMEOUT)
        distributed.barrier()
        distributed.destroy_process_group()
    except (RuntimeError, ValueError) as error:  # DistNetworkError … are RuntimeErrors
        reason = str(error).strip().split("\n")[0]
        raise RunError(
            f"process {process.rank} of {process.size} cannot find the others at {os.environ.get('MASTER_ADDR')}:"
            f"{os.environ.get('MASTER_PORT')}: {reason}. Is the port free, and every machine started?"
        ) from error
