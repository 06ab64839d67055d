"""`python -m transformer export`, as a user runs it; `test_translate_export` has what comes after."""

from __future__ import annotations

import json
import pickle
import re
import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from data.vocabulary import UNK_ID, Vocabulary
from transformer.config import ModelSettings, TranslateSettings
from transformer.inference.export import command, ctranslate2
from transformer.inference.export.description import read_description
from transformer.model import Transformer
from transformer.model_directory import Model, load_model, save_model

ROOT = Path(__file__).resolve().parents[2]
LINES = ["the cat sat on the mat", "", "   ", "w7 w7 on the mat", "a line with\u2028a separator", "w9", "the " * 40]
Call = Callable[..., subprocess.CompletedProcess[str]]

EXPRESSIBLE = TranslateSettings(length_penalty="average", alpha=1.0, max_length_ratio=0.5, max_extra_length=6)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with a space in its name; untrained, but for knowing that <unk> never comes."""
    vocabulary = Vocabulary.learn([f"w{i} the cat number {i} sat on the mat" for i in range(1, 200)], size=350)
    settings = ModelSettings(
        n_encoder_layers=1, n_decoder_layers=2, d_model=32, d_ff=48, n_heads=4, projection_bias=True
    )
    torch.manual_seed(0)
    network = Transformer(settings, *[len(vocabulary)] * 2).eval().requires_grad_(False)
    for name, parameter in network.named_parameters():
        if parameter.dim() == 2 and "table" not in name:
            parameter *= 5 if "in_projection" in name else 3
    network.projection.bias[UNK_ID] = -30
    directory = tmp_path_factory.mktemp("runs") / "a run"
    (directory / "model").mkdir(parents=True)
    save_model(directory / "model", Model(network, settings, EXPRESSIBLE, *[vocabulary] * 2, "en", "de"))
    return directory


@pytest.fixture(scope="session")
def exported(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command makes of it."""
    directory = tmp_path_factory.mktemp("exports") / "an export"
    arguments = [str(model), "--to", "ctranslate2", "--output", str(directory)]
    assert command.export_command(arguments) == 0
    return directory


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_text("".join(line + "\n" for line in LINES))
    return path


def test_what_was_found_is_kept_with_the_export(exported: Path) -> None:
    description = read_description(exported)
    assert description.parity["n_lines"] == description.parity["greedy_identical"] == 200
    assert description.parity["largest_difference"] <= 1e-4
    assert "made up from the vocabulary" in (exported / "README.md").read_text()


def test_settings_of_the_search_that_have_no_counterpart_are_replaced_and_named(
    call: Call, model: Path, lines: Path, tmp_path: Path
) -> None:
    loaded = load_model(model)
    changed = loaded.translate.model_copy(update={"length_penalty": "wu", "alpha": 0.6, "stop": "exact"})
    (tmp_path / "wu").mkdir()
    save_model(tmp_path / "wu", Model(**vars(loaded) | {"translate": changed}))
    done = call("transformer", "export", "wu", "--to", "ctranslate2", "--output", "out", "--input", lines)
    assert done.returncode == 0, done.stderr
    assert "translate.length_penalty: wu: CTranslate2 does not know" in done.stderr
    assert "translate.stop: exact" in done.stderr
    assert read_description(tmp_path / "out").translate == EXPRESSIBLE
    assert "--backend ctranslate2 --model out" in done.stdout


def test_what_is_written_for_hugging_face_searches_as_the_command_says(
    call: Call, model: Path, lines: Path, tmp_path: Path
) -> None:
    loaded = load_model(model)
    changed = {"length_penalty": "wu", "alpha": 0.6, "max_source_length": 4000, "max_length_ratio": 0.0}
    (tmp_path / "wu").mkdir()
    translate = loaded.translate.model_copy(update=changed)
    save_model(tmp_path / "wu", Model(**vars(loaded) | {"translate": translate}))
    done = call("transformer", "export", "wu", "--to", "huggingface", "--output", "out", "--input", lines)
    assert done.returncode == 0, done.stderr
    assert "translate.length_penalty=average, translate.alpha=1.0" in done.stderr
    assert "translate.max_source_length=2046" in done.stderr
    search, tokenizer = (
        json.loads(Path("out", name).read_text()) for name in ("generation_config.json", "tokenizer_config.json")
    )
    assert search["length_penalty"] == 1.0
    assert tokenizer["model_max_length"] == 2047
    readable = Path("out").stat().st_mode & 0o666
    assert {path.stat().st_mode & 0o777 for path in Path("out").iterdir()} == {readable}


