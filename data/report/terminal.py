"""What preprocess.py tells when it is done: a table, sizes, and what is odd."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from data.report.findings import corpus_name, findings, percent
from data.report.visible import plain, shortened

_WIDTH = 120  # columns of a terminal that a line may take
_NAME = 40  # at least so many are the name's
_GAP = "  "
_NAME_TITLE = "training corpus (pairs)"


def describe(manifest: Mapping[str, Any]) -> str:
    """A page for people about the manifest of `prepared/NAME`; what it lacks is left out."""
    parts = ["\n".join(_table(manifest)), "\n".join(_facts(manifest)), "\n".join(_warnings(manifest))]
    return "\n\n".join(part for part in parts if part)


def _table(manifest: Mapping[str, Any]) -> Iterator[str]:
    """A row a corpus, a column each reason that occurred; in blocks one below the other where these are too many."""
    corpora = list((manifest.get("counts") or {}).get("train") or [])
    if not corpora:
        return
    reasons = list(dict.fromkeys(reason for one in corpora for reason, n in (one.get("dropped") or {}).items() if n))
    rows = [_row(corpus, reasons) for corpus in corpora]
    names = [corpus_name(corpus) for corpus in corpora]
    if len(rows) > 1:
        rows.append([sum(column) for column in zip(*rows, strict=True)])
        names.append("all")
    titles = ["read", "kept", *(plain(reason).replace("_", " ") for reason in reasons)]
    for number, block in enumerate(_blocks(titles, rows)):
        if number:
            yield ""
        room = _WIDTH - sum(width + len(_GAP) for _, width in block)
        lines: list[tuple[Sequence[int | str], str]] = [(titles, _NAME_TITLE), *zip(rows, names, strict=True)]
        for row, name in lines:
            cells = [f"{_cell(row[column]):>{width}}" for column, width in block]
            yield _GAP.join([*cells, shortened(name, room)])


def _row(corpus: Mapping[str, Any], reasons: Sequence[str]) -> list[int]:
    dropped = corpus.get("dropped") or {}
    return [corpus.get("read", 0), corpus.get("kept", 0), *(dropped.get(reason, 0) for reason in reasons)]


def _cell(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else shortened(value, _WIDTH - _NAME - len(_GAP))


def _blocks(titles: Sequence[str], rows: Sequence[Sequence[int]]) -> list[list[tuple[int, int]]]:
    """(column, width) of the columns that fit side by side and leave room for the name."""
    blocks: list[list[tuple[int, int]]] = [[]]
    used = 0
    for column, title in enumerate(titles):
        width = max(len(_cell(title)), *(len(_cell(row[column])) for row in rows))
        if blocks[-1] and used + width + len(_GAP) > _WIDTH - _NAME:
            blocks.append([])
            used = 0
        blocks[-1].append((column, width))
        used += width + len(_GAP)
    return blocks


def _facts(manifest: Mapping[str, Any]) -> Iterator[str]:
    counts = manifest.get("counts") or {}
    if (valid := counts.get("valid")) is not None:
        yield f"validation  {valid:,} pairs"
    for name, n_pairs in (counts.get("test") or {}).items():
        yield f"test        {n_pairs:,} pairs  {plain(name)}"
    yield from _vocabulary(manifest)
    kept = sum(corpus.get("kept", 0) for corpus in counts.get("train") or [])
    tokens = (manifest.get("tokens") or {}).get("train") or {}
    for side in ("src", "tgt"):
        if side in tokens:
            average = f", {tokens[side] / kept:.1f} per sentence" if kept else ""
            yield f"training    {_language(manifest, side)} {tokens[side]:,} tokens{average}{_words(manifest, side)}"
    if seconds := manifest.get("seconds"):
        read = sum(corpus.get("read", 0) for corpus in counts.get("train") or [])
        yield f"time        {seconds:,.1f} s, {read / seconds:,.0f} pairs/s"


def _vocabulary(manifest: Mapping[str, Any]) -> Iterator[str]:
    if not (sizes := manifest.get("vocabulary_size")):
        return
    if ((manifest.get("settings") or {}).get("vocabulary") or {}).get("joint"):
        yield f"vocabulary  {sizes['src']:,} pieces, joint"
    else:
        yield "vocabulary  " + ", ".join(f"{_language(manifest, side)} {n:,} pieces" for side, n in sizes.items())


def _words(manifest: Mapping[str, Any], side: str) -> str:
    counts = [written[side] for written in (manifest.get("statistics") or {}).values()]
    words, pieces, broken = (sum(one[what] for one in counts) for what in ("words", "pieces", "broken"))
    if not words:
        return ""
    spelled = f", {percent(broken, words)} of words unknown or in bytes" if broken else ""
    return f", {pieces / words:.2f} per word{spelled}"


def _language(manifest: Mapping[str, Any], side: str) -> str:
    return plain(str(manifest.get(f"{side}_lang") or side))


def _warnings(manifest: Mapping[str, Any]) -> Iterator[str]:
    for finding in findings(manifest):
        yield textwrap.fill(f"{finding.level}: {finding.text}", _WIDTH, subsequent_indent="  ")
