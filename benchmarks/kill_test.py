"""Kills a run again and again, at random moments, and compares what it ends with to a run that nothing disturbed.

    python benchmarks/kill_test.py --kills 200
    python benchmarks/kill_test.py --kills 50 --processes 2

A small run (see tiny_run.py) trains undisturbed. Then it trains again, all its processes are killed (SIGKILL) soon
after each start, and the same command is given until it ends; and all of that again until there were enough kills. Half
of the kills come at any moment between the announcement of the run and three checkpoints later; half soon after
something unfinished appears among the checkpoints: while one is written, renamed, or removed. Every bit must be the
same at the end: weights, averages, state of training, metrics. A difference gives exit code 1. About six seconds a
kill, most of them for imports; twice that with two processes. The table is printed and written to
benchmarks/results/kill_test-PROCESSES.md.
"""

from __future__ import annotations

import filecmp
import json
import random
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from tqdm import tqdm

from benchmarks.tiny_run import NAME, ROOT, Program, finish, metrics_of, prepare, train_command
from transformer.command_line import CommandParser, run_command
from transformer.errors import RunError

UNDISTURBED = "undisturbed"
_MOST_SAVES = 3  # after a start, before a kill
TENSORS = ("model.safetensors", "training.safetensors")  # of a checkpoint


@dataclass(frozen=True)
class Trial:
    """What is killed: where, on how many processes, with which settings; and how long an undisturbed run takes."""

    folder: Path
    processes: int
    overrides: tuple[str, ...]
    set_up_seconds: float  # from the announcement to the first line of metrics
    interval_seconds: float  # between checkpoints
    interval_steps: int

    @property
    def run(self) -> Path:
        """The run that is killed."""
        return self.folder / "runs" / NAME

    @property
    def undisturbed(self) -> Path:
        """The run that was not."""
        return self.folder / "runs" / UNDISTURBED

    def start(self) -> Program:
        """The command that is given each time."""
        return Program(self.folder, train_command(self.processes, *self.overrides))


@dataclass(frozen=True)
class Kill:
    """One kill."""

    while_saving: bool  # something unfinished was left among the checkpoints
    step: int  # of the newest checkpoint then


@dataclass(frozen=True)
class KilledRun:
    """A run that ended after so many kills, and what then differed from the undisturbed one."""

    kills: list[Kill]
    differences: list[str]


def main(argv: Sequence[str] | None = None) -> int:
    """Train undisturbed, kill, compare, report."""
    parser = CommandParser(prog="benchmarks/kill_test.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=200, metavar="N", help="how many in all (200)")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="that train together (1)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the moments (1)")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/work", metavar="DIR", help="for what is made")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings instead of tiny_run.py's")
    args = parser.parse_args(argv)
    folder = args.work.resolve() / "kill_test"
    shutil.rmtree(folder, ignore_errors=True)
    prepare(folder, *args.overrides)
    trial = train_undisturbed(folder, args.processes, *args.overrides)
    chance = random.Random(args.seed)
    runs: list[KilledRun] = []
    with tqdm(total=args.kills, unit="kill", dynamic_ncols=True) as bar:
        while (missing := args.kills - sum(len(run.kills) for run in runs)) > 0:
            runs.append(kill_until_it_ends(trial, missing, chance, each=bar.update))
    page = describe(trial, runs)
    print(page)
    path = ROOT / f"benchmarks/results/kill_test-{args.processes}.md"
    path.write_text(page, encoding="utf-8")
    print(f"wrote {path}")
    return 1 if any(run.differences for run in runs) else 0


def train_undisturbed(folder: Path, processes: int, *overrides: str) -> Trial:
    """Train once to the end, in a folder that `prepare` has made, and measure what the moments of kills depend on."""
    run = folder / "runs" / NAME
    program = Program(folder, train_command(processes, *overrides))
    program.wait_until_it_trains()
    announced = program.seconds
    program.wait_until((run / "metrics.jsonl").exists)
    first = program.seconds
    finish(program)
    rows = metrics_of(run)
    steps = [row["step"] for row in rows if "lr" in row]
    if steps != sorted(set(steps)):
        raise RunError(f"{run / 'metrics.jsonl'} has a step twice: {steps}")
    saved = sorted(step_of(path) for path in checkpoints(run))
    interval = saved[-1] - saved[-2]
    run.rename(folder / "runs" / UNDISTURBED)
    seconds = (program.seconds - first) * interval / steps[-1]
    return Trial(folder, processes, overrides, first - announced, seconds, interval)


