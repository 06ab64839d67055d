"""The training loop: `train` runs from the first update, or the last checkpoint, to the finished model."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from data.atomic import whole_directory
from data.prepared import Prepared
from transformer.config import Settings, TrainSettings
from transformer.errors import RunError
from transformer.evaluation.report import draw_report
from transformer.evaluation.tokenization import tokenizer_at_hand
from transformer.files import remove_directory
from transformer.model_card import stated_licence
from transformer.model_directory import CARD, Model, save_model, write_card
from transformer.training.averaging import average_checkpoints
from transformer.training.checkpoint import (
    best_checkpoints,
    last_checkpoints,
    list_checkpoints,
    load_checkpoint,
    newest_checkpoint,
    take_snapshot,
    tidy_checkpoints,
)
from transformer.training.checkpoint_writer import CheckpointWriter
from transformer.training.choices import Choices
from transformer.training.compilation import compilation_failed
from transformer.training.group import ALONE, Group, lost_others
from transformer.training.interruption import Interruption, interruption
from transformer.training.monitor import DivergenceError, Monitor
from transformer.training.progress import Progress, Skipped
from transformer.training.run_directory import RunDirectory
from transformer.training.schedule import learning_rate
from transformer.training.setup import set_up
from transformer.training.sharding import whole_network
from transformer.training.state import TrainingState
from transformer.training.stream import UpdateStream, open_stream, refuse_impossible_mixing
from transformer.training.update import is_lack_of_memory, update
from transformer.training.validation import Evidence, Validation, is_better, validate

_MOST_ROLLBACKS = 5  # between two checkpoints: if skipping so much does not help, it is not the data


@dataclass(frozen=True)
class Finished:
    """How a run ended."""

    model: Path | None  # None: a signal ended it, with everything saved
    signal: int = 0


def train(settings: Settings, prepared: Prepared, run: RunDirectory, group: Group = ALONE) -> Finished:
    """Train, or go on training, until `max_steps` or the end of patience; in every process of the group.

    Raises:
        DataError: the shares of data.mixing do not fit the training corpora.
        RunError: the run directory belongs to other settings or another vocabulary, the disk is full, the loss is not
            finite, or one sentence pair alone does not fit into memory.
    """
    try:
        with interruption() as asked:
            return _train(settings, prepared, run, group, asked)
    except RuntimeError as error:
        if explained := _explained(error):
            raise explained from error
        raise


def _train(settings: Settings, prepared: Prepared, run: RunDirectory, group: Group, asked: Interruption) -> Finished:
    wanted = settings.train
    refuse_impossible_mixing(settings, prepared)
    state, model, choices = set_up(settings, prepared, run, group)
    pin = choices.device == "cuda"
    stream = open_stream(settings, prepared, choices.max_tokens, group, batching=choices.batching, pin=pin)
    monitor = Monitor(run, state.progress, wanted.max_steps, stream.name, group)
    writer = CheckpointWriter(run.checkpoints, model)
    begin = time.perf_counter() - state.progress.seconds
    n_rollbacks, stop = 0, 0

    with closing(writer), closing(monitor), closing(stream):
        while not stop and state.progress.step < wanted.max_steps and not _out_of_patience(state.progress, wanted):
            # 1. The sentences of this update, and one step of the optimizer.
            progress = state.progress
            taken = stream.take(progress.epoch, progress.update)
            lr = learning_rate(progress.step + 1, wanted, settings.model.d_model)
            result = update(state, taken, lr, wanted, choices, group)
            monitor.add(result)
            progress.step, progress.epoch, progress.update = progress.step + 1, taken.part, taken.update + 1
            progress.n_tokens += taken.n_tokens
            progress.seconds = time.perf_counter() - begin

            # 2. What happens every so often.
            stop, save = asked.agree(group)
            validating = progress.step % wanted.validate_every == 0 or progress.step == wanted.max_steps
            regular = validating or progress.step % wanted.save_every == 0
            try:
                if regular or progress.step % wanted.log_every == 0:
                    monitor.log(progress, lr, scaled=_scale_is_useful(state))
                elif stop or save:
                    monitor.read(progress, scaled=_scale_is_useful(state))
            except DivergenceError as found:
                n_rollbacks += 1
                _roll_back(found, n_rollbacks, run, state, wanted, stream, writer, monitor)
                stop = 0  # a signal that came with it comes again
                continue
            if validating:
                newest = _validate(run, state, prepared, settings, choices, group)
                monitor.log_validation(newest, best=newest == progress.best(wanted.best_by))
            if stop or save or regular:
                snapshot = take_snapshot(state, group)
                if snapshot is not None:
                    run.sync_metrics()
                    best_by, keep = wanted.best_by, max(wanted.average_checkpoints, 2)
                    writer.save(snapshot, best_by=best_by, keep=keep, regular=regular)
                if validating and group.is_first and (problem := draw_report(run.path, thorough=False)):
                    monitor.say(problem)
                n_rollbacks = 0 if regular else n_rollbacks
                monitor.restart_clock()
            writer.check()
        writer.wait()

    if stop and state.progress.step < wanted.max_steps:
        return Finished(None, stop)
    if group.is_first:
        _finish(run, state, model, wanted)
    group.share(None)
    return Finished(run.model)


def _explained(error: RuntimeError) -> RunError | None:
    """What a user can do about an error of the libraries that the user can cause."""
    if is_lack_of_memory(error):
        reason = str(error).strip().split("\n")[0]
        return RunError(
            f"out of memory: {reason}. Lower train.max_tokens (or translate.max_tokens, if it was validating); the "
            "same command goes on from the last checkpoint"
        )
    return compilation_failed(error) or lost_others(error)


def _scale_is_useful(state: TrainingState) -> bool:
    """In fp16, gradients that overflow now and then lower the loss's scale; below 1 they are not its fault."""
    return state.scaler is not None and state.scaler.get_scale() >= 1


