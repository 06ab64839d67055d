"""Word alignments made by people, read from the two forms in which they are published.

Pharaoh: line N of the file has the links of sentence N, SOURCE-TARGET where the link is sure, SOURCE?TARGET (some write
SOURCEpTARGET) where it is only possible. "0-0 1-2 1?3". Words are counted from 0, in some files from 1.

NAACL (Mihalcea & Pedersen 2003, "An Evaluation Exercise for Word Alignment"): a line for each link, "SENTENCE SOURCE
TARGET", from 1, then S (the default) or P, then perhaps a confidence, which is ignored. Word 0 is no word.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from data.errors import DataError
from data.lines import read_lines

SHOWN_PROBLEMS = 5

Link = tuple[int, int]  # source word, target word, from 0
Sizes = tuple[int, int]  # how many words source and target have

_PHARAOH = re.compile(r"([0-9]{1,9})([-?p])([0-9]{1,9})")
_NAACL = re.compile(r"([0-9]{1,9})\s+([0-9]{1,9})\s+([0-9]{1,9})(?:\s+([SP]))?(?:\s+[0-9.]+)?")


@dataclass(frozen=True)
class Gold:
    """The links of a sentence: all that are possible, and those of them that are sure."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def read_gold(path: Path, n_words: Sequence[Sizes], first_word: int = 0) -> list[Gold]:
    """The gold alignment of each sentence of a test set; which form the file has is seen from its first link.

    Args:
        n_words: of each sentence.
        first_word: the number of a sentence's first word in the Pharaoh form, 0 or 1.

    Raises:
        DataError: the file cannot be read; has more or fewer sentences; or has something that is no link between two
            words of its sentence: several of these at once, with line, value, rule and remedy.
    """
    lines = list(read_lines(path))
    problems: list[str] = []
    first = next((line.split()[0] for line in lines if line.strip()), "")
    if first.isdecimal():
        gold = _read_naacl(lines, path, n_words, problems)
    elif len(lines) != len(n_words):
        raise DataError(
            f"{path} has {len(lines):,} lines, the test set has {len(n_words):,}: line N of the alignments must be "
            "that of line N of the test set; a sentence without links has an empty line."
        )
    else:
        places = (f"{path}, line {number}" for number in range(1, len(lines) + 1))
        gold = [
            parse_gold(line, place, sizes, first_word, problems)
            for line, place, sizes in zip(lines, places, n_words, strict=True)
        ]
    if problems:
        more = len(problems) - SHOWN_PROBLEMS
        shown = problems[:SHOWN_PROBLEMS] + ([f"and {more:,} more like these"] if more > 0 else [])
        raise DataError("\n".join([*shown, _remedy(first.isdecimal(), first_word)]))
    return gold


def parse_gold(line: str, place: str, n_words: Sizes, first_word: int, problems: list[str]) -> Gold:
    """The links of a line in Pharaoh's form; what is wrong is added to `problems`, each beginning with `place`."""
    links: list[tuple[Link, bool]] = []
    for text in line.split():
        found = _PHARAOH.fullmatch(text)
        if not found:
            problems.append(
                f"{place}: {text[:40]!r} is no link. A link is SOURCE-TARGET where it is sure and SOURCE?TARGET where "
                "it is possible, two word numbers: 0-0 1?2"
            )
            continue
        link = int(found[1]) - first_word, int(found[3]) - first_word
        if problem := _find_problem(link, n_words, first_word):
            problems.append(f"{place}: {text}: {problem}")
        links.append((link, found[2] == "-"))
    return _gold(links)


def _read_naacl(lines: Iterable[str], path: Path, n_words: Sequence[Sizes], problems: list[str]) -> list[Gold]:
    links: dict[int, list[tuple[Link, bool]]] = defaultdict(list)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        found = _NAACL.fullmatch(line.strip())
        place = f"{path}, line {number}"
        if not found:
            problems.append(f"{place}: {line[:40]!r} is no link. A link is SENTENCE SOURCE TARGET S or P: 1 2 3 S")
            continue
        sentence = int(found[1]) - 1
        if not 0 <= sentence < len(n_words):
            problems.append(f"{place}: sentence {found[1]}: the test set has sentences 1 to {len(n_words)}.")
            continue
        of_sentence = links[sentence]
        link = int(found[2]) - 1, int(found[3]) - 1
        if -1 in link:
            continue  # linked to no word
        if problem := _find_problem(link, n_words[sentence], 1):
            problems.append(f"{place}: {line.strip()}: {problem}")
        of_sentence.append((link, found[4] != "P"))
    without = [str(sentence + 1) for sentence in range(len(n_words)) if sentence not in links]
    if without:
        shown = ", ".join(without[:SHOWN_PROBLEMS]) + (" …" if len(without) > SHOWN_PROBLEMS else "")
        problems.append(
            f"{path} has nothing on {len(without):,} of {len(n_words):,} sentences: {shown}. Leave them out of the "
            "test set, or give each a line: SENTENCE 0 0"
        )
    return [_gold(links[sentence]) for sentence in range(len(n_words))]


def _find_problem(link: Link, n_words: Sizes, first_word: int) -> str:
    """What is wrong with the first number that is no word's; empty if both are."""
    for side, word, n in zip(("source", "target"), link, n_words, strict=True):
        if not 0 <= word < n:
            numbers = f"'s words are {first_word} to {n - 1 + first_word}" if n else " has no words"
            return f"there is no {side} word {word + first_word}: this {side} sentence{numbers}"
    return ""


def _remedy(is_naacl: bool, first_word: int) -> str:
    rule = "Words are what white space parts; the source word stands before the target word"
    if is_naacl:
        return f"{rule}; sentences and words are counted from 1."
    other = 1 - first_word
    return (
        f"{rule}; words are counted from {first_word}. If this file counts them from {other}, give --gold-from {other}."
    )


def _gold(links: Iterable[tuple[Link, bool]]) -> Gold:
    links = list(links)
    return Gold(frozenset(link for link, is_sure in links if is_sure), frozenset(link for link, _ in links))
