"""The whole machine, through the programs users run, learns to copy: nothing between raw text and BLEU is broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transformer.evaluation.metrics import score

CopyRun = Any
Script = Callable[..., Any]


@pytest.fixture(scope="module")
def evaluated(copy_run: CopyRun, script: Script) -> Any:
    return script(copy_run.folder, "evaluate.py", "--model", "runs/copy", "--examples", "2")


def test_the_machine_learns_to_copy_sentences_it_has_never_seen(copy_run: CopyRun, evaluated: Any) -> None:
    assert (copy_run.preprocess.code, copy_run.train.code, evaluated.code) == (0, 0, 0), copy_run.train.err
    copied = (copy_run.folder / "runs/copy/translations/copy.de").read_text().split("\n")
    source = (copy_run.folder / "test.src").read_text().split("\n")
    assert len(copied) == len(source)
    assert sum(a == b for a, b in zip(copied, source, strict=True)) >= 0.95 * len(source)
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp" in evaluated.out


def test_every_program_says_what_it_wrote_and_what_to_do_next(copy_run: CopyRun, evaluated: Any) -> None:
    assert "prepared/copy" in copy_run.preprocess.out and "python train.py" in copy_run.preprocess.out
    assert "runs/copy/model" in copy_run.train.out and "python translate.py --model runs/copy" in copy_run.train.out
    assert "runs/copy/translations/copy.de" in evaluated.out and "python -m transformer attention" in evaluated.out


def test_case_x1_blank_lines_stay_blank_and_leave_their_neighbours_alone(copy_run: CopyRun, script: Script) -> None:
    def translate(text: str) -> str:
        return str(script(copy_run.folder, "translate.py", "--model", "runs/copy", stdin=text).out)

    first, second = translate("w12 w7\nw3\n").splitlines()
    assert first and second
    assert translate("w12 w7\n\n   \nw3\n") == f"{first}\n\n\n{second}\n"
    assert translate("") == ""
    assert translate("\n") == "\n"


def test_case_x7_every_line_comes_out_in_its_place(copy_run: CopyRun, script: Script, tmp_path: Path) -> None:
    lines = [" ".join([f"w{i}"] * (i * 7 % 23 + 1)) for i in range(1, 876)]
    (tmp_path / "x7.txt").write_text("".join(f"{line}\n" for line in lines))
    files = ["--input", str(tmp_path / "x7.txt"), "--output", str(tmp_path / "x7.out")]
    limits = ["translate.beam_size=1", "translate.max_extra_length=2"]
    done = script(copy_run.folder, "translate.py", "--model", "runs/copy", "--batch-size", "8", *files, *limits)
    out = (tmp_path / "x7.out").read_text().split("\n")[:-1]
    assert done.code == 0 and len(out) == 875
    # Longer sentences than those it learnt from are not copied whole, but the word tells the line.
    assert sum(f"w{i}" in line.split() for i, line in enumerate(out, 1)) >= 0.9 * 875


def test_case_b3_validation_bleu_is_that_of_the_programs_on_the_same_checkpoint(
    copy_run: CopyRun, script: Script
) -> None:
    files = ["--input", "valid.src", "--output", "valid.out", "--reference", "valid.tgt"]
    done = script(
        copy_run.folder, "translate.py", "--model", "runs/copy/checkpoints/last", *files, "translate.beam_size=1"
    )
    metrics = (copy_run.folder / "runs/copy/metrics.jsonl").read_text().splitlines()
    shown = [line["valid_bleu"] for line in map(json.loads, metrics) if "valid_bleu" in line][-1]
    scored = script(copy_run.folder, "evaluate.py", "--hypothesis", "valid.out", "--reference", "valid.tgt")
    assert [line.strip() for line in done.err.splitlines() if "BLEU" in line] == [
        line.strip() for line in scored.out.splitlines() if "BLEU" in line
    ]
    translated, references = ((copy_run.folder / name).read_text().splitlines() for name in ("valid.out", "valid.tgt"))
    assert score(translated, references).bleu == pytest.approx(shown, abs=1e-4)
