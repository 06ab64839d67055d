"""Training as a whole: stopped and continued it is the run that was never stopped, bit by bit."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.testing import assert_close

from data.prepared import Prepared
from data.vocabulary import EOS_ID, PAD_ID
from transformer import model_directory
from transformer.config import Settings
from transformer.errors import RunError
from transformer.evaluation.report import draw_report
from transformer.model_directory import WEIGHTS, load_model, load_tensors
from transformer.training import loop
from transformer.training.checkpoint import PROGRESS, STATE, list_checkpoints
from transformer.training.choices import Choices
from transformer.training.group import ALONE
from transformer.training.loop import train
from transformer.training.monitor import Monitor
from transformer.training.run_directory import RunDirectory
from transformer.training.schedule import learning_rate
from transformer.training.setup import set_up
from transformer.training.validation import Evidence, Validation, validate

MakeSettings = Callable[..., Settings]
Files = Callable[[Path], dict[str, bytes]]
EPOCH = 7  # updates


class Crash(Exception):
    """Stands for whatever ends a process between two updates."""


@pytest.fixture
def before_update(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], object]], None]:
    """Call something when an update is about to begin, once; the first update has number 1."""
    update = loop.update
    actions: dict[int, Callable[[], object]] = {}

    def watched(state: Any, *arguments: Any) -> Any:
        actions.pop(state.progress.step + 1, lambda: None)()
        return update(state, *arguments)

    monkeypatch.setattr(loop, "update", watched)
    return actions.__setitem__


def crash() -> None:
    raise Crash


MEASURED = ("seconds", "tokens_per_second", "memory_gib")


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def metrics_of(run: RunDirectory) -> list[dict[str, Any]]:
    """The lines without what a clock and the system measured."""
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in MEASURED} for line in lines]


def progress_of(checkpoint: Path) -> dict[str, Any]:
    saved: dict[str, Any] = json.loads((checkpoint / PROGRESS).read_text())["progress"]
    return saved | {"seconds": 0}


def assert_same_run(run: RunDirectory, other: RunDirectory, files_of: Files) -> None:
    """The same checkpoints, metrics and model, byte by byte, but for seconds."""
    assert metrics_of(run) == metrics_of(other)
    for directory in ("checkpoints", "model"):
        one, two = files_of(run.path / directory), files_of(other.path / directory)
        assert one.keys() == two.keys()
        assert [n for n in one if one[n] != two[n] and not n.endswith(PROGRESS)] == []
    for step, path in list_checkpoints(run.checkpoints).items():
        assert progress_of(path) == progress_of(list_checkpoints(other.checkpoints)[step])


@pytest.fixture(scope="module", params=[None, 0.9], ids=["no moving average", "moving average"])
def long_settings(request: pytest.FixtureRequest, make_settings: MakeSettings) -> Settings:
    """Ten updates, with dropout, over the end of an epoch."""
    train = {"max_steps": 10, "ema_decay": request.param, "average_checkpoints": 3, "log_every": 3}
    return make_settings(model={"dropout": 0.2}, train=train)


@pytest.fixture(scope="module")
def uninterrupted(
    long_settings: Settings, prepared: Prepared, tmp_path_factory: pytest.TempPathFactory
) -> RunDirectory:
    run = RunDirectory(tmp_path_factory.mktemp("uninterrupted"))
    assert train(long_settings, prepared, run).model == run.model
    return run


@pytest.mark.parametrize("crashes", [[1], [4], [EPOCH + 1], [EPOCH + 2], [2, 4, 6, 10]], ids=str)
def test_a_run_that_crashed_and_went_on_is_the_run_that_did_not(
    crashes: list[int],
    long_settings: Settings,
    uninterrupted: RunDirectory,
    prepared: Prepared,
    tmp_path: Path,
    before_update: Callable[..., None],
    files_of: Files,
) -> None:
    """Updates after the last checkpoint are lost and done again; their lines of metrics are not there twice."""
    run = RunDirectory(tmp_path)
    for step in crashes:
        before_update(step, crash)
        torch.rand(step)  # each process begins with other random numbers
        with pytest.raises(Crash):
            train(long_settings, prepared, run)
        with run.metrics.open("a") as file:
            file.write('{"step": 1')  # and half a line
    assert train(long_settings, prepared, run).model == run.model
    last = progress_of(run.checkpoints / "last")
    assert (last["step"], last["epoch"], last["update"]) == (10, 1, 10 - EPOCH)
    assert_same_run(run, uninterrupted, files_of)


@pytest.mark.parametrize("step", [4, EPOCH])
def test_a_run_stopped_by_ctrl_c_goes_on_as_if_it_had_not_been(
    step: int,
    long_settings: Settings,
    uninterrupted: RunDirectory,
    prepared: Prepared,
    tmp_path: Path,
    before_update: Callable[..., None],
) -> None:
    """The update at hand is finished and saved. At the end of an epoch the position is past its last update."""
    run = RunDirectory(tmp_path)
    before_update(step, press_ctrl_c)
    assert train(long_settings, prepared, run).model is None
    regular = step % long_settings.train.save_every == 0 or step % long_settings.train.validate_every == 0
    assert (run.checkpoints / "last").resolve().name == f"{'step' if regular else 'stop'}-{step:08d}"
    assert not run.model.exists()
    assert train(long_settings, prepared, run).model == run.model
    for name in (WEIGHTS, STATE):
        one, other = (each.checkpoints / "last" / name for each in (run, uninterrupted))
        assert one.read_bytes() == other.read_bytes()
    # Where it was stopped takes no part in what is averaged and kept.
    assert list_checkpoints(run.checkpoints).keys() == list_checkpoints(uninterrupted.checkpoints).keys()
    assert not list_checkpoints(run.checkpoints, "stop")
    assert metrics_of(run) == metrics_of(uninterrupted)  # the line that was due comes when it is due
    assert (run.model / WEIGHTS).read_bytes() == (uninterrupted.model / WEIGHTS).read_bytes()


@pytest.mark.parametrize("model_from", ["last", "best", "average_last", "average_best"])
def test_a_run_may_be_ended_where_it_was_interrupted(
    model_from: str, prepared: Prepared, make_settings: MakeSettings, tmp_path: Path, before_update: Callable[..., None]
) -> None:
    """Before the first regular checkpoint, by setting max_steps to the step of the interruption."""
    run = RunDirectory(tmp_path)
    before_update(1, press_ctrl_c)
    train(make_settings(), prepared, run)
    assert train(make_settings(train={"max_steps": 1, "model_from": model_from}), prepared, run).model == run.model
    last = load_tensors(run.checkpoints / "last" / WEIGHTS)
    assert_close(load_tensors(run.model / WEIGHTS), last, rtol=0, atol=0)


@pytest.mark.parametrize("moment", ["log", "log_validation"])
@pytest.mark.parametrize("step", [3, 4])
def test_ctrl_c_may_come_while_the_numbers_are_read_or_validated(
    moment: str,
    step: int,
    prepared: Prepared,
    make_settings: MakeSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also after a step that is logged but not saved: then the next one is saved."""
    watched = getattr(Monitor, moment)

    def pressed(monitor: Monitor, what: Any, *rest: Any, **more: Any) -> None:
        watched(monitor, what, *rest, **more)
        if what.step == step:
            press_ctrl_c()

    monkeypatch.setattr(Monitor, moment, pressed)
    settings, run = make_settings(train={"max_steps": 8, "save_every": 8}), RunDirectory(tmp_path)
    finished = train(settings, prepared, run)
    happens = moment == "log" or step % settings.train.validate_every == 0
    assert (finished.model is None) is happens
    if happens:
        newest = max(list_checkpoints(run.checkpoints) | list_checkpoints(run.checkpoints, "stop"))
        assert step <= newest <= step + 1
        assert progress_of(run.checkpoints / "last")["step"] == newest


