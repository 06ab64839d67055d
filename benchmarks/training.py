"""The speed of our training beside that of others: same batches, same sizes, two threads, in turn.

    python benchmarks/training.py --data DIR --venv NAME=DIR …

--data holds Multi30k as benchmarks/multi30k.py says. Each toolkit lives in a virtual environment of its own; NAME is
fairseq, hugging_face, eole or joeynmt, and benchmarks/install_peers.sh DIR makes DIR/NAME for all of them. One that is
not given is left out. A plain loop around torch.nn.Transformer needs no environment but ours.

The corpus is prepared once, with a joint vocabulary of 10,000 pieces, and cut into batches as ours are; a few of them,
from the shortest sentences to the longest, are what everybody trains on. Every program is a fresh process with random
weights and its own network, loss and Adam, as its trainer uses them. It does an update on each batch to warm up, then
--intervals times the same updates, which are timed: forward, backward, clipping, step. Where others use the machine
meanwhile, an interval is done again. The result is printed and written to benchmarks/results/training.md.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

import numpy as np
import torch
from tqdm import tqdm

from benchmarks.machine import machine_facts
from benchmarks.multi30k import data_overrides
from benchmarks.others import wait_until_quiet
from benchmarks.programs import ROOT, pythons
from benchmarks.scripts import Work
from benchmarks.training_peers.runs import N_TRIES, PATIENCE_SECONDS, QUIET_CORES, THREADS, Run, System, train
from benchmarks.training_peers.task import Batch, Task
from data.batches import EpochPlan, Integers, collate, longer_side
from data.prepared import ParallelIds, load_prepared
from transformer.command_line import CommandParser, run_command
from transformer.config import ModelSettings
from transformer.describe import TRAINING_FACTOR, part_flops
from transformer.errors import ConfigError, RunError
from transformer.training.plan import DTYPES, measure_peak

PEERS = {"fairseq": "fairseq", "hugging_face": "Hugging Face Marian", "eole": "eole †", "joeynmt": "JoeyNMT"}
SLOW = {"joeynmt": 1}  # rounds in which it takes part, at most
LABEL_SMOOTHING, CLIP_NORM = 0.1, 1.0
ABOUT = """\
All do whole updates: forward, backward, clipping to norm 1, Adam. Rates count real target tokens, `</s>` among them.
Dropout has the same rate everywhere and sits where a toolkit has it by default; torch.nn.Transformer and JoeyNMT drop
inside attention and feed-forward as well, eole in attention (0.1). Model FLOP are matrix products alone, three times
those of the forward pass, as `python -m transformer describe` counts them, whether a program does more or less; peaks
are the fastest square matrix product, measured in turn with the programs, fp32 or bf16 as the row. Memory is the most
that the process held. †: eole has no post-norm network.
"""


@dataclass(frozen=True)
class Shape:
    """A size of network and of batch, and what we want there."""

    network: ModelSettings
    max_tokens: int  # target tokens of a batch with padding, at most
    n_batches: int  # of an interval
    goal: float  # times the fastest of the others


SHAPES = {
    "tiny": Shape(
        ModelSettings(n_encoder_layers=4, n_decoder_layers=4, d_model=128, d_ff=256, n_heads=4, dropout=0.3),
        max_tokens=4096,
        n_batches=6,
        goal=2.2,
    ),
    "base": Shape(ModelSettings(), max_tokens=2048, n_batches=2, goal=2.0),
}


@dataclass(frozen=True)
class Workload:
    """A shape, and the batches drawn for it."""

    name: str
    shape: Shape
    task: Task
    batches: list[Batch]

    @property
    def mean_length(self) -> int:
        """Tokens of a sentence, `</s>` counted, both sides taken together: `length` of `part_flops`."""
        n_tokens = sum(batch.n_tokens + batch.n_src_tokens for batch in self.batches)
        return round(n_tokens / (2 * sum(len(batch.tgt) for batch in self.batches)))

    @property
    def flops_per_token(self) -> int:
        """Of training, for each real target token."""
        return flops_per_token(self.shape.network, self.task.vocab_size, self.mean_length)


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare, train in turn, report."""
    parser = CommandParser(prog="benchmarks/training.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the raw Multi30k corpus")
    parser.add_argument(
        "--venv", action="append", default=[], metavar="NAME=DIR", help=f"where a toolkit is: {', '.join(PEERS)}"
    )
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="processes of each, in turn (2)")
    parser.add_argument("--intervals", type=int, default=2, metavar="N", help="that each process is timed for (2)")
    parser.add_argument("--only", metavar="WORD", help="only systems with this in their name")
    parser.add_argument("--shapes", default=",".join(SHAPES), metavar="NAMES", help=f"of {', '.join(SHAPES)} (all)")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/work", metavar="DIR", help="for what is made")
    args = parser.parse_args(argv)
    if unknown := set(args.shapes.split(",")) - SHAPES.keys():
        raise ConfigError(f"--shapes {args.shapes}: there is no {', '.join(unknown)}, only {', '.join(SHAPES)}")
    venvs = pythons(args.venv, list(PEERS))
    rows = [row for row in systems(venvs) if not args.only or args.only in row.name]
    work = args.work.resolve() / "training"
    prepared = prepare(args.data.resolve(), work)
    (work / "log").unlink(missing_ok=True)
    pages = []
    for name in args.shapes.split(","):
        workload = made_workload(name, SHAPES[name], prepared, work)
        runs, peaks, failures = in_turn(rows, workload, args.rounds, args.intervals, work / "log")
        pages.append(describe(workload, rows, runs, peaks, failures))
        print(pages[-1])
    page = "\n".join([head(args.rounds, args.intervals, sorted(PEERS.keys() - venvs.keys())), *pages])
    path = ROOT / "benchmarks/results/training.md"
    path.write_text(page, encoding="utf-8")
    print(f"wrote {path}")
    return 0


