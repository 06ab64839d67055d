"""Checkpoints: a model directory plus the state of training, from which a run goes on exactly where it was.

    checkpoints/step-00001000/   model.safetensors, model.json, …   the weights users get (the moving average, if on)
                                 training.safetensors               optimizer, trained weights if they differ
                                 training.json                      progress
    checkpoints/stop-00001234/   the same, where a signal ended the run; gone after the next
    checkpoints/last → step-…    the newest; best → step-…          the best validated
    checkpoints/damaged-…        what was found damaged when the run went on; never read again

A directory takes its name when it is complete: a run that is killed at any moment leaves the checkpoint before, whole.
Every file but README.md is checked when a run goes on: training.json has the checksums of itself, training.safetensors
and model.json, and model.json has the others. Tensors are whole, however many processes shared them.
"""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from torch import Tensor
from tqdm import tqdm

from data.atomic import whole_directory
from transformer.errors import RunError
from transformer.files import point_to, remove_directory, sha256_of, sweep
from transformer.model import Transformer
from transformer.model_directory import (
    DESCRIPTION,
    FORMAT,
    WEIGHTS,
    Model,
    check_model_directory,
    distinct,
    load_tensors,
    load_weights,
    save_model,
    save_tensors,
    write_json,
)
from transformer.training.group import ALONE, Group
from transformer.training.progress import Progress
from transformer.training.sharding import like, whole
from transformer.training.state import TrainingState

STATE, PROGRESS = "training.safetensors", "training.json"
_ROOM = 64 * 2**20  # bytes that a checkpoint takes beside its tensors, at most: vocabularies, settings


@dataclass(frozen=True)
class Snapshot:
    """A copy of the state in the CPU's memory, which training does not change any more."""

    weights: dict[str, Tensor]  # what users get
    training: dict[str, Tensor]  # what else is needed to go on
    progress: Progress
    scaler: dict[str, Any] | None  # of the loss, in fp16

    @property
    def n_bytes(self) -> int:
        """What the tensors take on the disk."""
        return sum(tensor.nbytes for tensor in (*self.weights.values(), *self.training.values()))


def take_snapshot(state: TrainingState, group: Group = ALONE) -> Snapshot | None:
    """Copy everything that a checkpoint needs; every process must call this, and the first gets it."""
    if state.sharded is None and not group.is_first:
        return None
    weights = _copies(_named_weights(state.evaluated), group.is_first)
    training = _copies(_training_tensors(state), group.is_first)
    if not group.is_first:
        return None
    return Snapshot(
        weights=weights,
        training=training,
        progress=copy.deepcopy(state.progress),
        scaler=None if state.scaler is None else state.scaler.state_dict(),
    )


def list_checkpoints(checkpoints: Path, kind: str = "step") -> dict[int, Path]:
    """Complete checkpoints by step, oldest first; of kind "step", or "stop": made because a signal ended the run."""
    found = {int(path.name[5:]): path for path in checkpoints.glob(f"{kind}-*") if path.name[5:].isdecimal()}
    return dict(sorted(found.items()))


def newest_checkpoint(checkpoints: Path) -> Path | None:
    """Where a run goes on."""
    both = list_checkpoints(checkpoints, "stop") | list_checkpoints(checkpoints)
    return both[max(both)] if both else None


def save_checkpoint(
    checkpoints: Path, snapshot: Snapshot, model: Model, *, best_by: str, keep: int, regular: bool = True
) -> Path:
    """Save, point `last` and `best`, and remove what is neither among the newest `keep` nor the best `keep`.

    One that is not regular serves to go on from, and is removed by the next: it takes no part in averages, so that an
    interrupted run ends with the model of an undisturbed one.

    Raises:
        RunError: the disk is full, or not writable.
    """
    path = checkpoints / f"{'step' if regular else 'stop'}-{snapshot.progress.step:08d}"
    sweep(checkpoints)
    _refuse_full_disk(checkpoints, snapshot.n_bytes + _ROOM)
    with whole_directory(path) as partial:
        save_model(partial, model, snapshot.weights)
        save_tensors(partial / STATE, snapshot.training)
        saved = {"progress": asdict(snapshot.progress), "scaler": snapshot.scaler}
        sums = {name: sha256_of(partial / name) for name in (STATE, DESCRIPTION)}
        sums |= {key: _checksum(value) for key, value in saved.items()}
        write_json(partial / PROGRESS, {"format": FORMAT, **saved, "sha256": sums})
    tidy_checkpoints(checkpoints, snapshot.progress, best_by=best_by, keep=keep)
    return path


def tidy_checkpoints(checkpoints: Path, progress: Progress, *, best_by: str, keep: int) -> None:
    """Point `last` and `best`, and remove the others; also what a run that was killed has left undone."""
    sweep(checkpoints)
    newest = newest_checkpoint(checkpoints)
    assert newest is not None
    point_to(checkpoints / "last", newest.name)
    for best in best_checkpoints(checkpoints, progress, best_by, 1):
        point_to(checkpoints / "best", best.name)
    _prune(checkpoints, newest, progress, best_by, keep)


def sound_checkpoint(checkpoints: Path) -> Path | None:
    """The newest checkpoint that is whole; newer ones that are damaged are put aside, with a message.

    Raises:
        RunError: there are checkpoints, but none is whole, or they are of a newer version of this program.
    """
    both = list_checkpoints(checkpoints, "stop") | list_checkpoints(checkpoints)
    damaged: dict[Path, str] = {}
    for step in sorted(both, reverse=True):
        try:
            _read_progress(both[step])
            check_model_directory(both[step])
        except RunError as error:
            damaged[both[step]] = str(error)
            continue
        for path, reason in damaged.items():
            aside = checkpoints / f"damaged-{path.name}"
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
            tqdm.write(f"{reason}\nput aside as {aside.name}; going on from {both[step]}", file=sys.stderr)
        return both[step]
    if damaged:
        raise RunError("\n".join(damaged.values()))
    return None


