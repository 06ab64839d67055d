"""Exported models beside the one they were made from: sentences per second, BLEU, and the wait for the first line.

    python benchmarks/export.py --model runs/NAME --source FILE --reference FILE

On a CPU with two threads: a trained model, and an untrained one of the paper's base size with the same vocabulary, all
of whose outputs are cut after 15 pieces. Each in fp32 as it was trained, and exported to CTranslate2 in fp32 and int8.
Then an untrained MarianMTModel of the trained one's size, imported and exported likewise, beside what CTranslate2's own
converter makes of the same folder. Text in, text out, in turn, the median of the rounds; nothing else may run then.

The wait is that of `translate.py` from its start to its first line of output, the median of five starts; it must be
less than a second with CTranslate2, or the exit code is 1. The result is printed and written to
benchmarks/results/export.md.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

import sacrebleu
import torch
from tqdm import tqdm

from benchmarks.machine import machine_facts
from data.errors import DataError
from data.lines import read_lines
from transformer.command_line import CommandParser, positive, run_command
from transformer.config import ModelSettings
from transformer.config_translate import TranslateSettings
from transformer.inference.ctranslate2_translator import CTranslate2Translator
from transformer.inference.export.command import TARGETS, write_export
from transformer.inference.export.description import ExportDescription
from transformer.inference.imports.marian import import_marian
from transformer.inference.translator import Translator
from transformer.model import Transformer
from transformer.model_directory import Model, load_model, save_model, save_vocabularies, write_json

ROOT = Path(__file__).resolve().parent.parent
THREADS = 2
BEAMS = (1, 5)
N_STARTS = 5
LONGEST_WAIT = 1.0  # seconds, for the first line from CTranslate2
OWN = "CTranslate2's own conversion"
SHORT = TranslateSettings(length_penalty="average", alpha=1.0, max_length_ratio=0.0, max_extra_length=15)
BASE_LINES = 128

System = Callable[[Sequence[str], int], list[str]]
"""Lines and the width of the beam → translations."""


def main(argv: Sequence[str] | None = None) -> int:
    """Make the models, measure them, write the page."""
    parser = CommandParser(prog="benchmarks/export.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="a run or model directory")
    parser.add_argument("--source", type=Path, required=True, metavar="FILE", help="lines to translate")
    parser.add_argument("--reference", type=Path, required=True, metavar="FILE", help="their translations")
    parser.add_argument("--lines", type=positive, default=1000, metavar="N", help=f"so many; base: {BASE_LINES} (1000)")
    parser.add_argument("--rounds", type=positive, default=3, metavar="N", help="translations of each, in turn (3)")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/work", metavar="DIR", help="for what is made")
    args = parser.parse_args(argv)
    torch.set_num_threads(THREADS)
    lines, references = (list(read_lines(path))[: args.lines] for path in (args.source, args.reference))
    if not lines or len(lines) != len(references):
        raise DataError(f"{args.source} and {args.reference} must have as many lines as each other, and at least one")
    trained = load_model(args.model)
    work = args.work.resolve() / "export"
    shutil.rmtree(work, ignore_errors=True)
    facts = machine_facts()
    page = ["# Exported models\n\n    python benchmarks/export.py --model DIR --source FILE --reference FILE\n"]
    page += [f"{facts['cores']} cores of {facts['cpu']}, {THREADS} threads; {facts['date']}; medians of {args.rounds}."]
    slow = []
    for title, model, n_lines, bleu_of in (
        (f"Trained: {sizes(trained.settings)}", trained, args.lines, references),
        (f"Base size, untrained: {sizes(ModelSettings())}", base_model(trained), BASE_LINES, None),
    ):
        folder = work / title.split(":")[0].replace(" ", "_")
        folders = make(model, folder)
        page += [f"\n## {title}\n", *speed_table(folders, lines[:n_lines], bleu_of, args.rounds)]
        waits = {name: start_to_first_line(made, lines[0]) for name, made in folders.items()}
        page += ["", "| start to first output | seconds |", "|---|---|"]
        page += [f"| {name} | {seconds:.2f} |" for name, seconds in waits.items()]
        slow += [f"{title}: {name}" for name, wait in waits.items() if name.startswith("CT") and wait >= LONGEST_WAIT]
    marian = marian_folder(trained, work / "Marian")
    model = replace(import_marian(marian), translate=SHORT)
    folders = make(model, work / "Imported") | convert(marian, model, work / "Converted")
    page += [f"\n## Marian, untrained: {sizes(trained.settings)}\n"]
    page += speed_table(folders, lines[: args.lines], None, args.rounds)
    text = "\n".join(page) + "\n"
    path = ROOT / "benchmarks/results/export.md"
    path.write_text(text, encoding="utf-8")
    print(text, f"wrote {path}", sep="\n")
    for which in slow:
        print(f"error: {which}: the first line needs {LONGEST_WAIT} second or more", file=sys.stderr)
    return 1 if slow else 0


def sizes(settings: ModelSettings) -> str:
    """What decides about the speed."""
    layers = f"{settings.n_encoder_layers} + {settings.n_decoder_layers} layers"
    return f"{layers}, d {settings.d_model}, FFN {settings.d_ff}"


def base_model(like: Model) -> Model:
    """An untrained one with the vocabularies of another."""
    torch.manual_seed(0)
    settings = ModelSettings()
    network = Transformer(settings, len(like.src_vocabulary), len(like.tgt_vocabulary)).eval().requires_grad_(False)
    return replace(like, network=network, settings=settings, translate=SHORT)


def marian_folder(like: Model, folder: Path) -> Path:
    """An untrained MarianMTModel, of the size and with the source pieces of another model, as Hugging Face keeps it."""
    from transformers import MarianConfig, MarianMTModel

    settings, vocabulary = like.settings, like.src_vocabulary
    strings = ["</s>", "<unk>", *vocabulary.all_pieces()[vocabulary.n_special :], "<pad>"]
    last = len(strings) - 1
    sides = ("encoder", "decoder")
    config = MarianConfig(
        vocab_size=len(strings),
        d_model=settings.d_model,
        encoder_layers=settings.n_encoder_layers,
        decoder_layers=settings.n_decoder_layers,
        **{f"{side}_attention_heads": settings.n_heads for side in sides},
        **{f"{side}_ffn_dim": settings.d_ff for side in sides},
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=last,
        decoder_start_token_id=last,
        init_std=0.1,  # so that translations differ
    )
    torch.manual_seed(0)
    MarianMTModel(config).save_pretrained(folder)
    for name in ("source.spm", "target.spm"):
        vocabulary.save(folder / name)
    write_json(folder / "vocab.json", {string: i for i, string in enumerate(strings)})
    write_json(folder / "tokenizer_config.json", {"source_lang": like.src_lang, "target_lang": like.tgt_lang})
    return folder


def convert(marian: Path, model: Model, folder: Path) -> dict[str, Path]:
    """What CTranslate2 itself makes of a Marian folder, with the vocabularies of `model`, by name."""
    from ctranslate2.converters import TransformersConverter

    folders = {}
    for kind in ("fp32", "int8"):
        made = folders[f"{OWN}, {kind}"] = folder / kind
        TransformersConverter(str(marian)).convert(str(made), quantization=None if kind == "fp32" else kind)
        save_vocabularies(made, model)
        config = json.loads((made / "config.json").read_text(encoding="utf-8"))
        write_json(made / "config.json", config | {"add_source_eos": True})  # its tokenizer adds it otherwise
    return folders


def make(model: Model, folder: Path) -> dict[str, Path]:
    """The model and its exports on disk, by name."""
    folders = {"this project, fp32": folder / "model"}
    folders["this project, fp32"].mkdir(parents=True)
    save_model(folder / "model", model)
    for kind in ("fp32", "int8"):
        quantization = None if kind == "fp32" else kind
        made = folders[f"CTranslate2, {kind}"] = folder / kind
        made.mkdir()
        translate = model.translate.model_copy(update={"length_penalty": "average", "alpha": 1.0, "stop": "first_n"})
        description = ExportDescription("ctranslate2", quantization, model.src_lang, model.tgt_lang, translate, {}, {})
        write_export(made, model, TARGETS["ctranslate2"], description)
    return folders


def load_system(name: str, folder: Path) -> System:
    """What translates with a folder."""
    rules: dict[str, Any] = {"length_penalty": "average", "alpha": 1.0, "stop": "first_n", "workers": THREADS}

    def translator(beam_size: int) -> Translator | CTranslate2Translator:
        settings = {**rules, "beam_size": beam_size}
        if name.startswith(OWN):
            return CTranslate2Translator(folder, SHORT.model_copy(update=settings), "cpu", threads=THREADS)
        if name.startswith("this"):
            return Translator.load(folder, "cpu", **settings)
        return CTranslate2Translator.load(folder, "cpu", threads=THREADS, **settings)

    translators = {beam_size: translator(beam_size) for beam_size in BEAMS}
    return lambda lines, beam_size: [one.text for one in translators[beam_size].translations(lines)]


def speed_table(folders: dict[str, Path], lines: list[str], references: list[str] | None, rounds: int) -> list[str]:
    """Sentences per second and BLEU of each, in Markdown."""
    systems = {name: load_system(name, folder) for name, folder in folders.items()}
    seconds: dict[tuple[str, int], list[float]] = {}
    texts: dict[tuple[str, int], list[str]] = {}
    runs = [(name, beam_size) for _ in range(rounds) for name in systems for beam_size in BEAMS]
    for name, beam_size in tqdm(runs, unit="run", disable=None):
        systems[name](lines[:32], beam_size)
        begin = time.perf_counter()
        texts[name, beam_size] = systems[name](lines, beam_size)
        seconds.setdefault((name, beam_size), []).append(time.perf_counter() - begin)
    own = next(iter(systems))
    against = "BLEU" if references else "BLEU against fp32"
    heads = [f"beam {beam_size}: {what}" for beam_size in BEAMS for what in ("sentences/s", "× ours", against)]
    rows = [f"| {len(lines)} lines | MB | " + " | ".join(heads) + " |", "|---|---|" + "---|" * len(heads)]
    for name in systems:
        cells = [f"{size_of(folders[name]) / 1e6:.1f}"]
        for beam_size in BEAMS:
            speed, ours = (len(lines) / median(seconds[system, beam_size]) for system in (name, own))
            bleu = sacrebleu.corpus_bleu(texts[name, beam_size], [references or texts[own, beam_size]]).score
            cells += [f"{speed:.1f}", f"{speed / ours:.2f}", f"{bleu:.2f}"]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return rows


def size_of(folder: Path) -> int:
    """Bytes of the largest file, which holds the weights."""
    return max(path.stat().st_size for path in folder.iterdir())


def start_to_first_line(folder: Path, line: str) -> float:
    """Seconds from the start of translate.py to its first line."""
    command = [sys.executable, str(ROOT / "translate.py"), "--model", str(folder), "--device", "cpu"]
    found = []
    for _ in range(N_STARTS + 1):
        begin = time.perf_counter()
        with subprocess.Popen(
            [*command, "--threads", str(THREADS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as done:
            assert done.stdin and done.stdout
            done.stdin.write(f"{line}\n".encode())
            done.stdin.close()
            assert done.stdout.readline()
            found.append(time.perf_counter() - begin)
    return median(found[1:])  # the first reads files that others find in memory


if __name__ == "__main__":
    sys.exit(run_command(main))
