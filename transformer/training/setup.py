"""Everything a run needs before its first update: built from the settings, then filled from the last checkpoint."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from tqdm import tqdm

from data.batches import longer_side, over_budget
from data.prepared import ParallelIds, Prepared
from transformer.config import Settings, TrainSettings
from transformer.device import choose_device
from transformer.errors import RunError
from transformer.model_directory import Model, new_network, vocabulary_hashes
from transformer.training.averaging import moving_average_copy
from transformer.training.checkpoint import load_checkpoint, newest_checkpoint, sound_checkpoint
from transformer.training.choices import Choices, choose, describe_choices, make_scaler
from transformer.training.compilation import compile_loss
from transformer.training.group import ALONE, Group
from transformer.training.initialization import freeze, initialise_from
from transformer.training.optimizer import make_optimizers
from transformer.training.progress import Progress
from transformer.training.record import make_record, save_record
from transformer.training.run_directory import RunDirectory
from transformer.training.sharding import shard
from transformer.training.state import TrainingState

_PRODUCTS_OF_A_BATCH = 64  # that are compiled for a batch of another shape, about; whatever the number of layers
_MANY_PRODUCTS = 16_384


def set_up(
    settings: Settings, prepared: Prepared, run: RunDirectory, group: Group = ALONE
) -> tuple[TrainingState, Model, Choices]:
    """Open the run directory and make the state of training, the description of the model, and the choices.

    Raises:
        ConfigError: the device is not there.
        RunError: nothing to train on; or the run directory is of other settings, another vocabulary, or damaged.
    """
    prepare_cpu(settings.train, prepared.train)
    device = choose_device(settings.train.device)
    if not len(prepared.train):
        raise RunError("the prepared data hold no training pair: run preprocess.py with other text or filters")
    if group.is_first:
        if isinstance(settings.train.max_tokens, int):
            report_over_budget(prepared, settings.train.max_tokens)
        run.open(settings)
    newest = group.share(str(_checkpoint_to_go_on_from(run, prepared) or "") if group.is_first else None)
    state, model = build(settings, prepared, device, fresh=not newest, group=group)
    choices = _choices(run, state, prepared, settings, device, group)
    state.scaler = make_scaler(choices)
    for each in (state.network, state.evaluated):
        each.use_attention(choices.attention)
    if settings.train.parallel == "fully_shard" and group.size > 1:
        state = _shared_out(state, settings)
    if choices.compiled:
        state.compiled = compile_loss(state.network)
    if newest:
        load_checkpoint(Path(newest), state)
    if group.is_first:
        run.forget_metrics_after(state.progress.step)
    group.share(None)  # nobody goes on while the first still changes files
    return state, model, choices


def build(
    settings: Settings, prepared: Prepared, device: torch.device, *, fresh: bool = True, group: Group = ALONE
) -> tuple[TrainingState, Model]:
    """The network, its optimizers and its moving average as they are before the first update, and the model's frame.

    The same for the same settings, on every process. `fresh`: no checkpoint follows, so that train.init_from counts.
    """
    wanted = settings.train
    torch.manual_seed(settings.seed)
    network = new_network(settings.model, prepared.src_vocabulary, prepared.tgt_vocabulary)
    if wanted.init_from is not None and fresh:
        report = initialise_from(
            Path(wanted.init_from), network, settings.model, prepared.src_vocabulary, prepared.tgt_vocabulary
        )
        if group.is_first:
            tqdm.write(report, file=sys.stderr)
    network.to(device)
    freeze(network, wanted.freeze)
    average = moving_average_copy(network) if wanted.ema_decay is not None else None
    state = TrainingState(network, average, make_optimizers(network, wanted), Progress(), settings.seed)
    longest = settings.translate.max_source_length or settings.data.max_length  # what the network gets to know
    model = Model(
        network,
        settings.model,
        settings.translate.model_copy(update={"max_source_length": longest}),
        prepared.src_vocabulary,
        prepared.tgt_vocabulary,
        prepared.manifest["src_lang"],
        prepared.manifest["tgt_lang"],
    )
    return state, model


def prepare_cpu(settings: TrainSettings, corpus: ParallelIds) -> None:
    """Settings of PyTorch's CPU side; to be made before the first product."""
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    torch.set_flush_denormal(True)  # numbers too small for their exponent cost a CPU a hundred times the others
    # oneDNN compiles bf16 products for each shape and keeps 1,024 of them. Where all of an epoch fit, more room pays:
    # on Multi30k they pushed each other out, a fifth of the speed. Where they do not, it costs memory, and longer to
    # find the oldest: on 512,000 pairs, a tenth of the speed and twice the memory after 400 updates.
    batch_tokens = min(settings.batch_tokens, settings.max_tokens if isinstance(settings.max_tokens, int) else 2**31)
    if len(corpus.tgt.ids) // batch_tokens * _PRODUCTS_OF_A_BATCH <= _MANY_PRODUCTS:
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_MANY_PRODUCTS))


def _checkpoint_to_go_on_from(run: RunDirectory, prepared: Prepared) -> Path | None:
    checkpoint = sound_checkpoint(run.checkpoints)
    if checkpoint is not None:
        _refuse_other_vocabulary(checkpoint, prepared)
    return checkpoint


def _shared_out(state: TrainingState, settings: Settings) -> TrainingState:
    """The same state with every tensor shared out among the processes."""
    sharded = shard(state.network)
    if state.average is not None:
        shard(state.average)
    optimizers = make_optimizers(state.network, settings.train)  # of the shares: what they were made of is gone
    return replace(state, optimizers=optimizers, sharded=sharded)


def _choices(
    run: RunDirectory,
    state: TrainingState,
    prepared: Prepared,
    settings: Settings,
    device: torch.device,
    group: Group,
) -> Choices:
    """What the run recorded when it began; else made now, by the first process for all."""
    made: dict[str, Any] | None = None
    if group.is_first:
        choices = run.load_choices()
        known = choices is not None and choices.device == device.type
        if choices is None or not known or (settings.train.max_tokens == "auto" and not choices.max_tokens):
            choices = choose(state.network, prepared, settings, device, group.size)
            tqdm.write(describe_choices(choices), file=sys.stderr)
        choices = _with_budget(choices, settings, prepared)
        if settings.train.compile != "auto":
            choices = replace(choices, compiled=settings.train.compile)
        run.save_choices(choices)
        if not run.record.exists() and newest_checkpoint(run.checkpoints) is None:  # of a run that begins
            save_record(run.record, make_record(settings, prepared.directory, prepared, choices, group.size))
        made = asdict(choices)
    return TypeAdapter(Choices).validate_python(group.share(made))


def _with_budget(choices: Choices, settings: Settings, prepared: Prepared) -> Choices:
    """The budget that the settings have now, where it has changed: it must leave out the same pairs."""
    wanted = settings.train.max_tokens
    before = choices.max_tokens
    if wanted == "auto" or wanted == before:
        return choices
    longest = int(longer_side(prepared.train).max(initial=0))
    if before and min(wanted, before) < longest:
        raise RunError(
            f"train.max_tokens: the run began with {before:,}, and {wanted:,} leaves out other pairs (the longest has "
            f"{longest:,} tokens): restore it, or give this run another name (name=…)"
        )
    return replace(choices, max_tokens=wanted)


def report_over_budget(prepared: Prepared, max_tokens: int) -> None:
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
