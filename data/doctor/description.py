"""Findings as text for the terminal, worst first, each with its place, examples and remedy."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from data.doctor.findings import LEVELS, Finding
from data.doctor.kinds import KINDS
from data.report.visible import plain

_N_LINES = 10
_INDENT = " " * 9
_WIDTH = 120


def describe(findings: Sequence[Finding]) -> str:
    """All findings of all corpora, worst first, and a last line that sums up."""
    ordered = sorted(findings, key=lambda finding: LEVELS.index(finding.level))
    parts = [line for _, alike in groupby(ordered, key=lambda finding: finding.kind) for line in _describe(list(alike))]
    counts = [sum(finding.level == level for finding in findings) for level in LEVELS]
    summary = ", ".join(f"{n} {level}{'' if n == 1 else 's'}" for n, level in zip(counts, LEVELS, strict=True))
    return "\n".join(
        [*parts, f"{summary}. {'Mend the errors before training.' if counts[0] else 'Nothing to mend first.'}"]
    )


def exit_code(findings: Sequence[Finding]) -> int:
    """1 if any finding is an error, else 0."""
    return int(any(finding.level == "error" for finding in findings))


def _describe(alike: Sequence[Finding]) -> Iterator[str]:
    """Findings of one kind, and what to do about them."""
    for finding in alike:
        yield f"{finding.level.upper():<9}{plain(finding.corpus)}: {plain(finding.message)}"
        yield from textwrap.wrap(_tell_place(finding), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
        yield from (f"{_INDENT}· {example}" for example in finding.examples)
    if remedy := KINDS[alike[0].kind].remedy:
        yield from textwrap.wrap(f"→ {remedy}.", _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT + "  ")


def _tell_place(finding: Finding) -> str:
    place = plain(finding.file)
    if not finding.lines:
        return place
    more = " …" if len(finding.lines) > _N_LINES or finding.count > len(finding.lines) > 1 else ""
    lines = ", ".join(map(str, finding.lines[:_N_LINES]))
    return f"{place}, {'line' if len(finding.lines) == 1 else 'lines'} {lines}{more}"
