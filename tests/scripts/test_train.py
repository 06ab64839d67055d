"""`train.py` as a user runs it: stopped, killed, resumed, and refused."""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CopyRun = Any
Program = Callable[..., Any]
SHORT = ["train.max_steps=12", "train.cooldown_steps=0", "train.validate_every=6", "train.save_every=2"]


@pytest.fixture
def folder(copy_run: CopyRun, tmp_path: Path) -> Path:
    """The prepared copy task, without a run."""
    shutil.copytree(copy_run.folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("runs"))
    return tmp_path


@pytest.fixture
def arguments(copy_run: CopyRun) -> list[str]:
    """Those of the copy task, for a run of a few updates; an override may be given once."""
    replaced = {setting.partition("=")[0] for setting in SHORT}
    return [argument for argument in copy_run.arguments if argument.partition("=")[0] not in replaced] + SHORT


def weights(folder: Path) -> bytes:
    return (folder / "runs/copy/checkpoints/last/model.safetensors").read_bytes()


def steps(folder: Path) -> list[int]:
    lines = (folder / "runs/copy/metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["step"] for line in lines if "valid_bleu" not in line]


def popen(folder: Path, arguments: list[str], **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "train.py"), *arguments]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, **options)


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists() and process.poll() is None:
        time.sleep(0.01)


def test_ctrl_c_saves_and_exits_130_and_the_same_command_ends_as_if_nothing_had_happened(
    folder: Path, arguments: list[str], program: Program, tmp_path_factory: pytest.TempPathFactory
) -> None:
    undisturbed = tmp_path_factory.mktemp("undisturbed")
    shutil.copytree(folder, undisturbed, dirs_exist_ok=True)
    assert program(undisturbed, "train", *arguments).returncode == 0

    process = popen(folder, arguments)
    wait_for(folder / "runs/copy/checkpoints/step-00000002", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "the same command goes on" in err and "Traceback" not in err
    assert program(folder, "train", *arguments).returncode == 0
    assert weights(folder) == weights(undisturbed)
    assert steps(folder)[-1] == 12 and len(set(steps(folder))) == len(steps(folder))


def kill_and_go_on(folder: Path, arguments: list[str], program: Program, n_kills: int) -> None:
    chance = random.Random(n_kills)
    for _ in range(n_kills):
        process = popen(folder, arguments)
        wait_for(folder / "runs/copy/settings.yaml", process)
        time.sleep(chance.uniform(0, 1.5))
        process.kill()
        process.communicate()
    assert program(folder, "train", *arguments).returncode == 0


def test_case_c3_killed_at_random_moments_a_run_ends_with_the_weights_of_an_undisturbed_one(
    folder: Path, arguments: list[str], program: Program, tmp_path_factory: pytest.TempPathFactory
) -> None:
    undisturbed = tmp_path_factory.mktemp("undisturbed")
    shutil.copytree(folder, undisturbed, dirs_exist_ok=True)
    assert program(undisturbed, "train", *arguments).returncode == 0
    kill_and_go_on(folder, arguments, program, n_kills=2)
    assert weights(folder) == weights(undisturbed)
    assert steps(folder) == steps(undisturbed)
    assert not list((folder / "runs/copy/checkpoints").glob("*.partial"))


@pytest.mark.slow
def test_case_c3_killed_twenty_times_a_run_ends_with_the_weights_of_an_undisturbed_one(
    folder: Path, arguments: list[str], program: Program, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arguments = [a for a in arguments if not a.startswith(("train.max_steps", "train.save_every"))]
    arguments += ["train.max_steps=60", "train.save_every=1"]
    undisturbed = tmp_path_factory.mktemp("undisturbed")
    shutil.copytree(folder, undisturbed, dirs_exist_ok=True)
    assert program(undisturbed, "train", *arguments).returncode == 0
    kill_and_go_on(folder, arguments, program, n_kills=20)
    assert weights(folder) == weights(undisturbed)
    assert steps(folder) == steps(undisturbed)


def test_a_full_disk_is_one_message_and_the_checkpoint_before_stays(
    folder: Path, arguments: list[str], program: Program
) -> None:
    assert program(folder, "train", *arguments).returncode == 0
    before = weights(folder)
    longer = [a.replace("train.max_steps=12", "train.max_steps=14") for a in arguments]

    def limit() -> None:  # no file may grow beyond 100 kB: the weights cannot be written
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    process = popen(folder, longer, preexec_fn=limit)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1 and "Traceback" not in err
    assert err.splitlines()[-1].startswith("error:") and "cannot be written" in err
    assert weights(folder) == before
    assert program(folder, "train", *longer).returncode == 0


def test_a_mistake_is_one_message_with_a_remedy_and_the_right_exit_code(
    folder: Path, arguments: list[str], program: Program
) -> None:
    def refused(code: int, *wanted: str, settings: list[str]) -> None:
        done = program(folder, "train", *settings)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        for text in wanted:
            assert text in done.stderr
        assert not (folder / "runs/other").exists()

    others = [a for a in arguments if not a.startswith("name=")]
    refused(1, "prepared/other", "run preprocess.py", settings=[*others, "name=other"])
    refused(2, "--confg", "--config", settings=["--confg", "x.yaml"])
    refused(2, "train.learning_rte", "train.lr", settings=[*arguments, "train.learning_rte=1"])
    refused(2, "train.device", settings=[*arguments, "train.device=cuda"])


def test_a_run_of_other_settings_or_another_vocabulary_is_refused_and_left_alone(
    folder: Path, arguments: list[str], program: Program
) -> None:
    assert program(folder, "train", *arguments).returncode == 0
    before = weights(folder)
    changed = [a for a in arguments if not a.startswith("train.lr")]
    done = program(folder, "train", *changed, "train.lr=1e-3", "seed=7")
    assert done.returncode == 1 and "train.lr: 0.008 → 0.001" in done.stderr and "seed: 1 → 7" in done.stderr

    (folder / "train.txt").write_text((folder / "train.txt").read_text().replace("w1", "v1"))
    assert program(folder, "preprocess", *arguments).returncode == 0
    longer = [a.replace("train.max_steps=12", "train.max_steps=14") for a in arguments]
    done = program(folder, "train", *longer)
    assert done.returncode == 1 and "another vocabulary" in done.stderr
    assert weights(folder) == before