def test_case_s2_the_rate_and_adams_moments_go_on(
    prepared: Prepared, make_settings: MakeSettings, tmp_path: Path
) -> None:
    """Warm-up 8: run A does 10 updates and saves at 5; run B stops at 5 and goes on to 10."""
    common = {"warmup_steps": 8, "save_every": 5, "validate_every": 5}
    whole, part = make_settings(train=common | {"max_steps": 10}), make_settings(train=common | {"max_steps": 5})
    run_a, run_b = RunDirectory(tmp_path / "a"), RunDirectory(tmp_path / "b")
    train(whole, prepared, run_a)
    train(part, prepared, run_b)

    state, _, _ = set_up(whole, prepared, run_b)
    at_5 = load_tensors(run_a.checkpoints / "step-00000005" / STATE)
    for name, parameter in state.network.named_parameters():
        moments = state.optimizers[0].state[parameter]
        assert float(moments["step"]) == 5
        assert moments["exp_avg"].abs().max() > 0
        assert torch.equal(moments["exp_avg"], at_5[f"optimizer.{name}.exp_avg"])
    train(whole, prepared, run_b)
    rates = {
        name: [str(line["lr"]) for line in metrics_of(run) if "lr" in line]
        for name, run in (("a", run_a), ("b", run_b))
    }
    assert rates["a"][5:] == rates["b"][5:]
    assert len(rates["b"]) == 10
    assert rates["b"][5] == str(learning_rate(6, whole.train, whole.model.d_model))
    assert rates["b"][5] != str(learning_rate(1, whole.train, whole.model.d_model))


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[float]], None]:
    """Let validations find these BLEU scores, one after the other."""

    def script(bleus: list[float]) -> None:
        def validate(network: Any, prepared: Any, settings: Any, choices: Any, step: int, group: Any) -> Any:
            return Validation(step, 1.0, bleus.pop(0), 50.0), Evidence([], [])

        monkeypatch.setattr(loop, "validate", validate)

    return script


