"""What the doctor tells, and how it is collected over a corpus."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from data.report.visible import plain

Level = Literal["error", "warning", "note"]

LEVELS: tuple[Level, ...] = ("error", "warning", "note")  # worst first
N_EXAMPLES = 3
N_LINES = 20
_WIDTH = 100


@dataclass(frozen=True)
class Finding:
    """One thing worth telling about a corpus.

    `message` is a sentence without the name of the corpus; `count` counts lines, pairs or places; `lines` are the first
    of them, from 1 (rows, records or units in other forms than text); `examples` are safe to print.
    """

    level: Level
    kind: str  # a name in `data.doctor.kinds.KINDS`
    message: str
    corpus: str
    file: str
    count: int
    lines: list[int] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)


@dataclass
class Tally:
    """Occurrences of one kind: all counted, the first remembered."""

    count: int = 0
    lines: list[int] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)

    def add(self, line: int, text: str, at: int = 0, before: str = "") -> None:
        """One more, on a line that comes after those before; what to show of it, and where in the text to look."""
        self.count += 1
        if len(self.lines) < N_LINES:
            self.lines.append(line)
        if text and len(self.examples) < N_EXAMPLES:
            self.examples.append(before + excerpt(text, at))

    def add_pair(self, line: int, src: str, tgt: str, before: str = "") -> None:
        """As `add`, of both sides."""
        self.count += 1
        if len(self.lines) < N_LINES:
            self.lines.append(line)
        if len(self.examples) < N_EXAMPLES:
            self.examples.append(before + side_by_side(src, tgt))


def excerpt(text: str, at: int = 0, width: int = _WIDTH) -> str:
    """About `width` characters of a text around a place, on one line, with whatever is invisible spelled out."""
    start = max(0, min(at - width // 3, len(text) - width))
    end = min(len(text), start + width)
    return f"{'…' if start else ''}{plain(text[start:end])}{'…' if end < len(text) else ''}"


def side_by_side(src: str, tgt: str) -> str:
    """Both sides of a pair as one example."""
    return f"{excerpt(src, width=_WIDTH // 2)} ⟶ {excerpt(tgt, width=_WIDTH // 2)}"
