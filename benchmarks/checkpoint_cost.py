"""What a run costs beside its updates, on Multi30k: saving, memory over time, and the time until it begins.

    python benchmarks/checkpoint_cost.py --data DIR

DIR is that of benchmarks/multi30k.py. With the settings of configs/multi30k.yaml and train.py as users start it:

- The share of the step time that a checkpoint every 100 updates costs, in one run of 2,000 updates: the 25 updates
  after each save, in which it is copied and written, against the 50 before the next one. (Runs with and without saving
  differ by more than that from one to the next.) Must be less than 2 %.
- Resident memory over the same run: the median of the last 250 updates against that of the updates 500 to 750, when
  every size of batch has come. Must not grow by more than 2 %.
- Seconds from the command to the end of the first update, and for imports. Must be less than 6 and 3.

Nothing else may run meanwhile; on two cores it takes twenty minutes. The result is printed and written to
benchmarks/results/checkpoint_cost.md.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from tqdm import tqdm

from benchmarks.machine import machine_facts
from benchmarks.multi30k import data_overrides
from benchmarks.tiny_run import ROOT, Program, finish
from transformer.command_line import CommandParser, run_command
from transformer.errors import RunError

NAME = "checkpoint-cost"
WARM_UP, SAVE_EVERY, LOG_EVERY, VALIDATE_EVERY = 100, 100, 5, 500  # updates
AFTER, UNDISTURBED = 25, 50  # updates: those that a save may disturb, and those that it cannot
N_STEPS, WINDOW, WARM_MEMORY = 2000, 250, 500  # updates


class Figure(NamedTuple):
    """A row of the table."""

    what: str
    found: str
    bound: str
    holds: bool


class Bench:
    """The folder where train.py runs, and its settings."""

    def __init__(self, work: Path, data: Path, overrides: Sequence[str]) -> None:
        self.folder = work / "checkpoint_cost"
        self.run = self.folder / "runs" / NAME
        self.config = ["--config", "multi30k.yaml", f"name={NAME}", *data_overrides(data, "en", "de"), *overrides]
        self.folder.mkdir(parents=True, exist_ok=True)
        finish(Program(self.folder, [sys.executable, str(ROOT / "preprocess.py"), *self.config]))

    def start(self, *overrides: str) -> Program:
        """Begin a new run."""
        shutil.rmtree(self.run, ignore_errors=True)
        return self.go_on(*overrides)

    def go_on(self, *overrides: str) -> Program:
        """Begin, or go on with the run that is there."""
        return Program(self.folder, [sys.executable, str(ROOT / "train.py"), *self.config, *overrides])

    def seconds_at(self) -> dict[int, float]:
        """Step → seconds trained until then, of the lines of metrics there are."""
        path = self.run / "metrics.jsonl"
        if not path.exists():
            return {}
        rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
        return {row["step"]: row["seconds"] for row in rows if "seconds" in row}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure one after the other, report."""
    parser = CommandParser(prog="benchmarks/checkpoint_cost.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the raw corpus")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/work", metavar="DIR", help="for what is made")
    parser.add_argument("--steps", type=int, default=N_STEPS, metavar="N", help=f"updates of the long run ({N_STEPS})")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings instead of multi30k.yaml's")
    args = parser.parse_args(argv)
    bench = Bench(args.work.resolve(), args.data.resolve(), args.overrides)
    figures = [imports(), *beginnings(bench)]
    chosen = choices_of(bench)
    figures += long_run(bench, chosen, args.steps)
    page = describe(figures, chosen, args.overrides)
    print(page)
    path = ROOT / "benchmarks/results/checkpoint_cost.md"
    path.write_text(page, encoding="utf-8")
    print(f"wrote {path}")
    return 0


def imports() -> Figure:
    """Seconds for all imports of train.py, as Python itself measures them; the median of five."""
    command = [sys.executable, "-X", "importtime", "-c", "import train"]
    seconds = []
    for _ in range(5):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
        rows = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines()]
        seconds.append(sum(int(row[0]) for row in rows if len(row) == 3 and row[0].strip().isdecimal()) / 1e6)
    return Figure("imports of train.py", f"{median(seconds):.2f} s", "< 3 s", median(seconds) < 3)


def beginnings(bench: Bench) -> list[Figure]:
    """From the command to the end of the first update: of a new run, and of one that goes on; medians of three."""
    new, resumed = [], []
    for _ in range(3):
        program = bench.start("train.log_every=1", "train.save_every=2")
        program.wait_until(lambda: bool(bench.seconds_at()))
        new.append(program.seconds)
        program.wait_until((bench.run / "checkpoints/last").exists)
        program.kill()
        (bench.run / "metrics.jsonl").unlink()  # so that the next line is of the first update
        program = bench.go_on("train.log_every=1", "train.save_every=2")
        program.wait_until(lambda: bool(bench.seconds_at()))
        resumed.append(program.seconds)
        program.kill()
    return [
        Figure("from the command to the first update, new run", f"{median(new):.2f} s", "< 6 s", median(new) < 6),
        Figure("the same where a run goes on", f"{median(resumed):.2f} s", "< 6 s", median(resumed) < 6),
    ]


