"""Ctrl-C: a request first, an end second, and as before afterwards."""

from __future__ import annotations

import signal

import pytest

from transformer.training.interruption import interruption


def test_nothing_is_requested_before_a_signal() -> None:
    with interruption() as asked:
        assert not asked.requested


def test_the_first_sigint_is_a_request_and_the_second_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt), interruption() as asked:
        signal.raise_signal(signal.SIGINT)
        assert asked.requested
        signal.raise_signal(signal.SIGINT)


def test_one_request_does_not_outlive_its_run() -> None:
    with interruption():
        signal.raise_signal(signal.SIGINT)
    with interruption() as asked:
        assert not asked.requested


@pytest.mark.parametrize("end", ["well", "with an error"])
def test_afterwards_ctrl_c_means_what_it_meant_before(end: str) -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        with interruption():
            assert signal.getsignal(signal.SIGINT) is not before
            if end == "with an error":
                raise RuntimeError
    except RuntimeError:
        pass
    assert signal.getsignal(signal.SIGINT) is before
