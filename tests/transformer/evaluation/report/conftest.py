"""Runs as training and evaluation leave them, made up: what a page about them must tell is known."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from data.lines import write_lines
from data.prepared import save_manifest, save_text
from data.vocabulary import Vocabulary
from transformer.config import ModelSettings, Settings, TranslateSettings
from transformer.config_file import save_settings
from transformer.evaluation.results import Bucket, Evaluation, Figure, Sentence, save_evaluation
from transformer.model import Transformer
from transformer.model_directory import Model, save_model

MakeRun = Callable[..., Path]

N_SENTENCES = 40
STEPS = (100, 200, 300)
WORDS = ["der", "die", "ein", "Hund", "Katze", "Haus", "Straße", "sieht", "geht", "grün", "schnell", "über"]


def sentences(seed: int, n: int = N_SENTENCES) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 12))) + "." for _ in range(n)]


def garbled(text: str, share: float, draw: random.Random) -> str:
    return " ".join(draw.choice(WORDS) if draw.random() < share else word for word in text.split())


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Write runs, as `write_run`, into one folder."""
    return partial(write_run, tmp_path)


def write_run(
    folder: Path,
    name: str = "tiny",
    *,
    worse: float = 0.0,
    train: dict[str, Any] | None = None,
    src: str = "The dog",
) -> Path:
    """Write runs/NAME and prepared/tiny; `worse` garbles more of its translations."""
    prepare(folder / "prepared" / "tiny", src)
    run = folder / "runs" / name
    (run / "checkpoints").mkdir(parents=True)
    wanted = {"max_steps": STEPS[-1], **(train or {})}
    settings = Settings.model_validate({"name": "tiny", "train": wanted})
    save_settings(settings, run / "settings.yaml")
    draw = random.Random(3)
    lines: list[dict[str, Any]] = []
    (run / "validation").mkdir()
    for step in range(20, STEPS[-1] + 1, 20):
        lines.append(update(step, draw))
        if step in STEPS:
            translated = [garbled(text, 30 / step + worse, draw) for text in sentences(2)]
            write_lines(run / "validation" / f"step-{step:08d}.tsv", (f"1.5\t{text}" for text in translated))
            lines.append(validation(step, translated))
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run / "choices.json").write_text(json.dumps({"device": "cpu", "precision": "bf16", "attention": "fused"}))
    (run / "record.json").write_text(json.dumps(RECORD))
    evaluate(run, "news/2024", worse)
    return run


RECORD = {
    "environment": {
        "versions": {"python": "3.12.1", "torch": "2.13.0"},
        "git": {"commit": "0123456789abcdef", "dirty": True},
        "device": {"type": "cpu", "name": "Some Processor", "count": 8, "threads": 4, "instructions": "AVX512"},
        "processes": 2,
        "platform": {"system": "Linux", "machine": "x86_64"},
    }
}


def prepare(directory: Path, src: str) -> None:
    if directory.exists():
        return
    directory.mkdir(parents=True)
    references = sentences(2)
    save_text(directory, ([f"{src} number {i} sees it." for i in range(len(references))], references))
    corpus = {"name": "news", "source": "a.en + a.de", "read": 1000, "kept": 900, "dropped": {"too_long": 100}}
    counts = {"train": [corpus], "valid": len(references), "test": {}}
    save_manifest(directory, {"src_lang": "en", "tgt_lang": "de", "counts": counts})


def update(step: int, draw: random.Random) -> dict[str, Any]:
    nll = 8 / (1 + step / 50)
    return {
        "step": step,
        "lr": 1e-3 * step,
        "nll_per_token": nll,
        "perplexity": 2.718281828**nll,
        "grad_norm": 1 + draw.random(),
        "n_tokens": 4096 * step,
        "tokens_per_second": 5000 + draw.random(),
        "memory_gib": 2.5,
        "seconds": 2.0 * step,
    }


def validation(step: int, translated: list[str]) -> dict[str, Any]:
    bleu = BLEU().corpus_score(translated, [sentences(2)]).score
    return {"step": step, "valid_nll_per_token": 5 / step**0.2, "valid_bleu": bleu, "valid_perplexity": 700 / step}


def evaluate(run: Path, name: str, worse: float) -> None:
    draw = random.Random(7)
    references = sentences(9)
    hypotheses = [garbled(text, draw.random() * 0.5 + worse, draw) for text in references]
    each = [
        CHRF().sentence_score(*pair).score for pair in zip(hypotheses, ([text] for text in references), strict=True)
    ]
    rows = [
        Sentence(f"source {i}", [reference], hypothesis, chrf / 2, chrf, -draw.random())
        for i, (reference, hypothesis, chrf) in enumerate(zip(references, hypotheses, each, strict=True))
    ]
    score = BLEU().corpus_score(hypotheses, [references]).score
    figures = {"bleu": Figure(score, (score - 1.5, score + 1.25), "nrefs:1|tok:13a"), "ter": Figure(33.125, None, "t")}
    evaluation = Evaluation(
        test_set=name,
        src_lang="en",
        tgt_lang="de",
        n_lines=len(rows),
        tokenizer="13a",
        translate={},
        metrics=figures,
        literature=None,
        length_ratio=1.0,
        note="",
        breakdown={"source length": [Bucket("1 to 9", 30, 44.5, 60.0), Bucket("10 and more", 10, 22.25, 50.0)]},
        shares={"empty": [], "copied": [3, 4]},
    )
    save_evaluation(run / "translations", evaluation, rows)


def add_model(run: Path) -> None:
    """Give a run an untrained model."""
    vocabulary = Vocabulary.learn([*sentences(2), "The dog number sees it."] * 3, size=300)
    settings = ModelSettings(n_encoder_layers=1, n_decoder_layers=2, d_model=32, d_ff=48, n_heads=4)
    torch.manual_seed(0)
    network = Transformer(settings, len(vocabulary), len(vocabulary))
    translate = TranslateSettings(max_length_ratio=0.0, max_extra_length=6)
    (run / "model").mkdir()
    save_model(run / "model", Model(network, settings, translate, vocabulary, vocabulary, "en", "de"))
