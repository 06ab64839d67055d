"""The ablations change what they say, and their intervals are those of the sentences and seeds."""

from __future__ import annotations

import argparse
import gzip
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

import pytest

from benchmarks import ablations
from benchmarks.ablations import (
    CONFIG,
    SETS,
    VARIANTS,
    Measured,
    Outcome,
    Run,
    Variant,
    command,
    main,
    measure,
    parse_arguments,
    render,
    results_file,
)
from data.lines import write_lines
from transformer.config_file import differences, load_config
from transformer.errors import ConfigError
from transformer.evaluation.metrics import score

REFERENCES = ["a man rides a horse on the beach", "two dogs play in the snow today", "a girl reads a small red book"]
WORSE = ["a man rides the horse on a beach", "two dogs play in the snow today", "a girl is reading a red book"]


def test_every_variant_changes_the_recipe_and_nothing_but_its_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vocabulary(variant: Variant) -> list[str]:
        return [override for override in variant.overrides if override.startswith("vocabulary.")]

    budgets: list[tuple[int, int]] = []

    def plan(pairs: object, *, batch_tokens: int, max_tokens: int, **more: int) -> range:
        budgets.append((batch_tokens, max_tokens))
        return range(100)

    monkeypatch.setattr(ablations, "load_prepared", lambda directory: argparse.Namespace(train=None))
    monkeypatch.setattr(ablations, "EpochPlan", plan)
    args = parse_arguments(["--data", str(tmp_path), "--epochs", "3"])
    recipe, *others = (
        load_config(CONFIG, [*vocabulary(variant), *Run(args, variant, 1)._training()]) for variant in VARIANTS
    )
    assert (recipe.train.optimizer, recipe.train.max_steps, recipe.train.warmup_steps) == ("adam", 300, 60)
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)
    for variant, settings in zip(VARIANTS[1:], others, strict=True):
        changed = {difference.key for difference in differences(recipe, settings)}
        assert changed == {override.partition("=")[0] for override in variant.overrides}, variant.name
        assert changed, variant.name
    assert {*budgets} == {(4096, 8192), (2048, 4096)}
    args.epochs = 0.01
    with pytest.raises(ConfigError, match=r"--epochs 0\.01: 1 updates, too few"):
        Run(args, VARIANTS[0], 1)._training()


def test_the_table_has_the_mean_of_the_seeds_and_no_difference_to_itself() -> None:
    args = argparse.Namespace(pair="en-de", epochs=1.0, jobs=1, data=Path("multi30k"))
    good, bad = (measure(lines, REFERENCES) for lines in (REFERENCES, WORSE))
    both = {"validation": [good, bad], "test_2016_flickr": [bad, bad]}
    outcomes = [Outcome(Variant(name), [60.0, 60.0], both) for name in ("the recipe", "the same", "one worse")]
    outcomes[2] = Outcome(Variant("one worse"), [30.0], {name: [bad] for name in both})
    table = render(args, outcomes)
    worse = score(WORSE, REFERENCES).bleu
    rows = {line.split(" | ")[0].removeprefix("| "): line.split(" | ") for line in table.split("\n") if " | " in line}
    assert rows["the recipe"][2:4] == [f"{(100 + worse) / 2:.2f}", f"{worse:.2f}"]
    assert rows["the same"][3] == f"{worse:.2f} (+0.00: +0.00 to +0.00)"  # equal seeds and the same sentences drawn
    assert rows["one worse"][2].startswith(f"{worse:.2f} ({(worse - 100) / 2:+.2f}: ")
    assert rows["one worse"][4] == "0.50"
    assert "benchmarks/ablations.py --data DIR --seeds 2 --epochs 1 --jobs 1 'the same' 'one worse'" in table


