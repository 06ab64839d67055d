"""What a larger corpus, and a second process on the same two cores, do to the speed and memory of training.

    python benchmarks/growth.py --data DIR

DIR holds l10n/train.en-de, tatoeba/train.en-de, multi30k/train and multi30k/val as NAME.{en,de}.gz. All training pairs
are shuffled together, once: all of them are the corpus 16×, a quarter is 4×, a sixteenth 1×. Each is prepared by
preprocess.py under one vocabulary, and then, with the network of configs/multi30k.yaml, train.py does the same number
of updates on each, in turn, twice. The corpus 4× is also trained on by two processes of one thread each, with the same
updates. Measured are target tokens/s after a warm-up, the peak memory of each process (VmHWM, so this needs Linux), and
seconds from the command to the end of the first update. Nothing else may run meanwhile; preparation takes two minutes,
the runs eight. The result is printed and written to benchmarks/results/growth.md.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from tqdm import tqdm

from benchmarks.machine import machine_facts
from benchmarks.scaling_plan import render
from benchmarks.tiny_run import ROOT, Program, command_of, finish
from data.lines import read_lines, write_lines
from transformer.command_line import CommandParser, run_command
from transformer.errors import ConfigError, RunError

LANGUAGES = ("en", "de")
TEXTS = ("l10n/train.en-de", "tatoeba/train.en-de", "multi30k/train")
HELD_OUT = "multi30k/val"
FACTORS = (1, 4, 16)
WARM_UP, N_TIMED = 50, 150  # updates
N_ROUNDS = 2
BATCH_TOKENS = 2048
SETTINGS = (  # beside those of configs/multi30k.yaml
    "data.test={}",
    "vocabulary.size=8000",
    f"train.batch_tokens={BATCH_TOKENS}",
    "train.log_every=1",
    "train.validate_every=1000000",
    "train.save_every=1000000",
)


class Corpus(NamedTuple):
    """A part of the pairs, prepared."""

    factor: int
    prepare_seconds: float  # 0 where it was there already
    n_pairs: int
    n_tokens: int  # target, eos included
    disk_mib: float  # of the ids

    @property
    def name(self) -> str:
        """As in the tables."""
        return f"{self.factor}×"


class Way(NamedTuple):
    """What is trained on, and by how many processes."""

    corpus: Corpus
    processes: int


class Run(NamedTuple):
    """What was measured of one."""

    tokens_per_second: float  # target tokens, of all processes together, after the warm-up
    peak_mib: list[float]  # of each process
    first_update_seconds: float
    epochs: float  # begun and done by the last update


class Bench:
    """The folder where the scripts run."""

    def __init__(self, work: Path, data: Path, overrides: Sequence[str]) -> None:
        self.folder, self.data, self.overrides = work / "growth", data, overrides
        self.folder.mkdir(parents=True, exist_ok=True)
        self.chosen: list[str] = []  # what the first run chose by timing, for all the others

    def config(self, factor: int) -> list[str]:
        """Arguments of both scripts; JSON is YAML."""
        train = [{"src": str(self.text(factor, "en")), "tgt": str(self.text(factor, "de"))}]
        valid = [{"src": str(self.data / f"{HELD_OUT}.en.gz"), "tgt": str(self.data / f"{HELD_OUT}.de.gz")}]
        corpora = {"data.train": train, "data.valid": valid}
        values = [f"{key}={json.dumps(value).replace('$', '$$')}" for key, value in corpora.items()]
        if factor != FACTORS[-1]:
            values.append(f"vocabulary.path={self.prepared(FACTORS[-1])}")
        return ["--config", "multi30k.yaml", f"name=growth-{factor}", *values, *SETTINGS, *self.overrides]

    def text(self, factor: int, language: str) -> Path:
        """The text of a part."""
        return self.folder / f"train-{factor}.{language}"

    def prepared(self, factor: int) -> Path:
        """What preprocess.py makes of it."""
        return self.folder / "prepared" / f"growth-{factor}"

    def run(self, factor: int) -> Path:
        """What train.py makes of that."""
        return self.folder / "runs" / f"growth-{factor}"

    def start(self, factor: int, processes: int, *overrides: str) -> Program:
        """Begin a new run of train.py."""
        shutil.rmtree(self.run(factor), ignore_errors=True)
        script = [str(ROOT / "train.py"), *self.config(factor), *self.chosen, *overrides]
        return Program(self.folder, command_of(processes, script))

    def metrics(self, factor: int) -> list[dict[str, Any]]:
        """The whole lines there are by now, one an update."""
        path = self.run(factor) / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare, train in turn, report."""
    parser = CommandParser(prog="benchmarks/growth.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the raw corpora")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/work", metavar="DIR", help="for what is made")
    parser.add_argument("--prepare-only", action="store_true", help="train nothing")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings instead of multi30k.yaml's")
    args = parser.parse_args(argv)
    if not Path("/proc/self/status").exists():
        raise ConfigError("peak memory is read from /proc, which is not there: this needs Linux")
    bench = Bench(args.work.resolve(), args.data.resolve(), args.overrides)
    write_texts(bench)
    corpora = {factor: prepare(bench, factor) for factor in reversed(FACTORS)}  # the vocabulary is that of the largest
    if args.prepare_only:
        return 0
    begin = time.monotonic()
    choose(bench)
    ways = [*(Way(corpora[factor], 1) for factor in FACTORS), Way(corpora[4], 2)]
    runs: dict[Way, list[Run]] = {way: [] for way in ways}
    for number in range(1, N_ROUNDS + 1):
        for way in ways:
            label = f"round {number}: {way.corpus.name}, {way.processes} process(es)"
            runs[way].append(measure(bench, way, label))
    page = describe(runs, bench, time.monotonic() - begin)
    print(page)
    path = ROOT / "benchmarks/results/growth.md"
    path.write_text(page, encoding="utf-8")
    print(f"wrote {path}")
    return 0


