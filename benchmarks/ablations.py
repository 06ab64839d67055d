"""Which settings help on Multi30k: the recipe, shortened, with one of them changed at a time, over several seeds.

    python benchmarks/ablations.py --data DIR

DIR is as benchmarks/multi30k.py says. Every run goes through preprocess.py, train.py and translate.py, on a share of
the cores, so that --jobs of them work side by side; its translations of the validation and a test set, with beam 5, are
scored. Settings are chosen by the validation set; the test set is there to see whether the choice holds.

Stopped and started again, it goes on: runs that are done are kept, one that was not is resumed. After each run
benchmarks/results/ablations-PAIR-EPOCHS.md is written again, of all that there are; seeds come one after the other, so
that the first table is there early and grows more certain. All settings are of the run alone: what helps in --epochs
epochs may not in ten times as many.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from benchmarks.machine import machine_facts
from benchmarks.multi30k import data_overrides
from benchmarks.scripts import ROOT
from data.batches import EpochPlan
from data.lines import read_lines, write_lines
from data.prepared import load_prepared
from transformer.command_line import CommandParser, positive, run_command
from transformer.config_file import load_config
from transformer.errors import ConfigError, RunError
from transformer.evaluation.sentence_statistics import Statistics
from transformer.evaluation.significance import RESAMPLES, resampled_sums
from transformer.evaluation.tokenization import DEFAULT, load_bleu

CONFIG = "multi30k.yaml"
DEFAULTS = {"pair": "en-de", "seeds": 3, "epochs": 12.0, "jobs": 2}
SETS = {"validation": "val", "test_2016_flickr": "test_2016_flickr"}
OPTIMIZER = "adam"  # as when the first of these were run; configs/multi30k.yaml has Muon since
# Of the updates of a run; a moving average remembers as many as 1 / (1 − decay).
WARMUP, COOLDOWN, MEMORY = 0.2, 0.25, 0.2
ABOUT = """\
configs/multi30k.yaml with Adam, shortened to {epochs:g} epochs, with one change at a time. BLEU is the mean of the
seeds, with beam 5. In brackets the difference to the recipe and its 95 % interval: sentences and seeds are drawn with
replacement, {resamples:,} times, the same sentences on both sides; with one seed the interval is that of sentences
alone. **Bold**: zero is outside. Time is that of training, as a share of the recipe's.\
"""


@dataclass(frozen=True)
class Variant:
    """A change of the recipe."""

    name: str
    overrides: Sequence[str] = ()


BASE = Variant("the recipe")
SUBWORDS = "{bpe_dropout: 0.1}"
VARIANTS = (
    BASE,
    Variant("vocabulary 2,000", ["vocabulary.size=2000"]),
    Variant("vocabulary 4,000", ["vocabulary.size=4000"]),
    Variant("vocabulary 6,000", ["vocabulary.size=6000"]),
    Variant("no moving average", ["train.ema_decay=null"]),
    Variant("average of 5 checkpoints instead", ["train.ema_decay=null", "train.model_from=average_last"]),
    Variant("BPE-dropout 0.1", [f"train.augmentation={{src: {SUBWORDS}, tgt: {SUBWORDS}}}"]),
    Variant("R-Drop, α 5", ["train.r_drop=5"]),
    Variant("pre-norm", ["model.norm_position=pre"]),
    Variant("pre-norm, RMSNorm", ["model.norm_position=pre", "model.norm=rms_norm"]),
    Variant("SwiGLU, about as many weights", ["model.activation=swiglu", "model.d_ff=176"]),
    Variant("rotary positions", ["model.positions=rotary"]),
    Variant("Muon", ["train.optimizer=muon"]),
    Variant("no label smoothing", ["train.label_smoothing=0"]),
    Variant("label smoothing 0.2", ["train.label_smoothing=0.2"]),
    Variant("dropout 0.2", ["model.dropout=0.2"]),
    Variant("dropout 0.4", ["model.dropout=0.4"]),
    Variant("peak rate 3e-3", ["train.lr=3e-3"]),
    Variant("peak rate 8e-3", ["train.lr=8e-3"]),
    Variant("2,048 tokens an update", ["train.batch_tokens=2048", "train.max_tokens=4096"]),
)


