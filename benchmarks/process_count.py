"""The loss of each update on one, two and four processes, and with micro-batches of several sizes.

    python benchmarks/process_count.py

Neither is a hyper-parameter: the updates are the same sentences, only the order of adding up differs. A small run (see
tiny_run.py) in fp32, without dropout and changes on the fly, is repeated in each way for 50 updates; at last it is
started on two processes and ended on one. Where tokens differ, or a loss by more than 1e-5 of it, the exit code is 1.
A few minutes; the table is printed and written to benchmarks/results/process_count.md.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from benchmarks.tiny_run import NAME, ROOT, Program, finish, metrics_of, prepare, train_command
from transformer.command_line import CommandParser, run_command

BOUND = 1e-5  # largest relative difference of a loss
N_STEPS = 50
COMMON = (
    "model.dropout=0",
    "train.augmentation=null",
    "train.cooldown_steps=0",
    "train.log_every=1",
    "train.save_every=25",
    "train.validate_every=25",
)

Row = dict[str, Any]  # a line of metrics.jsonl


class Way(NamedTuple):
    """One way of computing the same run."""

    processes: int
    max_tokens: int
    overrides: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.processes} × {self.max_tokens}{' sharded' if self.overrides else ''}"


SHARDED = ("train.parallel=fully_shard",)
WAYS = (
    [Way(1, 2000)],
    [Way(1, 300)],
    [Way(1, 100)],
    [Way(2, 2000)],
    [Way(2, 300)],
    [Way(2, 100)],
    [Way(4, 2000)],
    [Way(4, 100)],
    [Way(2, 300, SHARDED)],
    [Way(2, 300), Way(1, 300)],
    [Way(2, 300, SHARDED), Way(1, 300, SHARDED)],
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run each way, compare with the first, report."""
    parser = CommandParser(prog="benchmarks/process_count.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/work", metavar="DIR", help="for what is made")
    args = parser.parse_args(argv)
    folder = args.work.resolve() / "process_count"
    shutil.rmtree(folder, ignore_errors=True)
    prepare(folder, *COMMON)
    results = {", then ".join(map(str, ways)): train_in(folder, *ways) for ways in WAYS}
    page = describe(results)
    print(page)
    path = ROOT / "benchmarks/results/process_count.md"
    path.write_text(page, encoding="utf-8")
    print(f"wrote {path}")
    first, *others = results.values()
    return 0 if all(largest_difference(first, other) <= BOUND for other in others) else 1


def train_in(folder: Path, *ways: Way) -> list[Row]:
    """Train in a folder that `prepare` has made with `COMMON`, each way for its share of the updates; the metrics."""
    for number, way in enumerate(ways, 1):
        own = (f"train.max_steps={N_STEPS * number // len(ways)}", f"train.max_tokens={way.max_tokens}")
        finish(Program(folder, train_command(way.processes, *COMMON, *own, *way.overrides)))
    run = folder / "runs" / NAME
    rows = metrics_of(run)
    shutil.rmtree(run)
    return rows


def largest_difference(rows: Sequence[Row], others: Sequence[Row]) -> float:
    """Of the losses in training and validation, relative; infinite where steps or tokens are not the same."""
    for key in ("step", "epoch", "n_tokens"):
        if [row.get(key) for row in rows] != [row.get(key) for row in others]:
            return float("inf")
    losses: list[tuple[float, float]] = [
        (row[key], other[key])
        for row, other in zip(rows, others, strict=True)
        for key in ("nll_per_token", "smoothed_loss_per_token", "valid_nll_per_token")
        if key in row
    ]
    return max(abs(one - two) / abs(one) for one, two in losses)


def describe(results: dict[str, list[Row]]) -> str:
    """The losses as a page."""
    lines = ["# The number of processes is no hyper-parameter", "", "    python benchmarks/process_count.py", ""]
    lines += [
        "Smoothed loss per token of each update, by number of processes × `train.max_tokens`; fp32, without dropout.",
        "",
        f"| step | tokens | {' | '.join(results)} |",
        "|---|---|" + "---|" * len(results),
    ]
    losses = {name: [row for row in rows if "lr" in row] for name, rows in results.items()}
    first = next(iter(results))
    for rows in zip(*losses.values(), strict=False):
        cells = [rows[0]["step"], rows[0]["n_tokens"], *(f"{row['smoothed_loss_per_token']:.7f}" for row in rows)]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    worst = {name: largest_difference(results[first], rows) for name, rows in results.items()}
    lines += [
        f"| largest relative difference | | {' | '.join(f'{value:.1e}' for value in worst.values())} |",
        "",
        f"The largest of all is {max(worst.values()):.1e}, where {BOUND:.0e} is allowed; validation included.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(run_command(main))
