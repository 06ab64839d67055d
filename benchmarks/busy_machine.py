"""Training on a machine that does something else, too: what it costs that threads wait for each other awake.

    python benchmarks/busy_machine.py

The network of configs/multi30k.yaml is trained on the built-in grammar's text, by train.py with two threads: on a free
machine, and beside a program that keeps one core busy. Either with the 300,000 rounds that a thread of GNU OpenMP stays
awake by its own default, or with those that `transformer` sets. In turn; nothing else may run meanwhile. Takes three
minutes on two cores. The result is printed and written to benchmarks/results/busy_machine.md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from tqdm import tqdm

from benchmarks.machine import machine_facts
from benchmarks.scripts import ROOT
from benchmarks.tiny_run import NAME, Program, finish, prepare, train_command
from data.lines import write_lines
from transformer.command_line import CommandParser, positive, run_command

VARIABLE = "GOMP_SPINCOUNT"
ROUNDS_AWAKE = {"GNU OpenMP's 300,000": "300000", f"this project's {int(os.environ[VARIABLE]):,}": os.environ[VARIABLE]}
WARM_UP, N_TIMED = 10, 20  # updates
LAYERS = ("model.n_encoder_layers=4", "model.n_decoder_layers=4", "model.d_model=128", "model.d_ff=256")
SETTINGS = (
    *LAYERS,
    "model.n_heads=4",
    "train.threads=2",
    "train.precision=bf16",
    "train.batch_tokens=4096",
    "train.max_tokens=8192",
    "train.augmentation=null",
    "train.log_every=1",
    f"train.max_steps={WARM_UP + N_TIMED}",
    "train.cooldown_steps=0",
    "train.validate_every=1000",
    "train.save_every=1000",
)
BUSY = [sys.executable, "-c", "while True: pass"]


def main(argv: Sequence[str] | None = None) -> int:
    """Train in turn, write the table."""
    parser = CommandParser(prog="benchmarks/busy_machine.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--repeats", type=positive, default=2, metavar="N", help="runs of each kind (2)")
    args = parser.parse_args(argv)
    ways = [(name, busy) for busy in (False, True) for name in ROUNDS_AWAKE]
    speeds: dict[tuple[str, bool], list[float]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), n_train=20_000)
        for name, busy in tqdm(ways * args.repeats, unit="run", disable=None):
            os.environ[VARIABLE] = ROUNDS_AWAKE[name]
            with another_program() if busy else nothing_else():
                speeds[name, busy].append(trained(Path(folder)))
    text = render(speeds, args.repeats)
    path = ROOT / "benchmarks/results/busy_machine.md"
    write_lines(path, text.split("\n"))
    print(text, f"wrote {path}", sep="\n\n")
    return 0


@contextmanager
def another_program() -> Iterator[None]:
    """Something that uses one core as long as this lasts."""
    with subprocess.Popen(BUSY) as program:
        try:
            yield
        finally:
            program.kill()


@contextmanager
def nothing_else() -> Iterator[None]:
    """The machine as it is."""
    yield


def trained(folder: Path) -> float:
    """Target tokens per second of a new run, after its warm-up."""
    run = folder / "runs" / NAME
    shutil.rmtree(run, ignore_errors=True)
    finish(Program(folder, train_command(1, *SETTINGS)))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in lines if "tokens_per_second" in line]
    begin, end = updates[WARM_UP - 1], updates[-1]
    return float((end["n_tokens"] - begin["n_tokens"]) / (end["seconds"] - begin["seconds"]))


def render(speeds: dict[tuple[str, bool], list[float]], repeats: int) -> str:
    """The table in Markdown."""
    facts = machine_facts()
    rows = []
    for name in ROUNDS_AWAKE:
        cells = [
            f"{median(found):,.0f} ({min(found):,.0f}–{max(found):,.0f})"
            for found in (speeds[name, False], speeds[name, True])
        ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(
        [
            "# Training beside another program",
            "",
            "    python benchmarks/busy_machine.py",
            "",
            "Target tokens/s of the network of configs/multi30k.yaml with two threads, on the built-in grammar's text.",
            f"Median (range) of {repeats} runs, in turn.",
            "",
            f"| rounds awake ({VARIABLE}) | machine free | one core busy |",
            "|---|---|---|",
            *rows,
            "",
            f"{facts['cores']} cores of {facts['cpu']}, {facts['date']}, torch {facts['libraries']['torch']}.",
        ]
    )


if __name__ == "__main__":
    sys.exit(run_command(main))
