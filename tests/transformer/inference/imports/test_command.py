"""`python -m transformer import`: what it writes, what it refuses, and that training goes on from it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from data.prepared import load_prepared
from tests.transformer.inference.imports.conftest import ENGLISH, GERMAN, MakeMarian
from transformer.__main__ import main
from transformer.command_line import run_command
from transformer.inference.translator import Translator
from transformer.model_directory import load_model


def run(*arguments: str | Path) -> int:
    return run_command(lambda: main(["import", *map(str, arguments)]))


def test_a_folder_becomes_a_model_directory(make_marian: MakeMarian, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder, output = make_marian(name="opus mt"), tmp_path / "models" / "my model"
    assert run(folder, "--output", output) == 0
    assert load_model(output).src_lang == "en"
    assert len(Translator.load(output, "cpu").translate(ENGLISH)) == len(ENGLISH)
    readme = (output / "README.md").read_text(encoding="utf-8")
    assert "en → de" in readme
    assert run(folder, "--output", output, "--languages", "eng", "deu", "--overwrite") == 0
    assert load_model(output).tgt_lang == "deu"


def test_what_is_there_stays_unless_told(
    make_marian: MakeMarian, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, output = make_marian(), tmp_path / "model"
    output.mkdir()
    (output / "precious.txt").write_text("mine")
    assert run(folder, "--output", output, "--overwrite") == 1
    assert "no model directory" in capsys.readouterr().err
    assert (output / "precious.txt").read_text() == "mine"
    (output / "precious.txt").unlink()
    assert run(folder, "--output", output) == 0
    assert run(folder, "--output", output) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_options_without_sense_are_refused(
    make_marian: MakeMarian, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_marian()
    for options, words in (
        (("--vocabulary", "a", "b"), "--vocabulary belongs to a checkpoint"),
        (("--languages", "", "de"), "--languages '' de: give two codes"),
        (("--languages", "en", " "), "give two codes"),
        (("--languages", "e\x01", "de"), "give two codes"),
    ):
        assert run(folder, "--output", tmp_path / "out", *options) == 2
        assert words in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_the_command_to_try_next_can_be_pasted(
    make_marian: MakeMarian, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(make_marian(), "--output", tmp_path / "a`b c") == 0
    [command] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("next")]
    assert f"--model '{tmp_path}/a`b c'," in command


def test_what_is_no_model_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for source, code, words in (
        (empty, 1, "holds no model"),
        (tmp_path / "nothing", 1, "no such file or folder"),
        (Path(__file__), 2, "--vocabulary"),
    ):
        assert run(source, "--output", tmp_path / "out") == code
        assert words in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_training_goes_on_from_an_imported_model(
    make_marian: MakeMarian, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its two vocabularies number their pieces alike, so the three matrices stay one."""
    import preprocess
    import train

    monkeypatch.chdir(tmp_path)
    assert run(make_marian(dropout=0.0), "--output", "opus") == 0
    for side, lines in (("src", ENGLISH), ("tgt", GERMAN)):
        Path(f"text.{side}").write_text("\n".join(lines * 9) + "\n", encoding="utf-8")
    corpus = "[{src: text.src, tgt: text.tgt}]"
    data = {"train": corpus, "valid": corpus, "test": "{}", "filters": "[]", "drop_contamination": "false"}
    network = load_model("opus").settings.model_dump(exclude_none=True)
    steps = {"max_steps": 8, "validate_every": 8, "save_every": 8, "average_checkpoints": 1, "warmup_steps": 2}
    sections = {"data": data, "model": network, "vocabulary": {"path": "opus"}}
    sections["train"] = {"init_from": "opus", "batch_tokens": 200, "lr": 0.003, "device": "cpu"} | steps
    arguments = [f"{section}.{key}={value}" for section, keys in sections.items() for key, value in keys.items()]
    assert run_command(lambda: preprocess.main(["name=tuned", *arguments])) == 0
    prepared = load_prepared(Path("prepared/tuned"))
    assert prepared.src_vocabulary.hash != prepared.tgt_vocabulary.hash
    assert run_command(lambda: train.main(["name=tuned", *arguments])) == 0
    torch.set_flush_denormal(False)  # which training sets for the whole process
    assert "47 of 47 source pieces and 47 of 47 target pieces keep their embeddings" in "".join(capsys.readouterr())
    assert load_model("runs/tuned").settings.tie_embeddings == "three_way"
    assert "| all | 36 |" in Path("runs/tuned/model/README.md").read_text(encoding="utf-8")  # pairs of text
