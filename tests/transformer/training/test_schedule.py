"""The learning rate: equation 3 of the paper, other ways down from its peak, and a straight line at the end."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

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


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "constant"])
@pytest.mark.parametrize(("warmup", "steps"), [(1, 30), (10, 40), (39, 40), (40, 40), (41, 40), (100, 40)])
def test_every_schedule_warms_up_on_a_straight_line(schedule: str, warmup: int, steps: int) -> None:
    found = rates(schedule=schedule, lr=0.02, warmup_steps=warmup, max_steps=steps)
    last = min(warmup, steps)
    assert found[:last] == pytest.approx([0.02 * step / warmup for step in range(1, last + 1)])
    assert max(found) == pytest.approx(0.02 * last / warmup)


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "constant"])
def test_without_a_rate_the_peak_of_every_schedule_is_that_of_equation_3(schedule: str) -> None:
    assert max(rates(64, schedule=schedule, warmup_steps=9, max_steps=30)) == pytest.approx(peak_of_paper(64, 9))


@pytest.mark.parametrize(("warmup", "steps"), [(1, 20), (10, 41), (30, 31)])
def test_the_cosine_is_pytorchs_from_the_peak_to_zero_one_step_after_the_last(warmup: int, steps: int) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps + 1 - warmup)
    expected = []
    for _ in range(warmup, steps + 2):
        expected.append(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()
    train = TrainSettings(schedule="cosine", lr=0.01, warmup_steps=warmup, max_steps=steps)
    found = [learning_rate(step, train, 64) for step in range(warmup, steps + 2)]
    assert found == pytest.approx(expected, abs=1e-12)
    assert found[-2] > 0
    assert found[-1] == pytest.approx(0, abs=1e-12)


def test_the_cosine_falls_as_much_after_its_middle_as_before() -> None:
    """Half a period is odd about its middle: the two rates at equal distance from it add up to the peak."""
    found = rates(schedule="cosine", lr=0.01, warmup_steps=10, max_steps=49)[9:]  # the peak at step 10, zero at 50
    assert [a + b for a, b in zip(found[1:], reversed(found[1:]), strict=True)] == pytest.approx([0.01] * 39)
    assert found == sorted(found, reverse=True)


def test_constant_with_a_cooldown_is_a_trapezium() -> None:
    """Warm-up, stable, decay: 10 of 40 steps up, 20 level, 10 down."""
    found = rates(schedule="constant", lr=0.011, warmup_steps=10, max_steps=40, cooldown_steps=10)
    up = [0.0011 * step for step in range(1, 11)]
    down = [0.001 * (11 - step) for step in range(1, 11)]
    assert found == pytest.approx(up + [0.011] * 20 + down)


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "constant"])
@pytest.mark.parametrize("cooldown", [1, 5, 20, 39])
def test_the_cooldown_is_a_straight_line_to_zero_one_step_after_the_last(cooldown: int, schedule: str) -> None:
    """With warm-up over 10 of 40 steps; 39 begins inside it."""
    without = rates(schedule=schedule, lr=0.01, warmup_steps=10, max_steps=40)
    found = rates(schedule=schedule, lr=0.01, warmup_steps=10, max_steps=40, cooldown_steps=cooldown)
    begin = 40 - cooldown  # the last step before it
    assert found[:begin] == without[:begin]
    line = [without[begin - 1] * (1 - i / (cooldown + 1)) for i in range(1, cooldown + 1)]
    assert found[begin:] == pytest.approx(line)
    assert found[-1] > 0


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "constant"])
def test_without_cooldown_the_rate_knows_no_end(schedule: str) -> None:
    short = rates(schedule=schedule, warmup_steps=10, max_steps=40)
    assert short == rates(schedule=schedule, warmup_steps=10, max_steps=80)[:40]


def test_runs_of_different_length_share_their_steps_before_the_cooldown() -> None:
    short = rates(schedule="constant", warmup_steps=10, max_steps=40, cooldown_steps=10)
    long = rates(schedule="constant", warmup_steps=10, max_steps=80, cooldown_steps=20)
    assert short[:30] == long[:30]


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "constant"])
def test_a_rate_is_a_function_of_the_step_alone(schedule: str) -> None:
    """Asked in any order, as a resumed run does, it is the same; and never zero or less within the run."""
    train = TrainSettings(schedule=schedule, warmup_steps=7, max_steps=50)
    forwards = {step: learning_rate(step, train, 64) for step in range(1, 51)}
    backwards = {step: learning_rate(step, train, 64) for step in range(50, 0, -1)}
    assert forwards == backwards
    assert all(0 < rate < math.inf for rate in forwards.values())
