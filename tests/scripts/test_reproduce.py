"""train.py --reproduce: a recorded run is made again bit for bit, or it is said what stands in the way or differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from transformer.config_file import load_config

Call = Callable[..., CompletedProcess[str]]
ARGUMENTS = ("--config", "tiny.yaml", "train.validate_every=2", "train.save_every=2")


@pytest.fixture
def run(tiny: Path, call: Call) -> Path:
    """The finished run of tiny.yaml."""
    for script in ("preprocess", "train"):
        done = call(script, *ARGUMENTS)
        assert done.returncode == 0, done.stderr
    return tiny / "runs/tiny"


def weights_of(run: Path) -> bytes:
    return (run / "model/model.safetensors").read_bytes()


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_recorded_run_is_reproduced_exactly(run: Path, call: Call) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    done = call("train", "--reproduce", "runs/tiny")
    assert done.returncode == 0, done.stderr
    assert "reproduced exactly" in done.stdout
    again = run.with_name("tiny-reproduced")
    assert weights_of(again) == weights_of(run)
    assert load_config(again / "settings.yaml") == load_config(run / "settings.yaml")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_so_is_a_run_that_was_trained_in_two_parts_and_its_record_is_that_of_the_start(run: Path, call: Call) -> None:
    record = (run / "record.json").read_bytes()
    assert call("train", *ARGUMENTS, "train.max_steps=7").returncode == 0
    assert (run / "record.json").read_bytes() == record
    done = call("train", "--reproduce", run)
    assert (done.returncode, "reproduced exactly" in done.stdout) == (0, True), done.stdout
    assert weights_of(run.with_name("tiny-reproduced")) == weights_of(run)


def test_choices_that_were_timed_are_not_timed_again(run: Path, call: Call) -> None:
    """What is fastest may change from one day to the next, and with it the last digits."""
    path = run / "choices.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": {"fp32 explicit": 1.0, "bf16 fused": 2.0}}))
    done = call("train", "--reproduce", run)
    assert done.returncode == 0, done.stderr
    again = run.with_name("tiny-reproduced") / "choices.json"
    assert json.loads(again.read_text()) == json.loads(path.read_text())


def test_data_of_which_a_byte_differs_are_refused_before_anything_is_written(tiny: Path, run: Path, call: Call) -> None:
    prepared = tiny / "prepared/tiny"
    names = [path.name for path in prepared.iterdir() if path.suffix in (".npy", ".model", ".txt")]
    assert len(names) == 13
    for name in names:
        flip_a_byte(prepared / name)
    done = call("train", "--reproduce", "runs/tiny")
    assert done.returncode == 1
    assert done.stderr.count("error: ") == 1
    for name in names:
        assert f"{name}: sha256" in done.stderr
    assert not run.with_name("tiny-reproduced").exists()

    for name in names[1:]:
        flip_a_byte(prepared / name)  # back
    done = call("train", "--reproduce", "runs/tiny")
    assert (done.returncode, done.stderr.count(": sha256")) == (1, 1)
    flip_a_byte(prepared / names[0])
    assert call("train", "--reproduce", "runs/tiny").returncode == 0


def test_text_prepared_anew_is_the_same_data(tiny: Path, run: Path, call: Call) -> None:
    for path in (tiny / "prepared/tiny").iterdir():
        path.unlink()
    (tiny / "prepared/tiny").rmdir()
    assert call("preprocess", "--config", run / "settings.yaml").returncode == 0
    assert call("train", "--reproduce", run).returncode == 0


def test_a_result_that_is_not_reached_is_told_with_its_step_and_exit_code_1(run: Path, call: Call) -> None:
    path = run / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["step"] >= 3 and "nll_per_token" in line:
            line["nll_per_token"] += 0.5
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = call("train", "--reproduce", "runs/tiny")
    assert done.returncode == 1
    assert "not reproduced exactly" in done.stdout
    assert "nll_per_token differs from step 3 on" in done.stdout
    assert "weights" not in done.stdout


def test_another_version_is_a_warning_and_no_obstacle(run: Path, call: Call) -> None:
    path = run / "record.json"
    record = json.loads(path.read_text())
    record["environment"]["versions"]["torch"] = "1.0"
    path.write_text(json.dumps(record))
    done = call("train", "--reproduce", "runs/tiny")
    assert done.returncode == 0
    assert "torch: 1.0 → " in done.stderr


def test_where_there_is_no_run_or_no_record_it_is_said(run: Path, call: Call) -> None:
    done = call("train", "--reproduce", "runs/other")
    assert (done.returncode, "runs/other" in done.stderr) == (1, True)
    (run / "record.json").unlink()
    done = call("train", "--reproduce", "runs/tiny")
    assert (done.returncode, "record.json: not there" in done.stderr) == (1, True)


def test_settings_beside_a_run_to_reproduce_are_refused(run: Path, call: Call) -> None:
    """They would make it another run."""
    for more in (["train.lr=1"], ["--config", "tiny.yaml"]):
        done = call("train", "--reproduce", "runs/tiny", *more)
        assert (done.returncode, "--reproduce" in done.stderr) == (2, True)
