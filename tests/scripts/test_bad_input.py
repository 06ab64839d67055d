"""What people do wrong: each gives one message on stderr and the right exit code, and leaves every file as it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch

Call = Callable[..., CompletedProcess[str]]
CONFIG = ("--config", "tiny.yaml")


def files(folder: Path) -> dict[str, bytes]:
    """Everything a later command could take for good."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def refused(tiny: Path, call: Call) -> Callable[..., str]:
    """Run a command that must fail with this exit code and these words, without a trace; returns its message."""

    def run(code: int, words: list[str], script: str, *arguments: str | Path) -> str:
        before = files(tiny)
        done = call(script, *arguments)
        assert done.returncode == code, done.stderr
        assert done.stdout == ""
        assert done.stderr.count("error:") == 1, done.stderr
        for word in words:
            assert word in done.stderr
        assert files(tiny) == before
        return done.stderr

    return run


CONFIGS = {
    "a misspelt key": ("train: {learning_rte: 1e-3}", [":1:", "train.learning_rte", "did you mean train.lr?"]),
    "a key at the top": ("name: x\nlearning_rte: 1e-3", [":2:", "learning_rte", "train.lr"]),
    "a key in the wrong section": ("model:\n  lr: 1e-3", [":2:", "model.lr", "train.lr"]),
    "a key twice": ("train:\n  lr: 1e-3\n  lr: 2e-3", [":3:", "train.lr", "twice", "line 2"]),
    "a word for a number": ("train: {lr: abc}", ["train.lr", "abc", "a number > 0"]),
    "a quoted number": ("train: {lr: '0.1'}", ["train.lr", "0.1", "a number > 0"]),
    "not a number": ("train: {lr: .nan}", ["train.lr", "NaN"]),
    "a negative rate": ("train: {lr: -1}", ["train.lr", "-1", "> 0"]),
    "a fraction of a head": ("model: {n_heads: 2.5}", ["model.n_heads", "2.5", "a whole number"]),
    "a contradiction": ("model: {d_model: 30, n_heads: 4}", ["30", "4", "divisible"]),
    "an odd rotation": ("model: {positions: rotary, d_head: 3}", ["rotary", "3", "even"]),
    "no YAML": ("train: [", ["this is not YAML"]),
    "no UTF-8": ("name: caf\udce9", [":1:", "0xe9", "UTF-8"]),
    "nothing": ("", ["there is nothing in it"]),
    "several mistakes": ("seed: -1\ntrain: {lr: abc}\nmodell: {}", ["3 problems", "seed", "train.lr", "modell"]),
}


@pytest.mark.parametrize("mistake", CONFIGS)
def test_a_wrong_config_is_refused_by_every_script_before_any_work(
    mistake: str, tiny: Path, refused: Callable[..., str]
) -> None:
    text, words = CONFIGS[mistake]
    (tiny / "bad.yaml").write_bytes(f"{text}\n".encode(errors="surrogateescape"))
    messages = {
        refused(2, ["bad.yaml", *words], "preprocess", "--config", "bad.yaml"),
        refused(2, ["bad.yaml", *words], "train", "--config", "bad.yaml"),
        refused(2, ["bad.yaml", *words], "transformer", "describe", "bad.yaml"),
    }
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config", "nowhere.yaml"], ["nowhere.yaml", "not there", "configs/", "base, big, demo"]),
        (["--config", "tiny.yam"], ["tiny.yam"]),
        (["--conf", "tiny.yaml"], ["--conf", "did you mean --config?"]),
        (["--max-steps", "5"], ["--max-steps", "train.max_steps="]),
        (["--train.lr=1"], ["--train.lr=1", "train.lr=1 (without dashes)"]),
        (["tiny.yaml"], ["tiny.yaml", "--config tiny.yaml"]),
        ([*CONFIG, "lr=1"], ["lr", "train.lr"]),
        ([*CONFIG, "train.lr=1e-3", "train.lr=2e-3"], ["train.lr", "twice"]),
        ([*CONFIG, "name=../elsewhere"], ["name", "../elsewhere"]),
    ],
)
def test_wrong_arguments_are_refused_with_the_nearest_right_ones(
    arguments: list[str], words: list[str], refused: Callable[..., str]
) -> None:
    for script in ("preprocess", "train"):
        refused(2, words, script, *arguments)


