"""Everything a run needs before its first update: built from the settings, then filled from the last checkpoint."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from tqdm import tqdm

from data.batches import EpochPlan, collate, over_budget
from data.prepared import Prepared
from transformer.config import Settings
from transformer.device import choose_device
from transformer.errors import RunError
from transformer.model_directory import Model, new_network, vocabulary_hashes
from transformer.training.averaging import moving_average_copy
from transformer.training.checkpoint import Progress, TrainingState, load_checkpoint, newest_checkpoint
from transformer.training.choices import Choices, choose
from transformer.training.optimizer import make_optimizer
from transformer.training.run_directory import RunDirectory


def set_up(settings: Settings, prepared: Prepared, run: RunDirectory) -> tuple[TrainingState, Model, Choices]:
    """Open the run directory and make the state of training, the description of the model, and the choices.

    Raises:
        ConfigError: the device is not there.
        RunError: nothing to train on; or the run directory is of other settings, another vocabulary, or damaged.
    """
    wanted = settings.train
    _prepare_cpu(wanted.threads)
    device = choose_device(wanted.device)
    _report_over_budget(prepared, wanted.max_tokens)
    run.open(settings)

    torch.manual_seed(settings.seed)
    network = new_network(settings.model, prepared.src_vocabulary, prepared.tgt_vocabulary).to(device)
    average = moving_average_copy(network) if wanted.ema_decay is not None else None
    state = TrainingState(network, average, make_optimizer(network, wanted), Progress())
    model = Model(
        network,
        settings.model,
        settings.translate,
        prepared.src_vocabulary,
        prepared.tgt_vocabulary,
        prepared.manifest["src_lang"],
        prepared.manifest["tgt_lang"],
    )
    choices = _choices(run, state, prepared, settings, device)
    for each in (state.network, state.evaluated):
        each.use_attention(choices.attention)

    if newest := newest_checkpoint(run.checkpoints):
        _refuse_other_vocabulary(newest, prepared)
        load_checkpoint(newest, state)
    run.forget_metrics_after(state.progress.step)
    return state, model, choices


def _prepare_cpu(threads: int | None) -> None:
    """Settings of PyTorch's CPU side; to be made before the first product."""
    if threads is not None:
        torch.set_num_threads(threads)
    torch.set_flush_denormal(True)  # numbers too small for their exponent cost a CPU a hundred times the others
    # oneDNN compiles bf16 products for each shape and keeps 1,024 of them. The shapes of an epoch come back in the next
    # one but are more: on Multi30k they pushed each other out, which cost a fifth of the speed and grew the memory.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16384")


def _choices(
    run: RunDirectory, state: TrainingState, prepared: Prepared, settings: Settings, device: torch.device
) -> Choices:
    """What the run recorded when it began; else timed now, on an update of ordinary size."""
    recorded = run.load_choices()
    if recorded is not None and recorded.device == device.type:
        return recorded
    wanted = settings.train
    plan = EpochPlan(prepared.train, batch_tokens=wanted.batch_tokens, max_tokens=wanted.max_tokens, seed=0, epoch=0)
    batch = collate(prepared.train, plan.micro_batches(len(plan) // 2)[0]).to(device)
    choices = choose(state.network, batch, wanted, device)
    if choices.seconds:
        timed = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in choices.seconds.items())
        tqdm.write(
            f"chose {choices.precision} and {choices.attention} attention, the fastest here ({timed})", file=sys.stderr
        )
    run.save_choices(choices)
    return choices


def _report_over_budget(prepared: Prepared, max_tokens: int) -> None:
    """Known before the first update: which pairs cannot be trained on because one alone exceeds train.max_tokens."""
    left_out = over_budget(prepared.train, max_tokens)
    n_pairs = len(prepared.train)
    if len(left_out) == n_pairs:
        raise RunError(
            f"each of the {n_pairs:,} training pairs is longer than train.max_tokens={max_tokens}, "
            "which must hold at least one: raise it"
        )
    if len(left_out):
        first = ", ".join(f"{index + 1:,}" for index in left_out[:5])
        tqdm.write(
            f"{len(left_out):,} of {n_pairs:,} training pairs are left out: longer than train.max_tokens={max_tokens} "
            f"(prepared pair {first}{', …' if len(left_out) > 5 else ''})",
            file=sys.stderr,
        )


def _refuse_other_vocabulary(checkpoint: Path, prepared: Prepared) -> None:
    """The ids of another vocabulary mean other words: going on would train noise."""
    saved = vocabulary_hashes(checkpoint)
    now = (prepared.src_vocabulary.hash, prepared.tgt_vocabulary.hash)
    if saved != now:
        raise RunError(
            f"{checkpoint} was trained with another vocabulary than the prepared data have now: "
            "prepare the data again from the same text and settings, or give this run another name (name=…)"
        )
