"""Terms and their translations, found in running text: what a glossary asks of each line.

A term is found where it stands as whole words: no letter, digit or mark may touch it, but for letters of scripts that
write no spaces between words (see `word_bounds`). White space of any kind and length counts as one space, and
compatibility forms as what they stand for (NFKC), as for the usual vocabularies.

Capitals. A term matches as it is written. One without capitals also matches where the text has some: sentences,
headings and shouting capitalise any word. One with capitals is a name or an abbreviation, and has to have them: US is
not us. So `polish` would be found in "Polish food"; an entry `Polish` beside it takes precedence there.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from data.errors import DataError
from data.lines import read_lines
from transformer.inference.word_bounds import SIGN, SPACED, words

_MOST_PROBLEMS = 10  # in one message


class Term(NamedTuple):
    """An entry of a glossary, and the line it stands in (0: in none)."""

    src: str
    tgt: str
    line: int = 0


class Glossary:
    """Looks for all its terms at once: the time for a line does not depend on how many there are.

    `_beginnings` has, without capitals, every beginning of every term that ends with a word, and with it the terms that
    end there: {"new": {}, "new york": {"New York": Term(…)}}. A term without capitals is there as `_fold` gives it.
    """

    def __init__(self, terms: Mapping[str, str], name: str = "the glossary") -> None:
        """Source terms → target terms. Raises DataError when two are the same but for white space, and contradict."""
        self.name = name
        self._beginnings: dict[str, dict[str, Term]] = {}
        for src, tgt in terms.items():
            if problem := self._add(Term(src, tgt)):
                raise DataError(f"{name}: {problem}")

    @classmethod
    def load(cls, path: Path) -> Glossary:
        """Read a text file, a term a line: source term, tab, target term.

        Blank lines are passed over, and so are comments: lines that begin with # and have no tab. The same entry twice
        is one.

        Raises:
            DataError: cannot be read; a line has no tab or two, or a side is blank; a source term has two different
                translations. Up to ten problems, each with its line.
        """
        glossary = cls({}, str(path))
        problems = []
        for number, line in enumerate(read_lines(path), 1):
            if not line.strip() or (line.startswith("#") and "\t" not in line):
                continue
            fields = [field.strip() for field in line.split("\t")]
            problem = _explain_fields(fields) or glossary._add(Term(fields[0], fields[1], number))
            if problem:
                problems.append(f"{path}, line {number}: {problem}")
        if problems:
            more = len(problems) - _MOST_PROBLEMS
            raise DataError("\n".join(problems[:_MOST_PROBLEMS] + [f"… and {more} more"] * (more > 0)))
        return glossary

    def __len__(self) -> int:
        return sum(map(len, self._beginnings.values()))

    def __iter__(self) -> Iterator[Term]:
        return (term for terms in self._beginnings.values() for term in terms.values())

    def find(self, text: str) -> list[Term]:
        """The terms in a text from left to right, at each place the longest, none inside or across another."""
        text = _normalise(text)
        folded = _fold(text)
        parts = [*words(text), (len(text), len(text), SIGN)]
        found = []
        free = 0  # where the last term found ends
        for first, (begin, _, _) in enumerate(parts):
            if begin < free:
                continue
            longest = None
            for last in range(first, len(parts) - 1):
                end = parts[last][1]
                terms = self._beginnings.get(folded[begin:end])
                if terms is None:
                    break
                term = terms.get(text[begin:end]) or terms.get(folded[begin:end])
                if term and _stands_alone(parts, first, last):
                    longest, free = term, end
            if longest:
                found.append(longest)
        return found

    def _add(self, term: Term) -> str:
        """Take a term in; returns why that is not possible, or nothing."""
        src = _normalise(term.src)
        assert src, "a term without a word is found nowhere, or everywhere"
        folded = _fold(src)
        for _, end, _ in words(src):
            terms = self._beginnings.setdefault(folded[:end], {})
        known = terms.setdefault(folded if src == src.lower() else src, term)
        if known.tgt == term.tgt:
            return ""
        elsewhere = f"in line {known.line}" if known.line else "before"
        return f"{term.src!r} is {term.tgt!r} here and {known.tgt!r} {elsewhere}. Remove one of them"


def _stands_alone(parts: list[tuple[int, int, int]], first: int, last: int) -> bool:
    """Whether no letter touches a sign at either end of parts[first..last]; words end where their letters do."""
    begin, _, first_kind = parts[first]
    _, end, last_kind = parts[last]
    _, end_before, kind_before = parts[first - 1] if first else (0, -1, SIGN)
    begin_after, _, kind_after = parts[last + 1]
    touched_before = first_kind == SIGN and kind_before == SPACED and end_before == begin
    touched_after = last_kind == SIGN and kind_after == SPACED and begin_after == end
    return not touched_before and not touched_after


def _explain_fields(fields: list[str]) -> str:
    """What is wrong with a line of a glossary, or nothing."""
    if len(fields) != 2:
        return f"{len(fields)} fields, not 2. A line is: source term, tab, target term; for a comment, # and no tab"
    if not all(fields):
        side = "target" if fields[0] else "source"
        return f"the {side} term is blank. A line is: source term, tab, target term"
    return ""


def _normalise(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def _fold(text: str) -> str:
    """A text without capitals, of the same length: İ, which alone would become two characters, stays.

    Of the two small sigmas, which one a capital becomes depends on what follows it; here it is always the same one.
    """
    folded = text if text.islower() else text.lower()
    if len(folded) != len(text):
        folded = "".join(low if len(low) == 1 else character for character in text for low in [character.lower()])
    return folded.replace("ς", "σ")