def test_the_table_says_the_command_that_makes_it_and_every_change(tmp_path: Path) -> None:
    args = parse_arguments(["--data", str(tmp_path), "--seeds", "1", "--pair", "de-en", "--epochs", "3", "Muon"])
    measured = measure(WORSE, REFERENCES)
    chosen = [variant for variant in VARIANTS if variant.name in ("the recipe", "Muon", "2,048 tokens an update")]
    outcomes = [Outcome(variant, [1.0], {name: [measured] for name in SETS}) for variant in chosen]
    line = next(line for line in render(args, outcomes).split("\n") if "--data" in line)
    [_, _, *told] = shlex.split(line)
    again = parse_arguments([word.replace("DIR", str(tmp_path)) for word in told])
    assert {**vars(again), "only": ()} == {**vars(args), "only": ()}
    assert again.only == ["Muon", "2,048 tokens an update"]
    assert results_file(again).name == "ablations-de-en-3.md"
    assert "`train.batch_tokens=2048 train.max_tokens=4096`" in render(args, outcomes)
    every = [Outcome(variant, [1.0] * 3, {name: [measured] * 3 for name in SETS}) for variant in VARIANTS]
    assert command(parse_arguments(["--data", "x"]), every) == "python benchmarks/ablations.py --data DIR"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--jobs", "0"], "--jobs: '0' is not a whole number of at least 1"),
        (["--jobs", "-1"], "--jobs"),
        (["--seeds", "0"], "--seeds: '0' is not a whole number of at least 1"),
        (["--epochs", "0"], "--epochs 0: more than 0"),
        (["--epochs", "-1"], "--epochs"),
        (["--epochs", "nan"], "--epochs nan: more than 0"),
        (["--epochs", "inf"], "--epochs inf: more than 0"),
        (["--pair", "ende"], "--pair ende: two languages"),
        (["--pair", "en-"], "--pair en-: two languages"),
        (["--pair", "../a-b"], "--pair ../a-b: two languages"),
        (["Muons"], "Muons: no such variant"),
    ],
)
def test_a_wrong_argument_is_a_mistake_of_usage(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((ConfigError, SystemExit)) as found:
        parse_arguments(["--data", "x", *arguments])
    assert getattr(found.value, "exit_code", 2) == 2
    assert said in f"{found.value}{capsys.readouterr().err}"


def arguments_in(folder: Path, monkeypatch: pytest.MonkeyPatch, do: Callable[[Run, Event], None]) -> list[str]:
    """Those for a corpus, runs and results in a folder; `do` stands for the scripts."""
    for stem in SETS.values():
        with gzip.open(folder / f"{stem}.de.gz", "wt") as file:
            file.write("\n".join([*REFERENCES, ""]))
    (folder / "benchmarks/results").mkdir(parents=True)
    monkeypatch.setattr(ablations, "ROOT", folder)
    monkeypatch.setattr(Run, "do", do)
    return ["--data", str(folder), "--work", str(folder / "work"), "--seeds", "2", "--jobs", "1", "Muon"]


def test_each_run_is_scored_once_though_the_table_is_written_after_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def do(run: Run, stop: Event) -> None:
        run.folder.mkdir(parents=True)
        for name in SETS:
            write_lines(run.folder / name, WORSE)
        write_lines(run.folder / "seconds", ["2.5"])

    scored: list[Sequence[str]] = []

    def counting(*lines: Sequence[str]) -> Measured:
        scored.append(lines[0])
        return measure(*lines)

    monkeypatch.setattr(ablations, "measure", counting)
    assert main(arguments_in(tmp_path, monkeypatch, do)) == 0
    assert len(scored) == 2 * 2 * len(SETS)  # variants, seeds
    table = (tmp_path / "benchmarks/results/ablations-en-de-12.md").read_text()
    assert "--data DIR --seeds 2 --jobs 1 Muon" in table and "| Muon | 2 |" in table


def test_ctrl_c_says_what_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def do(run: Run, stop: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        main(arguments_in(tmp_path, monkeypatch, do))
    assert "stopped; waiting for the runs that have begun" in capsys.readouterr().err