CORPORA = {
    "missing": ({}, ["bad.src", "bad.tgt", "cannot be read"]),
    "a folder": ({"bad.src/x": b"", "bad.tgt": b"a\n"}, ["bad.src", "cannot be read"]),
    "of different length (case D3)": (
        {"bad.src": b"a\nb\nc\n", "bad.tgt": b"A\nB\n"},
        ["bad.src has 3", "bad.tgt has 2"],
    ),
    "not UTF-8 (case D4)": ({"bad.src": b"a\ncaf\xe9 noir\n", "bad.tgt": b"A\nB\n"}, ["bad.src, line 2", "0xE9"]),
    "UTF-16 cut short": ({"bad.src": "a\n".encode("utf-16")[:-1], "bad.tgt": b"A\n"}, ["bad.src, line 1", "utf-16"]),
    "a gzip file cut short": ({"bad.src": b"\x1f\x8b\x08\x00", "bad.tgt": b"A\n"}, ["bad.src", "gzip", "cut short"]),
    "empty": ({"bad.src": b"", "bad.tgt": b""}, ["bad.src", "empty"]),
    "blank": ({"bad.src": b" \n\n", "bad.tgt": b"\nA\n"}, ["0 of 2 pairs", "2 empty"]),
}


@pytest.mark.parametrize("corpus", CORPORA)
def test_a_corpus_that_cannot_be_used_is_named_and_nothing_is_prepared(
    corpus: str, tiny: Path, refused: Callable[..., str]
) -> None:
    contents, words = CORPORA[corpus]
    for name, content in contents.items():
        (tiny / name).parent.mkdir(exist_ok=True)
        (tiny / name).write_bytes(content)
    refused(1, words, "preprocess", *CONFIG, "data.train=[{src: bad.src, tgt: bad.tgt}]")
    refused(1, ["prepared/tiny", "run preprocess.py"], "train", *CONFIG)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["vocabulary.size=8000"], ["8000", "too large", "at most"]),
        (["vocabulary.size=10", "vocabulary.byte_fallback=false"], ["10", "too small", "or more"]),
        (["data.max_length=1"], ["0 of 200 pairs", "200 too long", "data.max_length 1"]),
    ],
)
def test_settings_that_do_not_fit_the_text_are_refused_with_the_possible_range(
    overrides: list[str], words: list[str], refused: Callable[..., str]
) -> None:
    """Cases V4 and F3."""
    refused(1, words, "preprocess", *CONFIG, *overrides)
    refused(1, ["prepared/tiny", "run preprocess.py"], "train", *CONFIG)


def test_a_mistake_leaves_what_was_prepared_before_as_it_was(
    tiny: Path, call: Call, refused: Callable[..., str]
) -> None:
    assert call("preprocess", *CONFIG).returncode == 0
    refused(1, ["none.src"], "preprocess", *CONFIG, "data.train=[{src: none.src, tgt: none.tgt}]")
    (tiny / "valid.src").write_bytes(b"one line\n")  # found only while it is read
    refused(1, ["valid.src has 1", "valid.tgt has 6"], "preprocess", *CONFIG)


@pytest.fixture
def trained(tiny: Path, call: Call) -> Path:
    """A folder with prepared/tiny and a finished runs/tiny."""
    for script in ("preprocess", "train"):
        assert call(script, *CONFIG).returncode == 0
    return tiny


def test_a_run_is_not_mixed_with_another(trained: Path, call: Call, refused: Callable[..., str]) -> None:
    corpora = "data.train=[{src: valid.src, tgt: valid.tgt}]"
    words = [
        "runs/tiny",
        "model.d_ff: 32 → 64",
        "train.lr: 0.001 → 0.002",
        "data.train: [{'src': ",
        "valid.src'",
        "name=",
    ]
    message = refused(1, words, "train", *CONFIG, "model.d_ff=64", "train.lr=2e-3", "train.max_steps=9", corpora)
    assert "train.max_steps" not in message, "a run may be longer than it was meant to be"
    for side in ("src", "tgt"):
        text = (trained / f"filler.{side}").read_text()
        (trained / f"filler.{side}").write_text(text.replace("number", "digit").replace("nummer", "ziffer"))
    assert call("preprocess", *CONFIG).returncode == 0
    refused(1, ["runs/tiny", "another vocabulary", "name="], "train", *CONFIG)


