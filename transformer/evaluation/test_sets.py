"""Test sets, from wherever they come: prepared data, files, WMT's XML, or sacrebleu's collection."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from data.errors import DataError
from data.forms.compression import look_ahead, open_decompressed
from data.forms.detect import form_of, form_of_side
from data.forms.testset import TestSetSource, find_whole_test_set
from data.forms.wmt_sgm import read_sgm_texts
from data.forms.wmt_xml import read_wmt_xml
from data.lines import line_blocks
from data.prepared import Prepared

_LANGUAGES = re.compile(r"[a-z]{2,3}(_\w+)?-[a-z]{2,3}(_\w+)?")
_PACKED = (".gz", ".bz2", ".xz", ".zst")
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TestSet:
    """Sentences with their references.

    Attributes:
        src: None where only translations are scored and no source was given.
        references: one or more, each a whole text as long as the source.
        domains: of each sentence; None: not known.
        notes: what was odd about its files, to be said.
    """

    __test__ = False  # not a test, whatever pytest thinks of its name

    name: str
    src: list[str] | None
    references: list[list[str]]
    domains: list[str] | None = None
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.references[0])


@dataclass(frozen=True)
class SideText:
    """One side of a test set, read from a file."""

    path: Path
    lines: list[str]
    meta: list[Mapping[str, str]]  # of each line what SGM tells: document, segment, domain …
    notes: list[str]


def prepared_tests(prepared: Prepared) -> dict[str, TestSet]:
    """The test sets that preprocess.py was given, by name."""
    return {name: TestSet(name, src, [references]) for name, (src, references) in prepared.test_text.items()}


def file_test(
    src: Path | None, references: Sequence[Path], hypotheses: Sequence[Path] = ()
) -> tuple[TestSet, list[SideText]]:
    """A test set of files, text or WMT SGM, named after the first of them; and translations of it, if there are any.

    Raises:
        DataError: files that cannot be read or are empty, all in one message; or that do not have the same lines.
    """
    paths = [*hypotheses, *([src] if src else []), *references]
    sides, problems = [], []
    for path in paths:
        try:
            sides.append(read_side(path))
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise DataError("\n".join(problems))
    check_same_lines(sides)
    translations, own = sides[: len(hypotheses)], sides[len(hypotheses) :]
    domains = next((found for side in own if (found := _domains(side.meta))), None)
    lines = [side.lines for side in own]
    name, notes = name_by_file(own[0].path), [note for side in sides for note in side.notes]
    return TestSet(name, lines[0] if src else None, lines[1:] if src else lines, domains, notes), translations


def name_by_file(path: Path) -> str:
    """What a test set of a file is called: news.en.gz is news."""
    name = writable(path.name)
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    return Path(name).stem or name


def writable(name: str) -> str:
    """The name of a file as text that can be printed and written: bytes that are no UTF-8 are spelled, as in \\xe9."""
    return os.fsencode(name).decode(errors="backslashreplace")


def read_side(path: Path) -> SideText:
    """Read text, line by line, or the segments of a WMT SGM file; plain or compressed.

    Carriage returns before line ends and a byte-order mark are no text; that they were there is noted.

    Raises:
        DataError: cannot be read, not UTF-8, of another form, or empty.
    """
    with open_decompressed(path) as stream:
        content = stream.read()
    first, _ = look_ahead(io.BytesIO(content))
    if form_of(first, path.name) == "wmt_xml":
        raise DataError(f"{path}: XML of WMT holds source and references in one: give it as --test {path}")
    notes = []
    if form_of_side(first, str(path)) == "sgm":
        pairs = list(read_sgm_texts(io.BytesIO(content), str(path)))
        lines, meta = [pair.src for pair in pairs], [pair.meta for pair in pairs]
    else:
        lines = list(chain.from_iterable(line_blocks(io.BytesIO(content), str(path))))
        meta = [{} for _ in lines]
        odd = ["lines end in CR LF"] if b"\r\n" in content else []
        odd += ["it begins with a byte-order mark"] if content.startswith(_MARK) else []
        notes = [f"{path}: {' and '.join(odd)}; taken away, as it is no text"] if odd else []
    if not lines:
        raise _empty(path)
    return SideText(path, lines, meta, notes)


def _empty(path: Path) -> DataError:
    return DataError(f"{path}: is empty: 0 lines. Nothing was scored; has the program that writes it failed?")


def check_same_lines(sides: Sequence[SideText]) -> None:
    """Raises DataError where files do not have the same number of lines, or not the same segments."""
    first, *others = sides
    problems = []
    for side in others:
        if len(side.lines) != len(first.lines):
            problems.append(f"{first.path} has {len(first.lines)} lines but {side.path} has {len(side.lines)}")
            continue
        here, there = (list(map(_segment, each.meta)) for each in (first, side))
        if any(here) and any(there) and here != there:
            at = next(i for i, pair in enumerate(zip(here, there, strict=True)) if pair[0] != pair[1])
            problems.append(f"{first.path} has {here[at]} where {side.path} has {there[at]}")
    if problems:
        raise DataError(
            "\n".join(problems) + "\nLine N of one must belong to line N of the other. Nothing was scored; look for a "
            "lost, added or split line, or get the files again"
        )


def _segment(meta: Mapping[str, str]) -> str:
    return f"document {meta.get('doc', '')!r}, segment {meta['segment']}" if "segment" in meta else ""


def named_test(name: str, src_lang: str, tgt_lang: str) -> TestSet:
    """The test set of a WMT XML file, or of sacrebleu's collection: wmt14, wmt14/full, wmt14/de-en.

    Raises:
        DataError: no such test set, not of these languages, damaged, or not to be downloaded.
    """
    if Path(name).is_file():
        return _xml_test(Path(name), src_lang, tgt_lang)
    if languages := languages_of(name):
        name, (src_lang, tgt_lang) = name.rpartition("/")[0], languages
    src, references = find_whole_test_set(TestSetSource(name, src_lang, tgt_lang))
    return replace(file_test(src, references)[0], name=name, notes=[])


def languages_of(name: str) -> tuple[str, str] | None:
    """The languages that the name of a test set of sacrebleu's tells, as in wmt14/de-en; else None."""
    languages = name.rpartition("/")[2]
    if Path(name).is_file() or "/" not in name or not _LANGUAGES.fullmatch(languages):
        return None
    src_lang, tgt_lang = languages.split("-")
    return src_lang, tgt_lang


