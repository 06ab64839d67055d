"""Sentence pairs by number and seed, and the corpus files of the demo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from data.grammar.sentences import sentence
from data.grammar.speaker import Speaker
from data.grammar.words import NAMES
from data.lines import write_lines

MAX_WORDS = 20


def _pairs(seed: int) -> Iterator[tuple[str, str]]:
    """Endless pairs; no English and no German sentence comes twice."""
    speaker = Speaker(seed)
    german_of: dict[str, str] = {}
    seen: set[str] = set()
    while True:
        en, de = sentence(speaker)
        assert german_of.setdefault(en, de) == de, f"two translations of {en!r}: {german_of[en]!r} and {de!r}"
        too_long = max(en.count(" "), de.count(" ")) >= MAX_WORDS
        if de not in seen and not too_long and not _names_somebody_twice(en):
            seen.add(de)
            yield en, de


def _names_somebody_twice(en: str) -> bool:
    return any(en.count(name.en) > 1 for name in NAMES)


def generate_pairs(n: int, seed: int) -> list[tuple[str, str]]:
    """The first n sentence pairs (English, German) of a seed, all distinct in either language.

    The same in every Python version and on every platform, and a prefix of any longer list from the same seed.
    """
    pairs = _pairs(seed)
    return [next(pairs) for _ in range(n)]


def write_corpus(directory: Path, n_train: int, n_valid: int, n_test: int, seed: int) -> list[Path]:
    """Writes test, valid and train files (.en, .de), each whole or not at all, and returns their paths.

    No test or validation sentence occurs in training, in either language. Test and validation sets come first in the
    random sequence, so they do not change with the size of the training set.

    Raises:
        OSError: the directory cannot be made or written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    pairs = generate_pairs(n_test + n_valid + n_train, seed)
    parts = {
        "test": pairs[:n_test],
        "valid": pairs[n_test : n_test + n_valid],
        "train": pairs[n_test + n_valid :],
    }
    written = []
    for name, part in parts.items():
        for side, language in enumerate(("en", "de")):
            path = directory / f"{name}.{language}"
            write_lines(path, (pair[side] for pair in part))
            written.append(path)
    return written
