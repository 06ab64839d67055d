"""A run made again from its record: is it the first one, bit for bit?

`train.py --reproduce runs/NAME` refuses data of which a byte differs, says which versions and devices differ, trains
into runs/NAME-reproduced, and compares what was logged and the finished weights.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from data.atomic import whole_file
from transformer.config import Settings
from transformer.config_file import load_config
from transformer.errors import RunError
from transformer.files import sha256_of
from transformer.model_directory import WEIGHTS
from transformer.training.record import Record, load_record

RECORD, SETTINGS, CHOICES, METRICS = "record.json", "settings.yaml", "choices.json", "metrics.jsonl"

# What metrics.jsonl holds of the result; the rest follows from it or is the clock's.
_RESULTS = (
    "nll_per_token",
    "smoothed_loss_per_token",
    "grad_norm",
    "lr",
    "n_tokens",
    "valid_nll_per_token",
    "valid_bleu",
    "valid_chrf",
)


def open_reproduction(run: Path) -> tuple[Settings, Record]:
    """The settings and the record of a run, to make it again; on as many threads as it had.

    Raises:
        RunError: there is no run, or it was not recorded, or has logged nothing.
    """
    for name in (SETTINGS, METRICS):
        if not (run / name).is_file():
            raise RunError(f"{run / name}: not there; --reproduce takes the folder of a run, runs/NAME")
    settings, record = load_config(run / SETTINGS), load_record(run / RECORD)
    if not any(_results(run / METRICS).values()):
        raise RunError(f"{run / METRICS}: holds no result that could be reached again; train the run first")
    train = settings.train.model_copy(update={"threads": record.environment.device.threads})
    return settings.model_copy(update={"train": train}), record


def begin_reproduction(run: Path) -> Path:
    """The directory for the run made again, runs/NAME-reproduced; the choices of the first one are in it."""
    run = Path(os.path.abspath(run))  # noqa: PTH100 (resolve follows links)
    again = run.with_name(f"{run.name}-reproduced")
    again.mkdir(exist_ok=True)
    if (run / CHOICES).exists() and not (again / CHOICES).exists():
        with whole_file(again / CHOICES) as stream:
            stream.write((run / CHOICES).read_bytes())
    return again


class Departure(NamedTuple):
    """A result that the second run did not reach exactly."""

    key: str
    step: int  # the first where the two differ
    original: float
    again: float
    largest: float  # of all relative differences from there on

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.key} differs from step {self.step:,} on: {self.original!r} → {self.again!r} "
            f"(relative {_relative(self.original, self.again):.1e}; at most {self.largest:.1e})"
        )


@dataclass(frozen=True)
class Comparison:
    """Two runs that should be the same."""

    n_results: int  # recorded by the original
    departures: list[Departure]
    missing: list[int]  # steps of which the original recorded a result and the other did not
    weights: tuple[str | None, str | None]  # sha256 of the finished models' weights; None: not finished

    @property
    def exact(self) -> bool:
        """Whether everything that the original recorded was reached, bit for bit."""
        original, again = self.weights
        return not self.departures and not self.missing and original in (None, again)

    def describe(self) -> str:
        """Say what differs, or that nothing does."""
        original, again = self.weights
        if self.exact:
            weights = "it has no finished model to compare" if original is None else f"weights of sha256 {original}"
            return f"reproduced exactly: {self.n_results:,} logged results; {weights}"
        lines = [str(departure) for departure in self.departures]
        if self.missing:
            first = ", ".join(f"{step:,}" for step in self.missing[:5])
            lines.append(f"results missing at {len(self.missing):,} steps: {first}{', …' * (len(self.missing) > 5)}")
        if original not in (None, again):
            lines.append(f"weights: sha256 {original} → {again or 'no finished model'}")
        return "\n".join(["not reproduced exactly (first run → this one):", *(f"  {line}" for line in lines)])


def compare_runs(original: Path, again: Path) -> Comparison:
    """Compare what two runs have logged, step by step, and the weights they ended with.

    Raises:
        RunError: metrics or weights cannot be read.
    """
    recorded, reached = _results(original / METRICS), _results(again / METRICS)
    missing = {step for key, values in recorded.items() for step in values.keys() - reached[key].keys()}
    departures = [_departure(key, values, reached[key]) for key, values in recorded.items()]
    return Comparison(
        n_results=sum(map(len, recorded.values())),
        departures=[departure for departure in departures if departure is not None],
        missing=sorted(missing),
        weights=(_weights(original), _weights(again)),
    )


def _departure(key: str, original: dict[int, float], again: dict[int, float]) -> Departure | None:
    # repr: one that is no number, such as the norm of an fp16 gradient that overflowed, is the same as another such
    steps = [step for step in sorted(original.keys() & again.keys()) if repr(original[step]) != repr(again[step])]
    if not steps:
        return None
    largest = max(_relative(original[step], again[step]) for step in steps)
    return Departure(key, steps[0], original[steps[0]], again[steps[0]], largest)


def _relative(original: float, again: float) -> float:
    return abs(again - original) / abs(original) if original else math.inf


def _weights(run: Path) -> str | None:
    weights = run / "model" / WEIGHTS
    return sha256_of(weights) if weights.exists() else None


def _results(metrics: Path) -> dict[str, dict[int, float]]:
    """Result → step → value. What follows the last line end was cut off by a kill, and does not count."""
    results: dict[str, dict[int, float]] = {key: {} for key in _RESULTS}
    for number, line in enumerate(metrics.read_bytes().split(b"\n")[:-1], 1):
        try:
            values = json.loads(line)
            step = int(values["step"])
            for key in values.keys() & results.keys():
                if values[key] is not None:
                    results[key][step] = float(values[key])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise RunError(f"{metrics}:{number}: not a line of metrics; restore the file, or train again") from error
    return results
