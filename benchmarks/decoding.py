"""Our beam search beside that of others: same sentences, same weights, two cores, in turn.

    python benchmarks/decoding.py --model DIR --data DIR --venv NAME=DIR …

--model is a run or model directory trained on Multi30k, --data holds test_2016_flickr.{en,de}.gz. Each toolkit lives in
a virtual environment of its own; NAME is ctranslate2, hugging_face, fairseq, eole or joeynmt, and

    benchmarks/install_peers.sh DIR

makes DIR/NAME for all of them. One that is not given is left out. All get ids and give ids, only ours reads and writes
text. They decode with beam 5, scores are mean log-probabilities, batches hold sentences of like length. Two networks:
the trained one, and one of the paper's base size with random weights, whose outputs are all made as long as the
references are on the mean. Every decoding is a fresh process; what is timed is decoding alone, once the program is
loaded and warm. The result is printed and written to benchmarks/results/decoding.md.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

import torch
from tqdm import tqdm

from benchmarks.decoding_peers.runs import Run, System, decode, seconds_to_first_line
from benchmarks.decoding_peers.task import Task
from benchmarks.machine import machine_facts
from benchmarks.programs import ROOT, pythons
from data.lines import read_lines, write_lines
from data.vocabulary import Vocabulary
from transformer.command_line import CommandParser, run_command
from transformer.config import ModelSettings
from transformer.config_translate import TranslateSettings
from transformer.errors import RunError
from transformer.model import Transformer
from transformer.model_directory import Model, distinct, load_model, new_network, save_model

TEST = "test_2016_flickr"
BEAM_SIZE = 5
RULES = TranslateSettings(beam_size=BEAM_SIZE, length_penalty="average", alpha=1.0)
TINY = ModelSettings(n_encoder_layers=4, n_decoder_layers=4, d_model=128, d_ff=256, n_heads=4)
PAPER = {  # what every toolkit here can compute
    "norm_position": "post",
    "norm": "layer_norm",
    "activation": "relu",
    "positions": "sinusoidal",
    "attention_bias": False,
    "embedding_norm": False,
    "scaling": "embedding",
    "tie_embeddings": "three_way",
    "d_head": None,
    "d_value": None,
}
PEERS = ("ctranslate2", "hugging_face", "fairseq", "eole", "joeynmt")
TORCH_BATCHES = (64, 128, 256)
REFERENCE = "this project, 2 workers"  # stops as the others do: its texts are compared with theirs
ABOUT = """\
“Same text as ours”: as ours when it stops once five hypotheses have finished, as the others do. `exact` goes on until
provably no better one can come. JoeyNMT ranks by another penalty. †: eole has no post-norm network, so it has random
weights of its own, and every output is as long as the references are on the mean: speed only. Memory is the most that
all processes of a row held together; pages they share count for each.

