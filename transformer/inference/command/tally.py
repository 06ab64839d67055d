"""What happened to the lines of a translation: what its user must know, and cannot see in the output."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from transformer.inference.command.results import Result
from transformer.inference.translation import Translation

SHOWN = 10
"""Numbers of lines in a note."""

NOTES: dict[str, Callable[[Translation], bool]] = {
    "ran into the length limit, and ended there unfinished": lambda translation: not translation.finished,
    "lacked something required, or held something to be avoided": lambda translation: translation.constraint_unmet,
    "had more pieces than translate.max_source_length, and got a translation in parts": lambda t: t.n_parts > 1,
    "had more pieces than translate.max_source_length, and got a translation of the beginning": lambda t: t.truncated,
}
INVALID = "held bytes that are not UTF-8, and got U+FFFD for them"


@dataclass
class _Noted:
    n_lines: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, number: int) -> None:
        self.n_lines += 1
        if len(self.first) < SHOWN:
            self.first.append(number)


class Tally:
    """Counts lines as they go by, and, apart from that, those that were translated just now."""

    def __init__(self) -> None:
        self.n_lines = 0
        self.n_translated = 0
        self.n_tokens = 0
        self.log_prob = 0.0
        self._noted = {what: _Noted() for what in (*NOTES, INVALID)}
        self._began = time.monotonic()

    def count(self, results: Iterable[Result]) -> Iterator[Result]:
        """Pass results on and count them."""
        for result in results:
            self.n_lines += 1
            self.n_tokens += result.translation.n_tokens
            self.log_prob += math.fsum(result.translation.token_log_probs or ())
            for what in notes(result.translation):
                self._noted[what].add(self.n_lines)
            yield result

    def note_invalid(self, number: int) -> None:
        """Note a line that was not UTF-8."""
        self._noted[INVALID].add(number)

    def advance(self, n_lines: int) -> None:
        """Count lines that are translated now."""
        self.n_translated += n_lines

    def report(self, what: str) -> str:
        """What was done, such as "wrote out.de", how fast, and a line for everything to note."""
        seconds = time.monotonic() - self._began
        lines_per_second = self.n_translated / seconds
        speed = f" ({lines_per_second:,.{0 if lines_per_second >= 10 else 1}f} lines/s)" if self.n_translated else ""
        # The others were translated before, or by other processes.
        share = f", of them {self.n_translated:,} here" if 0 < self.n_translated < self.n_lines else ""
        lines = [f"{what}: {_lines(self.n_lines)}{share}, in {seconds:.1f} s{speed}"]
        lines += [_note(what, noted) for what, noted in self._noted.items() if noted.n_lines]
        return "\n".join(lines)

    def perplexity(self) -> str:
        """Of all scored lines together: exp(-log P / pieces), with </s>."""
        if not self.n_tokens:
            return "no pieces to score"
        nats = -self.log_prob / self.n_tokens
        return (
            f"perplexity {math.exp(min(nats, 700)):.4f} ({nats:.4f} nats a piece, {self.n_tokens:,} pieces with </s>)"
        )


def notes(translation: Translation) -> list[str]:
    """What there is to note about one translation."""
    return [what for what, is_so in NOTES.items() if is_so(translation)]


def _note(what: str, noted: _Noted) -> str:
    numbers = ", ".join(f"{number}" for number in noted.first)
    more = ", …" if noted.n_lines > len(noted.first) else ""
    return f"{_lines(noted.n_lines)} {what}: {'line' if noted.n_lines == 1 else 'lines'} {numbers}{more}"


def _lines(n: int) -> str:
    return f"{n:,} line" if n == 1 else f"{n:,} lines"
