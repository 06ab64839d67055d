"""`python -m transformer report`: the page about runs, drawn anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transformer.command_line import CommandParser, check_folders
from transformer.evaluation.report.page import save_report


def report_command(argv: Sequence[str]) -> int:
    """Write the page about a run, runs/A/report.html; or about several side by side, runs/A/report-vs-B.html."""
    parser = CommandParser(prog="python -m transformer report", description=report_command.__doc__)
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="runs/NAME; the first is compared with the others"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="the page, elsewhere")
    args = parser.parse_args(argv)
    check_folders(args.output)
    print(f"wrote  {save_report(args.runs, args.output)}")
    return 0