def test_case_c2_best_and_patience_survive_a_resume(
    prepared: Prepared,
    make_settings: MakeSettings,
    tmp_path: Path,
    scores: Callable[[list[float]], None],
    before_update: Callable[..., None],
    files_of: Files,
) -> None:
    """Validations 30, 25, 24, a kill, 26: the third that is not better ends the run; best is still that of 30.

    (Saving the second has waited for the first, so that it is there before the third update.)
    """
    scores([30, 25, 24, 26, 99])
    run = RunDirectory(tmp_path)
    wanted = {"max_steps": 20, "validate_every": 1, "save_every": 1, "patience": 3, "average_checkpoints": 1}
    settings = make_settings(train=wanted)
    best: dict[str, bytes] = {}
    before_update(3, lambda: best.update(files_of(run.checkpoints / "best")))
    before_update(4, crash)
    with pytest.raises(Crash):
        train(settings, prepared, run)
    assert train(settings, prepared, run).model == run.model
    assert files_of((run.checkpoints / "best").resolve()) == best
    assert len(best) == 6
    saved = progress_of(run.checkpoints / "last")
    assert [v["bleu"] for v in saved["validations"]] == [30, 25, 24, 26]  # and not one more
    assert saved["step"] == 4
    assert list(list_checkpoints(run.checkpoints)) == [1, 3, 4]  # one before the newest, in case that is damaged


def test_patience_that_has_run_out_ends_a_run_before_its_next_update(
    prepared: Prepared, make_settings: MakeSettings, tmp_path: Path, scores: Callable[[list[float]], None]
) -> None:
    scores([3, 2, 1])
    run = RunDirectory(tmp_path)
    for _ in range(2):
        wanted = {"max_steps": 20, "validate_every": 1, "patience": 2, "model_from": "best"}
        assert train(make_settings(train=wanted), prepared, run).model == run.model
        assert max(list_checkpoints(run.checkpoints)) == 3
    best = load_tensors(run.checkpoints / "step-00000001" / WEIGHTS)
    assert_close(load_tensors(run.model / WEIGHTS), best, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("model_from", "steps"),
    [("last", [6]), ("best", [2]), ("average_last", [5, 6]), ("average_best", [2, 4])],
)
def test_the_model_is_made_from_the_checkpoints_that_the_settings_name(
    model_from: str,
    steps: list[int],
    prepared: Prepared,
    make_settings: MakeSettings,
    tmp_path: Path,
    scores: Callable[[list[float]], None],
) -> None:
    scores([1, 9, 3, 8, 5, 2])
    wanted = {"max_steps": 6, "validate_every": 1, "average_checkpoints": 2, "model_from": model_from}
    run = RunDirectory(tmp_path)
    assert train(make_settings(train=wanted | {"ema_decay": 0.5}), prepared, run).model == run.model
    found = load_tensors(run.model / WEIGHTS)
    weights = [load_tensors(list_checkpoints(run.checkpoints)[step] / WEIGHTS) for step in steps]
    for name, tensor in found.items():
        assert_close(tensor, torch.stack([each[name] for each in weights]).mean(dim=0))
    load_model(run.path)


