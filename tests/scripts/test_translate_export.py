"""`translate.py` on an exported folder, as a user runs it: all that it does with the model itself, or a sentence."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from data.vocabulary import Vocabulary
from tests.scripts.test_export import EXPRESSIBLE, LINES, ROOT, Call, exported, lines, model
from transformer.config import ModelSettings
from transformer.model import Transformer
from transformer.model_directory import Model, save_model

__all__ = ["exported", "lines", "model"]  # fixtures


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["translate.beam_size=1"],
        ["--format", "tsv"],
        ["--n-best", "3", "--format", "tsv"],
        ["--format", "xml", "--system", "us"],
        ["--batch-size", "2", "translate.alpha=0.6"],
        ["translate.max_source_length=9"],
        ["translate.max_source_length=9", "translate.long_input=truncate"],
        ["translate.max_extra_length=1", "translate.max_length_ratio=0"],
        ["translate.length_penalty=none", "translate.stop=exact"],
        ["translate.workers=1", "--threads", "1", "translate.max_tokens=40"],
    ],
    ids=" ".join,
)
def test_the_backend_writes_what_the_model_writes(
    call: Call, model: Path, exported: Path, lines: Path, arguments: list[str]
) -> None:
    outputs = []
    for name, directory, backend in (("torch", model, []), ("ctranslate2", exported, ["--backend", "ctranslate2"])):
        done = call("translate", "--model", directory, "--input", lines, "--output", name, *backend, *arguments)
        assert done.returncode == 0, done.stderr
        outputs.append([cells(line) for line in Path(name).read_text().split("\n")])
        notes = done.stderr.split("\n")[1:]
        outputs[-1] += [[line] for line in notes if "evaluate.py" not in line]
    assert outputs[0] == outputs[1]


def cells(line: str) -> list[str]:
    """The cells of a line, numbers rounded as the arithmetic of two programs may differ."""
    return [f"{float(cell):.3f}" if re.fullmatch(r"-?\d+\.\d+", cell) else cell for cell in line.split("\t")]


def test_json_lines_have_all_but_the_alignment(call: Call, model: Path, exported: Path, lines: Path) -> None:
    records = []
    for directory in (model, exported):  # a folder says itself what it is for
        done = call("translate", "--model", directory, "--input", lines, "--format", "jsonl", "--n-best", "2")
        assert done.returncode == 0, done.stderr
        records.append([json.loads(line) for line in done.stdout.split("\n")[:-1]])
    for ours, theirs in zip(*records, strict=True):
        compare_records(ours, theirs)


def compare_records(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert set(ours) == set(theirs) | ({"alignment"} if ours["text"] else set()) | ({"alignment"} & set(ours))
    for key, value in theirs.items():
        if key == "alternatives":
            for one, other in zip(ours[key], value, strict=True):
                compare_records(one, other)
        elif key in ("score", "token_log_probs"):
            assert value == pytest.approx(ours[key], abs=2e-4)
        elif key != "alignment":
            assert value == ours[key], key


def test_given_translations_get_the_same_scores(call: Call, model: Path, exported: Path, lines: Path) -> None:
    Path("given").write_text("".join(line[::-1] + "\n" for line in LINES))
    scores = []
    for directory in (model, exported):
        done = call("translate", "--model", directory, "--input", lines, "--score", "given")
        assert done.returncode == 0, done.stderr
        assert "perplexity" in done.stderr
        scores.append([float(line) for line in done.stdout.split()])
    assert scores[1] == pytest.approx(scores[0], abs=1e-3)
    assert len(scores[0]) == len(LINES)


@pytest.mark.parametrize("side", ["source", "translation"])
def test_a_line_too_long_to_be_scored_is_named(call: Call, exported: Path, side: str) -> None:
    for name in ("source", "translation"):
        last = "the cat sat " * 900 if name == side else "the cat"
        Path(name).write_text(f"the cat\n\n{last}\n")
    done = call("translate", "--model", exported, "--input", "source", "--score", "translation")
    assert done.returncode == 1
    assert f"line 3: the {side} has 2,700 pieces, and CTranslate2 scores up to 2,046" in done.stderr


def test_case_x2_a_beam_wider_than_the_choice_finds_what_there_is(call: Call, tmp_path: Path) -> None:
    vocabulary = Vocabulary.learn(["a b", "b a"] * 20, size=7, byte_fallback=False)
    settings = ModelSettings(n_encoder_layers=1, n_decoder_layers=1, d_model=32, d_ff=48, n_heads=4)
    translate = EXPRESSIBLE.model_copy(update={"max_length_ratio": 0.0, "max_extra_length": 3})
    seven = Model(Transformer(settings, 7, 7), settings, translate, *[vocabulary] * 2, "en", "de")
    (tmp_path / "seven").mkdir()
    save_model(tmp_path / "seven", seven)
    done = call("transformer", "export", "seven", "--to", "ctranslate2", "--output", "out")
    assert done.returncode == 0, done.stderr
    (tmp_path / "in").write_text("a b\nb\na a b\n")
    wide = ("translate.beam_size=20", "--n-best", "20", "--format", "jsonl")
    done = call("translate", "--model", "out", "--input", "in", *wide)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
    assert len(records) == 3
    for record in records:
        for each in (record, *record["alternatives"]):
            assert -10 < each["score"] < 0
            assert set(each["pieces"]) <= {"a", "b", "▁", "▁a", "▁b", "</s>"}


def test_parts_that_are_finished_are_kept(
    call: Call, exported: Path, lines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformer.inference.command import job

    monkeypatch.setattr(job, "LINES_PER_PART", 2)
    done = call("translate", "--model", exported, "--input", lines, "--output", "whole")
    assert done.returncode == 0, done.stderr
    translated = job.translated

    def interrupted(*arguments: Any) -> Any:
        if arguments[-1] >= 4:
            raise KeyboardInterrupt
        return translated(*arguments)

    monkeypatch.setattr(job, "translated", interrupted)
    assert call("translate", "--model", exported, "--input", lines, "--output", "out").returncode == 130
    monkeypatch.setattr(job, "translated", translated)
    done = call("translate", "--model", exported, "--input", lines, "--output", "out")
    assert "2 of 4 parts are finished already" in done.stderr
    assert Path("out").read_text() == Path("whole").read_text()


def test_the_backend_starts_without_pytorch(exported: Path) -> None:
    """Which alone needs longer than the second in which the first line shall be there."""
    program = (
        "import sys, translate; from transformer.command_line import run_command; "
        f"code = run_command(lambda: translate.main(['--model', {str(exported)!r}])); "
        "print([name for name in ('torch', 'sacrebleu', 'datasets', 'pandas') if name in sys.modules], code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, input="the cat\n", capture_output=True, encoding="utf-8", check=False
    )
    assert done.stdout.endswith("[] 0\n"), done.stdout + done.stderr


def test_what_the_backend_cannot_do_is_refused_at_once(call: Call, model: Path, exported: Path, lines: Path) -> None:
    wanted = ["--prefix", lines, "--alignments", "a", "--device", "mps", "translate.length_penalty=wu"]
    wanted += ["translate.min_length=3", "translate.sampling={top_k: 3}"]
    done = call("translate", "--model", exported, model, "--input", lines, "--backend", "ctranslate2", *wanted)
    assert done.returncode == 2
    named = ["--prefix", "--alignments", "--device mps", "several models", "translate.length_penalty: wu"]
    for part in (*named, "Wu et al.", "translate.min_length: 3", "translate.sampling", f"'{model}' --to ctranslate2"):
        assert part in done.stderr
    done = call("translate", "--model", exported, "--input", lines, "--backend", "torch")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is an export" in done.stderr
    Path("wishes.jsonl").write_text('{"text": "the cat", "required": ["w9"]}\n')
    done = call("translate", "--model", exported, "--input", "wishes.jsonl")
    assert done.returncode == 2
    assert "line 1 has required" in done.stderr


@pytest.mark.parametrize("name", ["model.bin", "config.json", "vocabulary.model", "export.json"])
def test_a_damaged_export_is_named(call: Call, exported: Path, lines: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(exported, tmp_path / "damaged")
    file = tmp_path / "damaged" / name
    file.write_bytes(file.read_bytes()[:-20])
    done = call("translate", "--model", "damaged", "--input", lines)
    assert (done.returncode, done.stdout) == (1, "")
    assert str(Path("damaged") / name) in done.stderr


@pytest.mark.parametrize(
    "change",
    [{"sha256": sums} for sums in ({}, [], "x", None, {"model.bin": 5}, [["model.bin", "x"]])]
    + [{"target": 5}, {"src_lang": []}, {"quantization": 8}, {"parity": []}, {"translate": []}, {"format": "x"}],
    ids=str,
)
def test_a_description_of_the_wrong_type_is_named(
    call: Call, exported: Path, lines: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    shutil.copytree(exported, tmp_path / "damaged")
    file = tmp_path / "damaged" / "export.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    done = call("translate", "--model", "damaged", "--input", lines)
    assert (done.returncode, done.stdout) == (1, "")
    assert "damaged/export.json: " in done.stderr
    assert "export the model again" in done.stderr


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", "5", '{"format": 1}'], ids=["deep", "list", "number", "less"])
def test_a_description_that_is_none_is_named(call: Call, tmp_path: Path, lines: Path, content: str) -> None:
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/export.json").write_text(content)
    done = call("translate", "--model", "damaged", "--input", lines)
    assert (done.returncode, done.stdout) == (1, "")
    assert "damaged/export.json: not the description of an export" in done.stderr