def kill_until_it_ends(
    trial: Trial, n_kills: int, chance: random.Random, aimed: float = 0.5, each: Callable[[], object] = lambda: None
) -> KilledRun:
    """Begin a run, kill it at most `n_kills` times, and compare it when it has ended.

    `aimed` is the share of kills for which a save is waited for; `each` is called after each kill.

    Raises:
        RunError: the run failed.
    """
    shutil.rmtree(trial.run, ignore_errors=True)
    kills: list[Kill] = []
    while True:
        program = trial.start()
        if len(kills) == n_kills or not strike(trial, program, chance, aimed):
            finish(program)
            return KilledRun(kills, differences(trial.run, trial.undisturbed))
        kills.append(
            Kill(bool(unfinished(trial.run)), max((step_of(path) for path in checkpoints(trial.run)), default=0))
        )
        each()


def strike(trial: Trial, program: Program, chance: random.Random, aimed: float) -> bool:
    """Kill a program that has just been started; False if it came to its end before."""
    program.wait_until_it_trains()
    longest = trial.set_up_seconds + _MOST_SAVES * trial.interval_seconds
    if chance.random() < aimed:
        begun = newest_step(trial.run)
        saves, moment = chance.randrange(_MOST_SAVES), 10 ** chance.uniform(-4, -0.5)
        every = trial.interval_steps
        program.wait_until(lambda: newest_step(trial.run) >= begun + saves * every)
        program.wait_until(lambda: bool(unfinished(trial.run)))
        program.wait_until(lambda: False, moment)
    else:
        program.wait_until(lambda: False, chance.uniform(0, longest))
    if not program.runs:
        return False
    program.kill()
    return True


def unfinished(run: Path) -> list[Path]:
    """What is being written or removed among the checkpoints, or was when its writer was killed."""
    return [*(run / "checkpoints").glob(".*.partial")]


def checkpoints(run: Path) -> list[Path]:
    """The complete checkpoints."""
    return sorted((run / "checkpoints").glob("s*-*"))  # step-, stop-


def step_of(checkpoint: Path) -> int:
    """The updates that were done when it was made."""
    return int(checkpoint.name.partition("-")[2])


def newest_step(run: Path) -> int:
    """The step of the newest complete checkpoint; 0 where there is none."""
    return max((step_of(path) for path in checkpoints(run)), default=0)


def differences(run: Path, other: Path) -> list[str]:
    """What two runs that have ended do not share to the last bit, but for the time that passed."""
    places = [[path.name for path in checkpoints(each)] for each in (run, other)]
    links = [[(each / "checkpoints" / link).resolve().name for link in ("last", "best")] for each in (run, other)]
    files = ["model/model.safetensors", *(f"checkpoints/{place}/{name}" for place in places[1] for name in TENSORS)]
    files += [f"validation/{path.name}" for path in (other / "validation").iterdir()]
    found = [name for name in files if not (run / name).exists() or not filecmp.cmp(run / name, other / name, False)]
    if places[0] != places[1]:
        found.append(f"checkpoints: {', '.join(places[0])}, not {', '.join(places[1])}")
    if links[0] != links[1]:
        found.append(f"last and best: {links[0]}, not {links[1]}")
    if _progress(run) != _progress(other):
        found.append("checkpoints/last/training.json")
    mine, theirs = metrics_of(run), metrics_of(other)
    if mine != theirs:
        first = next((i for i, (one, two) in enumerate(zip(mine, theirs, strict=False)) if one != two), len(theirs))
        found.append(f"metrics.jsonl: {len(mine)} lines, not {len(theirs)}; the first that differs is {first + 1}")
    return found + [f"left behind: {path.name}" for path in unfinished(run)]


def _progress(run: Path) -> Any:
    """training.json of the last checkpoint without the time, and without the checksum that covers it."""
    saved = json.loads((run / "checkpoints/last/training.json").read_text(encoding="utf-8"))
    del saved["progress"]["seconds"], saved["sha256"]["progress"]
    return saved


def describe(trial: Trial, runs: Sequence[KilledRun]) -> str:
    """The result as a page."""
    command = ["python benchmarks/kill_test.py --processes", str(trial.processes), *trial.overrides]
    lines = ["# Kills at random moments", "", "    " + " ".join(command), ""]
    lines += ["| run | kills | while a checkpoint was written | newest checkpoint then | differences at its end |"]
    lines += ["|---|---|---|---|---|"]
    for number, run in enumerate(runs, 1):
        steps = [kill.step for kill in run.kills]
        reached = f"step {min(steps)} … {max(steps)}" if steps else ""
        cells = [number, len(steps), n_saving(run), reached, "; ".join(run.differences) or "none"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    n_kills, n_same = sum(len(run.kills) for run in runs), sum(not run.differences for run in runs)
    lines += [
        "",
        f"Processes: {trial.processes}. {n_kills} kills, {sum(map(n_saving, runs))} of them during a save; "
        f"{n_same} of {len(runs)} runs ended with every bit of an undisturbed one.",
    ]
    return "\n".join(lines) + "\n"


def n_saving(run: KilledRun) -> int:
    """How many kills came during a save."""
    return sum(kill.while_saving for kill in run.kills)


if __name__ == "__main__":
    sys.exit(run_command(main))