def test_a_finished_run_is_finished_and_a_longer_one_goes_on(
    prepared: Prepared, make_settings: MakeSettings, tmp_path: Path, before_update: Callable[..., None]
) -> None:
    run = RunDirectory(tmp_path)
    train(make_settings(train={"max_steps": 4}), prepared, run)
    before = run.metrics.read_bytes()
    before_update(5, crash)
    assert train(make_settings(train={"max_steps": 4}), prepared, run).model == run.model  # without another update
    assert run.metrics.read_bytes() == before
    with pytest.raises(Crash):
        train(make_settings(train={"max_steps": 6}), prepared, run)
    assert train(make_settings(train={"max_steps": 6}), prepared, run).model == run.model
    assert progress_of(run.checkpoints / "last")["step"] == 6


def test_a_full_disk_costs_no_more_than_the_checkpoint_at_hand(
    prepared: Prepared,
    long_settings: Settings,
    uninterrupted: RunDirectory,
    tmp_path: Path,
    files_of: Files,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, saved = RunDirectory(tmp_path), 0

    def full(tensors: dict[str, Tensor], path: Path, *_: object) -> None:
        nonlocal saved
        saved += 1
        if saved == 4:  # the state of the second checkpoint, whose weights are written already
            raise SafetensorError("No space left on device (os error 28)")
        save_file(tensors, path)

    save_file = model_directory.save_file
    monkeypatch.setattr(model_directory, "save_file", full)
    with pytest.raises(RunError, match="No space left on device"):
        train(long_settings, prepared, run)
    assert list(list_checkpoints(run.checkpoints)) == [2]
    train(long_settings, prepared, run)
    assert_same_run(run, uninterrupted, files_of)


def test_a_loss_that_is_no_number_ends_the_run_and_is_not_saved(
    prepared: Prepared, make_settings: MakeSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = make_settings(train={"lr": 10.0, "warmup_steps": 1, "log_every": 50, "max_steps": 50})
    run = RunDirectory(tmp_path)
    update = loop.update

    def diverge(state: Any, *arguments: Any) -> Any:
        if state.progress.step == 2:
            state.network.encoder.embedding.table.weight.data.fill_(float("nan"))
        return update(state, *arguments)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RunError) as error:
        patch.setattr(loop, "update", diverge)
        train(settings, prepared, run)
    assert capsys.readouterr().err.endswith("\n")  # the bar is closed: the message has a line of its own
    assert "step 3 (loss nan" in str(error.value)
    assert list(list_checkpoints(run.checkpoints)) == [2]


def test_every_sentence_is_trained_on_once_an_epoch_in_another_order(
    prepared: Prepared, make_settings: MakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates: list[list[tuple[int, ...]]] = []
    update = loop.update

    def watched(state: Any, taken: Any, *arguments: Any) -> Any:
        rows = [row for batch in taken.batches for row in batch.tgt_out.tolist()]
        updates.append(sorted(tuple(i for i in row if i != PAD_ID) for row in rows))
        return update(state, taken, *arguments)

    monkeypatch.setattr(loop, "update", watched)
    settings = make_settings(train={"max_steps": 2 * EPOCH, "validate_every": 100, "save_every": 100})
    train(settings, prepared, RunDirectory(tmp_path))
    tgt = prepared.train.tgt
    everything = sorted((*tgt[i].tolist(), EOS_ID) for i in range(len(tgt)))
    for epoch in (updates[:EPOCH], updates[EPOCH:]):
        assert sorted(sentence for each in epoch for sentence in each) == everything
    assert updates[:EPOCH] != updates[EPOCH:]


@pytest.mark.parametrize("ema_decay", [None, 0.9])
def test_what_was_validated_is_what_users_get(
    ema_decay: float | None, prepared: Prepared, make_settings: MakeSettings, tmp_path: Path
) -> None:
    settings, run = make_settings(train={"ema_decay": ema_decay}), RunDirectory(tmp_path)
    train(settings, prepared, run)
    reported = {line["step"]: line["valid_nll_per_token"] for line in metrics_of(run) if "valid_bleu" in line}
    assert list(reported) == [4, 6]
    for step, nll in reported.items():
        network = load_model(list_checkpoints(run.checkpoints)[step]).network
        found, _ = validate(network, prepared, settings, Choices("cpu", "fp32", "explicit", {}), step, ALONE)
        assert found.nll_per_token == pytest.approx(nll, rel=1e-6)


def test_the_loss_falls(prepared: Prepared, make_settings: MakeSettings, tmp_path: Path) -> None:
    settings = make_settings(train={"max_steps": 40, "validate_every": 40, "save_every": 40, "log_every": 5})
    run = RunDirectory(tmp_path)
    train(settings, prepared, run)
    nll = [line["nll_per_token"] for line in metrics_of(run) if "nll_per_token" in line]
    assert nll[-1] < 0.8 * nll[0]


# --- signals ---


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_ends_a_run_is_known(
    number: signal.Signals, prepared: Prepared, make_settings: MakeSettings, tmp_path: Path, before_update: Any
) -> None:
    before_update(3, lambda: signal.raise_signal(number))
    finished = train(make_settings(), prepared, RunDirectory(tmp_path))
    assert (finished.model, finished.signal) == (None, number)


def test_sigusr1_saves_and_the_run_goes_on_as_if_nothing_had_been(
    long_settings: Settings, uninterrupted: RunDirectory, prepared: Prepared, tmp_path: Path, before_update: Any
) -> None:
    run, found = RunDirectory(tmp_path), []
    before_update(3, lambda: signal.raise_signal(signal.SIGUSR1))
    before_update(5, lambda: found.extend(list_checkpoints(run.checkpoints, "stop")))
    assert train(long_settings, prepared, run).model == run.model
    assert found in ([3], [])  # written beside the training, and gone after the next
    assert (run.model / WEIGHTS).read_bytes() == (uninterrupted.model / WEIGHTS).read_bytes()
    assert metrics_of(run) == metrics_of(uninterrupted)


# --- divergence ---


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[int, int]]]:
    """The update of this place, whenever it comes, makes the weights no numbers; returns the places trained on."""

    def poison(*places: tuple[int, int], always: bool = False) -> list[tuple[int, int]]:
        update, seen = loop.update, []

        def watched(state: Any, taken: Any, *arguments: Any) -> Any:
            place = (taken.part, taken.update)
            seen.append(place)
            if always or place in places:
                with torch.no_grad():
                    state.network.projection.weight[0, 0] = float("nan")
            return update(state, taken, *arguments)

        monkeypatch.setattr(loop, "update", watched)
        return seen

    return poison


