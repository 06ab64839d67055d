"""A run is read as it lies there: what is missing or damaged is left out, and said."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transformer.errors import RunError
from transformer.evaluation.report.page import page
from transformer.evaluation.report.run import read_run

from .conftest import N_SENTENCES, STEPS, MakeRun


def test_everything_that_training_and_evaluation_left_is_read(make_run: MakeRun) -> None:
    run = read_run(make_run())
    assert (run.name, run.step, run.languages, run.problems) == ("tiny", 300, ("en", "de"), [])
    assert len(run.updates) == 15 and [line["step"] for line in run.validations] == [*STEPS] == [*run.translated]
    assert run.valid_text is not None and len(run.hypotheses(200)) == N_SENTENCES
    assert len(run.tests["news/2024"][1]) == N_SENTENCES


@pytest.mark.parametrize("what", ["there is no such folder", "is no run"])
def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, what: str) -> None:
    if what == "is no run":
        (tmp_path / "x").mkdir()
    with pytest.raises(RunError, match=f"{what}.*such as runs/NAME"):
        read_run(tmp_path / "x")


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("settings.yaml", "settings.yaml"),
        ("metrics.jsonl", "metrics.jsonl"),
        ("choices.json", "choices.json: not there"),
        ("record.json", "record.json: not there"),
        ("validation", ""),
        ("translations", ""),
        ("../../prepared", "shows no validation sentences"),
        ("../../prepared/tiny/valid.src.txt", "valid.src.txt"),
        ("translations/news%2F2024.jsonl", "news%2F2024.jsonl: missing or damaged"),
    ],
)
def test_what_is_missing_is_said_and_the_page_still_made(make_run: MakeRun, gone: str, said: str) -> None:
    path = make_run()
    lost = path / gone
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    run = read_run(path)
    made = page([run], thorough=True)
    assert [said in problem for problem in run.problems] == ([True] if said else [])
    assert "tiny" in made and said.split(":")[0] in made


@pytest.mark.parametrize("name", ["settings.yaml", "choices.json", "record.json", "translations/news%2F2024.json"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe{", b"[1, 2]", b'{"a": ', b"null", b"[" * 5000])
def test_a_damaged_file_is_said_and_the_page_still_made(make_run: MakeRun, name: str, content: bytes) -> None:
    path = make_run()
    (path / name).write_bytes(content)
    run = read_run(path)
    page([run], thorough=False)
    [problem] = run.problems
    assert name.rpartition("/")[2] in problem


COUNTS: list[Any] = ["x", {"train": {"a": 1}}, {"train": [{"read": None}]}, {"train": [{"dropped": ["a"]}]}]
COUNTS += [{"train": [{"dropped": {"a": "b"}}]}, {"train": [{"kept": 10**400, "read": 1}]}, {"train": [{"read": -1}]}]
COUNTS += [{"train": [{"read": "5"}]}, {"train": [7]}, {"train": [{"read": float("nan")}]}]


@pytest.mark.parametrize("counts", COUNTS)
def test_counts_that_are_none_are_said_and_the_page_still_made(make_run: MakeRun, counts: Any) -> None:
    path = make_run()
    prepared = path.parent.parent / "prepared" / "tiny"
    manifest = json.loads((prepared / "manifest.json").read_bytes())
    (prepared / "manifest.json").write_text(json.dumps({**manifest, "counts": counts}))
    run = read_run(path)
    assert run.problems == [f"{prepared / 'manifest.json'}: damaged, and left out"]
    assert "damaged, and left out" in page([run], thorough=True) and run.valid_text is not None


WRONG = [float("nan"), float("inf"), 1e308, -1e308, 10**400]


@pytest.mark.parametrize("value", [*WRONG, 1e6])
@pytest.mark.parametrize("key", ["bleu", "chrf", "log_prob_per_token"])
def test_a_sentence_with_a_figure_that_is_none_is_said_and_the_page_still_made(
    make_run: MakeRun, key: str, value: float
) -> None:
    path = make_run()
    rows = path / "translations" / "news%2F2024.jsonl"
    first, *others = rows.read_text(encoding="utf-8").splitlines()
    rows.write_text("\n".join([json.dumps({**json.loads(first), key: value}), *others, ""]), encoding="utf-8")
    run = read_run(path)
    made = page([run], thorough=True)
    [problem] = run.problems
    assert f"{rows}: missing or damaged ({key}" in problem and "Confidence" not in made


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize(
    "place", ["metrics.bleu.score", "metrics.ter.interval", "length_ratio", "breakdown.source length"]
)
def test_a_test_set_with_a_figure_that_is_none_is_said_and_the_page_still_made(
    make_run: MakeRun, place: str, value: float
) -> None:
    path = make_run()
    file = path / "translations" / "news%2F2024.json"
    tree = content = json.loads(file.read_bytes())
    *parts, last = place.split(".")
    for part in parts:
        tree = tree[part]
    others = {"interval": [1.0, value], "source length": [{"label": "x", "n_lines": 1, "bleu": value, "chrf": 1.0}]}
    tree[last] = others.get(last, value)
    file.write_text(json.dumps(content))
    run = read_run(path)
    made = page([run], thorough=False)
    [problem] = run.problems
    assert f"{file}: missing or damaged ({place.split('.')[0]}" in problem and "nrefs:1|tok:13a" not in made


def test_translations_of_other_sentences_are_left_out_with_a_reason(make_run: MakeRun) -> None:
    path = make_run()
    (path / "validation" / "step-00000200.tsv").write_text("1.0\tone line\n")
    run = read_run(path)
    assert "has 1 translations of 40 sentences" in page([run], thorough=True)


def test_damaged_lines_of_metrics_are_named_and_a_half_written_one_waits(make_run: MakeRun) -> None:
    path = make_run()
    lines = (path / "metrics.jsonl").read_bytes().split(b"\n")
    lines[1], lines[4], lines[-1] = b"\x00\x00", b'{"step": "x"}', b'{"step": 320, "nll'
    (path / "metrics.jsonl").write_bytes(b"\n".join(lines))
    run = read_run(path)
    assert len(run.updates) == 13
    assert [problem.partition(": ")[2] for problem in run.problems] == ["damaged, and left out: line 2, 5"]


def test_a_step_that_was_done_again_counts_once(make_run: MakeRun) -> None:
    path = make_run()
    with (path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 20, "nll_per_token": 7.0, "lr": float("nan"), "grad_norm": "<b>"}) + "\n")
    run = read_run(path)
    assert run.updates[0] == {"step": 20, "nll_per_token": 7.0} and len(run.updates) == 15


VALUES = (
    st.sampled_from([5e-324, 1e-323, 1e-300, 1e14])
    | st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=3)
    | st.lists(st.integers(), max_size=2)
)
KEYS = st.sampled_from(["step", "lr", "nll_per_token", "valid_nll_per_token", "valid_bleu", "perplexity", "grad_norm"])
LINES = st.lists(st.dictionaries(KEYS, VALUES).map(lambda line: json.dumps(line).encode()) | st.binary(max_size=9))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(lines=LINES)
def test_any_metrics_make_a_page(tmp_path: Path, lines: list[bytes]) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join([*lines, b""]))
    made = page([read_run(tmp_path)], thorough=False)
    assert made.rstrip().endswith("</html>") and "nan" not in made.partition("<main>")[2]


@pytest.mark.parametrize(
    ("max_steps", "model", "state"),
    [(300, True, "finished"), (900, True, "finished early"), (300, False, "stopped"), (900, False, "stopped")],
)
def test_the_state_is_that_of_the_folder(make_run: MakeRun, max_steps: int, model: bool, state: str) -> None:
    path = make_run(train={"max_steps": max_steps})
    if model:
        (path / "model").mkdir()
    assert read_run(path).state == state


def test_a_run_whose_checkpoints_are_locked_is_being_trained(make_run: MakeRun) -> None:
    path = make_run(train={"max_steps": 900})
    lock = os.open(path / "checkpoints", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        run = read_run(path)
        assert run.state == "training"
        made = page([run], thorough=False)
        assert "Training: 300 of 900 updates" in made and "left, about" in made and "20 min" in made
    finally:
        os.close(lock)


def test_results_of_a_model_that_has_been_replaced_are_told_as_such(make_run: MakeRun) -> None:
    path = make_run()
    (path / "model").mkdir()
    os.utime(path / "model", (2e9, 2e9))
    [problem] = read_run(path).problems
    assert "older than" in problem and "run evaluate.py again" in problem
