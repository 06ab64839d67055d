"""Choices made by timing: device, precision and form of attention; made once, recorded, and kept on resume."""

from __future__ import annotations

import itertools
import statistics
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

import torch

from data.batches import Batch
from transformer.attention import Form
from transformer.config import TrainSettings
from transformer.model import Transformer
from transformer.training.loss import batch_loss

Precision = Literal["fp32", "bf16"]
_RUNS = 3  # timed passes of each candidate, after one that warms up


@dataclass(frozen=True)
class Choices:
    """What this run computes on, and how."""

    device: str
    precision: Precision
    attention: Form
    seconds: dict[str, float]  # median time of a pass for each candidate that was timed


def autocast(choices: Choices) -> AbstractContextManager[object]:
    """Run matrix products in the chosen precision; weights, sums and the loss stay fp32."""
    return torch.autocast(choices.device, torch.bfloat16, enabled=choices.precision == "bf16")


def choose(network: Transformer, batch: Batch, settings: TrainSettings, device: torch.device) -> Choices:
    """Time forward and backward passes of every candidate that the settings leave open, on a batch of the run itself.

    Only bf16 against fp32 changes results beyond rounding. Leaves weights and random state as they were.
    """
    candidates = [
        Choices(device.type, precision, attention, {})
        for precision, attention in itertools.product(_precisions(settings, device), _forms(settings))
    ]
    if len(candidates) == 1:
        return candidates[0]
    seconds = {}
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if device.type == "cuda" else []):
        for candidate in candidates:
            seconds[f"{candidate.precision} {candidate.attention}"] = _time(network, batch, candidate)
    network.zero_grad(set_to_none=True)
    fastest = min(candidates, key=lambda c: seconds[f"{c.precision} {c.attention}"])
    return Choices(device.type, fastest.precision, fastest.attention, seconds)


def _precisions(settings: TrainSettings, device: torch.device) -> list[Precision]:
    if settings.precision != "auto":
        return [settings.precision]
    has_bf16 = device.type == "cpu" or (device.type == "cuda" and torch.cuda.is_bf16_supported())
    return ["fp32", "bf16"] if has_bf16 else ["fp32"]


def _forms(settings: TrainSettings) -> list[Form]:
    return ["explicit", "fused"] if settings.attention == "auto" else [settings.attention]


def _time(network: Transformer, batch: Batch, candidate: Choices) -> float:
    network.use_attention(candidate.attention)
    seconds = []
    for _ in range(_RUNS + 1):
        begin = time.perf_counter()
        with autocast(candidate):
            loss = batch_loss(network, batch, smoothing=0.1)
        torch.autograd.backward(loss.smoothed)
        if candidate.device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])
