"""A picture of benchmarks/results/training.md: `python benchmarks/training_plot.py`

One bar for each program's target tokens per second, for each size of network, ours in another colour; thin lines reach
from the slowest to the fastest interval. It shows what the page says, so it is drawn from the page. Writes
docs/training_speed.svg.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

import matplotlib
from matplotlib.figure import Figure

from transformer.command_line import CommandParser, run_command
from transformer.errors import RunError

ROOT = Path(__file__).resolve().parent.parent
OURS = "this project"
_ROW = re.compile(r"\| (?P<name>[^|]+?) \| (?P<rate>[\d,]+) \| (?P<least>[\d,]+)–(?P<most>[\d,]+) \|")


@dataclass(frozen=True)
class Bar:
    """A row of the page."""

    name: str
    rate: int  # target tokens per second, the median
    least: int
    most: int


def main(argv: Sequence[str] | None = None) -> int:
    CommandParser(prog="benchmarks/training_plot.py", description=(__doc__ or "").split("\n\n")[1]).parse_args(argv)
    page = ROOT / "benchmarks/results/training.md"
    bars = read_bars(page.read_text(encoding="utf-8"))
    if not bars:
        raise RunError(f"{page}: there is no table; make it with python benchmarks/training.py --data DIR")
    path = ROOT / "docs/training_speed.svg"
    with matplotlib.rc_context({"svg.hashsalt": "training", "svg.fonttype": "path"}):  # the same bytes each time
        draw(bars).savefig(path, metadata={"Date": None})
    print(f"wrote {path}")
    return 0


def read_bars(page: str) -> dict[str, list[Bar]]:
    """Size of network → its bars, in the order of the page."""
    found: dict[str, list[Bar]] = {}
    size = ""
    for line in page.splitlines():
        if line.startswith("## "):
            size = line.removeprefix("## ").split(":")[0]
        elif match := _ROW.match(line):
            numbers = (int(match[name].replace(",", "")) for name in ("rate", "least", "most"))
            found.setdefault(size, []).append(Bar(match["name"], *numbers))
    return found


def draw(bars: dict[str, list[Bar]]) -> Figure:
    """One panel for each size, fastest on top."""
    figure = Figure(figsize=(8, 0.6 + 0.34 * max(map(len, bars.values()))), layout="constrained")
    axes = figure.subplots(1, len(bars), squeeze=False)[0]
    for panel, (size, rows) in zip(axes, bars.items(), strict=True):
        rows = sorted(rows, key=lambda bar: bar.rate)
        rates = [bar.rate for bar in rows]
        spread = [[bar.rate - bar.least for bar in rows], [bar.most - bar.rate for bar in rows]]
        colours = ["#1f5fa8" if bar.name.startswith(OURS) else "#b9c2cc" for bar in rows]
        panel.barh([bar.name for bar in rows], rates, color=colours, xerr=spread, error_kw={"lw": 0.8, "alpha": 0.6})
        for place, bar in enumerate(rows):
            panel.annotate(
                f"{bar.rate:,}", (bar.most, place), (4, 0), textcoords="offset points", va="center", fontsize=8
            )
        panel.set_xlim(0, 1.22 * max(bar.most for bar in rows))
        panel.set_title(f"{size}: target tokens per second", fontsize=9)
        panel.tick_params(labelsize=8, length=0)
        panel.set_xticks([])
        for side in ("top", "right", "bottom"):
            panel.spines[side].set_visible(False)
    return figure


if __name__ == "__main__":
    sys.exit(run_command(main))