@dataclass(frozen=True)
class Measured:
    """BLEU of translations of a set, and of each resampled one, which has the same sentences for all: (RESAMPLES,)."""

    bleu: float
    resampled: npt.NDArray[np.float64]
    signature: str


def measure(hypotheses: Sequence[str], references: Sequence[str]) -> Measured:
    """Score translations as they are, and resampled."""
    found = Statistics.of(load_bleu(DEFAULT), hypotheses, [references])
    resampled = np.array([found.figure_of(row) for row in resampled_sums(found.counts).tolist()])
    return Measured(found.figure(), resampled, found.signature())


@dataclass
class Outcome:
    """What the finished runs of a variant found, one entry for each seed."""

    variant: Variant
    seconds: list[float] = field(default_factory=list)
    sets: dict[str, list[Measured]] = field(default_factory=lambda: {name: [] for name in SETS})


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, and write the table after each run."""
    args = parse_arguments(argv)
    chosen = [variant for variant in VARIANTS if variant == BASE or not args.only or variant.name in args.only]
    all_runs = [Run(args, variant, seed) for seed in range(1, args.seeds + 1) for variant in VARIANTS]
    runs = [run for run in all_runs if run.variant in chosen]
    references = {
        name: list(read_lines(args.data / f"{stem}.{args.pair.partition('-')[2]}.gz")) for name, stem in SETS.items()
    }
    stop = threading.Event()
    report(args, all_runs, references)
    with (
        ThreadPoolExecutor(args.jobs) as pool,
        tqdm(total=len(runs), initial=sum(run.done for run in runs), unit="run") as bar,
    ):
        futures = [pool.submit(run.do, stop) for run in runs if not run.done]
        try:
            for future in as_completed(futures):
                future.result()
                bar.update()
                report(args, all_runs, references)
        except BaseException as error:
            stop.set()  # runs that have begun end by themselves, by the same interruption or when they are done
            bar.write(f"{str(error) or 'stopped'}; waiting for the runs that have begun", file=sys.stderr)
            pool.shutdown(cancel_futures=True)
            raise
    print(f"wrote {results_file(args)}")
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What there is to choose."""
    parser = CommandParser(prog="benchmarks/ablations.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the raw corpus")
    parser.add_argument("--pair", metavar="SRC-TGT", help="languages (%(default)s)")
    parser.add_argument("--seeds", type=positive, metavar="N", help="runs of each variant (%(default)s)")
    parser.add_argument("--epochs", type=float, metavar="N", help="length of a run (%(default)g)")
    parser.add_argument("--jobs", type=positive, metavar="N", help="runs side by side, sharing the cores (%(default)s)")
    parser.add_argument(
        "--work", type=Path, default=ROOT / "benchmarks/work/ablations", metavar="DIR", help="for the runs"
    )
    parser.add_argument("only", nargs="*", metavar="VARIANT", help="these beside the recipe (all), by their names")
    parser.set_defaults(**DEFAULTS)
    args: argparse.Namespace = parser.parse_args(argv)
    problems = []
    unknown = [name for name in args.only if name not in {variant.name for variant in VARIANTS}]
    if unknown:
        names = "; ".join(variant.name for variant in VARIANTS)
        problems.append(f"{', '.join(unknown)}: no such variant; there are: {names}")
    if not re.fullmatch(r"[A-Za-z_]+-[A-Za-z_]+", args.pair):
        problems.append(f"--pair {args.pair}: two languages as in the names of the files, such as en-de")
    if not 0 < args.epochs < math.inf:
        problems.append(f"--epochs {args.epochs:g}: more than 0")
    if problems:
        raise ConfigError("\n".join(problems))
    args.data, args.work = args.data.resolve(), args.work.resolve()
    return args


