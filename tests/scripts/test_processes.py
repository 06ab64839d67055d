"""Several processes under torchrun, and signals: what is trained stays the same, and nothing waits for ever."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess, Popen
from typing import Any

import pytest

from benchmarks.process_count import COMMON, SHARDED, Way, largest_difference, train_in
from benchmarks.tiny_run import Program, alive, metrics_of, prepare, train_command
from data.prepared import load_prepared
from transformer.model_directory import load_model

Call = Callable[..., CompletedProcess[str]]
Start = Callable[..., Popen[str]]
Launch = Callable[..., Program]

STATE = ("checkpoints/last/model.safetensors", "checkpoints/last/training.safetensors", "model/model.safetensors")
SECONDS = 60  # within which all processes must be gone when one has failed


@pytest.fixture
def launch(tiny: Path, call: Call) -> Iterator[Launch]:
    """Start train.py, or a script around it, on several processes; none is left after the test."""
    programs: list[Program] = []
    assert call("preprocess", "--config", "tiny.yaml").returncode == 0

    def run(processes: int, *overrides: str, **keywords: Any) -> Program:
        programs.append(Program(tiny, train_command(processes, *overrides, **keywords)))
        return programs[-1]

    yield run
    for program in programs:
        if program.runs:
            program.find_processes()
            program.kill()


def losses(run: Path) -> dict[int, tuple[float, float]]:
    """Step → nll per token and gradient norm."""
    return {row["step"]: (row["nll_per_token"], row["grad_norm"]) for row in metrics_of(run) if "lr" in row}


def assert_same_training(run: Path, other: Path) -> None:
    """The same tokens in each update, and the same losses and gradients but for rounding."""
    rows, others = metrics_of(run), metrics_of(other)
    assert [(row["step"], row.get("n_tokens")) for row in rows] == [
        (row["step"], row.get("n_tokens")) for row in others
    ]
    for row, expected in zip(rows, others, strict=True):
        for key in ("nll_per_token", "smoothed_loss_per_token", "grad_norm", "valid_nll_per_token"):
            if key in expected:
                assert row[key] == pytest.approx(expected[key], rel=1e-5 if "loss" in key or "nll" in key else 1e-4)


# --- R1: shares that are not equal ---


@pytest.mark.parametrize(
    ("processes", "batch_tokens", "max_tokens"),
    [
        (3, 10, 50),  # one or two sentences an update: a process has none
        pytest.param(2, 100, 25, marks=pytest.mark.slow),  # micro-batches of two sentences and of one
    ],
)
def test_case_r1_uneven_shares_of_an_update_train_on_each_pair_once_an_epoch(
    tiny: Path, call: Call, launch: Launch, processes: int, batch_tokens: int, max_tokens: int
) -> None:
    for side, words in (("src", "the cat number {} sat"), ("tgt", "die katze nummer {} sass")):
        for name, numbers in (("few", range(9)), ("one", [300])):
            (tiny / f"{name}.{side}").write_text("".join(words.format(i) + "\n" for i in numbers))
    data = ["data.train=[{src: few.src, tgt: few.tgt}]", "data.valid=[{src: one.src, tgt: one.tgt}]"]
    data += ["vocabulary.path=prepared/tiny", "name=few", "data.drop_contamination=false", "data.filters=[]"]
    sizes = [f"train.batch_tokens={batch_tokens}", f"train.max_tokens={max_tokens}", "train.max_steps=20"]
    sizes += ["train.validate_every=5", "model.dropout=0"]
    assert call("preprocess", "--config", "tiny.yaml", *data).returncode == 0
    assert call("train", "--config", "tiny.yaml", *data, *sizes).returncode == 0
    alone = (tiny / "runs/few").rename(tiny / "runs/alone")

    together = launch(processes, *data, *sizes)
    assert together.wait(120) == 0, together.told
    assert_same_training(tiny / "runs/few", alone)
    corpus = load_prepared(tiny / "prepared/few").train
    first_epoch = [row for row in metrics_of(tiny / "runs/few") if row.get("epoch") == 0]
    assert first_epoch[-1]["n_tokens"] == int(corpus.tgt_lengths.sum()) + len(corpus)
    assert metrics_of(tiny / "runs/few")[-2]["epoch"] >= 1


# --- R2: one process fails ---

WRAPPER = """
import os, signal, sys
from pathlib import Path

sys.path.insert(0, {root!r})
import torch
import train
from transformer.command_line import run_command
from transformer.training import update

rank = int(os.environ.get("RANK", "0"))
Path(f"pid-{{rank}}").write_text(str(os.getpid()))
batch_loss, n_calls = update.batch_loss, 0