def test_a_quantised_export_states_its_bleu_and_speed(call: Call, model: Path, lines: Path) -> None:
    arguments = ("--output", "out", "--quantization", "float16", "--input", lines)
    done = call("transformer", "export", model, "--to", "ctranslate2", *arguments)
    assert done.returncode == 0, done.stderr
    assert "fp32: on 10 lines" in done.stderr
    assert "BLEU against greedy translations of the origin" in done.stdout
    assert "times the speed" in done.stdout
    assert read_description(Path("out")).quantization == "float16"


def test_graphs_of_onnx_are_compared_and_told_apart(call: Call, model: Path, lines: Path) -> None:
    arguments = (model, "--to", "onnx", "--output", "out")
    done = call("transformer", "export", *arguments, "--quantization", "int8")
    assert done.returncode == 2
    assert "--quantization" in done.stderr
    done = call("transformer", "export", *arguments, "--input", lines)
    assert done.returncode == 0, done.stderr
    assert "on 10 lines" in done.stdout and "10 greedy translations" in done.stdout
    names = {"encoder.onnx", "decoder.onnx", "vocabulary.model", "export.json", "README.md"}
    assert {path.name for path in Path("out").iterdir()} == names
    assert "onnxruntime.InferenceSession" in Path("out/README.md").read_text()
    assert read_description(Path("out")).parity["largest_difference"] <= 1e-4
    done = call("translate", "--model", "out", "--input", lines)
    assert (done.returncode, done.stdout) == (1, "")
    assert "out: exported to onnx" in done.stderr


@pytest.mark.parametrize("target", ["ctranslate2", "huggingface"])
def test_lines_too_long_for_an_export_do_not_stop_it(call: Call, model: Path, target: str) -> None:
    Path("in").write_text("the cat\n" + "the cat sat " * 900 + "\n")
    done = call("transformer", "export", model, "--to", target, "--output", "out", "--input", "in")
    assert done.returncode == 0, done.stderr
    assert "in but 1, which have over 2,046 pieces" in done.stdout


def test_lines_and_references_may_be_given(call: Call, model: Path, lines: Path) -> None:
    arguments = ("--to", "ctranslate2", "--output", "out", "--input", lines)
    Path("short").write_text("one\n")
    done = call("transformer", "export", model, *arguments, "--reference", "short")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "7 lines" in done.stderr
    done = call("transformer", "export", model, *arguments, "--reference", lines)
    assert done.returncode == 0, done.stderr
    assert read_description(Path("out")).parity["bleu_against"] == "references"


