"""Ctrl-C ends a run between two updates, with a checkpoint, instead of inside one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Whether the user has asked to stop."""

    requested = False


@contextmanager
def interruption() -> Iterator[Interruption]:
    """Turn the first SIGINT into a request; a second one stops at once, and loses what was not saved."""
    asked = Interruption()

    def on_signal(number: int, frame: FrameType | None) -> None:
        asked.requested = True
        signal.signal(signal.SIGINT, before)

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, on_signal)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
