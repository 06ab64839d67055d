"""A run as it lies on disk: finished or not, whole or not. What cannot be read is left out, and said."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field

from data.errors import DataError
from data.lines import read_written_lines
from data.prepared import ParallelText, load_text, read_manifest
from transformer.config import Settings
from transformer.config_file import load_config
from transformer.errors import ConfigError, RunError
from transformer.evaluation.results import (
    Evaluation,
    Sentence,
    find_evaluations,
    load_evaluation,
    load_sentences,
    result_path,
)

Line = Mapping[str, float]  # of metrics.jsonl: the finite numbers
_Content = TypeVar("_Content")
_NUMBERS_TOLD = 5  # of damaged lines
_TOO_LARGE = 1e15  # for a figure of metrics.jsonl


@dataclass
class Run:
    """Everything that a page tells about a run.

    Attributes:
        name: its folder, as a copy has the settings of another.
        updates, validations: lines of metrics.jsonl, each step once, in order.
        translated: step → the file of what that validation translated.
        tests: test set → its figures, and its sentences where they can be read.
        problems: what is missing or damaged, in sentences.
    """

    path: Path
    name: str = ""
    settings: Settings | None = None
    updates: list[Line] = field(default_factory=list)
    validations: list[Line] = field(default_factory=list)
    translated: dict[int, Path] = field(default_factory=dict)
    choices: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    valid_text: ParallelText | None = None
    tests: dict[str, tuple[Evaluation, list[Sentence]]] = field(default_factory=dict)
    state: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def step(self) -> int:
        """The last update that the metrics tell of."""
        return max([int(line["step"]) for line in (*self.updates[-1:], *self.validations[-1:])], default=0)

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target, empty where nothing tells."""
        return ("", "") if self.settings is None else (self.settings.data.src_lang, self.settings.data.tgt_lang)

    def best(self, key: str = "valid_bleu", sign: int = 1) -> Line | None:
        """The validation with the highest figure, with the lowest if sign is −1; the first of those that are equal."""
        known = (line for line in self.validations if key in line)
        return max(known, key=lambda line: sign * line[key], default=None)

    def hypotheses(self, step: int) -> list[str]:
        """What the validation at this step translated; empty, and a problem, if the file is damaged."""
        try:
            n_lines = None if self.valid_text is None else len(self.valid_text[1])
            return load_hypotheses(self.translated[step], n_lines)
        except RunError as error:
            self.complain(str(error))
            return []

    def complain(self, problem: str) -> None:
        """Note a problem, once."""
        if problem not in self.problems:
            self.problems.append(problem)


def load_hypotheses(path: Path, n_lines: int | None = None) -> list[str]:
    """Read what a validation translated, a line for each of `n_lines` sentences.

    Raises:
        RunError: missing, damaged, or of another number of sentences.
    """
    try:
        found = [line.split("\t", 1)[1] for line in read_written_lines(path)]
    except (OSError, ValueError, IndexError) as error:
        raise RunError(f"{path}: missing or damaged, and left out") from error
    if n_lines is not None and len(found) != n_lines:
        raise RunError(
            f"{path}: has {len(found):,} translations of {n_lines:,} sentences, and is left out; were the data "
            "prepared again?"
        )
    return found


def read_run(path: Path) -> Run:
    """Read runs/NAME.

    Raises:
        RunError: that is no run.
    """
    if not path.is_dir():
        raise RunError(f"{path}: there is no such folder; name a run that train.py made, such as runs/NAME")
    if not any((path / name).is_file() for name in ("settings.yaml", "metrics.jsonl")):
        raise RunError(
            f"{path}: is no run, as it has neither settings.yaml nor metrics.jsonl; name a folder that train.py made, "
            "such as runs/NAME"
        )
    run = Run(path, path.resolve().name)
    _read_settings(run)
    _read_metrics(run)
    run.choices, run.record = (_read_object(run, name) for name in ("choices.json", "record.json"))
    run.translated = _translated(path / "validation")
    _read_prepared(run)
    _read_tests(run)
    run.state = _state(run)
    return run


def _try(run: Run, path: Path, read: Callable[[], _Content]) -> _Content | None:
    """What `read` makes of the file; None, and a problem, if that fails."""
    try:
        return read()
    except (ConfigError, DataError, RunError) as error:
        run.complain(str(error))
    except OSError as error:
        run.complain(f"{path}: {error.strerror}")
    except (ValueError, RecursionError):
        run.complain(f"{path}: damaged, and left out")
    return None


def _read_settings(run: Run) -> None:
    path = run.path / "settings.yaml"
    if path.is_file():
        run.settings = _try(run, path, lambda: load_config(path))
    else:
        run.complain(f"{path}: not there, so the page tells neither settings nor anything of the prepared data")


