"""Settings that matter, the environment, and commands that can be copied."""

from __future__ import annotations

import shlex
from pathlib import Path

from transformer.config_file import load_config
from transformer.evaluation.report.making import all_settings, environment, reproduction, settings_table
from transformer.evaluation.report.run import Run, read_run

from .conftest import MakeRun


def test_of_one_run_the_settings_that_are_not_the_default_are_told(make_run: MakeRun) -> None:
    rows = settings_table([read_run(make_run(train={"lr": 0.25}))])
    assert [(key, [value for value, _ in values]) for key, _, values in rows] == [
        ("name", ["tiny"]),
        ("train.max_steps", ["300"]),
        ("train.lr", ["0.25"]),
    ]


def test_of_several_runs_those_in_which_they_differ(make_run: MakeRun) -> None:
    runs = [read_run(make_run("a", train={"lr": 0.25})), read_run(make_run("b"))]
    [(key, default, values)] = settings_table(runs)
    assert key == "train.lr" and values == [("0.25", True), (default, False)]
    assert settings_table([runs[0], Run(Path("x"), "x")]) == []


def test_all_settings_give_the_run_again(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run()
    (tmp_path / "again.yaml").write_text(all_settings(read_run(path)))
    assert load_config(tmp_path / "again.yaml") == load_config(path / "settings.yaml")


def test_the_environment_is_told_and_may_be_anything(make_run: MakeRun) -> None:
    run = read_run(make_run())
    told = dict(environment(run))
    assert told["device"] == "Some Processor, 8 processors" and told["processes"] == "2"
    assert told["program"] == "commit 0123456789ab with changes" and "torch 2.13.0" in told["libraries"]
    assert told["chosen by timing"] == "bf16, fused"
    run.record, run.choices = {"environment": {"device": 7, "git": [], "versions": None}, "files": "x"}, {}
    assert environment(run) == []


def test_the_commands_survive_any_folder_name() -> None:
    for line in reproduction(Run(Path("runs/it's mine"), "x")).split("\n"):
        words = shlex.split(line, comments=True)
        assert words[0] == "python" and words[-1].startswith("runs/it's mine")
