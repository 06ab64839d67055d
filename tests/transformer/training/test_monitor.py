"""What a run reports: averages over all tokens of an interval, on one line of JSON, with the unit in each name."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from data.prepared import Prepared
from transformer.config import Settings
from transformer.training import loop
from transformer.training import monitor as module
from transformer.training.memory import peak_memory
from transformer.training.monitor import DivergenceError, Monitor
from transformer.training.progress import Progress
from transformer.training.run_directory import RunDirectory
from transformer.training.update import UpdateResult
from transformer.training.validation import Validation

OPEN_TENSORBOARD = module._open_tensorboard  # before conftest puts nothing in its place


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path)


@pytest.fixture
def monitor(run: RunDirectory) -> Iterator[Monitor]:
    monitor = Monitor(run, Progress(step=3), max_steps=10)
    yield monitor
    monitor.close()


def result(smoothed: float, nll: float, grad_norm: float, n_tokens: int, n_real: int, n_padded: int) -> UpdateResult:
    tensors = map(torch.tensor, (smoothed, nll, grad_norm))
    return UpdateResult(0, 7, *tensors, n_tokens, n_real, n_padded)  # type: ignore[arg-type]


def lines_of(run: RunDirectory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def test_an_interval_is_averaged_over_its_tokens_not_its_updates(run: RunDirectory, monitor: Monitor) -> None:
    """Case L3's numbers: one token of loss 4 and three of loss 1 are 1.75 a token."""
    monitor.add(result(4.0, 3.0, 2.0, n_tokens=1, n_real=3, n_padded=4))
    monitor.add(result(3.0, 1.0, 1.0, n_tokens=3, n_real=6, n_padded=8))
    time.sleep(0.01)
    monitor.log(Progress(step=5, epoch=1, n_tokens=123, seconds=9.5), lr=0.25)
    (line,) = lines_of(run)
    speed = line.pop("tokens_per_second")
    assert 0 < speed < 4 / 0.01
    assert line.pop("memory_gib") == pytest.approx(peak_memory(torch.device("cpu")) / 2**30, rel=0.01)
    assert line == {
        "step": 5,
        "epoch": 1,
        "lr": 0.25,
        "nll_per_token": 1.0,
        "perplexity": math.e,
        "smoothed_loss_per_token": 1.75,
        "grad_norm": 1.5,
        "n_tokens": 123,
        "padding_share": 0.25,
        "seconds": 9.5,
    }


def test_each_line_begins_anew(run: RunDirectory, monitor: Monitor) -> None:
    for loss in (4.0, 1.0):
        monitor.add(result(loss, loss, 1.0, 1, 1, 1))
        monitor.log(Progress(step=4), lr=0.1)
    assert [line["nll_per_token"] for line in lines_of(run)] == [4.0, 1.0]


def test_the_speed_leaves_out_validation_and_saving(run: RunDirectory, monitor: Monitor) -> None:
    time.sleep(0.2)
    monitor.restart_clock()
    monitor.add(result(1.0, 1.0, 1.0, n_tokens=1000, n_real=1, n_padded=1))
    monitor.log(Progress(step=4), lr=0.1)
    assert lines_of(run)[0]["tokens_per_second"] > 1000 / 0.2


def test_no_update_begins_with_validation_or_saving_on_the_clock(
    prepared: Prepared, make_settings: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def note(*arguments: Any, **more: Any) -> Any:
            events.append(name)
            return function(*arguments, **more)

        return note

    for owner, name in ((loop, "update"), (loop, "validate"), (loop, "take_snapshot"), (Monitor, "restart_clock")):
        monkeypatch.setattr(owner, name, noted(name, getattr(owner, name)))
    settings = make_settings(train={"max_steps": 4, "validate_every": 2, "save_every": 3})
    loop.train(settings, prepared, RunDirectory(tmp_path))
    assert (events.count("validate"), events.count("take_snapshot")) == (2, 3)
    assert [one for one, other in pairwise(events) if other == "update"] == ["restart_clock"] * 4


@pytest.mark.parametrize("broken", ["smoothed", "nll", "grad_norm"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_or_gradient_that_is_no_number_ends_the_run(
    broken: str, value: float, run: RunDirectory, monitor: Monitor
) -> None:
    values = {"smoothed": 1.0, "nll": 1.0, "grad_norm": 1.0} | {broken: value}
    monitor.add(result(**values, n_tokens=1, n_real=1, n_padded=1))
    monitor.add(result(1.0, 1.0, 1.0, 1, 1, 1))
    with pytest.raises(DivergenceError, match=r"step 4 \(loss .*, gradient norm ") as error:
        monitor.log(Progress(step=5), lr=0.1)
    assert (error.value.step, error.value.part, error.value.update) == (4, 0, 7)
    assert not run.metrics.exists()


def test_a_validation_is_a_line_of_its_own(
    run: RunDirectory, monitor: Monitor, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor.log_validation(Validation(step=4, nll_per_token=math.log(2), bleu=12.345, chrf=45.6), best=True)
    assert lines_of(run) == [
        {
            "step": 4,
            "valid_nll_per_token": math.log(2),
            "valid_bleu": 12.345,
            "valid_chrf": 45.6,
            "valid_perplexity": pytest.approx(2),
        }
    ]


def test_the_bar_shows_loss_perplexity_rate_speed_and_time_left(
    run: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = Monitor(run, Progress(step=3, epoch=1), max_steps=10)
    monitor.add(result(2.0, math.log(7), 1.0, 1, 1, 1))
    monitor.log(Progress(step=4, epoch=1), lr=1e-3)
    monitor.log_validation(Validation(4, 1.0, 12.345, 45.67), best=True)
    monitor.close()
    shown = capsys.readouterr()
    assert shown.out == ""
    for words in ("epoch 2", "4/10", "loss 2.000", "ppl 7.00", "lr 1.00e-03", "tok/s", "<"):
        assert words in shown.err
    assert "step 4: validation perplexity 2.718, BLEU 12.35, chrF 45.67 (best so far)" in shown.err
    assert shown.err.endswith("\n")


def test_in_a_file_the_bar_is_written_now_and_then(run: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    monitor = Monitor(run, Progress(), max_steps=1000)
    for step in range(1, 1001):
        monitor.add(result(1.0, 1.0, 1.0, 1, 1, 1))
        monitor.log(Progress(step=step), lr=1e-3)
    monitor.close()
    shown = capsys.readouterr().err.split("\r")
    assert len(shown) < 10
    assert "1000/1000" in shown[-1]


def test_tensorboard_gets_every_number_of_the_metrics(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setattr(module, "_open_tensorboard", OPEN_TENSORBOARD)
    monitor = Monitor(run, Progress(), max_steps=10)
    monitor.add(result(4.0, 3.0, 2.0, 1, 3, 4))
    monitor.log(Progress(step=1), lr=0.25)
    monitor.close()
    (line,) = lines_of(run)
    events = EventAccumulator(str(run.tensorboard)).Reload()
    assert set(events.Tags()["scalars"]) == line.keys() - {"step"}
    (event,) = events.Scalars("nll_per_token")
    assert (event.step, event.value) == (1, 3.0)


def test_without_tensorboard_there_is_none(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    find: Callable[..., Any] = OPEN_TENSORBOARD
    assert find(run, 0) is None
    assert not run.tensorboard.exists()
