"""Batches side by side: on a CPU, several threads with a core each are faster than one batch on all cores.

They share the network and cost no start. Python runs one thread at a time, but nearly all of the time is spent inside
PyTorch, which lets the others run meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Literal, TypeVar

import torch

Batch = TypeVar("Batch")
Result = TypeVar("Result")


class Workers:
    """Threads that work on batches.

    Args:
        n: how many; auto: as many as PyTorch would use threads on a CPU, and one on any other device.
    """

    def __init__(self, n: int | Literal["auto"], device: torch.device) -> None:
        automatic = torch.get_num_threads() if device.type == "cpu" else 1
        self.n = automatic if n == "auto" else n
        self._pool: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[Batch], Result], batches: Sequence[Batch]) -> Iterator[tuple[int, Result]]:
        """Place and result of each batch, as they are done.

        Several workers have one thread each, even where there is only one batch: on a busy machine, threads that wait
        for each other after every small product take a hundred times as long.
        """
        if self.n == 1:
            yield from ((place, work(batch)) for place, batch in enumerate(batches))
            return
        with _one_thread_each():
            if len(batches) == 1:
                yield 0, work(batches[0])
                return
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.n, "translate", initializer=torch.set_num_threads, initargs=(1,))
            places = {self._pool.submit(work, batch): place for place, batch in enumerate(batches)}
            try:
                for future in as_completed(places):
                    yield places[future], future.result()
            finally:
                for future in places:
                    future.cancel()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """The number of threads of the matrix library is the whole process's."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
