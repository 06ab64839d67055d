"""A run made again: it is the first one over again, to the last bit, or the difference is named."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.prepared import Prepared
from transformer.config import Settings
from transformer.config_file import save_settings
from transformer.errors import RunError
from transformer.training.choices import Choices
from transformer.training.record import Record, make_record, save_record
from transformer.training.reproduction import begin_reproduction, compare_runs, open_reproduction

MakeSettings = Callable[..., Settings]
CHOICES = Choices("cpu", "fp32", "explicit", {})


@pytest.fixture
def record(prepared: Prepared, make_settings: MakeSettings) -> Record:
    return make_record(make_settings(), prepared.directory, prepared, CHOICES, 2)


@pytest.fixture
def run(tmp_path: Path, record: Record, make_settings: MakeSettings) -> Path:
    """A finished run: settings, record, choices, metrics and weights."""
    run = tmp_path / "runs" / "tiny"
    run.mkdir(parents=True)
    save_settings(make_settings(), run / "settings.yaml")
    save_record(run / "record.json", record)
    (run / "choices.json").write_text(json.dumps(asdict(CHOICES)))
    write_metrics(run)
    write_weights(run, b"the weights")
    return run


@pytest.fixture
def again(run: Path) -> Path:
    """The same run made again exactly; only the clock went otherwise."""
    again = run.with_name("tiny-reproduced")
    again.mkdir()
    write_metrics(again, clock=2.0)
    write_weights(again, b"the weights")
    return again


def rows(clock: float = 1.0) -> list[dict[str, Any]]:
    trained = [
        {"step": step, "lr": step / 3, "nll_per_token": 7 / step, "grad_norm": 0.1 + 0.2, "tokens_per_second": clock}
        for step in (1, 2, 3)
    ]
    return [*trained, {"step": 3, "valid_nll_per_token": 2.5, "valid_bleu": 1 / 3, "valid_chrf": None}]


def write_metrics(run: Path, lines: list[dict[str, Any]] | None = None, clock: float = 1.0) -> None:
    lines = rows(clock) if lines is None else lines
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_weights(run: Path, content: bytes) -> None:
    (run / "model").mkdir(exist_ok=True)
    (run / "model/model.safetensors").write_bytes(content)


def test_a_run_opens_with_its_settings_and_as_many_threads_as_it_had(
    run: Path, record: Record, make_settings: MakeSettings
) -> None:
    settings, found = open_reproduction(run)
    assert found == record
    threads = record.environment.device.threads
    assert settings == make_settings(train={"threads": threads})


@pytest.mark.parametrize("name", ["settings.yaml", "metrics.jsonl", "record.json"])
def test_a_folder_that_lacks_a_part_of_a_run_is_refused(name: str, run: Path) -> None:
    (run / name).unlink()
    with pytest.raises(RunError, match=name):
        open_reproduction(run)


def test_a_run_that_recorded_no_result_is_refused(run: Path) -> None:
    (run / "metrics.jsonl").write_text('{"step": 1, "nll_per_tok')  # killed in its first line
    with pytest.raises(RunError, match="no result that could be reached again"):
        open_reproduction(run)


def test_it_is_made_again_beside_the_run_with_the_choices_of_then(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)
    again = run.with_name("tiny-reproduced")
    for spelt in (run, Path(f"{run}/"), Path()):
        assert begin_reproduction(spelt) == again
        assert (again / "choices.json").read_bytes() == (run / "choices.json").read_bytes()
    assert [path.name for path in again.iterdir()] == ["choices.json"]


def test_a_run_made_again_exactly_says_so(run: Path, again: Path) -> None:
    comparison = compare_runs(run, again)
    assert comparison.exact
    weights = hashlib.sha256(b"the weights").hexdigest()
    assert comparison.describe() == f"reproduced exactly: 11 logged results; weights of sha256 {weights}"


@pytest.mark.parametrize("key", ["nll_per_token", "grad_norm", "lr", "valid_nll_per_token", "valid_bleu"])
def test_the_last_digit_of_any_result_counts(key: str, run: Path, again: Path) -> None:
    changed = rows()
    place, line = next((i, line) for i, line in enumerate(changed) if key in line)
    changed[place] = line | {key: float(np.nextafter(line[key], 9))}
    write_metrics(again, changed)
    comparison = compare_runs(run, again)
    assert not comparison.exact
    (departure,) = comparison.departures
    assert (departure.key, departure.step, departure.original) == (key, line["step"], line[key])
    assert 0 < departure.largest < 1e-15
    assert f"{line[key]!r} → {changed[place][key]!r}" in comparison.describe()


def test_the_first_step_that_differs_is_named_and_the_largest_difference(run: Path, again: Path) -> None:
    changed = rows()
    changed[1] |= {"nll_per_token": 3.5 * 1.001}
    changed[2] |= {"nll_per_token": 7 / 3 * 0.99}
    write_metrics(again, changed)
    (departure,) = compare_runs(run, again).departures
    assert (departure.key, departure.step, departure.original) == ("nll_per_token", 2, 3.5)
    assert departure.largest == pytest.approx(0.01)
    assert "nll_per_token differs from step 2 on: 3.5 → 3.50" in str(departure)


def test_a_result_that_was_zero_differs_without_bound(run: Path, again: Path) -> None:
    write_metrics(run, [{"step": 1, "valid_bleu": 0.0}])
    write_metrics(again, [{"step": 1, "valid_bleu": 0.5}])
    (departure,) = compare_runs(run, again).departures
    assert departure.largest == float("inf")


def test_a_norm_that_overflowed_in_both_is_no_difference(run: Path, again: Path) -> None:
    """In fp16 that happens now and then: the update is left out, and the loss scaled less."""
    for value in (float("nan"), float("inf")):
        for each in (run, again):
            write_metrics(each, [*rows(), {"step": 4, "grad_norm": value}])
        assert compare_runs(run, again).exact
        write_metrics(again, [*rows(), {"step": 4, "grad_norm": 1.5}])
        assert not compare_runs(run, again).exact


def test_results_that_are_missing_are_named_by_their_steps(run: Path, again: Path) -> None:
    write_metrics(again, rows()[:1])
    comparison = compare_runs(run, again)
    assert (comparison.missing, comparison.exact) == ([2, 3], False)
    assert "results missing at 2 steps: 2, 3" in comparison.describe()


def test_other_weights_are_no_reproduction(run: Path, again: Path) -> None:
    write_weights(again, b"others")
    comparison = compare_runs(run, again)
    assert not comparison.exact
    assert hashlib.sha256(b"others").hexdigest() in comparison.describe()
    shutil.rmtree(again / "model")
    comparison = compare_runs(run, again)
    assert not comparison.exact
    assert "no finished model" in comparison.describe()


def test_of_a_run_that_was_not_finished_only_what_it_logged_is_compared(run: Path, again: Path) -> None:
    shutil.rmtree(run / "model")
    write_metrics(run, rows()[:2])
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "nll_per_token": 2')  # killed while it wrote
    comparison = compare_runs(run, again)
    assert comparison.exact
    assert "no finished model to compare" in comparison.describe()


@pytest.mark.parametrize("line", ["", "{", "[]", "null", "{}", '{"step": "one"}', '{"step": 1, "lr": []}', "[" * 9999])
def test_damaged_metrics_are_refused_by_their_line(line: str, run: Path, again: Path) -> None:
    lines = [*(json.dumps(row) for row in rows()), line]
    (again / "metrics.jsonl").write_text("".join(f"{text}\n" for text in lines))
    with pytest.raises(RunError, match=r"metrics\.jsonl:5: not a line of metrics"):
        compare_runs(run, again)
