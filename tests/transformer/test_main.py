"""`python -m transformer`: the table of a network, a picture of attention, and one message for a mistake."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from data.vocabulary import BOS_ID, EOS_ID, Vocabulary
from transformer.__main__ import COMMANDS, main
from transformer.command_line import run_command
from transformer.config import ModelSettings, Settings, TranslateSettings
from transformer.config_file import save_settings
from transformer.describe import describe, format_description
from transformer.evaluation.attention_plot import draw_matrices, panels_of
from transformer.inference.translator import Translator
from transformer.model import Transformer
from transformer.model_directory import Model, save_model

SENTENCE = "w7 the cat sat"
ALIGNMENT = ["attention", "--model", "MODEL", "--kind", "alignment", "--sentence"]


class Result(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Result]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run `python -m transformer` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> Result:
        try:
            code = run_command(lambda: main([*map(str, arguments)]))
        except SystemExit as exit_:  # usage
            code = int(exit_.code or 0)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory with an untrained network of two layers."""
    vocabulary = Vocabulary.learn([f"w{i} the cat number {i} sat on the mat" for i in range(1, 200)], size=350)
    settings = ModelSettings(n_encoder_layers=1, n_decoder_layers=2, d_model=32, d_ff=48, n_heads=4)
    torch.manual_seed(0)
    network = Transformer(settings, len(vocabulary), len(vocabulary))
    search = TranslateSettings(max_length_ratio=0.0, max_extra_length=6)
    directory = tmp_path_factory.mktemp("model")
    save_model(directory, Model(network, settings, search, vocabulary, vocabulary, "en", "de"))
    return directory


def test_describe_prints_the_table_of_the_config_with_its_overrides(command: Command) -> None:
    result = command("describe", "base.yaml", "model.d_model=64", "vocabulary.size=1000", "--length", "9")
    assert result.code == 0
    assert format_description(describe(ModelSettings(d_model=64), 1000, 1000, 9)) in result.out
    assert "1,000 source and 1,000 target" in result.out


