"""The training loop: `train` runs from the first update, or the last checkpoint, to the finished model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import torch

from data.atomic import whole_directory
from data.batches import Batch
from data.prepared import Prepared
from transformer.config import Settings, TrainSettings
from transformer.model_directory import Model, save_model
from transformer.training.averaging import average_checkpoints, update_moving_average
from transformer.training.checkpoint import (
    Progress,
    TrainingState,
    best_checkpoints,
    last_checkpoints,
    newest_checkpoint,
    save_checkpoint,
)
from transformer.training.choices import Choices, autocast
from transformer.training.interruption import interruption
from transformer.training.loss import batch_loss
from transformer.training.monitor import Monitor, UpdateResult
from transformer.training.optimizer import clip_gradients, set_learning_rate
from transformer.training.run_directory import RunDirectory
from transformer.training.schedule import learning_rate
from transformer.training.setup import set_up
from transformer.training.stream import open_stream
from transformer.training.validation import validate


def train(settings: Settings, prepared: Prepared, run: RunDirectory) -> Path | None:
    """Train, or go on training, until `max_steps` or the end of patience.

    Returns the finished model's directory; None if the user interrupted, with everything saved.

    Raises:
        DataError: the shares of data.mixing do not fit the training corpora.
        RunError: the run directory belongs to other settings or another vocabulary, or the loss is not finite.
    """
    wanted = settings.train
    stream = open_stream(settings, prepared)  # first: it refuses shares that cannot be, before there is a run of them
    state, model, choices = set_up(settings, prepared, run)
    progress = state.progress
    monitor = Monitor(run, progress, wanted.max_steps, stream.name)
    saved_step = progress.step
    begin = time.perf_counter() - progress.seconds

    with closing(monitor), closing(stream), interruption() as interrupted:
        while progress.step < wanted.max_steps and not _out_of_patience(progress, wanted):
            # 1. The sentences of this update.
            progress.epoch, progress.update, batches = stream.take(progress.epoch, progress.update)

            # 2. One step of the optimizer.
            lr = learning_rate(progress.step + 1, wanted, settings.model.d_model)
            result = update(state, batches, lr, wanted, choices)
            monitor.add(result)
            progress.step, progress.update = progress.step + 1, progress.update + 1
            progress.n_tokens += result.n_tokens
            progress.seconds = time.perf_counter() - begin

            # 3. What happens every so often.
            stopping = interrupted.requested  # read once: it may be set while the lines below run
            validated = progress.step % wanted.validate_every == 0 or progress.step == wanted.max_steps
            regular = validated or progress.step % wanted.save_every == 0
            if stopping or regular or progress.step % wanted.log_every == 0:
                monitor.log(progress, lr)
            if validated:
                progress.validations.append(validate(state.evaluated, prepared, settings, choices, progress.step))
                newest = progress.validations[-1]
                monitor.log_validation(newest, best=newest == progress.best(wanted.best_by))
            if stopping or regular:
                best_by, keep = wanted.best_by, wanted.average_checkpoints
                save_checkpoint(run.checkpoints, state, model, best_by=best_by, keep=keep, regular=regular)
                saved_step = progress.step
                monitor.restart_clock()
            if stopping:
                break

    assert saved_step == progress.step
    if interrupted.requested and progress.step < wanted.max_steps:
        return None
    return _finish(run, state, model, wanted)


def update(
    state: TrainingState, batches: Sequence[Batch], lr: float, settings: TrainSettings, choices: Choices
) -> UpdateResult:
    """One step of the optimizer on the gradient of all micro-batches, divided once by all their target tokens."""
    device = torch.device(choices.device)
    network = state.network
    n_tokens = sum(batch.n_tokens for batch in batches)
    smoothed = torch.zeros((), device=device)
    nll = torch.zeros((), device=device)
    for batch in batches:
        with autocast(choices):
            loss = batch_loss(network, batch.to(device), settings.label_smoothing)
        torch.autograd.backward(loss.smoothed / n_tokens)
        smoothed += loss.smoothed.detach()
        nll += loss.nll
    grad_norm = clip_gradients(network, settings.clip_norm)
    set_learning_rate(state.optimizer, lr)
    state.optimizer.step()
    state.optimizer.zero_grad(set_to_none=True)
    if state.average is not None and settings.ema_decay is not None:
        update_moving_average(state.average, network, state.progress.step, settings.ema_decay)
    n_real = sum(batch.n_tokens + batch.n_src_tokens for batch in batches)
    n_padded = sum(batch.src.numel() + batch.tgt_out.numel() for batch in batches)
    return UpdateResult(smoothed, nll, grad_norm, n_tokens, n_real, n_padded)


def _out_of_patience(progress: Progress, settings: TrainSettings) -> bool:
    """Early stopping: too many validations in a row without a new best."""
    return settings.patience is not None and progress.validations_since_best(settings.best_by) >= settings.patience


def _finish(run: RunDirectory, state: TrainingState, model: Model, settings: TrainSettings) -> Path:
    """Write runs/NAME/model from the checkpoints that `model_from` names.

    Where the user has moved `max_steps` to the step of an interruption, there may be none but the one made then.
    """
    k, best_by, newest = settings.average_checkpoints, settings.best_by, newest_checkpoint(run.checkpoints)
    assert newest is not None
    chosen = {
        "last": [newest],
        "best": best_checkpoints(run.checkpoints, state.progress, best_by, 1),
        "average_last": last_checkpoints(run.checkpoints, k),
        "average_best": best_checkpoints(run.checkpoints, state.progress, best_by, k),
    }[settings.model_from] or [newest]
    with whole_directory(run.model) as partial:
        save_model(partial, model, average_checkpoints(chosen))
    return run.model