def _xml_test(path: Path, src_lang: str, tgt_lang: str) -> TestSet:
    """All references that have every segment; others cannot be scored against, and are noted."""
    with open_decompressed(path) as stream:
        first, stream = look_ahead(stream)
        if form_of(first, path.name) != "wmt_xml":
            raise DataError(
                f"{path}: not XML of WMT. Give texts as --src {path} --reference FILE; the test sets of prepared data "
                "and of sacrebleu go by their names"
            )
        pairs = list(read_wmt_xml(stream, str(path), src_lang, tgt_lang))
    if not pairs:
        raise _empty(path)
    counts: dict[str, int] = {}
    for pair in pairs:
        for reference in pair.meta.get("references", "").split():
            counts[reference] = counts.get(reference, 0) + 1
    whole = [reference for reference, n in counts.items() if n == len(pairs)]
    texts = [[pair.meta[f"reference {reference}"] for pair in pairs] for reference in whole]
    notes = [
        f"{path}: reference {reference} has only {n} of {len(pairs)} segments and is left out"
        for reference, n in counts.items()
        if n < len(pairs)
    ]
    references = texts or [[pair.tgt for pair in pairs]]  # of names with blanks in them only the first is known
    src, domains = [pair.src for pair in pairs], _domains([pair.meta for pair in pairs])
    return TestSet(name_by_file(path), src, references, domains, notes)


def _domains(meta: Sequence[Mapping[str, str]]) -> list[str] | None:
    found = [each.get("domain") or each.get("collection") or "" for each in meta]
    return found if any(found) else None


def with_domains(test: TestSet, path: Path) -> TestSet:
    """The same test set with the domain of each line: what stands in that line of a file, up to a tab.

    Raises:
        DataError: the file has another number of lines.
    """
    side = read_side(path)
    if len(side.lines) != len(test):
        raise DataError(
            f"{path} has {len(side.lines)} lines but the test set {test.name} has {len(test)}: a domain for each "
            "line, please"
        )
    return replace(test, domains=[line.partition("\t")[0].strip() for line in side.lines])
