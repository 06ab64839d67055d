"""The run directory: one run's settings, its choices, and metrics without holes or repetitions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.config import Settings
from transformer.config_file import differences
from transformer.errors import RunError
from transformer.training.choices import Choices
from transformer.training.run_directory import CHANGEABLE, RunDirectory

MakeSettings = Callable[..., Settings]


@pytest.fixture
def run(tmp_path: Path, make_settings: MakeSettings) -> RunDirectory:
    run = RunDirectory(tmp_path / "runs" / "tiny")
    run.open(make_settings())
    return run


def steps_of(run: RunDirectory) -> list[int]:
    return [json.loads(line)["step"] for line in run.metrics.read_text().splitlines()]


# --- settings ---


def test_the_same_settings_open_the_run_again(run: RunDirectory, make_settings: MakeSettings) -> None:
    before = run.settings.read_bytes()
    run.open(make_settings())
    assert run.settings.read_bytes() == before


def test_a_run_of_other_settings_is_refused_and_every_difference_is_named(
    run: RunDirectory, make_settings: MakeSettings
) -> None:
    before = run.settings.read_bytes()
    other = make_settings(seed=2, model={"d_ff": 64}, train={"lr": 1e-4, "max_steps": 99})
    other = other.model_copy(update={"data": other.data.model_copy(update={"tgt_lang": "fr"})})
    with pytest.raises(RunError) as error:
        run.open(other)
    message = str(error.value)
    assert message.startswith(f"{run.path} holds a run of other settings")
    for difference in ("seed: 1 → 2", "model.d_ff: 48 → 64", "train.lr: 0.003 → 0.0001", "data.tgt_lang: 'de' → 'fr'"):
        assert difference in message
    assert "max_steps" not in message  # that may change
    assert "name=" in message  # the remedy
    assert run.settings.read_bytes() == before


CHANGES: dict[str, Any] = {
    "max_steps": 500,
    "max_tokens": 77,
    "compile": False,
    "parallel": "fully_shard",
    "on_divergence": "rollback",
    "cooldown_steps": 3,
    "threads": 1,
    "validate_every": 7,
    "validate_beam_size": 2,
    "best_by": "nll",
    "patience": 3,
    "patience_significance": True,
    "save_every": 5,
    "log_every": 2,
    "average_checkpoints": 9,
    "model_from": "best",
}


@pytest.mark.parametrize(("key", "value"), CHANGES.items())
def test_how_long_a_run_is_and_how_it_is_watched_may_change(
    key: str, value: Any, run: RunDirectory, make_settings: MakeSettings
) -> None:
    run.open(make_settings(train={key: value}))
    assert f"{key}: {json.dumps(value)}".replace('"', "") in run.settings.read_text()  # the run keeps the newest


def test_everything_that_may_change_is_a_setting_and_is_tested(make_settings: MakeSettings) -> None:
    changed = make_settings(train=CHANGES, export=["ctranslate2"])
    keys = {difference.key for difference in differences(make_settings(), changed)}
    assert keys == CHANGEABLE - {"data.test"}


@pytest.mark.parametrize("key", ["batch_tokens", "label_smoothing", "adam_beta2", "warmup_steps", "ema_decay"])
def test_what_an_update_does_may_not_change(key: str, run: RunDirectory, make_settings: MakeSettings) -> None:
    value = {"batch_tokens": 99, "warmup_steps": 99}.get(key, 0.5)
    with pytest.raises(RunError, match=f"train.{key}"):
        run.open(make_settings(train={key: value}))


def test_two_processes_do_not_train_one_run(run: RunDirectory, make_settings: MakeSettings) -> None:
    """Each would remove the other's checkpoints. The lock goes with its holder."""
    with pytest.raises(RunError, match="another process is training here"):
        RunDirectory(run.path).open(make_settings())
    run.open(make_settings())  # its own holder is free to
    path = run.path
    held = RunDirectory(path.parent / "other")
    held.open(make_settings())
    del held
    RunDirectory(path.parent / "other").open(make_settings())


def test_leftovers_of_a_killed_run_are_swept(run: RunDirectory, make_settings: MakeSettings) -> None:
    (run.path / ".model.partial").mkdir()
    (run.path / ".model.partial" / "model.json").write_text("{")
    (run.path / ".choices.json.partial").write_text("{")
    run.open(make_settings())
    assert not list(run.path.glob(".*"))


# --- choices ---


def test_choices_come_back_as_they_were(run: RunDirectory) -> None:
    assert run.load_choices() is None
    choices = Choices("cpu", "bf16", "explicit", {"bf16 explicit": 0.1 + 0.2, "fp32 fused": 1.5})
    run.save_choices(choices)
    assert run.load_choices() == choices


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        "[" * 100_000,
        '{"device": "cpu", "precision": "fp8", "attention": "explicit", "seconds": {}}',
        '{"device": "cpu", "precision": "fp32", "attention": "other", "seconds": {}}',
        '{"device": "cpu", "precision": "fp32", "attention": "fused"}',
        '{"device": 1, "precision": "fp32", "attention": "fused", "seconds": {}}',
        "\xff",
    ],
)
def test_damaged_choices_are_refused_with_a_remedy(text: str, run: RunDirectory) -> None:
    run.choices.write_bytes(text.encode("latin-1"))
    with pytest.raises(RunError, match=r"choices\.json: damaged; remove it"):
        run.load_choices()


# --- metrics ---


def test_metrics_of_steps_that_will_be_done_again_are_dropped(run: RunDirectory) -> None:
    for step in (1, 2, 2, 3, 4):  # 2 was also validated
        run.log({"step": step, "lr": 1 / 3})
    before = run.metrics.read_text().splitlines()
    run.forget_metrics_after(2)
    assert run.metrics.read_text().splitlines() == before[:3]
    run.log({"step": 3})
    assert steps_of(run) == [1, 2, 2, 3]


def test_a_run_without_metrics_has_none_to_forget(run: RunDirectory) -> None:
    run.forget_metrics_after(0)
    assert not run.metrics.exists()


def test_a_line_cut_anywhere_by_a_kill_is_dropped(run: RunDirectory) -> None:
    """Also where only the line end is missing: the next line would be written behind it."""
    run.log({"step": 1, "lr": 0.5})
    whole = run.metrics.read_bytes()
    line = whole.replace(b"1", b"2", 1)
    for length in range(len(line)):
        run.metrics.write_bytes(whole + line[:length])
        run.forget_metrics_after(2)
        assert run.metrics.read_bytes() == whole
    run.metrics.write_bytes(whole + line)
    run.forget_metrics_after(2)
    assert run.metrics.read_bytes() == whole + line


@given(lines=st.lists(st.binary(max_size=20) | st.sampled_from([b'{"step": 1}', b'{"step": []}', b"[1]", b"null"])))
def test_whatever_stands_in_the_metrics_a_run_goes_on(lines: list[bytes], tmp_path_factory: Any) -> None:
    run = RunDirectory(tmp_path_factory.mktemp("run"))
    run.metrics.write_bytes(b"\n".join(lines))
    run.forget_metrics_after(5)
    assert set(run.metrics.read_bytes().splitlines()) <= {b'{"step": 1}'} | {
        b for line in lines for b in [line.strip()]
    }
    run.log({"step": 6})
    assert steps_of(run)[-1] == 6
