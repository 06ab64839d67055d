"""Checkpoints: a model directory plus the state of training, from which a run goes on exactly where it was.

    checkpoints/step-00001000/   model.safetensors, model.json, …   the weights users get (the moving average, if on)
                                 training.safetensors               optimizer, trained weights if they differ, random
                                 training.json                      progress
    checkpoints/last → step-…    the newest; best → step-…          the best validated

A directory takes its name when it is complete, and the links are switched in one step: a run that is killed at any
moment leaves the checkpoint before, whole.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from data.atomic import whole_directory
from transformer.errors import RunError
from transformer.files import point_to, remove_directory, sweep
from transformer.model import Transformer
from transformer.model_directory import (
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
    epoch: int = 0
    update: int = 0  # updates done of this epoch
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


def checkpoint_path(checkpoints: Path, step: int) -> Path:
    """The directory of the checkpoint after `step` updates."""
    return checkpoints / f"step-{step:08d}"


def list_checkpoints(checkpoints: Path) -> dict[int, Path]:
    """Complete checkpoints by step, oldest first."""
    found = {int(path.name[5:]): path for path in checkpoints.glob("step-*") if re.fullmatch(r"step-\d+", path.name)}
    return dict(sorted(found.items()))


def save_checkpoint(checkpoints: Path, state: TrainingState, model: Model, *, best_by: str, keep: int) -> Path:
    """Save, point `last` and `best`, and remove what is neither among the newest `keep` nor the best `keep`."""
    path = checkpoint_path(checkpoints, state.progress.step)
    sweep(checkpoints)
    if not path.exists():
        with whole_directory(path) as partial:
            save_model(partial, model.with_network(state.evaluated))
            save_tensors(partial / STATE, _tensors(state))
            progress = {"format": FORMAT, "progress": asdict(state.progress), "sha256": sha256_of(partial / STATE)}
            write_json(partial / PROGRESS, progress)
    point_to(checkpoints / "last", path.name)
    best = state.progress.best(best_by)
    if best and checkpoint_path(checkpoints, best.step).exists():
        point_to(checkpoints / "best", checkpoint_path(checkpoints, best.step).name)
    _prune(checkpoints, state.progress, best_by, keep)
    return path


def load_checkpoint(path: Path, state: TrainingState) -> None:
    """Put a saved state into `state`, whose network and optimizer have been built from the same settings.

    Raises:
        RunError: the checkpoint is incomplete, damaged, or of another network.
    """
    check_model_directory(path)
    progress, expected = _read_progress(path / PROGRESS)
    if sha256_of(path / STATE) != expected:
        raise RunError(f"{path / STATE}: truncated or altered since it was written; take another checkpoint")
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
    """The n best validated checkpoints that are on the disk, best first."""
    there = list_checkpoints(checkpoints)
    ranked = sorted(progress.validations, key=lambda v: (-v.key(best_by), v.step))
    return [there[v.step] for v in ranked[:n] if v.step in there]


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
        raise RunError(f"{file}: no optimizer state {error}; take another checkpoint") from error
    groups = state.optimizer.state_dict()["param_groups"]
    state.optimizer.load_state_dict({"state": entries, "param_groups": groups})


def _group(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _read_progress(path: Path) -> tuple[Progress, str]:
    try:
        saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if saved["format"] > FORMAT:
            raise RunError(f"{path}: format {saved['format']}, this program reads up to {FORMAT}: update the program")
        progress = Progress(**saved["progress"])
        progress.validations = [Validation(**validation) for validation in saved["progress"]["validations"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunError(f"{path}: missing or damaged ({error!r}); take another checkpoint") from error
    return progress, saved["sha256"]


def _prune(checkpoints: Path, progress: Progress, best_by: str, keep: int) -> None:
    kept = {*last_checkpoints(checkpoints, keep), *best_checkpoints(checkpoints, progress, best_by, keep)}
    for path in list_checkpoints(checkpoints).values():
        if path not in kept:
            remove_directory(path)