def systems(venvs: Mapping[str, Path]) -> list[System]:
    """The rows of the table."""
    own = Path(sys.executable)
    rows = [
        System(f"this project, {precision}", "ours", own, {"precision": precision}) for precision in ("fp32", "bf16")
    ]
    rows.append(System("torch.nn.Transformer, plain loop", "plain", own))
    rows += [System(title, name, venvs[name], rounds=SLOW.get(name)) for name, title in PEERS.items() if name in venvs]
    return rows


# --- the batches ---


def prepare(data: Path, work: Path) -> Path:
    """Prepare Multi30k as users do; the folder of ids. Does nothing where it has been done."""
    settings = ["--config", "multi30k.yaml", "name=training", *data_overrides(data, "en", "de")]
    Work(work, "training").run("preprocess", settings)
    return work / "prepared/training"


def made_workload(name: str, shape: Shape, directory: Path, work: Path) -> Workload:
    """Draw the batches and write the task into a new folder."""
    prepared = load_prepared(directory)
    sentences = drawn(prepared.train, shape.max_tokens, shape.n_batches)
    made = [collate(prepared.train, each) for each in sentences]
    batches = [Batch(each.src.numpy(), each.tgt_out.numpy()) for each in made]
    folder = work / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    network, vocab_size = shape.network.model_dump(), len(prepared.tgt_vocabulary)
    task = Task(folder, network, vocab_size, LABEL_SMOOTHING, CLIP_NORM, str(directory))
    task.save(batches)
    return Workload(name, shape, task, batches)