def failing(*arguments, **keywords):
    global n_calls
    n_calls += 1
    if rank == {rank} and n_calls {when}:
        Path("failed").touch()
        {what}
    return batch_loss(*arguments, **keywords)

update.batch_loss = failing
sys.exit(run_command(train.main))
"""


@pytest.fixture
def wrapper(tiny: Path) -> Callable[..., Path]:
    """train.py, in which one process does something else when it is about to compute a loss."""

    def write(what: str, when: str = ">= 3", rank: int = 1) -> Path:
        script = tiny / "wrapper.py"
        root = str(Path(__file__).resolve().parents[2])
        script.write_text(WRAPPER.format(root=root, what=what, when=when, rank=rank))
        return script

    return write


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ('raise RuntimeError("a cable was pulled")', "a cable was pulled"),
        pytest.param('raise torch.cuda.OutOfMemoryError("all is used up")', "all is used up", marks=pytest.mark.slow),
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", "Signal 9 (SIGKILL)", marks=pytest.mark.slow),
    ],
    ids=["an error", "out of memory", "killed"],
)
def test_case_r2_where_one_process_fails_all_end_and_the_last_checkpoint_is_whole(
    tiny: Path, call: Call, launch: Launch, wrapper: Callable[..., Path], what: str, told: str
) -> None:
    port, overrides = free_port(), ("train.save_every=1", "train.max_tokens=2000", "train.max_steps=8")
    launcher = ("--master-addr", "127.0.0.1", "--master-port", str(port))
    program = launch(2, *overrides, script=wrapper(what), launcher=launcher)
    assert program.wait_until((tiny / "failed").exists, 120), program.told
    failed = time.monotonic()
    assert program.wait(SECONDS) != 0
    pids = [int((tiny / f"pid-{rank}").read_text()) for rank in range(2)]
    while any(alive(pid) for pid in pids) and time.monotonic() - failed < SECONDS:
        time.sleep(0.1)
    assert not any(alive(pid) for pid in pids)
    assert told in program.told
    socket.create_server(("127.0.0.1", port)).close()

    assert load_model(tiny / "runs/tiny/checkpoints/last")
    saved = json.loads((tiny / "runs/tiny/checkpoints/last/training.json").read_text())["progress"]["step"]
    assert saved in (1, 2)
    assert call("train", "--config", "tiny.yaml", *overrides).returncode == 0
    assert list(losses(tiny / "runs/tiny")) == list(range(1, 9))


@pytest.mark.slow
def test_one_process_that_splits_a_micro_batch_for_memory_trains_on_the_same_gradient(
    tiny: Path, call: Call, launch: Launch, wrapper: Callable[..., Path]
) -> None:
    overrides = ("model.dropout=0", "train.max_tokens=2000", "train.max_steps=8")
    assert call("train", "--config", "tiny.yaml", *overrides).returncode == 0
    alone = (tiny / "runs/tiny").rename(tiny / "runs/alone")
    script = wrapper('raise torch.cuda.OutOfMemoryError("all is used up")', when="in (3, 4, 6)")
    program = launch(2, *overrides, script=script)
    assert program.wait(120) == 0, program.told
    assert "out of memory (process 1)" in program.told
    assert_same_training(tiny / "runs/tiny", alone)


@pytest.mark.slow
def test_a_port_that_is_taken_is_an_error_and_no_wait(launch: Launch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = launch(2, launcher=("--master-addr", "127.0.0.1", "--master-port", str(port)))
        assert program.wait(SECONDS) != 0
    assert str(port) in program.told


@pytest.mark.slow
def test_a_process_that_joins_at_a_taken_port_says_so_in_one_message(
    tiny: Path, launch: Launch, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under srun, where nobody but train.py itself opens the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        place = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for key, value in place.items():
            monkeypatch.setenv(key, str(value))
        process = start(tiny, "train", "--config", "tiny.yaml")
        _, told = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in told
    assert f"127.0.0.1:{port}" in told.rsplit("error: ", 1)[1]


@pytest.mark.slow
def test_two_runs_in_one_directory_are_refused(tiny: Path, call: Call, launch: Launch) -> None:
    program = launch(1, "train.max_steps=100000")
    assert program.wait_until((tiny / "runs/tiny/metrics.jsonl").exists, 120)
    done = call("train", "--config", "tiny.yaml", "train.max_steps=100000")
    assert (done.returncode, program.runs) == (1, True)
    assert "another process is training here" in done.stderr


# --- signals ---


def test_sigusr1_saves_and_goes_on_and_sigterm_saves_and_ends_with_143(tiny: Path, call: Call, start: Start) -> None:
    rare = ["--config", "tiny.yaml", "train.max_steps=250", "train.save_every=1000", "train.validate_every=1000"]
    assert call("preprocess", "--config", "tiny.yaml").returncode == 0
    assert call("train", *rare).returncode == 0
    run, undisturbed = tiny / "runs/tiny", (tiny / "runs/tiny").rename(tiny / "runs/undisturbed")

    process = start(tiny, "train", *rare)
    wait_for(process, lambda: len(metrics_of(run)) > 0)
    process.send_signal(signal.SIGUSR1)
    wait_for(process, (run / "checkpoints/last").exists)
    assert process.poll() is None
    saved, reached = (run / "checkpoints/last").resolve(), len(metrics_of(run))
    assert load_model(saved)
    wait_for(process, lambda: len(metrics_of(run)) > reached)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 143, told
    assert "saved in runs/tiny/checkpoints/last; the same command goes on from there" in told
    assert "Traceback" not in told
    assert load_model(run / "checkpoints/last")
    assert (run / "checkpoints/last").resolve() != saved
    assert reached < len(metrics_of(run)) < 250

    assert call("train", *rare).returncode == 0
    assert metrics_of(run) == metrics_of(undisturbed)
    assert [(run / name).read_bytes() for name in STATE] == [(undisturbed / name).read_bytes() for name in STATE]


def wait_for(process: Popen[str], there: Callable[[], bool]) -> None:
    while process.poll() is None and not there():
        time.sleep(0.002)


@pytest.mark.slow
def test_a_signal_to_one_process_is_obeyed_by_all_at_the_same_update(
    tiny: Path, call: Call, launch: Launch, wrapper: Callable[..., Path]
) -> None:
    rare = ("train.max_steps=2000", "train.save_every=5000", "train.validate_every=5000", "model.dropout=0")
    program = launch(2, *rare, script=wrapper("pass"))
    run = tiny / "runs/tiny"
    assert program.wait_until(lambda: len(metrics_of(run)) > 0, 120), program.told
    second = int((tiny / "pid-1").read_text())
    os.kill(second, signal.SIGUSR1)
    assert program.wait_until((run / "checkpoints/last").exists, 60), program.told
    assert program.runs
    saved = (run / "checkpoints/last").resolve()
    os.kill(second, signal.SIGTERM)
    assert program.wait(SECONDS) != 0
    assert "exitcode  : 143" in program.told
    assert (run / "checkpoints/last").resolve() != saved
    steps = len(metrics_of(run))
    assert 1 < steps < 2000

    further = (f"train.max_steps={steps + 20}", *rare[1:])
    assert call("train", "--config", "tiny.yaml", *further).returncode == 0
    begun_together = run.rename(tiny / "runs/begun-together")
    assert call("train", "--config", "tiny.yaml", *further).returncode == 0
    assert_same_training(begun_together, run)


@pytest.mark.slow
def test_sigterm_to_torchrun_ends_all_with_a_checkpoint(tiny: Path, launch: Launch) -> None:
    """A terminal or a scheduler may send it to the processes, too: it then comes twice."""
    program = launch(2, "train.max_steps=2000", "train.save_every=5000", "train.validate_every=5000")
    run = tiny / "runs/tiny"
    assert program.wait_until(lambda: len(metrics_of(run)) > 0, 120), program.told
    program.find_processes()
    for pid in reversed(program.pids):
        os.kill(pid, signal.SIGTERM)
    assert program.wait(SECONDS) != 0
    assert not any(alive(pid) for pid in program.pids)
    assert load_model(run / "checkpoints/last")
    assert len(metrics_of(run)) < 2000


# --- the number of processes is no hyper-parameter ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text and settings of a small run, prepared; see benchmarks/process_count.py."""
    folder = tmp_path_factory.mktemp("processes")
    prepare(folder, *COMMON)
    return folder


@pytest.fixture(scope="module")
def alone(folder: Path) -> list[dict[str, Any]]:
    """The metrics of one process whose updates are not divided."""
    return train_in(folder, Way(1, 2000))


@pytest.mark.slow
@pytest.mark.parametrize(
    "ways",
    [
        [Way(2, 2000)],
        [Way(2, 100)],
        [Way(2, 300), Way(1, 300)],
        [Way(2, 300, SHARDED)],
        [Way(2, 300, SHARDED), Way(1, 300, SHARDED)],
    ],
    ids=lambda ways: ", then ".join(map(str, ways)),
)
def test_fifty_updates_have_the_losses_of_one_process(
    folder: Path, alone: list[dict[str, Any]], ways: list[Way]
) -> None:
    rows = train_in(folder, *ways)
    assert len([row for row in rows if "lr" in row]) == 50
    assert largest_difference(alone, rows) <= 1e-5