ROLLBACK = {"on_divergence": "rollback", "save_every": 4, "validate_every": 4, "log_every": 2, "max_steps": 12}


def test_rollback_skips_the_updates_that_led_there_and_says_so(
    prepared: Prepared,
    make_settings: MakeSettings,
    tmp_path: Path,
    poisoned: Any,
    capsys: pytest.CaptureFixture[str],
    files_of: Files,
) -> None:
    """Saved at step 4, poisoned in the 6th update of the first epoch: on with the 7th, as step 5."""
    seen = poisoned((0, 5))
    settings, run = make_settings(train=ROLLBACK), RunDirectory(tmp_path / "a")
    assert train(settings, prepared, run).model == run.model
    assert seen == [(0, i) for i in range(6)] + [(0, 6), *((1, i) for i in range(EPOCH))]
    told = capsys.readouterr().err
    assert "back to step 4, and update 5 of epoch 1 to update 6 of epoch 1 are skipped" in told
    saved = progress_of(run.checkpoints / "last")
    assert saved["skipped"] == [{"first_part": 0, "first": 4, "end_part": 0, "end": 6, "step": 6}]
    assert saved["step"] == 12
    steps = [line["step"] for line in metrics_of(run) if "lr" in line]
    assert steps == [2, 4, 6, 8, 10, 12]
    again = RunDirectory(tmp_path / "b")  # and once more, as it is a function of the settings
    train(settings, prepared, again)
    assert_same_run(again, run, files_of)