def drawn(corpus: ParallelIds, max_tokens: int, n_batches: int) -> list[Integers]:
    """Sentences of batches of an epoch, evenly from the shortest to the longest, in random order.

    An epoch is cut by its real target tokens, as updates are; here so that each batch, padding counted, has the most
    that keeps to `max_tokens` target tokens, to a hundredth.
    """
    longest = int(longer_side(corpus).max())
    columns = corpus.tgt_lengths + 1
    for hundredth in range(100, 50, -1):
        batch_tokens = max_tokens * hundredth // 100
        plan = EpochPlan(corpus, batch_tokens=batch_tokens, max_tokens=longest, seed=1, epoch=0)
        updates = sorted(range(len(plan)), key=lambda update: int(plan.updates[update, 0]))  # by length
        places = [int((i + 0.5) * len(updates) / n_batches) for i in range(n_batches)]
        found = [plan.sentences(updates[place]) for place in places]
        if all(len(each) * int(columns[each].max()) <= max_tokens for each in found):
            return [found[place] for place in np.random.default_rng(1).permutation(n_batches)]
    raise RunError(f"the sentences of the corpus are too long for batches of at most {max_tokens} target tokens")


# --- the measurement ---


def in_turn(
    rows: Sequence[System], workload: Workload, n_rounds: int, n_intervals: int, log: Path
) -> tuple[dict[str, list[Run]], dict[str, list[float]], dict[str, str]]:
    """The runs of every system, the peak FLOP/s of each precision, and why some systems could not."""
    runs: dict[str, list[Run]] = {row.name: [] for row in rows}
    peaks: dict[str, list[float]] = {"fp32": [], "bf16": []}
    failures: dict[str, str] = {}
    torch.set_num_threads(THREADS)
    with tqdm(total=n_rounds * len(rows), desc=workload.name, unit="run", dynamic_ncols=True) as bar:
        for number in range(n_rounds):
            wait_until_quiet(os.getpid(), QUIET_CORES, PATIENCE_SECONDS)
            for precision, found in peaks.items():
                found.append(measure_peak(torch.device("cpu"), DTYPES[precision]))
            for row in rows:
                bar.update()
                if row.name in failures or (row.rounds is not None and number >= row.rounds):
                    continue
                try:
                    run = train(row, workload.task.folder, n_intervals, log)
                except RunError as error:
                    failures[row.name] = str(error)
                    continue
                runs[row.name].append(run)
                rates = ", ".join(f"{rate:,.0f}" for rate in run.tokens_per_second)
                tqdm.write(f"round {number + 1}: {row.name}: {rates} target tokens/s", file=sys.stderr)
    return runs, peaks, failures


def flops_per_token(network: ModelSettings, vocab_size: int, length: int) -> int:
    """Floating-point operations of training for each target token, of sentences of this mean length on both sides."""
    return TRAINING_FACTOR * sum(part_flops(network, vocab_size, length).values())


# --- the page ---


def describe(
    workload: Workload,
    rows: Sequence[System],
    results: Mapping[str, Sequence[Run]],
    peaks: Mapping[str, Sequence[float]],
    failures: Mapping[str, str],
) -> str:
    """The table of one shape, and how it compares with what we want."""
    flops = workload.flops_per_token
    lines = [f"## {workload.name}: {sizes(workload)}", "", about_batches(workload.batches)]
    lines += [f"{flops / 1e6:,.1f} MFLOP per target token, where a sentence has {workload.mean_length} tokens. Peaks:"]
    lines += [", ".join(f"{name} {median(found) / 1e9:,.0f} GFLOP/s" for name, found in peaks.items()) + ".", ""]
    lines += [
        "| | target tokens/s | least–most | model GFLOP/s | of the peak | memory GiB |",
        "|---|---|---|---|---|---|",
    ]
    rates = {}
    for row in rows:
        if row.name in failures or not (runs := results[row.name]):
            continue
        found = [rate for run in runs for rate in run.tokens_per_second]
        rates[row.name] = median(found)
        done = rates[row.name] * flops
        memory = max(run.memory_bytes or 0 for run in runs) / 2**30
        precision = runs[0].precision
        name = row.name if precision in row.name or not row.is_ours else f"{row.name}: {precision}"
        cells = [name + (f", {runs[0].note}" if runs[0].note else ""), f"{rates[row.name]:,.0f}"]
        cells += [f"{min(found):,.0f}–{max(found):,.0f}", f"{done / 1e9:,.1f}"]
        cells += [f"{done / median(peaks[precision]):.1%}", f"{memory:.2f}" if memory else "—"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *goals(rows, rates, workload.shape.goal)]
    if n_disturbed := sum(run.n_disturbed for runs in results.values() for run in runs):
        n_all = sum(len(run.tokens_per_second) for runs in results.values() for run in runs)
        lines.append(f"- {n_disturbed} of {n_all} intervals: disturbed by other processes in each of {N_TRIES} tries")
    lines += [f"- not measured: {reason}" for reason in failures.values()]
    versions = sorted({runs[0].version for runs in results.values() if runs})
    lines += ["", f"Versions: {'; '.join(versions)}.", ""]
    return "\n".join(lines)


