"""`python -m transformer align`: the links of forced decoding, the error of each layer, one message for a mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from transformer.command_line import run_command
from transformer.evaluation.alignment_command import align_command
from transformer.inference.links import pharaoh
from transformer.inference.translator import Translator

PAIRS = [("w7 the cat sat", "the mat w7"), ("", ""), ("number 9 on the mat", "co & number sat"), ("cat", "")]


class Result(NamedTuple):
    code: int
    out: str
    err: str


Align = Callable[..., Result]


@pytest.fixture
def align(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Align:
    """Run the command on PAIRS, in a folder that holds them and nothing else."""
    monkeypatch.chdir(tmp_path)
    for name, lines in zip(("in.en", "in.de"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))

    def call(*arguments: str, gold: str | None = None) -> Result:
        if gold is not None:
            (tmp_path / "gold").write_text(gold)
            arguments = (*arguments, "--gold", "gold")
        given = ["--model", str(model), "--src", "in.en", "--tgt", "in.de", "--device", "cpu", *arguments]
        code = run_command(lambda: align_command(given))
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Result(code, captured.out, captured.err)

    return call


def expected(model: Path, layer: int | None) -> list[str]:
    translator = Translator.load(model, "cpu", alignment_layer=layer)
    return [pharaoh(read.alignment or ()) for read in translator.scored(PAIRS)]


@pytest.mark.parametrize("layer", [None, 1, 3])
def test_it_writes_the_links_of_forced_decoding_a_line_for_each_pair(
    align: Align, model: Path, tmp_path: Path, layer: int | None
) -> None:
    chosen = [] if layer is None else ["--layer", str(layer)]
    lines = expected(model, layer)
    assert align(*chosen).out == "".join(f"{line}\n" for line in lines)
    result = align(*chosen, "--output", "links")
    assert (result.code, result.out) == (0, "")
    assert (tmp_path / "links").read_text() == "".join(f"{line}\n" for line in lines)


def table(err: str) -> dict[str, list[float]]:
    rows = [line.split() for line in err.splitlines() if line[:5].strip() in ("mean", "1", "2", "3")]
    return {row[0]: [float(share) for share in row[1:]] for row in rows}


def test_each_layer_is_measured_and_that_which_made_the_gold_alignment_has_no_error(align: Align, model: Path) -> None:
    gold = "".join(f"{line}\n" for line in expected(model, 2))
    shares = table(align(gold=gold).err)
    assert list(shares) == ["mean", "1", "2", "3"]
    assert shares["2"] == [100.0, 100.0, 0.0]
    assert expected(model, 1) == expected(model, 2) or shares["1"][2] > 0
    assert table(align("--layer", "1", gold=gold).err) == {"1": shares["1"]}
    assert table(align("--gold-from", "1", gold=_from_1(gold)).err) == shares


def _from_1(gold: str) -> str:
    lines = [[link.split("-") for link in line.split()] for line in gold.splitlines()]
    return "".join(" ".join(f"{int(s) + 1}-{int(t) + 1}" for s, t in line) + "\n" for line in lines)


@pytest.mark.parametrize(
    ("arguments", "gold", "code", "parts"),
    [
        (["--layer", "0"], None, 2, ["alignment_layer", "not 0"]),
        (["--layer", "4"], None, 2, ["4", "1 (the lowest) to 3"]),
        (["--tgt", "none"], None, 1, ["none"]),
        (["--gold", "none"], None, 1, ["none"]),
        (["--output", "no/such/links"], None, 1, ["no/such/links", "mkdir"]),
        (["--output", ".", "--model", "none"], None, 1, [".: is a folder"]),
        ([], "0-0\n", 1, ["gold has 1 lines", "the test set has 4"]),
        ([], "0-0\n0-0\n\n\n", 1, ["gold, line 2: 0-0", "has no words"]),
        ([], "0-3\n\n\n\n", 1, ["gold, line 1: 0-3", "target word 3", "0 to 2", "--gold-from 1"]),
    ],
)
def test_a_mistake_is_one_message_and_nothing_is_written(
    align: Align, tmp_path: Path, arguments: list[str], gold: str | None, code: int, parts: list[str]
) -> None:
    result = align("--output", "links", *arguments, gold=gold)
    assert (result.code, result.out) == (code, "")
    for part in parts:
        assert part in result.err
    assert not (tmp_path / "links").exists()


def test_sides_of_different_length_are_refused(align: Align, tmp_path: Path) -> None:
    with (tmp_path / "in.de").open("a") as file:
        file.write("one more\n")
    result = align()
    assert result.code == 1
    assert "in.en" in result.err
    assert "in.de" in result.err
