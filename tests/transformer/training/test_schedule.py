"""The learning rate: equation 3 of the paper, its peak as a setting, and a straight line down at the end."""

from __future__ import annotations

from typing import Any

import pytest

from transformer.config import TrainSettings
from transformer.training.schedule import learning_rate, paper_rate, peak_of_paper

PAPER = pytest.mark.parametrize(("d_model", "warmup"), [(512, 4000), (1024, 4000), (32, 1), (128, 7), (64, 250)])


def rates(d_model: int = 64, **settings: Any) -> list[float]:
    """The rate of every step from 1 to max_steps."""
    train = TrainSettings(**settings)
    return [learning_rate(step, train, d_model) for step in range(1, train.max_steps + 1)]


@PAPER
def test_the_rate_is_equation_3_at_every_step(d_model: int, warmup: int) -> None:
    equation_3 = [d_model**-0.5 * min(step**-0.5, step * warmup**-1.5) for step in range(1, 3 * warmup + 1)]
    assert [paper_rate(step, d_model, warmup) for step in range(1, 3 * warmup + 1)] == pytest.approx(equation_3)
    assert rates(d_model, lr=None, warmup_steps=warmup, max_steps=3 * warmup) == pytest.approx(equation_3)


@PAPER
def test_the_form_with_a_peak_is_equation_3_scaled(d_model: int, warmup: int) -> None:
    found = rates(d_model, lr=5e-3, warmup_steps=warmup, max_steps=3 * warmup)
    assert max(found) == found[warmup - 1] == pytest.approx(5e-3)
    scale = 5e-3 / peak_of_paper(d_model, warmup)
    assert found == pytest.approx([scale * paper_rate(step, d_model, warmup) for step in range(1, 3 * warmup + 1)])


@pytest.mark.parametrize("cooldown", [1, 5, 20, 39])
def test_the_cooldown_is_a_straight_line_to_zero_one_step_after_the_last(cooldown: int) -> None:
    """With warm-up over 10 of 40 steps; 39 begins inside it."""
    without = rates(lr=0.01, warmup_steps=10, max_steps=40)
    found = rates(lr=0.01, warmup_steps=10, max_steps=40, cooldown_steps=cooldown)
    begin = 40 - cooldown  # the last step before it
    assert found[:begin] == without[:begin]
    line = [without[begin - 1] * (1 - i / (cooldown + 1)) for i in range(1, cooldown + 1)]
    assert found[begin:] == pytest.approx(line)
    assert found[-1] > 0


def test_without_cooldown_the_rate_knows_no_end() -> None:
    assert rates(warmup_steps=10, max_steps=40) == rates(warmup_steps=10, max_steps=80)[:40]