def test_an_export_that_does_something_else_is_thrown_away(
    call: Call, model: Path, lines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ctranslate2._set_feed_forward

    def damaged(spec: Any, *arguments: Any) -> None:
        original(spec, *arguments)
        spec.linear_1.bias[3] += 0.5

    monkeypatch.setattr(ctranslate2, "_set_feed_forward", damaged)
    Path("before").mkdir()
    done = call("transformer", "export", model, "--to", "ctranslate2", "--output", "before/out", "--input", lines)
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not do what the model does" in done.stderr
    assert "log P of a piece differs" in done.stderr
    assert list(Path("before").iterdir()) == []


def test_an_export_that_is_there_is_kept_unless_told(
    call: Call, model: Path, exported: Path, lines: Path, tmp_path: Path
) -> None:
    shutil.copytree(exported, tmp_path / "out")
    (tmp_path / "out/mine.txt").write_text("mine")
    arguments = (model, "--to", "ctranslate2", "--output", "out", "--input", lines)
    done = call("transformer", "export", *arguments)
    assert done.returncode == 2
    assert "out is there already" in done.stderr
    assert (tmp_path / "out/mine.txt").exists()
    assert call("transformer", "export", *arguments, "--overwrite").returncode == 0
    assert not (tmp_path / "out/mine.txt").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/mine.txt").write_text("mine")
    done = call("transformer", "export", model, "--to", "ctranslate2", "--output", "other", "--overwrite")
    assert done.returncode == 2
    assert "something else than an export" in done.stderr


def test_mistakes_are_told_at_once(call: Call, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = call("transformer", "export", model, "--to", "tensorrt", "--output", "out")
    assert done.returncode == 2
    assert "ctranslate2" in done.stderr
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda _: None)
    done = call("transformer", "export", "file", "--to", "ctranslate2", "--output", "file", "--reference", "file")
    assert done.returncode == 2
    for part in ("pip install ctranslate2", "file is a file: give a run", "--output file is a file", "--reference"):
        assert part in done.stderr
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name, said in (("nowhere", "no such directory"), ("empty", "holds no model")):
        done = call("transformer", "export", name, "--to", "ctranslate2", "--output", "out")
        assert done.returncode == 1
        assert said in done.stderr


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.write_text, (Path("exploded"), "")


def test_a_pickle_in_place_of_the_weights_is_refused_and_never_executed(
    call: Call, model: Path, tmp_path: Path
) -> None:
    shutil.copytree(model / "model", tmp_path / "pickled")
    (tmp_path / "pickled/model.safetensors").write_bytes(pickle.dumps(Bomb()))
    done = call("transformer", "export", "pickled", "--to", "ctranslate2", "--output", "out")
    assert done.returncode == 1
    assert "pickled/model.safetensors" in done.stderr
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("target", command.TARGETS)
def test_a_full_disk_is_one_message(call: Call, model: Path, lines: Path, tmp_path: Path, target: str) -> None:
    """No file may have more than 10,000 bytes, as if the disk were full then."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        done = call("transformer", "export", model, "--to", target, "--output", "a b/out", "--input", lines)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "a b/" in done.stderr and "File too large" in done.stderr
    assert list((tmp_path / "a b").iterdir()) == []


def test_a_run_says_early_what_its_exports_cannot_do_and_is_compared_on_its_validation_lines(
    call: Call, tiny: Path
) -> None:
    arguments = ("--config", "tiny.yaml", "export=[ctranslate2]")
    assert call("preprocess", *arguments).returncode == 0
    done = call("train", *arguments, "--plan")
    assert done.returncode == 0, done.stderr
    outlook = "ctranslate2: can be exported, but not translate.length_penalty: wu: CTranslate2 does not know"
    assert f"\nexport    {outlook}" in done.stdout
    done = call("train", *arguments)
    assert done.returncode == 0, done.stderr
    assert f"\nexport       {outlook}" in done.stderr
    [following] = re.findall(r"python -m (transformer export .*)", done.stdout)
    done = call(*following.split())
    assert done.returncode == 0, done.stderr
    assert "on 9 lines, validation lines of tiny: 9 greedy translations" in done.stdout
    assert "BLEU against references" in done.stdout
    assert call("train", "--config", "tiny.yaml", "export=[]").returncode == 0  # nothing of the training is changed


def test_a_licence_stays_when_a_run_is_trained_on(call: Call, tiny: Path) -> None:
    assert call("preprocess", "--config", "tiny.yaml").returncode == 0
    assert call("train", "--config", "tiny.yaml", "train.max_steps=2").returncode == 0
    card = Path("runs/tiny/model/README.md")
    stated = "license: other\nlicense_name: ours"
    card.write_text(card.read_text(encoding="utf-8").replace("license: unknown", stated), encoding="utf-8")
    done = call("train", "--config", "tiny.yaml", "train.max_steps=4")
    assert done.returncode == 0, done.stderr
    text = card.read_text(encoding="utf-8")
    assert stated in text and "max_steps: 4" in text
