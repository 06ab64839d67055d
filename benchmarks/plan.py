"""Whether `train.py --plan` and the progress bar are right about how long a run takes.

    python benchmarks/plan.py [--data DIR] [--steps N]

The plan of a run is asked for, then the run is done, through the scripts that users start: on the demo grammar, and
with --data on Multi30k, of which DIR holds train and val as NAME.{en,de}.gz. Compared are the time the plan states and
the remaining time after 5 % of the updates, which is (max_steps − step) · seconds / step of metrics.jsonl, with the
time there really was. Printed and written to benchmarks/results/plan.md.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from transformer.command_line import CommandParser, run_command
from transformer.errors import RunError

ROOT = Path(__file__).resolve().parent.parent
RUN_TIME = re.compile(r"^ +(?:(\d+) days?, )?(\d+):(\d\d):(\d\d), .* of it for", re.MULTILINE)  # as the page says it


@dataclass(frozen=True)
class Result:
    """One run, planned and done."""

    name: str
    page: str
    n_steps: int
    predicted_seconds: float
    real_seconds: float  # from the first update to the end of the program
    start_seconds: float  # from the command to the first update
    at_step: int  # 5 % of them
    predicted_rest: float  # seconds that the bar shows there
    real_rest: float


def main(argv: Sequence[str] | None = None) -> int:
    """Plan, train, compare, report."""
    parser = CommandParser(prog="benchmarks/plan.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, metavar="DIR", help="the raw Multi30k corpus")
    parser.add_argument("--steps", type=int, default=300, metavar="N", help="updates of each run (300)")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/work", metavar="DIR", help="for what is made")
    args = parser.parse_args(argv)
    work = args.work.resolve() / "plan"
    work.mkdir(parents=True, exist_ok=True)
    runs = {"demo": demo_config(work)}
    if args.data is not None:
        runs["multi30k"] = multi30k_config(args.data.resolve())
    page = describe([measure(name, config, args.steps, work) for name, config in runs.items()])
    print(page)
    path = ROOT / "benchmarks/results/plan.md"
    path.write_text(page, encoding="utf-8")
    print(f"wrote {path}")
    return 0


def demo_config(work: Path) -> list[str]:
    """Write the demo corpus; the arguments that name it."""
    corpus = work / "demo-corpus"
    if not (corpus / "train.en").exists():
        run([sys.executable, "-m", "data.grammar", "--output", str(corpus)], ROOT)
    return ["--config", "demo.yaml", *corpora({part: corpus / part for part in ("train", "valid")}, "")]


def multi30k_config(data: Path) -> list[str]:
    """The arguments that name the corpus."""
    return ["--config", "multi30k.yaml", *corpora({"train": data / "train", "valid": data / "val"}, ".gz")]


def corpora(stems: Mapping[str, Path], end: str) -> list[str]:
    """Settings for the text in STEM.en and STEM.de; JSON is YAML."""
    files = {part: [{"src": f"{stem}.en{end}", "tgt": f"{stem}.de{end}"}] for part, stem in stems.items()}
    return [f"data.{part}={json.dumps(value).replace('$', '$$')}" for part, value in files.items()] + ["data.test={}"]


def measure(name: str, config: Sequence[str], n_steps: int, work: Path) -> Result:
    """Prepare, plan, train."""
    config = [*config, f"name={name}", f"train.max_steps={n_steps}", "train.cooldown_steps=0"]
    config += [f"train.validate_every={n_steps}", f"train.log_every={max(1, n_steps // 100)}"]
    run([sys.executable, str(ROOT / "preprocess.py"), *config], work)
    page = run([sys.executable, str(ROOT / "train.py"), *config, "--plan"], work)
    print(page)

    directory = work / "runs" / name
    shutil.rmtree(directory, ignore_errors=True)
    begin = time.perf_counter()
    first_line, end = watch([sys.executable, str(ROOT / "train.py"), *config], work, directory / "metrics.jsonl")
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    logged = [line for line in lines if "seconds" in line and "tokens_per_second" in line]
    first_update = first_line - logged[0]["seconds"]
    at = next(line for line in logged if line["step"] >= n_steps / 20)
    return Result(
        name=name,
        page=page,
        n_steps=n_steps,
        predicted_seconds=stated_seconds(page),
        real_seconds=end - first_update,
        start_seconds=first_update - begin,
        at_step=at["step"],
        predicted_rest=(n_steps - at["step"]) * at["seconds"] / at["step"],
        real_rest=end - first_update - at["seconds"],
    )


def run(command: Sequence[str], folder: Path) -> str:
    """Run to the end; what it printed. Raises RunError when it failed, with its own message on the screen."""
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    if done.returncode:
        raise RunError(f"{' '.join(command)} ended with exit code {done.returncode}")
    return done.stdout


def watch(command: Sequence[str], folder: Path, metrics: Path) -> tuple[float, float]:
    """Run to the end; when the first line of metrics was there, and when it ended. Raises RunError when it failed."""
    first_line = None
    process = subprocess.Popen(command, cwd=folder)
    while process.poll() is None:
        if first_line is None and metrics.exists() and metrics.stat().st_size:
            first_line = time.perf_counter()
        time.sleep(0.02)
    end = time.perf_counter()
    if process.returncode or first_line is None:
        raise RunError(f"{' '.join(command)} ended with exit code {process.returncode}")
    return first_line, end


def stated_seconds(page: str) -> float:
    """The time of the whole run, as the page of the plan says it."""
    found = RUN_TIME.search(page)
    if found is None:
        raise RunError(f"the plan does not say how long the run takes:\n{page}")
    days, hours, minutes, seconds = (int(number or 0) for number in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()


def describe(results: Sequence[Result]) -> str:
    """The figures, and below them the pages of the plans."""
    rows: list[list[Any]] = [
        ["run", "updates", "plan s", "really s", "plan / really", "rest at 5 %: bar s", "really s", "bar / really"]
    ]
    rows.append(["---"] * len(rows[0]))
    for r in results:
        whole, rest = r.predicted_seconds / r.real_seconds, r.predicted_rest / r.real_rest
        cells = [r.name, f"{r.n_steps:,}", f"{r.predicted_seconds:.0f}", f"{r.real_seconds:.1f}", f"{whole:.2f}"]
        rows.append([*cells, f"{r.predicted_rest:.1f}", f"{r.real_rest:.1f}", f"{rest:.2f}"])
    lines = ["# Planned and real time", "", "    python benchmarks/plan.py --data DIR", ""]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    starts = ", ".join(f"{r.name} {r.start_seconds:.1f} s" for r in results)
    lines += [
        "",
        "Real time is from the first update to the end of the program, with a validation at the end, checkpoints,",
        f"and the writing of the model. From the command to the first update: {starts}. {os.cpu_count()} cores.",
    ]
    for r in results:
        lines += ["", f"## {r.name}", "", *(f"    {line}".rstrip() for line in r.page.splitlines())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(run_command(main))
