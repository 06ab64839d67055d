"""One corpus examined: read once for the checks, and a second time as far as the examples need it.

Memory is 60 bytes a pair (16 of hashes, 44 of traces; 8 more where pairs have numbers of their own), 0.6 GB for ten
million, beside the 0.1 GB of tables and batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from data.corpora import FileSource, Source, size_of
from data.doctor.drift import Drift, find_drift
from data.doctor.findings import N_EXAMPLES, N_LINES, Finding, Level, Tally, excerpt, side_by_side
from data.doctor.kinds import KINDS
from data.doctor.pairs import PairChecks
from data.doctor.reading import Batch, TolerantText, is_plain, read_batches, read_texts
from data.doctor.repeats import find_repeats, hash_lines, hash_pairs
from data.doctor.sides import LONG, LONG_WORD, SideChecks
from data.doctor.stretches import Examples, Stretch, stretches_of, tell_end
from data.doctor.traces import Tracer, Traces
from data.errors import DataError
from data.words import words_of

_RATIO = 4.0  # times the usual one, where the sides are of very different length
_RATIO_CHARACTERS = 40  # of the longer side, or else a ratio means nothing
_MOST_DRIFTS = 10  # findings of their own; more are told as one

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Diagnosis:
    """All about one corpus; `drift` is None where one side has nothing to compare."""

    findings: list[Finding]
    n_lines: tuple[int, int]
    drift: Drift | None


@dataclass
class _Side:
    """What is gathered of one side."""

    file: str
    name: str  # short, for sentences
    checks: SideChecks = field(default_factory=SideChecks)
    tracer: Tracer = field(default_factory=Tracer)
    hashes: list[npt.NDArray[np.uint64]] = field(default_factory=list)
    n_lines: int = 0

    def add(self, texts: list[str], places: Numbers) -> None:
        if not texts:
            return
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        self.checks.add(texts, lengths, places)
        self.tracer.add(words_of(texts), lengths)
        self.hashes.append(hash_lines(texts))
        self.n_lines += len(texts)


def examine(name: str, source: Source, src_lang: str, tgt_lang: str, boilerplate_over: int = 100) -> list[Finding]:
    """Everything wrong with one corpus that reading it can tell, worst first; `name` is what the findings call it.

    Nothing is raised for a corpus that cannot be read: that is a finding, too. A line repeated more than
    `boilerplate_over` times on a side is boilerplate.
    """
    return diagnose(name, source, src_lang, tgt_lang, boilerplate_over).findings


def diagnose(name: str, source: Source, src_lang: str, tgt_lang: str, boilerplate_over: int = 100) -> Diagnosis:
    """As `examine`, with what a report draws."""
    return _Examination(name, source, src_lang, tgt_lang, boilerplate_over).run()


class _Examination:
    def __init__(self, name: str, source: Source, src_lang: str, tgt_lang: str, boilerplate_over: int) -> None:
        self._name, self._source, self._boilerplate_over = name, source, boilerplate_over
        self._texts: tuple[TolerantText, TolerantText] | None = None
        files, names = (str(source), str(source)), ("the source", "the target")
        if isinstance(source, FileSource):
            files, names = (str(source.src), str(source.tgt)), (source.src.name, source.tgt.name)
            names = files if names[0] == names[1] else names
            if is_plain(source):
                self._texts = TolerantText(source.src, source.encoding), TolerantText(source.tgt, source.encoding)
        self._src, self._tgt = _Side(files[0], names[0]), _Side(files[1], names[1])
        self._file = files[0] if files[0] == files[1] else f"{files[0]} + {files[1]}"
        self._pairs = PairChecks(src_lang, tgt_lang)
        self._places: list[Numbers] = []  # only where a pair's number is not its place
        self._findings: list[Finding] = []

    def run(self) -> Diagnosis:
        self._read()
        drift = None
        if self._tell_reading():
            for checks in (self._src.checks, self._tgt.checks, self._pairs):
                checks.finish()
            self._tell_sides()
            self._tell_languages()
            src, tgt = self._src.tracer.traces(), self._tgt.tracer.traces()
            later = [*self._repeats(), *self._ratios(src, tgt)]
            drift = self._find_drift(src, tgt)
            stretches = stretches_of(drift.steps, len(src)) if drift else []
            examples = self._fetch(later, stretches)
            self._tell_later(later, examples)
            self._tell_stretches(stretches, examples)
            if drift and (end := tell_end(drift.steps, len(src), len(tgt), self._src.name, self._tgt.name)):
                self._tell("drift", end[0], self._file, 1, [end[1]])
        order = list(KINDS)
        self._findings.sort(key=lambda finding: order.index(finding.kind))
        self._findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.level))
        return Diagnosis(self._findings, (self._src.n_lines, self._tgt.n_lines), drift)

    # --- reading ---

    def _read(self) -> None:
        try:
            total, unit = size_of(self._source)
        except DataError:
            total, unit = None, "B"
        with tqdm(total=total, unit=unit, unit_scale=True, desc=f"examining {self._name}", disable=None) as bar:
            try:
                for batch in self._batches(bar):
                    self._src.add(batch.src, batch.places)
                    self._tgt.add(batch.tgt, batch.places)
                    n_pairs = min(len(batch.src), len(batch.tgt))
                    self._pairs.add(batch.src[:n_pairs], batch.tgt[:n_pairs], batch.places)
                    if not self._texts:
                        self._places.append(batch.places)
            except DataError as error:
                self._tell("unreadable", str(error), self._file)

    def _batches(self, bar: tqdm[Any] | None = None) -> Iterator[Batch]:
        advance = bar.update if bar is not None else None
        if not self._texts:
            return read_batches(self._source, advance)
        if bar is not None:
            return read_texts(*self._texts, advance)
        src, tgt = (TolerantText(text.path, text.encoding) for text in self._texts)
        return read_texts(src, tgt)

    def _place(self, line: int) -> int:
        """The place in the file of a line numbered from 0."""
        if not self._places:
            return line + 1
        line = min(line, self._src.n_lines - 1)
        if len(self._places) > 1:
            self._places = [np.concatenate(self._places)]
        return int(self._places[0][line])

    # --- telling ---

    def _tell(
        self,
        kind: str,
        message: str,
        file: str,
        count: int = 1,
        lines: Sequence[int] = (),
        examples: Sequence[str] = (),
        level: Level | None = None,
    ) -> None:
        level = level or KINDS[kind].level
        self._findings.append(Finding(level, kind, message, self._name, file, count, list(lines), list(examples)))

    def _tell_tally(self, kind: str, tally: Tally, file: str, note: str = "", **words: object) -> None:
        if not tally.count:
            return
        what = KINDS[kind].what.format(long=f"{LONG:,}", long_word=LONG_WORD, **words)
        message = f"{tally.count:,} {_counted(what, tally.count)}{note}"
        self._tell(kind, message, file, tally.count, tally.lines, tally.examples)

    def _tell_reading(self) -> bool:
        """Tell of files and counts; return whether there are lines to judge."""
        unreadable = bool(self._findings)
        for text in self._texts or ():
            file = str(text.path)
            if text.problem:
                unreadable = True
                self._tell("unreadable", text.problem, file)
            if text.old_mac:
                unreadable = True
                message = "carriage returns and no line feed: lines of an old Macintosh, read as one line"
                self._tell("old_mac", message, file, lines=[1])
            if text.mark:
                self._tell("byte_order_mark", f"begins with a byte-order mark, so it is read as {text.mark}", file)
            self._tell_tally("encoding", text.bad_lines, file, encoding=text.encoding or "utf-8")
        n_src, n_tgt = self._src.n_lines, self._tgt.n_lines
        if n_src == n_tgt == 0:
            if not unreadable:
                self._tell("no_lines", "empty, not one line", self._file)
            return False
        if n_src == n_tgt:
            self._tell("counts", f"{n_src:,} pairs", self._file, n_src)
        elif not unreadable:
            message = f"{self._src.name} has {n_src:,} lines but {self._tgt.name} has {n_tgt:,}"
            self._tell("line_counts", message, self._file, abs(n_src - n_tgt), [min(n_src, n_tgt) + 1])
        return True

    def _tell_sides(self) -> None:
        for side in (self._src, self._tgt):
            for kind, tally in side.checks.tallies.items():
                self._tell_tally(kind, tally, side.file)

    def _tell_languages(self) -> None:
        pairs = self._pairs
        if pairs.unchecked:
            self._tell("languages_unchecked", f"languages were not checked: {pairs.unchecked}", self._file)
        for kind, tally in pairs.tallies.items():
            self._tell_tally(kind, tally, self._file)
        told = zip((self._src, self._tgt), pairs.wrong_language, pairs.languages_seen, pairs.mostly_wrong, strict=True)
        for side, tally, seen, mostly in told:
            most = sorted(seen.items(), key=lambda item: -item[1])[:3]
            note = " (" + ", ".join(f"{language} {count:,}" for language, count in most) + ")"
            self._tell_tally("wrong_corpus_language" if mostly else "wrong_language", tally, side.file, note)

    # --- what needs the whole corpus ---

    def _repeats(self) -> Iterator[_Later]:
        src, tgt = (np.concatenate([np.zeros(0, np.uint64), *side.hashes]) for side in (self._src, self._tgt))
        blank = np.uint64(hash("") % (1 << 64))
        n_pairs = min(len(src), len(tgt))
        not_blank = (src[:n_pairs] != blank) & (tgt[:n_pairs] != blank)
        pairs = find_repeats(hash_pairs(src[:n_pairs], tgt[:n_pairs]), n_pairs, not_blank)
        yield _Later("duplicates", self._file, pairs.again, "pair")
        for name, side, hashes in (("src", self._src, src), ("tgt", self._tgt, tgt)):
            repeats = find_repeats(hashes, self._boilerplate_over, hashes != blank)
            yield _Later(f"repeated_{name}", side.file, repeats.again, name)
            yield _Later("boilerplate", side.file, repeats.often, name, repeats.often_counts)

    def _ratios(self, src: Traces, tgt: Traces) -> Iterator[_Later]:
        n_pairs = min(len(src), len(tgt))
        ours, theirs = src.lengths[:n_pairs].astype(np.float64), tgt.lengths[:n_pairs].astype(np.float64)
        told = (np.minimum(ours, theirs) > 0) & (np.maximum(ours, theirs) >= _RATIO_CHARACTERS)
        logs = np.log(np.maximum(ours, 1)) - np.log(np.maximum(theirs, 1))
        usual = np.median(logs[told]) if told.any() else 0.0
        yield _Later("length_ratio", self._file, np.flatnonzero(told & (np.abs(logs - usual) > np.log(_RATIO))), "pair")

    def _find_drift(self, src: Traces, tgt: Traces) -> Drift | None:
        if not len(src) or not len(tgt) or any(text.problem or text.old_mac for text in self._texts or ()):
            return None
        with tqdm(unit="pairs", unit_scale=True, desc=f"comparing {self._name}", disable=None) as bar:
            return find_drift(src, tgt, bar.update)

    def _fetch(self, later: Iterable[_Later], stretches: Sequence[Stretch]) -> Examples:
        """Read again, as far as the last line of which an example is wanted."""
        wanted_src, wanted_tgt = set[int](), set[int]()
        for one in later:
            lines = one.lines[:N_EXAMPLES].tolist()
            wanted_src.update(lines if one.of in ("src", "pair") else ())
            wanted_tgt.update(lines if one.of in ("tgt", "pair") else ())
        for stretch in stretches:
            wanted_src.add(stretch.shown)
            wanted_tgt.update((stretch.shown, stretch.shown + (stretch.offset or 0)))
        return self._texts_of(wanted_src, wanted_tgt)

    def _texts_of(self, wanted_src: set[int], wanted_tgt: set[int]) -> Examples:
        src, tgt = dict[int, str](), dict[int, str]()
        last = max(wanted_src | wanted_tgt, default=-1)
        first = 0
        for batch in self._batches():
            if first > last:
                break
            for wanted, texts, found in ((wanted_src, batch.src, src), (wanted_tgt, batch.tgt, tgt)):
                found |= {line: texts[line - first] for line in wanted if first <= line < first + len(texts)}
            first += max(len(batch.src), len(batch.tgt))
        return src, tgt

    def _tell_later(self, later: Iterable[_Later], examples: Examples) -> None:
        for one in later:
            if not len(one.lines):
                continue
            tally = Tally(len(one.lines), [self._place(line) for line in one.lines[:N_LINES].tolist()])
            for number, line in enumerate(one.lines[:N_EXAMPLES].tolist()):
                text = _example(one.of, line, examples)
                tally.examples.append(text if one.counts is None else f"{one.counts[number]:,} times: {text}")
            self._tell_tally(one.kind, tally, one.file, limit=self._boilerplate_over)

    def _tell_stretches(self, stretches: Sequence[Stretch], examples: Examples) -> None:
        shifted = [stretch for stretch in stretches if stretch.offset is not None]
        for stretch in shifted[:_MOST_DRIFTS]:
            message = stretch.tell(self._src.name, self._tgt.name, self._place)
            self._tell(
                "drift", message, self._file, stretch.n_lines, [self._place(stretch.line)], stretch.show(examples)
            )
        if rest := shifted[_MOST_DRIFTS:]:
            n_lines = sum(stretch.n_lines for stretch in rest)
            message = f"{len(rest):,} more stretches are out of step, {n_lines:,} lines in all"
            self._tell("drift", message, self._file, n_lines, [self._place(stretch.line) for stretch in rest])
        if lost := [stretch for stretch in stretches if stretch.offset is None]:
            self._tell_lost(lost, examples)

    def _tell_lost(self, lost: Sequence[Stretch], examples: Examples) -> None:
        n_lines = sum(stretch.n_lines for stretch in lost)
        message = f"{len(lost):,} {_counted('stretches', len(lost))} where the sides seem to have nothing in common"
        self._tell(
            "unlike",
            f"{message}, {n_lines:,} of {self._src.n_lines:,} lines",
            self._file,
            n_lines,
            [self._place(stretch.line) for stretch in lost[:N_LINES]],
            [stretch.show(examples)[0] for stretch in lost[:N_EXAMPLES]],
            level="error" if n_lines > self._src.n_lines / 2 else None,
        )


@dataclass(frozen=True)
class _Later:
    """Lines of one kind, from 0, whose examples are still to be read."""

    kind: str
    file: str
    lines: Numbers
    of: str  # "src", "tgt" or "pair"
    counts: Numbers | None = None


def _example(of: str, line: int, examples: Examples) -> str:
    src, tgt = (side.get(line, "") for side in examples)
    return side_by_side(src, tgt) if of == "pair" else excerpt(src if of == "src" else tgt)


def _counted(what: str, count: int) -> str:
    """The words for more than one, or for one: "line repeated" for "lines repeated"."""
    if count != 1:
        return what
    first, _, rest = what.partition(" ")
    first = first.removesuffix("es") if first.endswith("ches") else first.removesuffix("s")
    return f"{first} {rest}".strip().replace(" are ", " is ", 1)