def test_a_run_killed_after_a_rollback_ends_as_the_one_that_was_not(
    prepared: Prepared,
    make_settings: MakeSettings,
    tmp_path: Path,
    poisoned: Any,
    files_of: Files,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = poisoned((0, 5))
    settings = make_settings(train=ROLLBACK)
    whole, killed = RunDirectory(tmp_path / "a"), RunDirectory(tmp_path / "b")
    train(settings, prepared, whole)
    update = loop.update

    def killed_at(place: tuple[int, int]) -> Callable[..., Any]:
        def crashing(state: Any, taken: Any, *arguments: Any) -> Any:
            if (taken.part, taken.update) == place:
                raise Crash
            return update(state, taken, *arguments)

        return crashing

    for place in ((0, 6), (1, 1)):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
            patch.setattr(loop, "update", killed_at(place))
            train(settings, prepared, killed)
    train(settings, prepared, killed)
    assert_same_run(killed, whole, files_of)
    assert seen


def test_what_no_skipping_helps_ends_the_run(
    prepared: Prepared, make_settings: MakeSettings, tmp_path: Path, poisoned: Any
) -> None:
    settings, run = make_settings(train=ROLLBACK | {"max_steps": 4}), RunDirectory(tmp_path)
    train(settings, prepared, run)
    seen = poisoned(always=True)
    with pytest.raises(RunError, match=r"5 times in a row.*last healthy checkpoint is .*step-00000004"):
        train(make_settings(train=ROLLBACK), prepared, run)
    assert 6 <= len(seen) <= 20


def test_without_a_checkpoint_there_is_nothing_to_go_back_to(
    prepared: Prepared, make_settings: MakeSettings, tmp_path: Path, poisoned: Any
) -> None:
    poisoned((0, 0))
    told = r"step 1 \(loss .*update 1 of epoch 1, of \d+ prepared pairs \(\d+, .*checkpoint is none"
    with pytest.raises(RunError, match=told):
        train(make_settings(train=ROLLBACK), prepared, RunDirectory(tmp_path))


def test_what_a_rollback_skips_is_reported_over_the_end_of_an_epoch(
    prepared: Prepared, make_settings: MakeSettings, tmp_path: Path, poisoned: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = poisoned((1, 1))
    settings, run = make_settings(train=ROLLBACK | {"save_every": 6, "validate_every": 6}), RunDirectory(tmp_path)
    train(settings, prepared, run)
    assert seen[:10] == [(0, i) for i in range(7)] + [(1, 0), (1, 1), (1, 2)]
    assert "update 7 of epoch 1 to update 2 of epoch 2 are skipped" in capsys.readouterr().err
    saved = progress_of(run.checkpoints / "last")["skipped"]
    assert saved == [{"first_part": 0, "first": 6, "end_part": 1, "end": 2, "step": 9}]


def test_a_rollback_goes_to_where_an_undisturbed_run_would(
    prepared: Prepared, make_settings: MakeSettings, tmp_path: Path, poisoned: Any, files_of: Files
) -> None:
    """Not to a checkpoint that a signal has made since: then other data would be skipped."""
    settings = make_settings(train=ROLLBACK)
    whole, disturbed = RunDirectory(tmp_path / "a"), RunDirectory(tmp_path / "b")
    seen = poisoned((0, 5))
    train(settings, prepared, whole)
    update = loop.update

    def asking(state: Any, taken: Any, *arguments: Any) -> Any:
        if state.progress.step == 4:
            signal.raise_signal(signal.SIGUSR1)
        return update(state, taken, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "update", asking)
        train(settings, prepared, disturbed)
    assert_same_run(disturbed, whole, files_of)
    assert seen


@pytest.mark.parametrize("where", ["step", "validate"])
def test_too_little_memory_elsewhere_is_one_message(
    where: str, prepared: Prepared, make_settings: MakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **more: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB\nmore")

    if where == "validate":
        monkeypatch.setattr(loop, "validate", full)
    else:
        monkeypatch.setattr(torch.optim.Adam, "step", full)
    with pytest.raises(RunError, match=r"out of memory: CUDA out of memory\. Tried to allocate 9 GiB\. Lower"):
        train(make_settings(), prepared, RunDirectory(tmp_path))


def test_a_page_is_drawn_after_each_validation(
    prepared: Prepared, make_settings: MakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def draw(path: Path, *, thorough: bool) -> str:
        problem = draw_report(path, thorough=thorough)
        drawn.append((path / "report.html").read_text("utf-8"))
        return problem

    monkeypatch.setattr(loop, "draw_report", draw)
    train(make_settings(train={"max_steps": 4, "validate_every": 2}), prepared, RunDirectory(tmp_path))
    assert [f"Training: {step} of 4 updates" in page for step, page in zip((2, 4), drawn, strict=True)] == [True, True]


def test_a_page_that_cannot_be_drawn_is_said_and_training_goes_on(
    prepared: Prepared, make_settings: MakeSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.html").mkdir(parents=True)
    finished = train(make_settings(train={"max_steps": 2}), prepared, RunDirectory(tmp_path))
    assert finished.model is not None
    assert "no report.html this time: IsADirectoryError" in capsys.readouterr().err