class Run:
    """One training of a variant with a seed, in folders of its own."""

    def __init__(self, args: argparse.Namespace, variant: Variant, seed: int) -> None:
        self.args, self.variant, self.seed = args, variant, seed
        self.work: Path = args.work
        words = "".join(c if c.isalnum() or c in ".-" else "_" for c in variant.name)
        self.name = f"{args.pair}-{args.epochs:g}-{words}-{seed}"
        self.folder: Path = self.work / "outcomes" / self.name
        self.threads = max(1, (os.cpu_count() or 1) // args.jobs)
        self._measured: dict[str, Measured] = {}

    @property
    def done(self) -> bool:
        """Whether it need not be run any more."""
        return (self.folder / "seconds").is_file()

    def measured(self, name: str, references: Sequence[str]) -> Measured:
        """What its translations of a set are worth; found once, as the table is written after each run."""
        if name not in self._measured:
            self._measured[name] = measure(list(read_lines(self.folder / name)), references)
        return self._measured[name]

    def do(self, stop: threading.Event) -> None:
        """Prepare, train, translate. Raises RunError with the end of what the script printed."""
        if stop.is_set():
            return
        src, _, tgt = self.args.pair.partition("-")
        self.folder.mkdir(parents=True, exist_ok=True)
        config = ["--config", CONFIG, f"name={self.name}", *data_overrides(self.args.data, src, tgt)]
        config += [each for each in self.variant.overrides if each.startswith("vocabulary.")]
        self._script("preprocess", config)
        self._script("train", config + self._training())
        for name, stem in SETS.items():
            source = str(self.args.data / f"{stem}.{src}.gz")
            files = ["--input", source, "--output", str(self.folder / name)]
            self._script("translate", ["--model", f"runs/{self.name}", *files])
        metrics = (self.work / "runs" / self.name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        seconds = [line["seconds"] for line in map(json.loads, metrics) if "seconds" in line]
        write_lines(self.folder / "seconds", [repr(seconds[-1])])

    def _training(self) -> list[str]:
        """The recipe's schedule, shortened to `--epochs`, and the change."""
        pairs = load_prepared(self.work / "prepared" / self.name).train
        train = load_config(CONFIG, list(self.variant.overrides)).train
        assert isinstance(train.max_tokens, int)
        updates = len(EpochPlan(pairs, batch_tokens=train.batch_tokens, max_tokens=train.max_tokens, seed=1, epoch=0))
        steps = round(self.args.epochs * updates)
        if steps * MEMORY <= 1:
            raise ConfigError(f"--epochs {self.args.epochs:g}: {steps} updates, too few for any schedule; ask for more")
        schedule = {
            "seed": self.seed,
            "train.threads": self.threads,
            "train.optimizer": OPTIMIZER,
            "train.batch_tokens": train.batch_tokens,
            "train.max_tokens": train.max_tokens,
            "train.max_steps": steps,
            "train.warmup_steps": round(WARMUP * steps),
            "train.cooldown_steps": round(COOLDOWN * steps),
            "train.ema_decay": 1 - 1 / (MEMORY * steps),
            "train.validate_every": steps,
            "train.save_every": max(1, round(steps / 20)),  # five of them are the last quarter: what is averaged
            "train.model_from": "last",
        }
        changed = [override for override in self.variant.overrides if not override.startswith("vocabulary.")]
        keys = {override.partition("=")[0] for override in changed}
        return [f"{key}={value}" for key, value in schedule.items() if key not in keys] + changed

    def _script(self, script: str, arguments: Sequence[str]) -> None:
        log = self.folder / f"{script}.log"
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads)}
        with log.open("wb") as stream:
            command = [sys.executable, str(ROOT / f"{script}.py"), *arguments]
            code = subprocess.call(command, cwd=self.work, stdout=stream, stderr=subprocess.STDOUT, env=environment)
        if code:
            last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise RunError(f"{self.name}: {script}.py ended with exit code {code}: {' '.join(last)}; see {log}")


