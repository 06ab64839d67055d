"""Checkpoints: a model directory plus the state of training, from which a run goes on exactly where it was.

    checkpoints/step-00001000/   model.safetensors, model.json, …   the weights users get (the moving average, if on)
                                 training.safetensors               optimizer, trained weights if they differ, random
                                 training.json                      progress
    checkpoints/stop-00001234/   the same, where Ctrl-C ended the run; gone after the next
    checkpoints/last → step-…    the newest; best → step-…          the best validated

A directory takes its name when it is complete: a run that is killed at any moment leaves the checkpoint before, whole.
Every file but README.md is checked when a run goes on: training.json has the checksums of itself, training.safetensors
and model.json, and model.json has the others.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from data.atomic import whole_directory
from transformer.errors import RunError
from transformer.files import point_to, remove_directory, sweep
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
    sha256_of,
    write_json,
)
from transformer.training.validation import Validation

STATE, PROGRESS = "training.safetensors", "training.json"


@dataclass
class Progress:
    """Where a run is. The place in the data is two integers; the rest follows from them, the seed and the settings."""

    step: int = 0  # updates done
    epoch: int = 0  # or stage, where data.mixing is on
    update: int = 0  # updates done of this epoch or stage
    n_tokens: int = 0  # real target tokens trained on
    seconds: float = 0.0  # spent training, validation and saving included
    validations: list[Validation] = field(default_factory=list)

    def best(self, best_by: str) -> Validation | None:
        """The best validation so far, the earlier one where two are equal."""
        return max(self.validations, key=lambda v: (v.key(best_by), -v.step), default=None)

    def validations_since_best(self, best_by: str) -> int:
        """How many validations have not improved on the best: what patience is compared with."""
        best = self.best(best_by)
        return sum(v.step > best.step for v in self.validations) if best else 0


@dataclass
class TrainingState:
    """All that changes while a run trains; what a checkpoint saves."""

    network: Transformer
    average: Transformer | None  # the moving average of the network's weights
    optimizer: torch.optim.Adam
    progress: Progress

    @property
    def evaluated(self) -> Transformer:
        """The network that is validated, kept as best, and given to users."""
        return self.average or self.network


def list_checkpoints(checkpoints: Path, kind: str = "step") -> dict[int, Path]:
    """Complete checkpoints by step, oldest first; of kind "step", or "stop": made because the user interrupted."""
    found = {int(path.name[5:]): path for path in checkpoints.glob(f"{kind}-*") if path.name[5:].isdecimal()}
    return dict(sorted(found.items()))


def newest_checkpoint(checkpoints: Path) -> Path | None:
    """Where a run goes on."""
    both = list_checkpoints(checkpoints, "stop") | list_checkpoints(checkpoints)
    return both[max(both)] if both else None


def save_checkpoint(
    checkpoints: Path, state: TrainingState, model: Model, *, best_by: str, keep: int, regular: bool = True
) -> Path:
    """Save, point `last` and `best`, and remove what is neither among the newest `keep` nor the best `keep`.

    One that is not regular serves to go on from, and is removed by the next: it takes no part in averages, so that an
    interrupted run ends with the model of an undisturbed one.
    """
    path = checkpoints / f"{'step' if regular else 'stop'}-{state.progress.step:08d}"
    sweep(checkpoints)
    with whole_directory(path) as partial:
        save_model(partial, model.with_network(state.evaluated))
        save_tensors(partial / STATE, _tensors(state))
        progress = asdict(state.progress)
        sums = {name: sha256_of(partial / name) for name in (STATE, DESCRIPTION)} | {"progress": _checksum(progress)}
        write_json(partial / PROGRESS, {"format": FORMAT, "progress": progress, "sha256": sums})
    point_to(checkpoints / "last", path.name)
    for best in best_checkpoints(checkpoints, state.progress, best_by, 1):
        point_to(checkpoints / "best", best.name)
    _prune(checkpoints, path, state.progress, best_by, keep)
    return path


def load_checkpoint(path: Path, state: TrainingState) -> None:
    """Put a saved state into `state`, whose network and optimizer have been built from the same settings.

    Raises:
        RunError: the checkpoint is incomplete, damaged, or of another network.
    """
    progress = _read_progress(path)
    check_model_directory(path)
    tensors = load_tensors(path / STATE)
    weights = load_tensors(path / WEIGHTS)
    if state.average is None:
        load_weights(state.network, weights, path / WEIGHTS)
    else:
        load_weights(state.average, weights, path / WEIGHTS)
        load_weights(state.network, _group(tensors, "network."), path / STATE)
    _load_optimizer(state, tensors, path / STATE)
    torch.set_rng_state(tensors["random.cpu"])
    if "random.cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["random.cuda"])
    state.progress = progress


def best_checkpoints(checkpoints: Path, progress: Progress, best_by: str, n: int) -> list[Path]:
    """The n best of the validated checkpoints that are on the disk, best first."""
    there = list_checkpoints(checkpoints)
    ranked = sorted(progress.validations, key=lambda v: (-v.key(best_by), v.step))
    return [there[v.step] for v in ranked if v.step in there][:n]


def last_checkpoints(checkpoints: Path, n: int) -> list[Path]:
    """The n newest checkpoints."""
    return list(list_checkpoints(checkpoints).values())[-n:]


def _tensors(state: TrainingState) -> dict[str, Tensor]:
    """Everything that is a tensor and not already among the weights users get."""
    tensors = {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    if state.average is not None:
        weights = distinct(state.network, state.network.state_dict())
        tensors |= {f"network.{name}": tensor for name, tensor in weights.items()}
    for name, parameter in state.network.named_parameters():
        for key, value in state.optimizer.state[parameter].items():
            tensors[f"optimizer.{name}.{key}"] = value
    return tensors


def _load_optimizer(state: TrainingState, tensors: dict[str, Tensor], file: Path) -> None:
    saved = _group(tensors, "optimizer.")
    names = [name for name, _ in state.network.named_parameters()]
    try:
        entries = {
            index: {key: saved[f"{name}.{key}"] for key in ("step", "exp_avg", "exp_avg_sq")}
            for index, name in enumerate(names)
        }
    except KeyError as error:
        raise RunError(f"{file}: no optimizer state {error}; remove {file.parent} to use an older one") from error
    groups = state.optimizer.state_dict()["param_groups"]
    state.optimizer.load_state_dict({"state": entries, "param_groups": groups})


def _group(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _read_progress(checkpoint: Path) -> Progress:
    """Read training.json, after a comparison of all its checksums."""
    file = checkpoint / PROGRESS
    try:
        saved: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if saved["format"] > FORMAT:
            raise RunError(f"{file}: format {saved['format']}, this program reads up to {FORMAT}: update the program")
        sums = {name: saved["sha256"][name] for name in (STATE, DESCRIPTION, "progress")}
        progress = TypeAdapter(Progress).validate_python(saved["progress"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RunError(f"{file}: missing or damaged; remove {checkpoint} to use an older one") from error
    found = {name: sha256_of(checkpoint / name) for name in (STATE, DESCRIPTION)}
    found["progress"] = _checksum(saved["progress"])
    for name, expected in sums.items():
        if found[name] != expected:
            altered = file if name == "progress" else checkpoint / name
            raise RunError(
                f"{altered}: truncated or altered since it was written; remove {checkpoint} to use an older one"
            )
    return progress


def _checksum(progress: dict[str, Any]) -> str:
    """Of the values, however the file lays them out."""
    return hashlib.sha256(json.dumps(progress, sort_keys=True).encode()).hexdigest()


def _prune(checkpoints: Path, newest: Path, progress: Progress, best_by: str, keep: int) -> None:
    kept = {*last_checkpoints(checkpoints, keep), *best_checkpoints(checkpoints, progress, best_by, keep)}
    kept.add(newest)
    for path in (*list_checkpoints(checkpoints).values(), *list_checkpoints(checkpoints, "stop").values()):
        if path not in kept:
            remove_directory(path)