def write_texts(bench: Bench) -> None:
    """All pairs in one random order, and of these the first part for each size."""
    missing = [f for f in FACTORS for language in LANGUAGES if not bench.text(f, language).exists()]
    if not missing:
        return
    sides = [[line for stem in TEXTS for line in read_lines(bench.data / f"{stem}.{each}.gz")] for each in LANGUAGES]
    order = np.random.default_rng(1).permutation(len(sides[0])).tolist()
    for lines, language in zip(sides, LANGUAGES, strict=True):
        for factor in FACTORS:
            n_pairs = len(lines) // FACTORS[-1] * factor
            write_lines(bench.text(factor, language), (lines[place] for place in order[:n_pairs]))


def prepare(bench: Bench, factor: int) -> Corpus:
    """Run preprocess.py, which does nothing where nothing has changed."""
    program = Program(bench.folder, [sys.executable, str(ROOT / "preprocess.py"), *bench.config(factor)])
    finish(program)
    seconds, directory = program.seconds, bench.prepared(factor)
    notes = directory.parent / f"growth-{factor}.seconds"  # of the time that it did the work
    if "nothing to do" not in program.told:
        notes.write_text(f"{seconds}")
    offsets = np.load(directory / "train.tgt.offsets.npy", mmap_mode="r")
    n_bytes = sum(path.stat().st_size for path in directory.glob("train.*.npy"))
    return Corpus(
        factor, float(notes.read_text()), len(offsets) - 1, int(offsets[-1]) + len(offsets) - 1, n_bytes / 2**20
    )


def choose(bench: Bench) -> None:
    """Let the program choose precision and form of attention once, for all runs."""
    program = bench.start(FACTORS[0], 1, "train.threads=2")
    path = bench.run(FACTORS[0]) / "choices.json"
    if not program.wait_until(path.exists):
        raise RunError(f"train.py ended with exit code {program.wait()}:\n{program.told[-2000:]}")
    program.kill()
    chosen = json.loads(path.read_text(encoding="utf-8"))
    bench.chosen = [f"train.{key}={chosen[key]}" for key in ("precision", "attention")]


def measure(bench: Bench, way: Way, label: str) -> Run:
    """Train until the last update that is timed, and kill: the end of a run has no interest here.

    Raises:
        RunError: train.py ended before.
    """
    factor, last = way.corpus.factor, WARM_UP + N_TIMED
    program = bench.start(factor, way.processes, f"train.threads={2 // way.processes}")
    metrics = bench.run(factor) / "metrics.jsonl"
    program.wait_until(lambda: metrics.exists() and metrics.stat().st_size > 0)
    first_update_seconds = program.seconds
    with tqdm(total=last, desc=label, unit="step", dynamic_ncols=True) as bar:
        while len(rows := bench.metrics(factor)) < last:
            if not program.runs:
                raise RunError(f"train.py ended with exit code {program.wait()}:\n{program.told[-2000:]}")
            bar.update(len(rows) - bar.n)
            time.sleep(0.5)
        bar.update(last - bar.n)
    program.find_processes()
    workers = program.pids[1:] if way.processes > 1 else program.pids  # torchrun itself trains nothing
    peaks = [peak_mib(pid) for pid in workers]
    program.kill()
    begin, end = rows[WARM_UP - 1], rows[last - 1]
    speed = (end["n_tokens"] - begin["n_tokens"]) / (end["seconds"] - begin["seconds"])
    return Run(speed, peaks, first_update_seconds, end["n_tokens"] / way.corpus.n_tokens)