def test_attention_translates_and_draws_what_the_decoder_looked_at(
    command: Command, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    result = command("attention", "--model", model, "--sentence", SENTENCE, "--output", "new/picture.svg")
    translator = Translator.load(model, "cpu")
    translation = translator.translate([SENTENCE])[0]
    assert (result.code, result.out) == (0, f"{SENTENCE}\n{translation}\nwrote new/picture.svg\n")

    vocabulary = translator.src_vocabulary
    src, tgt = ([*ids, EOS_ID] for ids in vocabulary.encode([SENTENCE, translation]))
    weights = translator.network.attention_weights(torch.tensor([src]), torch.tensor([[BOS_ID, *tgt[:-1]]]))
    draw_matrices(
        tmp_path / "expected.svg",
        panels_of(weights.cross),
        vocabulary.pieces(src),
        vocabulary.pieces(tgt),
        f"{SENTENCE}\n{translation}",
    )
    assert (tmp_path / "new/picture.svg").read_bytes() == (tmp_path / "expected.svg").read_bytes()


def test_attention_of_a_layer_has_a_panel_for_each_head(command: Command, model: Path, tmp_path: Path) -> None:
    assert command("attention", "--model", model, "--sentence", SENTENCE, "--layer", "2", "--output", "a.svg").code == 0
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for title in ("layer 2, mean of 4 heads", "head 1", "head 4"):
        assert f"<!-- {title} -->" in picture


def test_attention_of_a_given_translation_and_of_every_kind_is_drawn(
    command: Command, model: Path, tmp_path: Path
) -> None:
    given = ("attention", "--model", model, "--sentence", SENTENCE, "--translation", "the mat", "--output", "a.svg")
    pictures = []
    for kind in ("cross", "encoder", "decoder", "alignment"):
        for layer in ([], ["--layer", "1"], ["--layer", "all"])[: 2 if kind == "alignment" else 3]:
            result = command(*given, "--kind", kind, *layer)
            assert (result.code, result.out) == (0, f"{SENTENCE}\nthe mat\nwrote a.svg\n")
            pictures.append((tmp_path / "a.svg").read_text(encoding="utf-8"))
            source_or_target = "sat" if kind == "encoder" else "mat"
            assert f"<!-- {source_or_target} -->" in pictures[-1]
    assert len(set(pictures)) == len(pictures)


def test_an_alignment_is_drawn_beside_the_right_one(command: Command, model: Path, tmp_path: Path) -> None:
    given = ("attention", "--model", model, "--sentence", SENTENCE, "--translation", "the mat", "--kind", "alignment")
    assert command(*given, "--gold", "1-0 3?1", "--output", "a.svg").code == 0
    assert "<!-- gold, sure -->" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_characters_without_a_font_are_named_on_stderr(
    command: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer.evaluation.picture._installed", lambda: ([], []))
    result = command("attention", "--model", model, "--sentence", f"{SENTENCE} \N{CUNEIFORM SIGN A}")
    assert result.code == 0
    assert "\N{CUNEIFORM SIGN A}" in result.err
    assert (tmp_path / "attention.png").exists()


def test_report_writes_a_page_about_runs_and_says_where(command: Command, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save_settings(Settings(name=name), tmp_path / name / "settings.yaml")
    for arguments, page in (
        (["a"], "a/report.html"),
        (["a", "b"], "a/report-vs-b.html"),
        (["a", "--output", "c"], "c"),
    ):
        result = command("report", *arguments)
        assert (result.code, result.out) == (0, f"wrote  {page}\n")
        assert (tmp_path / page).read_text("utf-8").startswith("<!DOCTYPE html>")


def test_help_lists_the_commands(command: Command) -> None:
    for arguments in ((), ("--help",)):
        result = command(*arguments)
        assert result.code == 0
        for name in COMMANDS:
            assert f"  {name} " in result.out
    for name in COMMANDS:
        assert command(name, "--help").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        (["descibe"], 2, ["descibe", "describe"]),
        (["describe"], 2, ["CONFIG"]),
        (["describe", "bas.yaml"], 2, ["bas.yaml", "base"]),
        (["describe", "base.yaml", "model.d_model=7"], 2, ["d_model 7", "n_heads 8"]),
        (["describe", "base.yaml", "--length", "0"], 2, ["--length 0"]),
        (["describe", "base.yaml", "--prepared", "none"], 1, ["none"]),
        (["attention", "--model", "none", "--sentence", "a"], 1, ["none"]),
        (["report"], 2, ["RUN"]),
        (["report", "none"], 1, ["none", "no such folder"]),
        (["report", "MODEL"], 1, ["is no run", "settings.yaml"]),
        (["report", "a", "a"], 2, ["named twice"]),
        (["report", "MODEL", "--output", "no/page.html"], 1, ["no/page.html: no such folder", "mkdir -p no"]),
        (["report", "MODEL", "--output", "."], 1, [".: is a folder"]),
        (["attention", "--model", "none", "--sentence", "a", "--output", "no/a.png"], 1, ["no/a.png", "mkdir -p no"]),
        (["report", *"abcdefg"], 2, ["7 runs: at most 6"]),
        (["attention", "--model", "MODEL", "--sentence", " "], 2, ["blank"]),
        (["attention", "--model", "MODEL", "--sentence", "a", "--layer", "3"], 2, ["layer 3", "1", "2"]),
        (["attention", "--model", "MODEL", "--sentence", "a", "--layer", "two"], 2, ["'two'", "all"]),
        (["attention", "--model", "MODEL", "--sentence", "a", "--output", "a.bmp"], 2, ["a.bmp", ".png"]),
        (["attention", "--model", "MODEL", "--sentence", "a", "--translation", " "], 2, ["translation is blank"]),
        (["attention", "--model", "MODEL", "--sentence", "a", "--gold", "0-0"], 2, ["--gold", "--kind alignment"]),
        (["attention", "--model", "MODEL", "--sentence", "gr\udcfcn"], 2, [r"--sentence 'gr\udcfcn' is not UTF-8"]),
        ([*ALIGNMENT, "gr\udcfcn"], 2, [r"--sentence 'gr\udcfcn' is not UTF-8"]),
        (
            ["attention", "--model", "MODEL", "--sentence", "\udcfc", "--translation", "a \udce4"],
            2,
            [r"--sentence '\udcfc' is not UTF-8", r"--translation 'a \udce4' is not UTF-8"],
        ),
        ([*ALIGNMENT, "a", "--translation", "\udce4"], 2, ["--translation"]),
        ([*ALIGNMENT, "a", "--gold", "\udce4"], 2, ["--gold"]),
        ([*ALIGNMENT, "a", "--layer", "all"], 2, ["--layer all"]),
        ([*ALIGNMENT, "a", "--layer", "3"], 2, ["3", "1 (the lowest) to 2"]),
        ([*ALIGNMENT, "a", "--translation", " "], 2, ["without words"]),
        ([*ALIGNMENT, "a", "--gold", "1-0 0=0"], 2, ["--gold: 1-0", "source word 1", "--gold: '0=0'"]),
    ],
)
def test_a_mistake_is_one_message_and_an_exit_code(
    command: Command, model: Path, tmp_path: Path, arguments: list[str], code: int, parts: list[str]
) -> None:
    result = command(*(str(model) if argument == "MODEL" else argument for argument in arguments))
    assert (result.code, result.out) == (code, "")
    for part in parts:
        assert part in result.err
    assert list(tmp_path.iterdir()) == []


def test_it_runs_as_a_module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["python -m transformer", "describe", "big.yaml"])
    monkeypatch.delitem(sys.modules, "transformer.__main__")  # imported above, not as a program
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_module("transformer", run_name="__main__")
    assert "without embeddings" in capsys.readouterr().out
