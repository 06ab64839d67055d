"""train.py stopped, killed, out of disk space and resumed: it ends with the bits of a run that nothing disturbed."""

from __future__ import annotations

import json
import random
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess, Popen
from typing import Any

import pytest

from transformer.config_file import load_config
from transformer.model_directory import load_model

Call = Callable[..., CompletedProcess[str]]
Start = Callable[..., Popen[str]]

CLOCK = {"seconds", "tokens_per_second", "memory_gib"}  # the only figures of the metrics that may differ
STATE = ("checkpoints/last/model.safetensors", "checkpoints/last/training.safetensors", "model/model.safetensors")


@pytest.fixture
def arguments(tiny: Path, call: Call) -> Callable[..., list[str]]:
    """Prepare the text of tiny.yaml under a name, and return the arguments for training on it."""

    def prepare(name: str, *overrides: str) -> list[str]:
        done = call("preprocess", "--config", "tiny.yaml", f"name={name}")
        assert done.returncode == 0, done.stderr
        return ["--config", "tiny.yaml", f"name={name}", *overrides]

    return prepare


def state_of(run: Path) -> list[bytes]:
    """Every bit of a finished run that its updates have made."""
    return [(run / name).read_bytes() for name in STATE]


def metrics_of(run: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in CLOCK} for row in rows]


def wait_for(process: Popen[str], there: Callable[[], bool]) -> None:
    while process.poll() is None and not there():
        time.sleep(0.005)


def test_five_updates_and_five_more_are_ten(tiny: Path, arguments: Callable[..., list[str]], call: Call) -> None:
    runs = tiny / "runs"
    often = "train.validate_every=5"
    assert call("train", *arguments("once", often), "train.max_steps=10").returncode == 0
    twice = arguments("twice", often)
    for n_steps in (5, 10):
        assert call("train", *twice, f"train.max_steps={n_steps}").returncode == 0
    assert state_of(runs / "twice") == state_of(runs / "once")
    assert metrics_of(runs / "twice") == metrics_of(runs / "once")
    trained = [row["step"] for row in metrics_of(runs / "twice") if "lr" in row]
    assert trained == list(range(1, 11))


def test_a_finished_run_is_left_as_it_is_and_says_where_everything_lies(
    tiny: Path, arguments: Callable[..., list[str]], call: Call
) -> None:
    run = tiny / "runs/tiny"
    first = call("train", *arguments("tiny"))
    state, metrics = state_of(run), metrics_of(run)
    again = call("train", *arguments("tiny"))
    assert (first.returncode, again.returncode) == (0, 0)
    assert first.stdout == again.stdout
    for words in ("runs/tiny/model", "runs/tiny/checkpoints", "metrics.jsonl", "translate.py --model runs/tiny"):
        assert words in first.stdout
    assert "report       runs/tiny/report.html" in first.stdout
    page = (run / "report.html").read_text("utf-8")
    assert "Finished after" in page and "Attention" in page
    assert (state_of(run), metrics_of(run)) == (state, metrics)


def test_the_settings_of_a_run_are_kept_as_numbers_that_can_be_given_as_config(
    tiny: Path, arguments: Callable[..., list[str]], call: Call
) -> None:
    """Case K2: PyYAML alone would take 1e-4 and 5E2 for text."""
    assert call("train", *arguments("tiny"), "train.adam_epsilon=1e-8", "train.max_tokens=5E2").returncode == 0
    settings = load_config(tiny / "runs/tiny/settings.yaml")
    assert (settings.train.adam_epsilon, settings.train.max_tokens, settings.train.lr) == (1e-8, 500, 1e-3)
    assert call("train", "--config", "runs/tiny/settings.yaml").returncode == 0


def test_ctrl_c_saves_exits_130_and_the_same_command_goes_on(
    tiny: Path, arguments: Callable[..., list[str]], call: Call, start: Start
) -> None:
    assert call("train", *arguments("undisturbed"), "train.max_steps=60").returncode == 0
    command = [*arguments("tiny"), "train.max_steps=60"]
    process = start(tiny, "train", *command)
    run = tiny / "runs/tiny"
    wait_for(process, (run / "metrics.jsonl").exists)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 130, told
    assert "saved in runs/tiny/checkpoints/last; the same command goes on from there" in told
    assert "Traceback" not in told
    assert load_model(run / "checkpoints/last")
    done_before = len(metrics_of(run))
    assert done_before < 60

    assert call("train", *command).returncode == 0
    assert state_of(run) == state_of(tiny / "runs/undisturbed")
    assert metrics_of(run) == metrics_of(tiny / "runs/undisturbed")


@pytest.mark.parametrize("n_kills", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_case_c3_killed_while_it_saves_again_and_again_it_loses_one_save_at_most(
    tiny: Path, arguments: Callable[..., list[str]], call: Call, start: Start, n_kills: int
) -> None:
    overrides = [f"train.max_steps={8 * n_kills}", "train.save_every=1"]
    assert call("train", *arguments("undisturbed"), *overrides).returncode == 0
    command = [*arguments("tiny"), *overrides]
    checkpoints = tiny / "runs/tiny/checkpoints"
    chance = random.Random(n_kills)
    for _ in range(n_kills):
        before = newest(checkpoints)
        process = start(tiny, "train", *command)
        wait_for(process, lambda before=before: newest(checkpoints) > before)
        time.sleep(chance.uniform(0, 0.1))  # an update is quick here: most of this time is spent saving
        reached = newest(checkpoints)
        process.kill()
        told = process.communicate()[1]
        assert "rror" not in told
        assert newest(checkpoints) >= reached
        assert load_model(checkpoints / "last")
    assert call("train", *command).returncode == 0
    assert state_of(tiny / "runs/tiny") == state_of(tiny / "runs/undisturbed")
    assert metrics_of(tiny / "runs/tiny") == metrics_of(tiny / "runs/undisturbed")
    assert not [*(tiny / "runs").rglob("*.partial")]


def newest(checkpoints: Path) -> int:
    """The step that `last` points to; 0 while there is none."""
    try:
        return int((checkpoints / "last").readlink().name.removeprefix("step-"))
    except FileNotFoundError:
        return 0


def test_a_full_disk_is_one_message_and_the_checkpoint_before_stays(
    tiny: Path, arguments: Callable[..., list[str]], call: Call, start: Start
) -> None:
    command = arguments("tiny")
    assert call("train", *command).returncode == 0
    run = tiny / "runs/tiny"
    state = state_of(run)
    size = (run / "checkpoints/last/training.safetensors").stat().st_size

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit fails as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, size - 1))

    process = start(tiny, "train", *command, "train.max_steps=8", limit=limit)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 1, told
    assert "Traceback" not in told
    assert told.count("\nerror: ") == 1
    assert "cannot be written" in told.rsplit("\nerror: ", 1)[1]
    assert state_of(run) == state
    assert call("train", *command, "train.max_steps=8").returncode == 0
    assert newest(run / "checkpoints") == 8