Goals: 2.5 × the fastest PyTorch toolkit; 1.0 × (tiny) and 0.8 × (base) CTranslate2 float32.
"""


@dataclass(frozen=True)
class Workload:
    """A network and sentences."""

    title: str
    about: str
    task: Path  # for those that take our weights
    forced: Path  # for those that have other weights: outputs of a fixed length; may be the same folder


def main(argv: Sequence[str] | None = None) -> int:
    """Make the tasks, decode in turn, profile, report."""
    parser = CommandParser(prog="benchmarks/decoding.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="a run or model directory")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the raw Multi30k corpus")
    parser.add_argument(
        "--venv", action="append", default=[], metavar="NAME=DIR", help=f"where a toolkit is: {', '.join(PEERS)}"
    )
    parser.add_argument("--lines", type=int, default=1000, metavar="N", help="sentences for small networks (1000)")
    parser.add_argument("--base-lines", type=int, default=128, metavar="N", help="sentences for the base one (128)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="decodings of each, in turn (3)")
    parser.add_argument("--only", metavar="WORD", help="only systems with this in their name, and ours to compare with")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/work", metavar="DIR", help="for what is made")
    args = parser.parse_args(argv)
    work = args.work.resolve() / "decoding"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    venvs = pythons(args.venv, PEERS)
    rows = systems(venvs)
    rows = [row for row in rows if not args.only or args.only in row.name or row.name == REFERENCE]
    model = load_model(args.model)
    pages, made = [], workloads(model, args.data, args.lines, args.base_lines, work)
    for workload in made:
        results, failures = in_turn(rows, workload, args.rounds, work)
        pages.append(describe(workload, rows, results, failures, model.tgt_vocabulary))
        print(pages[-1])
    pages.append(describe_profile([workload.task for workload in made]))
    pages.append(describe_start(args.model.resolve(), args.data, model.src_lang, work))
    page = "\n".join([head(args.rounds, sorted(set(PEERS) - venvs.keys())), *pages])
    path = ROOT / "benchmarks/results/decoding.md"
    path.write_text(page, encoding="utf-8")
    print(page, f"wrote {path}", sep="\n")
    return 0


def systems(venvs: Mapping[str, Path]) -> list[System]:
    """The rows of the table."""
    own = Path(sys.executable)

    def ours(name: str, workers: int = 2, **settings: object) -> System:
        options = {"settings": {"workers": workers, **settings}}
        return System(f"this project, {name}", "ours", own, 1, 3 - workers, options)

    rows = [
        ours("2 workers", stop="first_n", precision="fp32"),
        ours("2 workers, exact", stop="exact", precision="fp32"),
        ours("2 threads", workers=1, stop="first_n", precision="fp32"),
        ours("2 workers, bf16", stop="first_n", precision="bf16"),
        ours("2 workers, beam 1", beam_size=1, precision="fp32"),
        System("the same network, uncached, one sentence at a time", "uncached", own, every=20, kind="torch"),
    ]
    if python := venvs.get("ctranslate2"):
        ways = [("float32", 2, 16), ("float32", 2, 32), ("float32", 1, 32), ("int8", 2, 16), ("int8", 2, 32)]
        for compute_type, inter, batch_size in ways:
            name = f"CTranslate2 {compute_type}, {inter} × {3 - inter} threads, batch {batch_size}"
            options = {"compute_type": compute_type, "inter": inter, "intra": 3 - inter}
            rows.append(System(name, "ctranslate2", python, 1, 3 - inter, options, (batch_size,), kind="compiled"))
    titles = {"hugging_face": "Hugging Face Marian", "fairseq": "fairseq", "eole": "eole †", "joeynmt": "JoeyNMT"}
    for peer, title in titles.items():
        if python := venvs.get(peer):
            for processes, threads in ((1, 2), (2, 1)):
                how = "2 threads" if threads == 2 else "2 processes × 1 thread"
                row = System(f"{title}, {how}", peer, python, processes, threads, {}, TORCH_BATCHES, kind="torch")
                rows.append(replace(row, own_weights=peer != "eole", every=16 if peer == "joeynmt" else 1))
    return rows


def workloads(model: Model, data: Path, n_lines: int, n_base_lines: int, work: Path) -> list[Workload]:
    """Write the tasks: the trained network, one of base size, and a tiny one if the trained one has another size."""
    if {name: getattr(model.settings, name) for name in PAPER} != PAPER:
        wanted = ", ".join(f"{name} {json.dumps(value)}" for name, value in PAPER.items())
        raise RunError(f"the other toolkits cannot compute this network; it has to have model settings {wanted}")
    lines = list(read_lines(data / f"{TEST}.{model.src_lang}.gz"))[:n_lines]
    references = model.tgt_vocabulary.encode(list(read_lines(data / f"{TEST}.{model.tgt_lang}.gz"))[:n_lines])
    length = round(sum(map(len, references)) / len(references)) + 1
    trained = Workload(
        f"Trained on Multi30k: {sizes(model.settings, len(model.tgt_vocabulary))}",
        f"{len(lines):,} sentences; outputs end where the network ends them.",
        write_task(work / "trained", model, lines, None),
        write_task(work / "trained-forced", model, lines, length),
    )
    found = [trained]
    few = lines[:: max(1, len(lines) // n_base_lines)][:n_base_lines]
    random = {"base": (ModelSettings(), few)}
    if (model.settings.n_decoder_layers, model.settings.d_model, model.settings.d_ff) != (4, 128, 256):
        random["tiny"] = (TINY, lines)
    for name, (settings, texts) in random.items():
        torch.manual_seed(1)
        network = lively(new_network(settings, model.src_vocabulary, model.tgt_vocabulary).eval())
        folder = write_task(work / name, replace(model, settings=settings, network=network), texts, length)
        title = f"Random weights, {name} size: {sizes(settings, len(model.tgt_vocabulary))}"
        found.append(Workload(title, f"{len(texts):,} sentences; every output has {length} pieces.", folder, folder))
    return found


@torch.no_grad()
def lively(network: Transformer) -> Transformer:
    """Random weights, changed so that a beam holds different hypotheses, as with a trained network.

    As they are drawn, a piece predicts itself, through the residual connections and the tied embeddings: every output
    is one piece again and again. Here sub-layers weigh more, and what they add up to is turned away from the input.
    """
    for layer in network.decoder.layers:
        for outer in (
            layer.self_attention.out_projection,
            layer.cross_attention.out_projection,
            layer.feed_forward.outer,
        ):
            outer.weight *= 2
    gain = network.decoder.layers[-1].feed_forward_residual.norm.weight
    assert isinstance(gain, torch.Tensor)
    gain *= 4 * (2 * torch.randint(2, gain.shape) - 1)  # logits with a deviation of 4, a realistic one
    return network


def sizes(settings: ModelSettings, vocab_size: int) -> str:
    """The sizes of a network in a few words."""
    layers = f"{settings.n_encoder_layers} + {settings.n_decoder_layers} layers"
    return f"{layers}, d {settings.d_model}, {settings.n_heads} heads, FFN {settings.d_ff}, {vocab_size:,} pieces"


def write_task(folder: Path, model: Model, lines: Sequence[str], length: int | None) -> Path:
    """Write a task and our model directory into a new folder."""
    (folder / "model").mkdir(parents=True)
    save_model(folder / "model", replace(model, translate=RULES))
    sentences = model.src_vocabulary.encode(lines)
    limit = max(int(RULES.max_length_ratio * len(source)) + RULES.max_extra_length for source in sentences)
    network, vocab_size = model.settings.model_dump(), len(model.tgt_vocabulary)
    task = Task(folder, network, vocab_size, BEAM_SIZE, length, limit, sentences, list(lines))
    weights = distinct(model.network, model.network.state_dict())
    task.save({name: tensor.numpy() for name, tensor in weights.items()})
    return folder


def in_turn(
    rows: Sequence[System], workload: Workload, n_rounds: int, work: Path
) -> tuple[dict[str, list[Run]], dict[str, str]]:
    """The runs of every system, and why some could not; the batch size of the first round is kept."""
    results: dict[str, list[Run]] = {row.name: [] for row in rows}
    failures: dict[str, str] = {}
    with tqdm(total=n_rounds * len(rows), desc=workload.title, unit="run", dynamic_ncols=True) as bar:
        for number, row in itertools.product(range(n_rounds), rows):
            bar.update()
            if row.name in failures:
                continue
            runs = results[row.name]
            batch_sizes = [runs[0].batch_size] if runs else row.batch_sizes
            task = workload.task if row.own_weights else workload.forced
            try:
                runs.append(decode(row, task, work / "log", batch_sizes))
            except RunError as error:
                failures[row.name] = str(error)
                continue
            run = runs[-1]
            rate = len(run.outputs) / run.seconds
            done = f"{row.name}: {rate:.1f} sentences/s, batch {run.batch_size or 'of its own'}"
            tqdm.write(f"round {number + 1}: {done}", file=sys.stderr)
    return results, failures


def describe(
    workload: Workload,
    rows: Sequence[System],
    results: Mapping[str, Sequence[Run]],
    failures: Mapping[str, str],
    vocabulary: Vocabulary,
) -> str:
    """The table of one network, and how it compares with what we want."""
    lines = [f"## {workload.title}", "", workload.about, ""]
    lines += ["| | sentences/s | least–most | target tokens/s | batch | memory GiB | same text as ours |"]
    lines += ["|---|---|---|---|---|---|---|"]
    reference = texts(results[REFERENCE][0], vocabulary) if results[REFERENCE] else []
    rates, token_rates = {}, {}
    for row in rows:
        if row.name in failures or not (runs := results[row.name]):
            continue
        per_second = [len(run.outputs) / run.seconds for run in runs]
        rates[row.name] = median(per_second)
        token_rates[row.name] = median(run.n_tokens / run.seconds for run in runs)
        memory = max(run.memory_gib or 0 for run in runs)
        name = row.name + (f" (1 in {row.every})" if row.every > 1 else "")
        cells = [name, f"{rates[row.name]:.1f}", f"{min(per_second):.1f}–{max(per_second):.1f}"]
        cells += [f"{token_rates[row.name]:,.0f}", str(runs[0].batch_size or "—"), f"{memory:.2f}" if memory else "—"]
        cells += [agreement(row, runs[0], reference, vocabulary) if workload.task != workload.forced else "—"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *goals(rows, token_rates)]
    lines += [f"- not measured: {reason}" for reason in failures.values()]
    versions = sorted({runs[0].version for runs in results.values() if runs})
    lines += ["", f"Versions: {'; '.join(versions)}.", ""]
    return "\n".join(lines)


def texts(run: Run, vocabulary: Vocabulary) -> list[str]:
    """The outputs as text."""
    return [o if isinstance(o, str) else vocabulary.decode([o])[0] for o in run.outputs]


def agreement(row: System, run: Run, reference: Sequence[str], vocabulary: Vocabulary) -> str:
    """The share of equal texts."""
    if not row.own_weights or not reference:
        return "—"
    found, wanted = texts(run, vocabulary), reference[:: row.every]
    return f"{sum(a == b for a, b in zip(found, wanted, strict=True)) / len(wanted):.1%}"


def goals(rows: Sequence[System], token_rates: Mapping[str, float]) -> list[str]:
    """Our best fp32 rate against that of the fastest other ones, by target tokens."""
    measured = [row for row in rows if row.name in token_rates]
    own = [row for row in measured if row.kind == "ours" and "bf16" not in row.name and "beam 1" not in row.name]
    best = max((row.name for row in own), key=lambda name: token_rates[name], default=None)
    groups = {
        "the fastest PyTorch toolkit": [row for row in measured if row.kind == "torch" and row.program != "uncached"],
        "CTranslate2 float32": [row for row in measured if row.kind == "compiled" and "float32" in row.name],
        "CTranslate2 int8": [row for row in measured if row.kind == "compiled" and "int8" in row.name],
        "the uncached search": [row for row in measured if row.program == "uncached"],
    }
    found = []
    for title, group in groups.items():
        if group and best:
            name = max((row.name for row in group), key=lambda name: token_rates[name])
            found.append(f"- ours / {title}: **{token_rates[best] / token_rates[name]:.2f}** ({best} / {name})")
    return found


def describe_profile(tasks: Sequence[Path]) -> str:
    """Where our time goes, on each network."""
    profiles = {}
    for task in tasks:
        command = [sys.executable, "-m", "benchmarks.decoding_peers.own_profile", str(task)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, encoding="utf-8", check=False)
        if done.returncode:
            return f"## Where our time goes\n\nnot measured: exit code {done.returncode} of {' '.join(command[1:3])}\n"
        profiles[task.name] = json.loads(done.stdout)
    parts = dict.fromkeys(part for profile in profiles.values() for part in profile["shares"])
    lines = ["## Where our time goes", ""]
    lines += [f"| share of the time | {' | '.join(profiles)} |", "|---" * (len(tasks) + 1) + "|"]
    for part in parts:
        cells = [f"{profile['shares'].get(part, 0):.1%}" for profile in profiles.values()]
        lines.append(f"| {part} | {' | '.join(cells)} |")
    outside = [f"{profile['outside_operations']:.1%}" for profile in profiles.values()]
    lines.append(f"| *of all: outside PyTorch's operations* | {' | '.join(outside)} |")
    note = (
        "One process, one thread, fp32. The last line comes from torch.profiler, which takes time itself: less is true."
    )
    return "\n".join([*lines, "", note, ""])


def describe_start(model: Path, data: Path, src_lang: str, work: Path) -> str:
    """How long it takes until the first translation is there."""
    write_lines(work / "one.txt", list(read_lines(data / f"{TEST}.{src_lang}.gz"))[:1])
    script = [sys.executable, str(ROOT / "translate.py"), "--model", str(model), "--input", str(work / "one.txt")]
    only_imports = [sys.executable, "-c", "import translate; print()"]
    seconds = median(seconds_to_first_line(script, work) for _ in range(3))
    imports = median(seconds_to_first_line(only_imports, ROOT) for _ in range(3))
    return (
        f"## Start\n\n`python translate.py` on one line of text: **{seconds:.2f} s** from the command to the "
        f"translation, of which {imports / seconds:.0%} are imports ({imports:.2f} s); medians of 3.\n"
    )


def head(n_rounds: int, missing: Sequence[str]) -> str:
    """The title, and what the tables mean."""
    command = (__doc__ or "").split("\n")[2].strip()
    facts = machine_facts()
    machine = f"{facts['cores']} cores of {facts['cpu']}; {facts['date']}"
    lines = ["# Decoding beside that of others", "", f"    {command}", ""]
    lines += [f"{machine}; medians of {n_rounds} rounds in turn; beam {BEAM_SIZE}.", "", ABOUT]
    if missing:
        lines.append(f"Not given, so not measured: {', '.join(missing)}.\n")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(run_command(main))
