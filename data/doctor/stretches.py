"""Stretches of a corpus that are out of step, told in words and shown by examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from data.doctor.drift import Step
from data.doctor.findings import side_by_side

Examples = tuple[dict[int, str], dict[int, str]]  # texts of either side by line, from 0
Place = Callable[[int], int]  # where in the file a line is


@dataclass(frozen=True)
class Stretch:
    """Source lines, numbered from 0, whose target line is `offset` further on; None: which have none."""

    line: int
    n_lines: int
    offset: int | None
    before: int  # the offset of the lines before

    @property
    def shown(self) -> int:
        """A source line whose texts make it clear: not the first, which may be the one too many."""
        return self.line + min(1, self.n_lines - 1)

    def show(self, examples: Examples) -> list[str]:
        """A line with its partner by number, and with its partner by what they say."""
        src_texts, tgt_texts = examples
        text = src_texts.get(self.shown, "")
        found = [f"by number: {side_by_side(text, tgt_texts.get(self.shown, ''))}"]
        if self.offset is not None:
            found.append(f"by content: {side_by_side(text, tgt_texts.get(self.shown + self.offset, ''))}")
        return found

    def tell(self, src: str, tgt: str, place: Place) -> str:
        """What is out of step, and which line may be missing where."""
        assert self.offset is not None
        first, last = place(self.line), place(self.line + self.n_lines - 1)
        partner = place(max(self.line + self.offset, 0))
        change = self.offset - self.before
        missing, extra = (tgt, src) if change < 0 else (src, tgt)
        lines = "a line is" if abs(change) == 1 else f"{abs(change):,} lines are"
        return (
            f"out of step from line {first:,} to line {last:,}: line {first:,} of {src} belongs to line {partner:,} of "
            f"{tgt}; just before, {lines} missing in {missing}, or too many in {extra}"
        )


def stretches_of(steps: Sequence[Step], n_src: int) -> list[Stretch]:
    """What is out of step, in the order of the corpus."""
    found, before = [], 0
    ends = [step.line - 1 for step in steps[1:]] + [n_src]
    for step, end in zip(steps, ends, strict=True):
        if step.offset != 0 and end > step.line - 1:
            found.append(Stretch(step.line - 1, end - step.line + 1, step.offset, before))
        before = before if step.offset is None else step.offset
    return found


def tell_end(steps: Sequence[Step], n_src: int, n_tgt: int, src: str, tgt: str) -> tuple[str, int] | None:
    """A sentence when one side goes on after the end of the other, and the number (from 1) of its first such line."""
    offset = steps[-1].offset
    if offset is None:
        return None
    surplus = n_src + offset - n_tgt
    if not surplus:
        return None
    longer, first = (src, n_tgt - offset + 1) if surplus > 0 else (tgt, n_src + offset + 1)
    shorter = tgt if surplus > 0 else src
    return f"from line {first:,} on, {longer} has {abs(surplus):,} more after the end of {shorter}", first
