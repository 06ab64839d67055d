"""Exported models beside the one they were made from: sentences per second, BLEU, and the wait for the first line.

    python benchmarks/export.py --model runs/NAME --source FILE --reference FILE

On a CPU with two threads: a trained model, and an untrained one of the paper's base size with the same vocabulary, all
of whose outputs are cut after 15 pieces. Each in fp32 as it was trained, and exported to CTranslate2 in fp32 and int8.
Text in, text out, in turn, the median of the rounds; nothing else may run meanwhile.

The wait is that of `translate.py` from its start to its first line of output, the median of five starts; it must be
less than a second with CTranslate2. The result is printed and written to benchmarks/results/export.md.
"""

from __future__ import annotations

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
from data.lines import read_lines
from transformer.command_line import CommandParser, run_command
from transformer.config import ModelSettings
from transformer.config_translate import TranslateSettings
from transformer.inference.ctranslate2_translator import CTranslate2Translator
from transformer.inference.export.command import TARGETS, write_export
from transformer.inference.export.description import ExportDescription
from transformer.inference.translator import Translator
from transformer.model import Transformer
from transformer.model_directory import Model, load_model, save_model

ROOT = Path(__file__).resolve().parent.parent
THREADS = 2
BEAMS = (1, 5)
N_STARTS = 5
BASE_LINES = 128

System = Callable[[Sequence[str], int], list[str]]
"""Lines and the width of the beam → translations."""


def main(argv: Sequence[str] | None = None) -> int:
    """Make the models, measure them, write the page."""
    parser = CommandParser(prog="benchmarks/export.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="a run or model directory")
    parser.add_argument("--source", type=Path, required=True, metavar="FILE", help="lines to translate")
    parser.add_argument("--reference", type=Path, required=True, metavar="FILE", help="their translations")
    parser.add_argument("--lines", type=int, default=1000, metavar="N", help=f"so many; base: {BASE_LINES} (1000)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="translations of each, in turn (3)")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/work", metavar="DIR", help="for what is made")
    args = parser.parse_args(argv)
    torch.set_num_threads(THREADS)
    lines, references = (list(read_lines(path))[: args.lines] for path in (args.source, args.reference))
    trained = load_model(args.model)
    work = args.work.resolve() / "export"
    shutil.rmtree(work, ignore_errors=True)
    facts = machine_facts()
    page = ["# Exported models\n\n    python benchmarks/export.py --model DIR --source FILE --reference FILE\n"]
    page += [f"{facts['cores']} cores of {facts['cpu']}, {THREADS} threads; {facts['date']}; medians of {args.rounds}."]
    for title, model, n_lines, bleu_of in (
        (f"Trained: {sizes(trained.settings)}", trained, args.lines, references),
        (f"Base size, untrained: {sizes(ModelSettings())}", base_model(trained), BASE_LINES, None),
    ):
        folder = work / title.split(":")[0].replace(" ", "_")
        folders = make(model, folder)
        page += [f"\n## {title}\n", *speed_table(folders, lines[:n_lines], bleu_of, args.rounds)]
        page += ["", *start_table(folders, lines[0])]
    text = "\n".join(page) + "\n"
    path = ROOT / "benchmarks/results/export.md"
    path.write_text(text, encoding="utf-8")
    print(text, f"wrote {path}", sep="\n")
    return 0


def sizes(settings: ModelSettings) -> str:
    """What decides about the speed."""
    layers = f"{settings.n_encoder_layers} + {settings.n_decoder_layers} layers"
    return f"{layers}, d {settings.d_model}, FFN {settings.d_ff}"


def base_model(like: Model) -> Model:
    """An untrained one with the vocabularies of another."""
    torch.manual_seed(0)
    settings = ModelSettings()
    network = Transformer(settings, len(like.src_vocabulary), len(like.tgt_vocabulary)).eval().requires_grad_(False)
    translate = TranslateSettings(length_penalty="average", alpha=1.0, max_length_ratio=0.0, max_extra_length=15)
    return replace(like, network=network, settings=settings, translate=translate)


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
        description = ExportDescription("ctranslate2", quantization, "en", "de", translate, {}, {})
        write_export(made, model, TARGETS["ctranslate2"], description)
    return folders


def load_system(name: str, folder: Path) -> System:
    """What translates with a folder."""
    rules: dict[str, Any] = {"length_penalty": "average", "alpha": 1.0, "stop": "first_n", "workers": THREADS}

    def translator(beam_size: int) -> Translator | CTranslate2Translator:
        settings = {**rules, "beam_size": beam_size}
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


def start_table(folders: dict[str, Path], line: str) -> list[str]:
    """Seconds from the start of translate.py to its first line, in Markdown."""
    rows = ["| start to first output | seconds |", "|---|---|"]
    for name, folder in folders.items():
        found = []
        for _ in range(N_STARTS + 1):
            begin = time.perf_counter()
            command = [sys.executable, str(ROOT / "translate.py"), "--model", str(folder), "--device", "cpu"]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            ) as done:
                assert done.stdin and done.stdout
                done.stdin.write(f"{line}\n".encode())
                done.stdin.close()
                assert done.stdout.readline()
                found.append(time.perf_counter() - begin)
        rows.append(f"| {name} | {median(found[1:]):.2f} |")  # the first reads files that others find in memory
    return rows


if __name__ == "__main__":
    sys.exit(run_command(main))
