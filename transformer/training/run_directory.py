"""runs/NAME: where a run keeps its settings, choices, metrics, checkpoints and finished model.

settings.yaml    every setting, resolved          metrics.jsonl    one line per log interval and per validation
choices.json     what was chosen by timing        checkpoints/     see `checkpoint`
record.json      versions, data, device: `record` validation/      what each validation translated
model/           the finished model               tensorboard/     the same metrics, if tensorboard is installed
report.html      all of it as a page: `evaluation.report`
"""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from data.atomic import whole_file
from transformer.config import Settings
from transformer.config_file import differences, load_config, save_settings
from transformer.errors import RunError
from transformer.files import sweep
from transformer.training.choices import Choices
from transformer.training.validation import Evidence

# Settings that may change between two parts of a run: they decide how long it is, how it is watched, and what is made
# of it, not what an update does. (max_steps and cooldown_steps move the end of the schedule, which is the point.)
CHANGEABLE = {
    "export",
    "train.max_steps",
    "train.cooldown_steps",
    "train.threads",
    "train.max_tokens",  # where no pair is longer than either: see `setup`
    "train.compile",
    "train.parallel",
    "train.on_divergence",
    "train.validate_every",
    "train.validate_beam_size",
    "train.best_by",
    "train.patience",
    "train.patience_significance",
    "train.save_every",
    "train.log_every",
    "train.average_checkpoints",
    "train.model_from",
    "data.test",
}


class RunDirectory:
    """The paths of a run, and its metrics."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "settings.yaml"
        self.choices = path / "choices.json"
        self.record = path / "record.json"
        self.metrics = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"
        self.tensorboard = path / "tensorboard"
        self._is_locked = False

    def open(self, settings: Settings) -> None:
        """Begin a run here, or go on with the one that is here.

        Raises:
            RunError: it is a run of other settings (the message says which differ), or another process trains here.
        """
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        sweep(self.path)
        if self.settings.exists():
            self._refuse_other_settings(settings)
        save_settings(settings, self.settings)

    def _take_lock(self) -> None:
        """Until the run is let go of or the process ends: two would remove each other's checkpoints."""
        if self._is_locked:
            return
        lock = os.open(self.checkpoints, os.O_RDONLY)
        weakref.finalize(self, os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"{self.path}: another process is training here; wait for it, end it, or give this run another name "
                "(name=…)"
            ) from error
        except OSError:  # a file system without locks
            pass
        self._is_locked = True

    def load_choices(self) -> Choices | None:
        """The choices recorded when the run began."""
        if not self.choices.exists():
            return None
        try:
            return TypeAdapter(Choices).validate_json(self.choices.read_bytes())
        except ValueError as error:
            raise RunError(f"{self.choices}: damaged; remove it to have the choices made again") from error

    def save_choices(self, choices: Choices) -> None:
        """Record the choices made."""
        with whole_file(self.choices) as stream:
            stream.write(json.dumps(asdict(choices), indent=2).encode() + b"\n")

    def log(self, values: dict[str, Any]) -> None:
        """Append one JSON line to the metrics."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def sync_metrics(self) -> None:
        """See to it that the lines so far outlast a power cut, as a checkpoint does that follows them."""
        with self.metrics.open("a") as file:
            os.fsync(file.fileno())

    def evidence(self, step: int) -> Path:
        """Where the translations of a validation are."""
        return self.path / "validation" / f"step-{step:08d}.tsv"

    def save_evidence(self, step: int, evidence: Evidence) -> None:
        """Write the translations of a validation."""
        path = self.evidence(step)
        path.parent.mkdir(exist_ok=True)
        evidence.save(path)

    def forget_metrics_after(self, step: int) -> None:
        """Drop the lines of steps that were not saved and will be done again, and a half-written last line."""
        if not self.metrics.exists():
            return
        with self.metrics.open("rb") as before, whole_file(self.metrics) as kept:
            kept.writelines(line for line in before if _step_of(line) <= step)

    def _refuse_other_settings(self, settings: Settings) -> None:
        changed = [d for d in differences(load_config(self.settings), settings) if d.key not in CHANGEABLE]
        if changed:
            lines = "\n".join(f"  {difference}" for difference in changed)
            raise RunError(
                f"{self.path} holds a run of other settings (there → now):\n{lines}\n"
                f"Give this run another name (name=…), restore the settings, or remove {self.path}."
            )


def _step_of(line: bytes) -> float:
    """The step of a line of metrics; infinity if it is not whole, be it only that the line end is missing."""
    try:
        return float(json.loads(line)["step"]) if line.endswith(b"\n") else float("inf")
    except (ValueError, KeyError, TypeError):
        return float("inf")