def sizes(workload: Workload) -> str:
    """The sizes of a network in a few words."""
    network = workload.shape.network
    layers = f"{network.n_encoder_layers} + {network.n_decoder_layers} layers"
    width = f"d {network.d_model}, {network.n_heads} heads, FFN {network.d_ff}, dropout {network.dropout}"
    return f"{layers}, {width}, {workload.task.vocab_size:,} pieces"


def about_batches(batches: Sequence[Batch]) -> str:
    """What everybody trains on in an interval."""
    n_tokens = sum(batch.n_tokens for batch in batches)
    n_padded = sum(batch.tgt.size for batch in batches)
    n_both = n_tokens + sum(batch.n_src_tokens for batch in batches)
    n_both_padded = n_padded + sum(batch.src.size for batch in batches)
    rows = fmean(len(batch.tgt) for batch in batches)
    return (
        f"{len(batches)} batches an interval: {n_tokens:,} target tokens, at most "
        f"{max(batch.tgt.size for batch in batches):,} in a batch with padding, {rows:.0f} pairs a batch on the mean; "
        f"padding is {1 - n_tokens / n_padded:.1%} of the target side and {1 - n_both / n_both_padded:.1%} of both."
    )


def goals(rows: Sequence[System], rates: Mapping[str, float], goal: float) -> list[str]:
    """Our fastest row, and our fp32, against the fastest of the others."""
    others = [row.name for row in rows if not row.is_ours and row.name in rates]
    if not others:
        return []
    fastest = max(others, key=lambda name: rates[name])
    own = [row.name for row in rows if row.is_ours and row.name in rates]
    ways = {"our fastest": own, "our fp32": [name for name in own if name.endswith("fp32")]}
    found = []
    for title, names in ways.items():
        if names:
            name = max(names, key=lambda name: rates[name])
            found.append(
                f"- {title} / the fastest of the others: **{rates[name] / rates[fastest]:.2f}** ({name} / {fastest})"
            )
    return [*found, f"- goal: {goal} × the fastest of the others in its default environment"] if found else []


def head(n_rounds: int, n_intervals: int, missing: Sequence[str]) -> str:
    """The title, and what the tables mean."""
    command = (__doc__ or "").split("\n")[2].strip()
    facts = machine_facts()
    lines = ["# Training beside that of others", "", f"    {command}", ""]
    machine = f"{facts['cores']} cores of {facts['cpu']}; {facts['system']}; {facts['date']}"
    lines += [f"{machine}; {THREADS} threads; medians of {n_rounds} rounds in turn, {n_intervals} intervals each."]
    lines += [f"An interval is done again if other processes took more than {QUIET_CORES} cores meanwhile;"]
    lines += [f"of {N_TRIES} tries the quietest counts.", "", ABOUT]
    if slow := [PEERS[name] for name in SLOW if name not in missing and n_rounds > SLOW[name]]:
        lines.append(f"In the first round alone, because slow: {', '.join(slow)}.\n")
    if missing:
        lines.append(f"Not given, so not measured: {', '.join(missing)}.\n")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(run_command(main))