def _validate(
    run: RunDirectory, state: TrainingState, prepared: Prepared, settings: Settings, choices: Choices, group: Group
) -> Validation:
    """Validate, compare with the best before if patience asks for it, and note the result in the state's progress."""
    progress, wanted = state.progress, settings.train
    found, evidence = validate(whole_network(state.evaluated), prepared, settings, choices, progress.step, group)
    best = progress.best(wanted.best_by, wanted.patience_significance)
    if wanted.patience_significance and best is not None:
        better = None
        if group.is_first:  # for all: where machines differ by rounding, they must still agree when to end
            old = Evidence.load(run.evidence(best.step))
            tokenizer = tokenizer_at_hand(prepared.manifest["tgt_lang"])
            better = is_better(evidence, old, prepared.valid_text[1], wanted.best_by, progress.step, tokenizer)
        found = replace(found, better=group.share(better))
    if group.is_first:
        run.save_evidence(progress.step, evidence)
    progress.validations.append(found)
    return found


def _out_of_patience(progress: Progress, settings: TrainSettings) -> bool:
    """Early stopping: too many validations in a row without a new best."""
    if settings.patience is None:
        return False
    return progress.validations_since_best(settings.best_by, settings.patience_significance) >= settings.patience


def _roll_back(
    found: DivergenceError,
    n_rollbacks: int,
    run: RunDirectory,
    state: TrainingState,
    settings: TrainSettings,
    stream: UpdateStream,
    writer: CheckpointWriter,
    monitor: Monitor,
) -> None:
    """Go back to the last checkpoint and on behind the update that diverged, whose data are skipped and reported.

    Raises:
        RunError: the settings say stop, there is no checkpoint yet, or it has been of no use.
    """
    writer.wait()
    checkpoint = _checkpoint_to_go_back_to(run, monitor.group)
    sentences = stream.sentences(found.part, found.update)
    first_few = ", ".join(f"{number + 1:,}" for number in sorted(sentences)[:5])
    where = (
        f"{found}: not a finite number; update {found.update + 1:,} of {monitor.part} {found.part + 1}, of "
        f"{len(sentences):,} prepared pairs ({first_few}, …)"
    )
    if settings.on_divergence == "stop" or checkpoint is None or n_rollbacks > _MOST_ROLLBACKS:
        tried = f", {n_rollbacks - 1} times in a row" if n_rollbacks > _MOST_ROLLBACKS else ""
        raise RunError(
            f"{where}{tried}. The last healthy checkpoint is {checkpoint or 'none'}. Train again under another name "
            "(name=…) with a lower train.lr, more train.warmup_steps, or train.clip_norm; or go on with "
            "train.on_divergence=rollback, which skips these data"
        )
    load_checkpoint(checkpoint, state)
    progress = state.progress
    skipped = Skipped(progress.epoch, progress.update, found.part, found.update + 1, found.step)
    progress.skipped.append(skipped)
    progress.epoch, progress.update = skipped.end_part, skipped.end
    monitor.rewind(progress)
    monitor.say(
        f"{where}; back to step {progress.step:,}, and update {skipped.first + 1:,} of {monitor.part} "
        f"{skipped.first_part + 1} to update {skipped.end:,} of {monitor.part} {skipped.end_part + 1} are skipped"
    )


def _checkpoint_to_go_back_to(run: RunDirectory, group: Group) -> Path | None:
    """The newest regular one, chosen by the first process for all; an undisturbed run would go back to the same.

    One made by a signal serves only where there is no other, and newer ones are removed: they are not gone on from.
    """
    found = ""
    if group.is_first:
        regular = list_checkpoints(run.checkpoints)
        for step, path in list_checkpoints(run.checkpoints, "stop").items():
            if regular and step > max(regular):
                remove_directory(path)
        found = str(newest_checkpoint(run.checkpoints) or "")
    path = group.share(found)
    return Path(path) if path else None


def _finish(run: RunDirectory, state: TrainingState, model: Model, settings: TrainSettings) -> Path:
    """Write runs/NAME/model from the checkpoints that `model_from` names.

    Where the user has moved `max_steps` to the step of an interruption, there may be none but the one made then.
    """
    k, best_by, newest = settings.average_checkpoints, settings.best_by, newest_checkpoint(run.checkpoints)
    assert newest is not None
    tidy_checkpoints(run.checkpoints, state.progress, best_by=best_by, keep=max(k, 2))
    chosen = {
        "last": [newest],
        "best": best_checkpoints(run.checkpoints, state.progress, best_by, 1),
        "average_last": last_checkpoints(run.checkpoints, k),
        "average_best": best_checkpoints(run.checkpoints, state.progress, best_by, k),
    }[settings.model_from] or [newest]
    licence = stated_licence(run.model / CARD)  # of an earlier end
    with whole_directory(run.model) as partial:
        save_model(partial, model, average_checkpoints(chosen))
        write_card(partial, run.path, licence)
    return run.model
