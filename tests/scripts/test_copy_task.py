"""The machine learns to copy: text → preprocess.py → train.py → translate.py and evaluate.py, as a user types them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import sacrebleu
import torch

from transformer.model import Transformer
from transformer.model_directory import Model, load_model, save_model

Call = Callable[..., CompletedProcess[str]]


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def translated(call: Call, model: Path, lines: Sequence[str], *arguments: str) -> list[str]:
    """The lines that translate.py makes of these, file to file."""
    Path("in.txt").write_text("".join(line + "\n" for line in lines))
    done = call("translate", "--model", model, "--input", "in.txt", "--output", "out.txt", *arguments)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return lines_of(Path("out.txt"))


def test_lines_never_seen_are_copied(copy_run: Any, program: Call) -> None:
    folder = copy_run.folder
    source = (folder / "test.txt").read_text()
    done = program(folder, "translate", "--model", "runs/copy", stdin=source)
    assert done.returncode == 0
    assert done.stderr.startswith("translated: 200 lines, ")
    copied, wanted = done.stdout.split("\n"), source.split("\n")
    assert len(copied) == len(wanted) == 201
    n_right = sum(one == other for one, other in zip(copied, wanted, strict=True)) - 1
    assert n_right >= 0.95 * 200, [pair for pair in zip(wanted, copied, strict=True) if pair[0] != pair[1]]

    done = program(folder, "evaluate", "--model", "runs/copy")
    assert done.returncode == 0, done.stderr
    hypotheses = lines_of(folder / "runs/copy/translations/held-out.copied")
    assert hypotheses == copied[:-1]
    expected = sacrebleu.corpus_bleu(hypotheses, [wanted[:-1]]).score
    assert re.search(rf"^held-out, 200 lines\nBLEU +{expected:.2f} ", done.stdout, re.MULTILINE), done.stdout


def test_case_b3_the_bleu_that_training_showed_is_that_of_the_checkpoints_translations(
    copy_run: Any, call: Call
) -> None:
    run, reference = copy_run.folder / "runs/copy", copy_run.folder / "valid.txt"
    rows = [json.loads(line) for line in lines_of(run / "metrics.jsonl")]
    shown = {row["step"]: row["valid_bleu"] for row in rows if "valid_bleu" in row}
    assert list(shown) == [300, 600]
    for step, bleu in shown.items():
        model = run / "checkpoints" / f"step-{step:08d}"
        hypotheses = translated(call, model, lines_of(reference), "translate.beam_size=1")
        assert sacrebleu.corpus_bleu(hypotheses, [lines_of(reference)]).score == pytest.approx(bleu, abs=5e-5)
        done = call("evaluate", "--hypothesis", "out.txt", "--reference", reference)
        assert re.search(rf"^BLEU +{bleu:.2f} ", done.stdout, re.MULTILINE)


def test_case_x1_blank_lines_stay_blank_and_change_nothing(copy_run: Any, call: Call) -> None:
    model = copy_run.folder / "runs/copy"
    with_blanks = translated(call, model, ["w7 w8 w9", "", "   ", "w700"])
    assert with_blanks[1:3] == ["", ""]
    assert [with_blanks[0], with_blanks[3]] == translated(call, model, ["w7 w8 w9", "w700"])
    assert translated(call, model, []) == []
    assert translated(call, model, [""]) == [""]


def test_case_x7_every_line_comes_out_in_its_place(copy_run: Any, call: Call) -> None:
    model = copy_run.folder / "runs/copy"
    lines = [" ".join([f"w{i}"] * (i * 7 % 23 + 1)) for i in range(1, 876)]  # 109 · 8 + 3 lines, of 1 to 23 words
    greedy = "translate.beam_size=1"
    together = translated(call, model, lines, "--batch-size", "8", greedy)
    assert len(together) == 875
    for i in (1, 2, 436, 873, 874, 875):
        assert [together[i - 1]] == translated(call, model, [lines[i - 1]], greedy)
    n_right = sum(f"w{i}" in line.split() for i, line in enumerate(together, 1))
    assert n_right >= 0.95 * 875


def test_case_e1_a_trained_model_exported_translates_the_same(copy_run: Any, call: Call) -> None:
    """50 lines, an empty one and the longest there may be among them; embeddings tied, and the same ones apart."""
    folder: Path = copy_run.folder
    loaded = load_model(folder / "runs/copy")
    assert loaded.settings.tie_embeddings == "three_way"
    settings = loaded.settings.model_copy(update={"tie_embeddings": "none"})
    apart = Transformer(settings, *[len(loaded.src_vocabulary)] * 2).requires_grad_(False)
    apart.load_state_dict(loaded.network.state_dict())
    apart.projection.weight += 1e-3 * torch.randn_like(apart.projection.weight)
    Path("apart").mkdir()
    save_model(Path("apart"), Model(**vars(loaded) | {"network": apart, "settings": settings}))
    texts = (folder / "test.txt").read_text().split("\n")[:48]
    longest = " ".join(["w5", "w6"] * 128)[:-3]
    Path("in").write_text("".join(f"{line}\n" for line in [*texts, "", longest]))
    for run in (folder / "runs/copy", Path("apart")):
        name = f"exported {run.name}"
        done = call("transformer", "export", run, "--to", "ctranslate2", "--output", name, "--input", "in")
        assert done.returncode == 0, done.stderr
        for beam_size in (1, 4):
            beam = (f"translate.beam_size={beam_size}", "translate.length_penalty=average", "translate.alpha=1")
            outputs = []
            for model in (run, Path(name)):
                done = call("translate", "--model", model, "--input", "in", "--format", "jsonl", *beam)
                assert done.returncode == 0, done.stderr
                outputs.append([json.loads(line) for line in done.stdout.split("\n")[:-1]])
            ours, theirs = ([record["text"] for record in records] for records in outputs)
            same = sum(map(str.__eq__, ours, theirs))
            assert len(ours) == 50
            assert same >= (50 if beam_size == 1 else 49)
            bleu = [sacrebleu.corpus_bleu(each[:48], [texts]).score for each in (ours, theirs)]
            assert bleu[0] == pytest.approx(bleu[1], abs=0.1)
            assert bleu[0] > 50
            for one, other in zip(*outputs, strict=True):
                if one["text"] == other["text"]:
                    assert other["pieces"] == one["pieces"]
                    assert other["token_log_probs"] == pytest.approx(one["token_log_probs"], abs=1e-4)