def report(args: argparse.Namespace, runs: Sequence[Run], references: Mapping[str, Sequence[str]]) -> None:
    """Write the table of what is done."""
    outcomes: dict[str, Outcome] = {}
    for run in sorted(runs, key=lambda run: VARIANTS.index(run.variant)):
        if run.done:
            outcome = outcomes.setdefault(run.variant.name, Outcome(run.variant))
            outcome.seconds.append(float((run.folder / "seconds").read_text()))
            for name, lines in references.items():
                outcome.sets[name].append(run.measured(name, lines))
    if BASE.name in outcomes:
        write_lines(results_file(args), render(args, list(outcomes.values())).split("\n"))


def results_file(args: argparse.Namespace) -> Path:
    """Where the table is."""
    return ROOT / "benchmarks/results" / f"ablations-{args.pair}-{args.epochs:g}.md"


def command(args: argparse.Namespace, outcomes: Sequence[Outcome]) -> str:
    """What makes a table of these outcomes again."""
    given = {**vars(args), "seeds": max(len(outcome.seconds) for outcome in outcomes)}
    options = [f"--{key} {given[key]}".removesuffix(".0") for key in DEFAULTS if given[key] != DEFAULTS[key]]
    names = [outcome.variant.name for outcome in outcomes]
    chosen = names[1:] or names if len(names) < len(VARIANTS) else []  # the recipe, the first, always comes with them
    return " ".join(["python benchmarks/ablations.py --data DIR", *options, *map(shlex.quote, chosen)])


def render(args: argparse.Namespace, outcomes: Sequence[Outcome]) -> str:
    """The table in Markdown."""
    columns = {name: _compare([outcome.sets[name] for outcome in outcomes]) for name in SETS}
    base_seconds = fmean(outcomes[0].seconds)
    rows = []
    for place, outcome in enumerate(outcomes):
        cells = [column[place] for column in columns.values()]
        change = " ".join(outcome.variant.overrides)
        time = f"{fmean(outcome.seconds) / base_seconds:.2f}"
        settings = f"`{change}`" if change else ""
        rows.append(f"| {outcome.variant.name} | {len(outcome.seconds)} | {' | '.join(cells)} | {time} | {settings} |")
    facts = machine_facts()
    libraries = ", ".join(f"{name} {number}" for name, number in facts["libraries"].items())
    return "\n".join(
        [
            f"# What helps on Multi30k {args.pair}",
            "",
            f"    {command(args, outcomes)}",
            "",
            ABOUT.format(epochs=args.epochs, resamples=RESAMPLES),
            "",
            "| change | seeds | " + " | ".join(columns) + " | time | settings |",
            "|---|---|" + "---|" * len(columns) + "---|---|",
            *rows,
            "",
            f"BLEU: `{outcomes[0].sets['validation'][0].signature}`.",
            f"{facts['cores']} cores of {facts['cpu']}, {args.jobs} runs side by side; {facts['date']}; {libraries}.",
        ]
    )


def _compare(outcomes: Sequence[Sequence[Measured]]) -> list[str]:
    """For the runs of each variant, the first being the recipe: BLEU, and the difference with its interval."""
    random = np.random.default_rng(1)
    cells, base = [], None
    for runs in outcomes:
        mean = fmean(run.bleu for run in runs)
        resampled = np.array([run.resampled for run in runs])
        seeds = random.integers(len(runs), size=(len(runs), RESAMPLES))
        drawn = np.take_along_axis(resampled, seeds, axis=0).mean(axis=0)  # (RESAMPLES,)
        if base is None:
            base = mean, drawn
            cells.append(f"{mean:.2f}")
        else:
            low, high = np.quantile(drawn - base[1], [0.025, 0.975])
            difference = f"{mean - base[0]:+.2f}: {low:+.2f} to {high:+.2f}"
            cells.append(f"{mean:.2f} ({f'**{difference}**' if low > 0 or high < 0 else difference})")
    return cells


if __name__ == "__main__":
    sys.exit(run_command(main))
