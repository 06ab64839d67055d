"""What a run costs beside its updates, on Multi30k: saving, memory over time, and the time until it begins.

    python benchmarks/checkpoint_cost.py --data DIR

DIR is that of benchmarks/multi30k.py. With the settings of configs/multi30k.yaml and train.py as users start it:

- The share of the step time that a checkpoint every 100 updates costs: 300 updates with three saves among them against
  300 updates without one, in turn, three times each. Must be less than 2 %.
- Resident memory over 2,000 updates with checkpoints and validations: the median of the last 250 against that of the
  updates 500 to 750, when every size of batch has come. Must not grow by more than 2 %.
- Seconds from the command to the end of the first update, and for imports. Must be less than 6 and 3.

Nothing else may run meanwhile; on two cores it takes three quarters of an hour. The result is printed and written to
benchmarks/results/checkpoint_cost.md.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from tqdm import tqdm

from benchmarks.multi30k import data_overrides, machine_facts
from benchmarks.tiny_run import ROOT, Program, finish
from transformer.command_line import CommandParser, run_command
from transformer.errors import RunError

NAME = "checkpoint-cost"
NEVER = 10**6
WARM_UP, N_STEPS, SAVE_EVERY = 50, 300, 100  # updates
MEMORY_STEPS, WINDOW, WARM_MEMORY = 2000, 250, 500  # updates


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
    parser.add_argument("--pairs", type=int, default=3, metavar="N", help="runs with and without saving (3)")
    parser.add_argument(
        "--memory-steps", type=int, default=MEMORY_STEPS, metavar="N", help=f"updates of the long run ({MEMORY_STEPS})"
    )
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings instead of multi30k.yaml's")
    args = parser.parse_args(argv)
    bench = Bench(args.work.resolve(), args.data.resolve(), args.overrides)
    figures = [imports(), *beginnings(bench)]
    chosen = choices_of(bench)
    figures += [saving(bench, chosen, args.pairs), memory(bench, chosen, args.memory_steps)]
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


def saving(bench: Bench, chosen: Sequence[str], n_pairs: int) -> Figure:
    """Step time with a checkpoint every 100 updates against none, in turn."""
    last = WARM_UP + N_STEPS
    seconds: dict[int, list[float]] = {SAVE_EVERY: [], NEVER: []}
    with tqdm(total=2 * n_pairs * last, desc="saving", unit="step", dynamic_ncols=True) as bar:
        for _ in range(n_pairs):
            for save_every, found in seconds.items():
                overrides = [f"train.save_every={save_every}", f"train.validate_every={NEVER}"]
                program = bench.start(*chosen, *overrides, f"train.log_every={WARM_UP}")
                deque(steps_of(bench, program, last, bar), maxlen=0)  # only waits
                at = bench.seconds_at()
                found.append(at[last] - at[WARM_UP])
    with_, without = (median(found) for found in seconds.values())
    cost = with_ / without - 1
    each = ", ".join(f"{one / other - 1:+.1%}" for one, other in zip(*seconds.values(), strict=True))
    shown = f"{cost:+.1%} ({1000 * with_ / N_STEPS:.0f} against {1000 * without / N_STEPS:.0f} ms an update; {each})"
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


def memory(bench: Bench, chosen: Sequence[str], n_steps: int) -> Figure:
    """How resident memory grows once every size of batch has come, saving and validating as it goes."""
    program = bench.start(*chosen, f"train.save_every={SAVE_EVERY}", "train.log_every=10")
    samples: dict[int, list[float]] = {}  # first update of a window → MiB
    with tqdm(total=n_steps, desc="memory", unit="step", dynamic_ncols=True) as bar:
        for step in steps_of(bench, program, n_steps, bar):
            samples.setdefault(step // WINDOW * WINDOW, []).append(resident_mib(program.process.pid))
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
