"""Signals: a request first, an end second, and as before afterwards."""

from __future__ import annotations

import signal

import pytest

from transformer.training import interruption as module
from transformer.training.group import ALONE
from transformer.training.interruption import interruption

STOPS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)


def test_nothing_is_requested_before_a_signal() -> None:
    with interruption() as asked:
        assert asked.agree(ALONE) == (0, False)


@STOPS
def test_the_first_signal_is_a_request(number: signal.Signals) -> None:
    with interruption() as asked:
        signal.raise_signal(number)
        signal.raise_signal(number)  # at once: torchrun passes on what the terminal has sent already
        assert asked.agree(ALONE) == (number, False)


def test_a_second_ctrl_c_interrupts_what_waits_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SAME", 0.0)
    with pytest.raises(KeyboardInterrupt), interruption():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)


def test_sigusr1_asks_for_one_checkpoint() -> None:
    with interruption() as asked:
        signal.raise_signal(signal.SIGUSR1)
        assert asked.agree(ALONE) == (0, True)
        assert asked.agree(ALONE) == (0, False)
        signal.raise_signal(signal.SIGUSR1)
        assert asked.agree(ALONE) == (0, True)


def test_one_request_does_not_outlive_its_run() -> None:
    with interruption():
        signal.raise_signal(signal.SIGINT)
    with interruption() as asked:
        assert asked.agree(ALONE) == (0, False)


@pytest.mark.parametrize("end", ["well", "with an error"])
def test_afterwards_signals_mean_what_they_meant_before(end: str) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    try:
        with interruption():
            assert all(signal.getsignal(number) != old for number, old in zip(numbers, before, strict=True))
            if end == "with an error":
                raise RuntimeError
    except RuntimeError:
        pass
    assert [signal.getsignal(number) for number in numbers] == before
