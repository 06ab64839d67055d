"""The learning rate as a pure function of the step (§5.3)."""

from __future__ import annotations

import math

from transformer.config import TrainSettings


def paper_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), equation 3; steps count from 1."""
    return min(1 / math.sqrt(step), step / math.sqrt(warmup_steps**3)) / math.sqrt(d_model)


def peak_of_paper(d_model: int, warmup_steps: int) -> float:
    """The highest rate of equation 3, reached at step = warmup_steps."""
    return 1 / math.sqrt(d_model * warmup_steps)


def learning_rate(step: int, settings: TrainSettings, d_model: int) -> float:
    """Linear warm-up to the peak, then the inverse square root of the step; equation 3 with its peak made a setting.

    Over the last `cooldown_steps` the rate falls from where it is then on a straight line, to reach zero one step after
    the last (Hägele et al. 2024).
    """
    peak = settings.lr if settings.lr is not None else peak_of_paper(d_model, settings.warmup_steps)
    remaining = settings.max_steps - step + 1
    step = min(step, settings.max_steps - settings.cooldown_steps)
    rate = peak * min(step / settings.warmup_steps, math.sqrt(settings.warmup_steps / step))
    return rate * min(1.0, remaining / (settings.cooldown_steps + 1))
