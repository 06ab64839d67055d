"""This process among those that torchrun has started, on one machine or several."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

from transformer.errors import RunError


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


def take_gpu(process: Process, otherwise: str) -> None:
    """Use the GPU that is this process's own: the i-th of its machine for the i-th process there.

    Raises:
        RunError: there are more processes than GPUs; `otherwise` says what else can be done.
    """
    import torch  # here and below: what reads the environment starts without it

    check_gpu(process, torch.cuda.device_count(), otherwise)
    torch.cuda.set_device(process.local_rank)


def check_gpu(process: Process, n_gpus: int, otherwise: str) -> None:
    """See that this process has a GPU of its own. Raises RunError as `take_gpu`."""
    if process.local_rank >= n_gpus:
        raise RunError(
            f"process {process.local_rank + 1} of this machine has no GPU: there are {n_gpus}. "
            f"Start at most so many (torchrun --nproc-per-node), or {otherwise}"
        )


def join(process: Process, backend: str, timeout: timedelta) -> None:
    """Make a process group with the others, as soon as all have come.

    Raises:
        RunError: the others do not come, or cannot be found.
    """
    from torch import distributed

    with _explained(process):
        distributed.init_process_group(backend, timeout=timeout)


def meet(process: Process, timeout: timedelta) -> None:
    """Wait until all processes have come here, and part again.

    Raises:
        RunError: the others do not come, or cannot be found.
    """
    if process.size > 1:
        from torch import distributed

        join(process, "gloo", timeout)
        with _explained(process):
            distributed.barrier()
            distributed.destroy_process_group()


@contextmanager
def _explained(process: Process) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:  # DistNetworkError … are RuntimeErrors
        reason = str(error).strip().split("\n")[0]
        raise RunError(
            f"process {process.rank} of {process.size} cannot join the others at {os.environ.get('MASTER_ADDR')}:"
            f"{os.environ.get('MASTER_PORT')}: {reason}. Is the port free, and every machine started?"
        ) from error