def test_data_prepared_with_other_settings_are_not_trained_on(
    tiny: Path, call: Call, refused: Callable[..., str]
) -> None:
    assert call("preprocess", *CONFIG, "vocabulary.size=310", "data.max_length=50").returncode == 0
    words = ["prepared/tiny", "vocabulary.size: 310 → 300", "data.max_length: 50 → 256", "preprocess.py"]
    refused(1, words, "train", *CONFIG)


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
def test_a_gpu_that_is_demanded_and_not_there_is_a_wrong_setting(trained: Path, refused: Callable[..., str]) -> None:
    refused(2, ["cuda", "cpu"], "translate", "--model", "runs/tiny", "--device", "cuda", "--input", "valid.src")
    refused(2, ["cuda", "cpu"], "evaluate", "--model", "runs/tiny", "--device", "cuda")


@pytest.mark.parametrize("name", ["model.safetensors", "vocabulary.model", "model.json"])
@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_a_model_that_is_not_whole_is_refused_by_the_name_of_the_file(
    name: str, damage: str, trained: Path, refused: Callable[..., str]
) -> None:
    shutil.copytree(trained / "runs/tiny/model", trained / "copy")
    content = (trained / "copy" / name).read_bytes()
    (trained / "copy" / name).unlink()
    if damage == "truncated":
        (trained / "copy" / name).write_bytes(content[: len(content) // 2])
    where = "copy" if (name, damage) == ("model.json", "missing") else f"copy/{name}"
    model = ("--model", "copy")
    refused(1, [where], "translate", *model, "--input", "valid.src", "--output", "out.txt")
    refused(1, [where], "evaluate", *model, "--data", "prepared/tiny", "--output", "out")
    refused(1, [where], "transformer", "attention", *model, "--sentence", "the cat", "--output", "out.png")


def test_formats_of_a_newer_version_ask_for_an_update(trained: Path, refused: Callable[..., str]) -> None:
    for file in ("runs/tiny/model/model.json", "prepared/tiny/manifest.json"):
        description = json.loads((trained / file).read_text())
        (trained / file).write_text(json.dumps(description | {"format": 99}))
    refused(1, ["model.json", "99", "update"], "translate", "--model", "runs/tiny", "--input", "valid.src")
    refused(1, ["prepared/tiny", "99", "update"], "train", *CONFIG)


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "training.json"])
def test_case_c3_a_checkpoint_cut_in_half_is_refused_by_the_name_of_the_file(
    name: str, trained: Path, refused: Callable[..., str]
) -> None:
    file = trained / "runs/tiny/checkpoints/last" / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    refused(1, [name, "step-00000004"], "train", *CONFIG)


def test_prepared_data_cut_in_half_are_refused_with_the_remedy(trained: Path, refused: Callable[..., str]) -> None:
    file = trained / "prepared/tiny/train.src.ids.npy"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    refused(1, ["train.src.ids.npy", "run preprocess.py again"], "train", *CONFIG)


def test_scores_of_unequal_files_are_refused_with_both_counts(tiny: Path, refused: Callable[..., str]) -> None:
    """Case B1."""
    files = ("--hypothesis", "filler.tgt", "--reference", "valid.tgt")
    refused(1, ["filler.tgt", "200", "valid.tgt", "6"], "evaluate", *files)


def test_where_there_is_no_model_or_no_folder_the_message_names_it(trained: Path, refused: Callable[..., str]) -> None:
    refused(1, ["runs/none", "no such directory"], "translate", "--model", "runs/none", "--input", "valid.src")
    refused(1, ["runs/none", "no such directory"], "evaluate", "--model", "runs/none")
    refused(1, ["prepared/tiny", "holds no model"], "translate", "--model", "prepared/tiny", "--input", "valid.src")
    arguments = ("--model", "runs/tiny", "--input", "valid.src", "--output")
    message = refused(1, ["nowhere/out.txt"], "translate", *arguments, "nowhere/out.txt")
    assert ".partial" not in message
    refused(2, ["--beam-size", "translate.beam_size="], "translate", "--beam-size", "3")


OPTIONS = {
    "preprocess": "--config --workers section.key=value",
    "train": "--config section.key=value",
    "translate": "--model --input --output --reference --batch-size --device --threads translate.key=value",
    "evaluate": "--model --data --output --examples --device --hypothesis --reference translate.key=value",
    "transformer": "describe attention",
    "grammar": "--output --train --valid --test --seed",
}


@pytest.mark.parametrize("script", OPTIONS)
def test_help_names_every_option(script: str, call: Call) -> None:
    done = call(script, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    for option in OPTIONS[script].split():
        assert option in done.stdout