def load_checkpoint(path: Path, state: TrainingState) -> None:
    """Put a saved state into `state`, whose network and optimizers have been built from the same settings.

    Raises:
        RunError: the checkpoint is incomplete, damaged, or of another network.
    """
    progress, scaler = _read_progress(path)
    check_model_directory(path)
    tensors = load_tensors(path / STATE)
    weights = load_tensors(path / WEIGHTS)
    if state.average is None:
        _load_weights(state.network, weights, path / WEIGHTS)
    else:
        _load_weights(state.average, weights, path / WEIGHTS)
        _load_weights(state.network, _group(tensors, "network."), path / STATE)
    _load_optimizers(state, tensors, path / STATE)
    if state.scaler is not None and scaler is not None:
        state.scaler.load_state_dict(scaler)
    state.progress = progress


def best_checkpoints(checkpoints: Path, progress: Progress, best_by: str, n: int) -> list[Path]:
    """The n best of the validated checkpoints that are on the disk, best first."""
    there = list_checkpoints(checkpoints)
    ranked = sorted(progress.validations, key=lambda v: (-v.key(best_by), v.step))
    return [there[v.step] for v in ranked if v.step in there][:n]


def last_checkpoints(checkpoints: Path, n: int) -> list[Path]:
    """The n newest checkpoints."""
    return list(list_checkpoints(checkpoints).values())[-n:]


def _named_weights(network: Transformer) -> Iterator[tuple[str, Tensor]]:
    yield from distinct(network, network.state_dict()).items()


def _training_tensors(state: TrainingState) -> Iterator[tuple[str, Tensor]]:
    """Everything that is a tensor and not already among the weights users get."""
    if state.average is not None:
        yield from ((f"network.{name}", tensor) for name, tensor in _named_weights(state.network))
    for optimizer in state.optimizers:
        for name, parameter in state.network.named_parameters():
            if parameter in optimizer.state:
                yield from ((f"optimizer.{name}.{key}", value) for key, value in optimizer.state[parameter].items())


def _copies(tensors: Iterator[tuple[str, Tensor]], wanted: bool) -> dict[str, Tensor]:
    copies = {}
    for name, tensor in tensors:
        complete = whole(tensor.detach())  # together with the other processes
        if wanted:
            copies[name] = complete.to("cpu", copy=True)
    return copies


def _load_weights(network: Transformer, weights: dict[str, Tensor], file: Path) -> None:
    parameters = dict(network.named_parameters())
    shared = {name: like(w, parameters[name]) if name in parameters else w for name, w in weights.items()}
    load_weights(network, shared, file)


def _load_optimizers(state: TrainingState, tensors: dict[str, Tensor], file: Path) -> None:
    names = {parameter: name for name, parameter in state.network.named_parameters()}
    for optimizer in state.optimizers:
        of_this = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        order = {parameter: place for place, parameter in enumerate(of_this)}
        entries: dict[int, dict[str, Tensor]] = {}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                saved = _group(tensors, f"optimizer.{names[parameter]}.")
                if not saved and state.scaler is not None:  # of fp16: every update so far has overflown
                    continue
                if not saved:
                    raise RunError(
                        f"{file}: no optimizer state of {names[parameter]}: it was written with other settings; remove "
                        f"{file.parent} to use an older one"
                    )
                # A copy: what is loaded is the file, mapped into memory, and would hold on to it when it is pruned.
                entries[order[parameter]] = {key: like(value, parameter).clone() for key, value in saved.items()}
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": entries, "param_groups": groups})


def _group(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _read_progress(checkpoint: Path) -> tuple[Progress, dict[str, Any] | None]:
    """Read training.json, after a comparison of all its checksums: the progress, and the state of the loss's scale."""
    file = checkpoint / PROGRESS
    try:
        saved: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if saved["format"] > FORMAT:
            raise RunError(f"{file}: format {saved['format']}, this program reads up to {FORMAT}: update the program")
        values = {key: saved[key] for key in ("progress", "scaler") if key in saved["sha256"]}
        sums = {name: saved["sha256"][name] for name in (STATE, DESCRIPTION, "progress", *values)}
        progress = TypeAdapter(Progress).validate_python(saved["progress"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RunError(f"{file}: missing or damaged; remove {checkpoint} to use an older one") from error
    found = {name: sha256_of(checkpoint / name) for name in (STATE, DESCRIPTION)}
    found |= {key: _checksum(value) for key, value in values.items()}
    for name, expected in sums.items():
        if found[name] != expected:
            altered = file if name in values else checkpoint / name
            raise RunError(
                f"{altered}: truncated or altered since it was written; remove {checkpoint} to use an older one"
            )
    return progress, saved.get("scaler")


def _refuse_full_disk(directory: Path, n_bytes: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < n_bytes:
        raise RunError(
            f"{directory}: {free / 2**30:.2f} GiB are free on this disk, and a checkpoint needs "
            f"{n_bytes / 2**30:.2f} GiB: make room; what was saved before is untouched"
        )


def _checksum(value: Any) -> str:
    """Of the values, however the file lays them out."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _prune(checkpoints: Path, newest: Path, progress: Progress, best_by: str, keep: int) -> None:
    kept = {*last_checkpoints(checkpoints, keep), *best_checkpoints(checkpoints, progress, best_by, keep)}
    kept.add(newest)
    for path in (*list_checkpoints(checkpoints).values(), *list_checkpoints(checkpoints, "stop").values()):
        if path not in kept:
            remove_directory(path)