def peak_mib(pid: int) -> float:
    """The most memory that a process has held, pages of mapped files included."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 2**10  # kB


def describe(runs: dict[Way, list[Run]], bench: Bench, seconds: float) -> str:
    """The figures as a page."""
    facts = machine_facts()
    libraries = ", ".join(f"{name} {version}" for name, version in facts["libraries"].items())
    lines = ["# A larger corpus, a second process", ""]
    lines += ["    " + " ".join(["python benchmarks/growth.py --data DIR", *bench.overrides]), ""]
    lines += ["## Corpus", "", render(corpus_table(runs)), "", "## Processes on two cores", ""]
    lines += [
        render(process_table(runs)),
        "",
        f"The network of configs/multi30k.yaml under a joint vocabulary of 8,000, {BATCH_TOKENS:,} target tokens an",
        f"update. Speed is that of the {N_TIMED} updates after the first {WARM_UP}. The tables are of the same rounds;",
        f"the second is of the corpus 4×. Chosen by timing, once: {', '.join(bench.chosen)}.",
        f"The runs took {seconds / 60:.1f} minutes.",
        f"{facts['cores']} cores of {facts['cpu']}, {libraries}; {facts['date']}.",
    ]
    return "\n".join(lines) + "\n"


ROUNDS = [f"tokens/s, round {number}" for number in range(1, N_ROUNDS + 1)]


def corpus_table(runs: dict[Way, list[Run]]) -> list[list[str]]:
    """One process, each corpus."""
    rows = [
        ["corpus", "pairs", "target tokens", "ids on disk", "prepared in", *ROUNDS, "of 1×", "peak memory", "of 1×"]
    ]
    rows[0] += ["to the first update", "epochs trained"]
    ways = [way for way in runs if way.processes == 1]
    first = runs[ways[0]]
    for way in ways:
        corpus, found = way.corpus, runs[way]
        cells = [corpus.name, f"{corpus.n_pairs:,}", f"{corpus.n_tokens:,}", f"{corpus.disk_mib:.0f} MiB"]
        cells += [f"{corpus.prepare_seconds:.0f} s", *(f"{run.tokens_per_second:,.0f}" for run in found)]
        cells += [f"{speed(found) / speed(first):.2f}"]
        cells += [f"{memory(found):,.0f} MiB", f"{memory(found) / memory(first):.2f}"]
        cells += [", ".join(f"{run.first_update_seconds:.1f}" for run in found) + " s", f"{found[0].epochs:.2f}"]
        rows.append(cells)
    return rows


def process_table(runs: dict[Way, list[Run]]) -> list[list[str]]:
    """The corpus 4×, by the number of processes."""
    rows = [["processes × threads", *ROUNDS, "of one", "peak memory, together", "of each", "of one"]]
    ways = [way for way in runs if way.corpus.factor == 4]
    first = runs[ways[0]]
    for way in ways:
        found = runs[way]
        cells = [f"{way.processes} × {2 // way.processes}", *(f"{run.tokens_per_second:,.0f}" for run in found)]
        cells += [f"{speed(found) / speed(first):.2f}", f"{memory(found):,.0f} MiB"]
        cells += [", ".join(f"{mib:,.0f}" for mib in found[-1].peak_mib), f"{memory(found) / memory(first):.2f}"]
        rows.append(cells)
    return rows


def speed(runs: Sequence[Run]) -> float:
    """Tokens per second, the mean of the rounds."""
    return mean(run.tokens_per_second for run in runs)


def memory(runs: Sequence[Run]) -> float:
    """MiB of all processes of a run at their peaks, the most of the rounds."""
    return max(sum(run.peak_mib) for run in runs)


if __name__ == "__main__":
    sys.exit(run_command(main))
