"""`translate.py` as a user runs it: files and pipes, scores, and one message for every mistake."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import translate
from data.vocabulary import Vocabulary
from transformer.command_line import run_command
from transformer.config import ModelSettings, TranslateSettings
from transformer.evaluation.metrics import score
from transformer.inference.translator import Translator
from transformer.model import Transformer
from transformer.model_directory import Model, save_model

SCRIPT = Path(translate.__file__)
SETTINGS = TranslateSettings(max_length_ratio=0.5, max_extra_length=4)
LINES = ["the cat sat", "", "   ", "w7 w7 on the mat", "a line with\u2028a separator", "w9"]
TEXT = "".join(line + "\n" for line in LINES).encode()


class Result(NamedTuple):
    code: int
    out: bytes
    err: str


Command = Callable[..., Result]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with an untrained model whose outputs depend strongly on its input."""
    vocabulary = Vocabulary.learn([f"w{i} the cat number {i} sat on the mat" for i in range(1, 200)], size=350)
    settings = ModelSettings(n_encoder_layers=1, n_decoder_layers=1, d_model=32, d_ff=48, n_heads=4)
    torch.manual_seed(0)
    network = Transformer(settings, len(vocabulary), len(vocabulary)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= 2
    directory = tmp_path_factory.mktemp("runs") / "tiny"
    (directory / "model").mkdir(parents=True)
    save_model(directory / "model", Model(network, settings, SETTINGS, vocabulary, vocabulary, "en", "de"))
    return directory


@pytest.fixture
def command(run: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Command:
    """Run translate.py in this process."""

    def call(*arguments: str | Path, stdin: bytes = b"", model: Path = run) -> Result:
        argv: Sequence[str] = ["--model", str(model), "--device", "cpu", *map(str, arguments)]
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            code = run_command(lambda: translate.main(argv))
        except SystemExit as exit_:  # usage
            code = int(exit_.code or 0)
        captured = capsysbinary.readouterr()
        assert b"Traceback" not in captured.err
        return Result(code, captured.out, captured.err.decode())

    return call


def expected(run: Path, lines: Sequence[str] = LINES, **settings: object) -> bytes:
    return "".join(line + "\n" for line in Translator.load(run, "cpu", **settings).translate(lines)).encode()


def test_one_line_comes_out_for_each_line_that_goes_in(run: Path, command: Command) -> None:
    """Cases X1 and D1: blank lines stay blank, and only the byte 0x0A ends a line."""
    result = command(stdin=TEXT)
    assert result == (0, expected(run), "")
    out = result.out.split(b"\n")
    assert len(out) == 7
    assert out[1] == out[2] == b""
    assert out[0]
    assert command(stdin=b"") == (0, b"", "")
    assert command(stdin=b"\n") == (0, b"\n", "")
    assert command(stdin=TEXT.removesuffix(b"\n")).out == result.out


def test_pipes_are_utf8_whatever_the_locale(run: Path) -> None:
    arguments = [sys.executable, SCRIPT, "--model", run, "--device", "cpu", "--threads", "1"]
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(arguments, input=TEXT, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == expected(run)


def test_a_reader_that_leaves_early_ends_the_program_without_a_word(run: Path) -> None:
    arguments = [sys.executable, SCRIPT, "--model", run, "--device", "cpu", "--threads", "1"]
    with subprocess.Popen(arguments, stdin=-1, stdout=-1, stderr=-1) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write(TEXT * 100)
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_files_give_what_pipes_give_and_appear_whole(run: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(TEXT)
    assert command("--input", tmp_path / "in", "--output", tmp_path / "out") == (0, b"", "")
    assert (tmp_path / "out").read_bytes() == expected(run)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_an_input_that_can_be_read_only_once_is_read_once(run: Path, command: Command, tmp_path: Path) -> None:
    """As in `--input <(zcat in.gz)`."""
    os.mkfifo(tmp_path / "in")
    writer = threading.Thread(target=(tmp_path / "in").write_bytes, args=(TEXT,), daemon=True)
    writer.start()
    assert command("--input", tmp_path / "in") == (0, expected(run), "")


@pytest.mark.parametrize("n", [1, 4])
def test_the_batch_size_does_not_change_the_text(run: Path, command: Command, n: int) -> None:
    assert command("--batch-size", str(n), stdin=TEXT).out == expected(run)


def test_settings_of_the_search_can_be_overridden(run: Path, command: Command) -> None:
    result = command(
        "translate.beam_size=1", "translate.max_length_ratio=0", "translate.max_extra_length=3", stdin=TEXT
    )
    greedy = expected(run, beam_size=1, max_length_ratio=0.0, max_extra_length=3)
    assert result == (0, greedy, "")
    assert greedy != expected(run)


def test_a_reference_prints_bleu_and_chrf_with_signatures_beside_the_translations(
    run: Path,
    command: Command,
    tmp_path: Path,
) -> None:
    translations = expected(run).decode().split("\n")[:-1]
    references = [line or "x" for line in translations]
    (tmp_path / "reference").write_text("".join(line + "\n" for line in references), newline="\n")
    result = command("--reference", tmp_path / "reference", stdin=TEXT)
    assert (result.code, result.out) == (0, expected(run))
    assert result.err == score(translations, references).formatted() + "\n"
    assert "tok:13a" in result.err


def test_another_number_of_reference_lines_is_refused_before_anything_is_translated(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "in").write_bytes(TEXT)
    (tmp_path / "reference").write_text("one\ntwo\n")
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "load", lambda *_: pytest.fail("the model was loaded"))
        files = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--reference", tmp_path / "reference")
        result = command(*files)
    assert (result.code, result.out) == (1, b"")
    for part in (str(tmp_path / "in"), "6 lines", str(tmp_path / "reference"), "has 2"):
        assert part in result.err
    assert not (tmp_path / "out").exists()
    piped = command("--reference", tmp_path / "reference", stdin=TEXT)  # known only at the end of the pipe
    assert piped.code == 1
    assert "6" in piped.err
    assert "2" in piped.err


def test_text_that_is_not_utf8_is_refused_with_its_line(command: Command, tmp_path: Path) -> None:
    """Case D4."""
    latin = b"good line\ncaf\xe9 noir\nlast line\n"
    piped = command(stdin=latin)
    assert (piped.code, piped.out) == (1, b"")
    assert "standard input, line 2" in piped.err
    (tmp_path / "in").write_bytes(latin)
    result = command("--input", tmp_path / "in", "--output", tmp_path / "out")
    assert result.code == 1
    assert f"{tmp_path / 'in'}, line 2" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        (["translate.beam_size=0"], 2, ["translate.beam_size", "1"]),
        (["translate.beam=5"], 2, ["translate.beam", "translate.beam_size"]),
        (["train.lr=1", "translate.alpha=-1"], 2, ["train.lr", "translate.alpha"]),
        (["--batch-size", "0"], 2, ["--batch-size", "0"]),
        (["--batch", "3"], 2, ["--batch"]),  # no abbreviations
        (["--beam", "3"], 2, ["--beam"]),
        (["--input", "nowhere.txt"], 1, ["nowhere.txt"]),
        (["--reference", "nowhere.txt"], 1, ["nowhere.txt"]),
        pytest.param(
            ["--device", "cuda"],
            2,
            ["cuda", "cpu"],
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU"),
        ),
    ],
)
def test_a_mistake_is_one_message_and_an_exit_code(
    command: Command, arguments: list[str], code: int, parts: list[str]
) -> None:
    result = command(*arguments, stdin=TEXT)
    assert (result.code, result.out) == (code, b"")
    for part in parts:
        assert part in result.err


def test_a_model_that_is_missing_or_truncated_is_named(run: Path, command: Command, tmp_path: Path) -> None:
    missing = command(stdin=TEXT, model=tmp_path / "nowhere")
    assert (missing.code, missing.out) == (1, b"")
    assert str(tmp_path / "nowhere") in missing.err
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for file in (run / "model").iterdir():
        content = file.read_bytes()
        (damaged / file.name).write_bytes(content[: len(content) // 2] if file.suffix == ".safetensors" else content)
    result = command(stdin=TEXT, model=damaged)
    assert (result.code, result.out) == (1, b"")
    assert str(damaged / "model.safetensors") in result.err