def choices_of(bench: Bench) -> list[str]:
    """What the first runs chose by timing, for all the others."""
    chosen = json.loads((bench.run / "choices.json").read_text(encoding="utf-8"))
    return [f"train.{key}={chosen[key]}" for key in ("precision", "attention")]


def long_run(bench: Bench, chosen: Sequence[str], n_steps: int) -> list[Figure]:
    """One run that saves and validates as it goes: what saving costs, and how resident memory grows."""
    every = {"save": SAVE_EVERY, "log": LOG_EVERY, "validate": VALIDATE_EVERY}
    program = bench.start(*chosen, *(f"train.{what}_every={n}" for what, n in every.items()))
    samples: dict[int, list[float]] = {}  # first update of a window → MiB
    with tqdm(total=n_steps, desc="training", unit="step", dynamic_ncols=True) as bar:
        for step in steps_of(bench, program, n_steps, bar):
            samples.setdefault(step // WINDOW * WINDOW, []).append(resident_mib(program.process.pid))
    return [saving(bench.seconds_at(), n_steps), memory(samples, n_steps)]


def saving(seconds_at: Mapping[int, float], n_steps: int) -> Figure:
    """Step time after a save against that of undisturbed updates of the same hundred; see the top of this file.

    Hundreds that begin with a validation are left out.
    """
    after, undisturbed = [], []
    for saved in range(WARM_UP, n_steps, SAVE_EVERY):
        calm = saved + SAVE_EVERY - UNDISTURBED
        if saved % VALIDATE_EVERY and calm + UNDISTURBED in seconds_at:
            after.append((seconds_at[saved + AFTER] - seconds_at[saved]) / AFTER)
            undisturbed.append((seconds_at[calm + UNDISTURBED] - seconds_at[calm]) / UNDISTURBED)
    cost = AFTER / SAVE_EVERY * (sum(after) / sum(undisturbed) - 1)
    shown = f"{cost:+.1%} ({1000 * mean(after):.0f} ms an update after a save, {1000 * mean(undisturbed):.0f} ms later)"
    return Figure(f"a checkpoint every {SAVE_EVERY} updates, of the step time", shown, "< 2 %", cost < 0.02)


def steps_of(bench: Bench, program: Program, last: int, bar: tqdm[Any]) -> Iterator[int]:
    """Twice a second how far a run is, until an update; then it is killed: its end, which validates, has no interest.

    Raises:
        RunError: it ended before.
    """
    shown = 0
    while (step := max(bench.seconds_at(), default=0)) < last:
        if not program.runs:
            raise RunError(f"train.py ended with exit code {program.wait()}:\n{program.told[-2000:]}")
        yield step
        bar.update(step - shown)
        shown = step
        time.sleep(0.5)
    bar.update(last - shown)
    program.kill()


def memory(samples: Mapping[int, Sequence[float]], n_steps: int) -> Figure:
    """How resident memory grows once every size of batch has come."""
    medians = {first: median(found) for first, found in sorted(samples.items()) if first >= WARM_MEMORY}
    growth = medians[max(medians)] / medians[WARM_MEMORY] - 1
    shown = ", ".join(f"{mib:,.0f}" for mib in medians.values())
    found = f"{growth:+.1%} ({shown} MiB in windows of {WINDOW} updates)"
    return Figure(f"memory after {n_steps:,} updates, of that after {WARM_MEMORY}", found, "≤ 2 %", growth <= 0.02)


def resident_mib(pid: int) -> float:
    """The memory that a process holds now."""
    done = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, encoding="ascii", check=True)
    return int(done.stdout) / 1024


def describe(figures: Sequence[Figure], chosen: Sequence[str], overrides: Sequence[str]) -> str:
    """The figures as a page."""
    facts = machine_facts()
    lines = ["# What a run costs beside its updates", ""]
    lines += ["    " + " ".join(["python benchmarks/checkpoint_cost.py --data DIR", *overrides]), ""]
    lines += ["| what | found | must be | |", "|---|---|---|---|"]
    lines += [f"| {f.what} | {f.found} | {f.bound} | {'✓' if f.holds else 'missed'} |" for f in figures]
    libraries = ", ".join(f"{name} {version}" for name, version in facts["libraries"].items())
    lines += ["", f"Multi30k en → de with configs/multi30k.yaml; chosen by timing: {', '.join(chosen)}."]
    lines += [f"{facts['cores']} cores of {facts['cpu']}, {libraries}; {facts['date']}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(run_command(main))