def _read_metrics(run: Run) -> None:
    path = run.path / "metrics.jsonl"
    lines = _try(run, path, lambda: path.read_bytes().split(b"\n")) or []
    damaged: list[int] = []
    updates: dict[int, Line] = {}
    validations: dict[int, Line] = {}
    for number, text in enumerate(lines, 1):
        if number == len(lines):  # behind the last line end: nothing, or a line that is being written
            break
        try:
            line = json.loads(text)
            step = int(line["step"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            step = -1
        if not 0 <= step < _TOO_LARGE:
            damaged.append(number)
            continue
        numbers = {key: value for key, value in line.items() if is_number(value)}
        (validations if "valid_nll_per_token" in line else updates)[step] = {**numbers, "step": step}
    run.updates, run.validations = ([found[step] for step in sorted(found)] for found in (updates, validations))
    if damaged:
        told = ", ".join(f"{number:,}" for number in damaged[:_NUMBERS_TOLD])
        more = f" and {len(damaged) - _NUMBERS_TOLD:,} more" if len(damaged) > _NUMBERS_TOLD else ""
        run.problems.append(f"{path}: damaged, and left out: line {told}{more}")
    if lines and not updates:
        run.problems.append(f"{path}: tells of no update yet (train.log_every), so there are no curves of training")
    if lines and not validations:
        run.problems.append(f"{path}: tells of no validation yet (train.validate_every)")


def is_number(value: object) -> bool:
    """Whether that can be drawn."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _TOO_LARGE


def _read_object(run: Run, name: str) -> Mapping[str, Any]:
    path = run.path / name
    if not path.exists():
        run.problems.append(f"{path}: not there, so the page does not tell what it holds")
        return {}
    return _try(run, path, lambda: _object(path.read_bytes())) or {}


def _object(content: bytes) -> Mapping[str, Any]:
    found = json.loads(content)
    if not isinstance(found, Mapping):
        raise ValueError("no JSON object")
    return found


def _translated(folder: Path) -> dict[int, Path]:
    paths = {path.stem.removeprefix("step-"): path for path in folder.glob("step-*.tsv")}
    return {int(step): paths[step] for step in sorted(paths) if step.isdecimal()}


def _read_prepared(run: Run) -> None:
    """The prepared data beside the folder of the run, or beside where the program runs."""
    if run.settings is None:
        return
    beside = [run.path.resolve().parent.parent / "prepared", Path("prepared")]
    found = [folder / run.settings.name for folder in beside if (folder / run.settings.name).is_dir()]
    if not found:
        run.problems.append(
            f"{beside[0] / run.settings.name}: not there, so the page shows no validation sentences and nothing of the "
            "training text; run the command in the folder where preprocess.py was run"
        )
        return
    manifest = _try(run, found[0], lambda: read_manifest(found[0])) or {}
    if manifest:
        run.valid_text = _try(run, found[0], lambda: load_text(found[0]))
        run.manifest = _try(run, found[0] / "manifest.json", lambda: _Manifest.checked(manifest)) or {}


_Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Corpus(BaseModel, strict=True):
    name: str = ""
    source: str | None = None
    read: _Count = 0
    kept: _Count = 0
    dropped: dict[str, _Count] | None = None


class _Counts(BaseModel, strict=True):
    train: list[_Corpus] | None = None


class _Manifest(BaseModel, strict=True):
    """What a page tells of the manifest of prepared data, which is text that anyone may have changed."""

    counts: _Counts | None = None

    @classmethod
    def checked(cls, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        """The manifest. Raises ValueError where its counts have another shape."""
        cls.model_validate(manifest)
        return manifest


def _read_tests(run: Run) -> None:
    folder, model = run.path / "translations", run.path / "model"
    for name in find_evaluations(folder):
        evaluation = _try(run, folder, partial(load_evaluation, folder, name))
        if evaluation is not None:
            run.tests[name] = evaluation, _try(run, folder, partial(load_sentences, folder, evaluation)) or []
            path = result_path(folder, name, "json")
            if model.is_dir() and path.stat().st_mtime < model.stat().st_mtime:
                run.complain(f"{path}: older than {model}; if the run has been trained on since, run evaluate.py again")


def _state(run: Run) -> str:
    """In words, as the folder tells: no process is asked."""
    end = run.settings.train.max_steps if run.settings is not None else None
    metrics, model = run.path / "metrics.jsonl", run.path / "model"
    if model.is_dir():
        if end is not None and run.step >= end:
            return "finished"
        if not metrics.exists() or model.stat().st_mtime >= metrics.stat().st_mtime:
            return "finished early"  # out of patience
    return "training" if _is_locked(run.path / "checkpoints") else "stopped"


def _is_locked(checkpoints: Path) -> bool:
    """Whether a process trains there: it holds a lock on the folder of its checkpoints."""
    try:
        descriptor = os.open(checkpoints, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False
