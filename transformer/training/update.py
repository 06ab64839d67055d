"""One step of the optimizer: the gradient of all micro-batches of all processes, divided once by all their tokens."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from data.batches import halve
from data.packing import AnyBatch, PackedBatch
from transformer.config import TrainSettings
from transformer.errors import RunError
from transformer.training.averaging import update_moving_average
from transformer.training.choices import Choices, autocast
from transformer.training.group import ALONE, Group
from transformer.training.loss import batch_loss
from transformer.training.optimizer import clip_gradients, set_learning_rate
from transformer.training.state import TrainingState
from transformer.training.stream import Update

_LACK_OF_MEMORY = ("DefaultCPUAllocator: can't allocate memory", "not enough memory", "MPS backend out of memory")

Place = tuple[int, ...]  # of a micro-batch: its number in the update; of a half of it, a 0 or 1 more


@dataclass(frozen=True)
class UpdateResult:
    """What one update did; tensors, so that the device is waited for only when they are read."""

    part: int  # epoch or stage
    update: int
    smoothed: Tensor  # summed over the tokens of this process, nats
    nll: Tensor  # summed over the tokens of this process, nats
    grad_norm: Tensor  # of the whole gradient, before clipping
    n_tokens: int  # real target tokens of all processes
    n_real: int  # real tokens of this process, both sides
    n_padded: int  # tokens of this process with padding, both sides


def update(
    state: TrainingState, taken: Update, lr: float, settings: TrainSettings, choices: Choices, group: Group = ALONE
) -> UpdateResult:
    """Train on one update."""
    smoothed, nll = gradient_of(state, taken, settings, choices, group)
    if state.sharded is None:  # else the backward pass has done it
        group.sum_gradients(state.network)
    set_learning_rate(state.optimizers, lr)
    grad_norm = _step(state, settings.clip_norm)
    if state.average is not None and settings.ema_decay is not None:
        update_moving_average(state.average, state.network, state.progress.step, settings.ema_decay)
    n_real = sum(batch.n_tokens + batch.n_src_tokens for batch in taken.batches)
    n_padded = sum(batch.n_padded for batch in taken.batches)
    return UpdateResult(taken.part, taken.update, smoothed, nll, grad_norm, taken.n_tokens, n_real, n_padded)


def gradient_of(
    state: TrainingState, taken: Update, settings: TrainSettings, choices: Choices, group: Group
) -> tuple[Tensor, Tensor]:
    """Leave this process's share of the update's gradient in the parameters; return its smoothed loss and nll, summed.

    A micro-batch that finds too little memory is halved, and the whole update done again, since a backward pass that
    broke off leaves half a gradient: the same sentences, and but for rounding (and the numbers dropout draws) the same
    gradient.

    Raises:
        RunError: one sentence pair alone does not fit, micro-batches are packed, all of one size, or processes share
            the weights, so that none can do this alone.
    """
    batches: dict[Place, AnyBatch] = {(number,): batch for number, batch in enumerate(taken.batches)}
    while True:
        batches = dict(_fitting(batches.items(), state.largest_batch))
        place: Place = ()
        try:
            device = torch.device(choices.device)
            smoothed, nll = torch.zeros((), device=device), torch.zeros((), device=device)
            for place, batch in batches.items():
                _seed(state.seed, state.progress.step, group.rank, place)
                loss_of = state.sharded or state.compiled or partial(batch_loss, state.network)
                with autocast(choices):
                    loss = loss_of(batch.to(device), settings.label_smoothing, settings.r_drop)
                mean = loss.smoothed / taken.n_tokens
                if state.sharded is not None:
                    mean = mean * group.size  # FSDP takes the mean over processes
                torch.autograd.backward(mean if state.scaler is None else state.scaler.scale(mean))
                smoothed += loss.smoothed.detach()
                nll += loss.nll
            return smoothed, nll
        except RuntimeError as error:
            if not is_lack_of_memory(error):
                raise
            state.largest_batch = _less_than(batches[place], state, group, error)
        state.network.zero_grad(set_to_none=True)  # outside: while the exception lives, so do the tensors it names
        if choices.device == "cuda":
            torch.cuda.empty_cache()


def _step(state: TrainingState, clip_norm: float | None) -> Tensor:
    """Clip, step, and forget the gradient; returns its norm."""
    if state.scaler is not None:
        for optimizer in state.optimizers:
            state.scaler.unscale_(optimizer)
    grad_norm = clip_gradients(state.network, clip_norm)
    overflown = state.scaler is not None and not math.isfinite(float(grad_norm))  # then none of the optimizers steps
    for optimizer in state.optimizers:
        if state.scaler is None:
            optimizer.step()
        elif not overflown:
            state.scaler.step(optimizer)
        optimizer.zero_grad(set_to_none=True)
    if state.scaler is not None:
        state.scaler.update()
    return grad_norm


def _seed(seed: int, step: int, rank: int, place: Place) -> None:
    """Dropout is a pure function of the seed and the place: no state of random numbers needs to be saved."""
    mixed = np.random.SeedSequence([seed, step, rank, len(place), *place]).generate_state(1, np.uint64)
    torch.manual_seed(int(mixed[0]) >> 1)


def _fitting(batches: Iterable[tuple[Place, AnyBatch]], largest: int | None) -> Iterable[tuple[Place, AnyBatch]]:
    """The micro-batches, those of more than `largest` padded tokens halved until they are not."""
    for place, batch in batches:
        if largest is None or batch.n_padded <= largest or isinstance(batch, PackedBatch) or batch.n_pairs < 2:
            yield place, batch
        else:
            first, second = halve(batch)
            yield from _fitting([((*place, 0), first), ((*place, 1), second)], largest)


def is_lack_of_memory(error: RuntimeError) -> bool:
    """Only CUDA has a class of its own for it."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in _LACK_OF_MEMORY)


def _less_than(batch: AnyBatch, state: TrainingState, group: Group, error: RuntimeError) -> int:
    """The size of a micro-batch to try next, told to the user."""
    reason = str(error).strip().split("\n")[0]
    if isinstance(batch, PackedBatch):
        raise RunError(
            f"out of memory at step {state.progress.step + 1}: a packed micro-batch, of {len(batch.src):,} source and "
            f"{len(batch.tgt_out):,} target tokens like all of this run, does not fit ({reason}). Lower "
            "train.max_tokens; the same command goes on from the last checkpoint"
        ) from error
    if batch.n_pairs < 2 or state.sharded is not None:
        what = "one sentence pair alone" if batch.n_pairs < 2 else "a micro-batch whose weights other processes share"
        raise RunError(
            f"out of memory at step {state.progress.step + 1}: {what}, of {batch.src.shape[1]} source and "
            f"{batch.tgt_out.shape[1]} target columns, does not fit ({reason}). Lower train.max_tokens or "
            "data.max_length, or use a larger device; the same command goes on from the last checkpoint"
        ) from error
    size = batch.n_padded
    tqdm.write(
        f"step {state.progress.step + 1}: out of memory (process {group.rank}): {batch.n_pairs} rows, {size:,} tokens "
        "with padding, are done in two halves from here on, with the same gradient. A run that was not split would end "
        "with other rounding; train.max_tokens=auto or a lower one prevents it",
        file=sys.stderr,
    )
    return size - 1
