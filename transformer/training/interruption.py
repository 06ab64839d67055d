"""Signals are obeyed between two updates, with a checkpoint, instead of inside one.

SIGINT (Ctrl-C) and SIGTERM (a scheduler that needs the machine): finish the update, save, exit with 130 or 143.
SIGUSR1 (a scheduler's warning): save, and go on.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch

from transformer.training.group import Group

_SAME = 3.0  # seconds in which a second signal is taken for the first: torchrun passes on what the terminal sends, too


class Interruption:
    """What has been asked of this process since the run began."""

    def __init__(self) -> None:
        self.stop = 0  # the signal that ends the run
        self.save = 0  # how often a checkpoint was asked for
        self._saved = 0

    def agree(self, group: Group) -> tuple[int, bool]:
        """The signal that ends the run, if any process has got one, and whether to save now; the same everywhere.

        Read once an update: both may change at any time.
        """
        stop, save = self.stop, self.save
        if group.size > 1:
            asked = torch.zeros(2 * group.size, dtype=torch.int64)
            asked[group.rank], asked[group.size + group.rank] = stop, int(save > self._saved)
            group.sum(asked)
            wanted = int(asked[group.size :].sum()) > 0
            stop = int(asked[: group.size].max())
        else:
            wanted = save > self._saved
        self._saved = save
        return stop, wanted


@contextmanager
def interruption() -> Iterator[Interruption]:
    """Turn signals into requests; a second Ctrl-C stops at once, and loses what was not saved."""
    asked = Interruption()
    first = 0.0

    def on_stop(number: int, frame: FrameType | None) -> None:
        nonlocal first
        now = time.monotonic()
        if asked.stop and number == signal.SIGINT and now - first > _SAME:
            raise KeyboardInterrupt
        first = first or now
        asked.stop = asked.stop or number

    def on_save(number: int, frame: FrameType | None) -> None:
        asked.save += 1

    handlers = {signal.SIGINT: on_stop, signal.SIGTERM: on_stop, signal.SIGUSR1: on_save}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
