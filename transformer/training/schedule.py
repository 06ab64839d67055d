"""The learning rate as a pure function of the step (§5.3), with two other ways down from its peak."""

from __future__ import annotations

import math

from transformer.config import TrainSettings


def paper_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), equation 3; steps count from 1."""
    return min(1 / math.sqrt(step), step / math.sqrt(warmup_steps**3)) / math.sqrt(d_model)


def peak_of_paper(d_model: int, warmup_steps: int) -> float:
    """The highest rate of equation 3, reached at step = warmup_steps."""
    return 1 / math.sqrt(d_model * warmup_steps)


def share_of_peak(step: int, settings: TrainSettings) -> float:
    """The rate as a share of its peak: a straight line up to 1 at `warmup_steps`, then one of three ways on.

    - inverse_sqrt, equation 3: needs no known end, so a run may be prolonged as long as it gains.
    - cosine (Loshchilov & Hutter 2017, equation 5, without restarts), to 0 one step after `max_steps`: helps where the
      number of steps is known and will stay; a run stopped early ends at a rate too high, one prolonged does not fit.
    - constant: with `cooldown_steps` warm-up–stable–decay (Hägele et al. 2024), which came as low as cosine there, and
      whose end may be chosen late: runs of several lengths share all their steps before the cooldown.
    """
    warmup = settings.warmup_steps
    if step <= warmup:
        return step / warmup
    if settings.schedule == "inverse_sqrt":
        return math.sqrt(warmup / step)
    if settings.schedule == "cosine":
        return (1 + math.cos(math.pi * (step - warmup) / (settings.max_steps + 1 - warmup))) / 2
    return 1.0


def learning_rate(step: int, settings: TrainSettings, d_model: int) -> float:
    """`share_of_peak` of `train.lr`, or of the peak of equation 3; steps count from 1.

    Over the last `cooldown_steps` the rate falls from where it is then on a straight line, to reach zero one step after
    the last (Hägele et al. 2024): the noise of a high rate goes, which gains at the end of any run.
    """
    peak = settings.lr if settings.lr is not None else peak_of_paper(d_model, settings.warmup_steps)
    remaining = settings.max_steps - step + 1
    rate = peak * share_of_peak(min(step, settings.max_steps - settings.cooldown_steps), settings)
    return rate * min(1.0, remaining / (settings.cooldown_steps + 1))
