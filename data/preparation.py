"""From corpora to `prepared/NAME`: read, filter, learn the vocabulary, encode.

Sources are read once. Training pairs that pass the text filters wait in two uncompressed files beside the result, from
which the vocabulary is learnt and the ids are made: disk space for the text, but only a few pairs in memory at a time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tqdm import tqdm

from data.atomic import whole_directory
from data.corpora import FileSource, Source, find_problems, fingerprint, read_pairs, size_of
from data.errors import DataError
from data.filters import REASONS, Counts, Filters, TextFilter, judge_lengths
from data.lines import read_written_lines
from data.prepared import (
    MANIFEST,
    IdWriter,
    ParallelText,
    read_manifest,
    save_manifest,
    save_text,
    save_vocabularies,
)
from data.vocabulary import Vocabulary

_PAIRS_AT_A_TIME = 10_000


@dataclass(frozen=True)
class VocabularyOptions:
    """How vocabularies are learnt; see `Vocabulary.learn`."""

    size: int
    type: Literal["bpe", "unigram"] = "bpe"
    joint: bool = True
    byte_fallback: bool = True
    character_coverage: float = 1.0
    normalization: str = "nmt_nfkc"
    sample_lines: int = 2_000_000  # at most so many lines of each side are read


@dataclass(frozen=True)
class Corpora:
    """What to prepare: all training and all validation corpora are joined, test sets keep their names."""

    src_lang: str
    tgt_lang: str
    train: Sequence[Source]
    valid: Sequence[Source]
    test: Mapping[str, Source]

    def __iter__(self) -> Iterator[Source]:
        return iter((*self.train, *self.valid, *self.test.values()))

    def fingerprints(self) -> dict[str, Any]:
        """What tells whether a source has changed. Raises DataError when a file is missing."""
        return {
            "train": [fingerprint(source) for source in self.train],
            "valid": [fingerprint(source) for source in self.valid],
            "test": {name: fingerprint(source) for name, source in self.test.items()},
        }


@dataclass(frozen=True)
class Preparation:
    """The manifest of `directory`, and whether there was nothing to do."""

    directory: Path
    manifest: dict[str, Any]
    unchanged: bool


def prepare(
    directory: Path,
    corpora: Corpora,
    filters: Filters,
    vocabulary: VocabularyOptions,
    workers: int | None = None,
) -> Preparation:
    """Make `directory` from the corpora, or find that it was made from the same corpora with the same settings.

    The result does not depend on `workers`, a number of threads (None: one per processor). The directory appears in
    one step at the end; until then an older one stays as it is.

    Raises DataError for whatever is wrong with corpora, settings or disk; several missing files are one message.
    """
    settings = {"filters": asdict(filters), "vocabulary": asdict(vocabulary)}
    if manifest := _find_unchanged(directory, corpora, settings):
        return Preparation(directory, manifest, unchanged=True)
    if problems := [*_problems_of(corpora), *_problems_at(directory)]:
        raise DataError("\n".join(dict.fromkeys(problems)))
    try:
        with whole_directory(directory) as unfinished:
            sources = corpora.fingerprints()  # before they are read: a change meanwhile is noticed by the next run
            facts = _fill(unfinished, corpora, filters, vocabulary, workers or os.cpu_count() or 1)
            languages = {"src_lang": corpora.src_lang, "tgt_lang": corpora.tgt_lang}
            save_manifest(unfinished, {**languages, **facts, "settings": settings, "sources": sources})
    except OSError as error:
        reason = f"{error.filename or directory}: {error.strerror or error}"
        raise DataError(f"{reason}. {directory} is as it was before; mend this and run again") from error
    return Preparation(directory, read_manifest(directory), unchanged=False)


def _find_unchanged(directory: Path, corpora: Corpora, settings: dict[str, Any]) -> dict[str, Any] | None:
    try:
        manifest = read_manifest(directory)
        made_of = (manifest["src_lang"], manifest["tgt_lang"], manifest["sources"], manifest["settings"])
        same = made_of == (corpora.src_lang, corpora.tgt_lang, corpora.fingerprints(), settings)
    except (DataError, KeyError):  # missing or damaged: made anew; a missing source: reported with all the others
        return None
    return manifest if same else None


def _problems_of(corpora: Corpora) -> Iterator[str]:
    for name, sources in (("train", corpora.train), ("valid", corpora.valid)):
        if not sources:
            yield f"data.{name} lists no corpora: give some, such as 'data.{name}=[{{src: a.en, tgt: a.de}}]'"
    unreadable = [problem for source in corpora for problem in find_problems(source)]
    yield from unreadable
    if any(isinstance(source, FileSource) for source in corpora) and unreadable:
        yield "(paths in a config are relative to its own folder, paths on the command line to the current one)"


def _problems_at(directory: Path) -> Iterator[str]:
    empty = directory.is_dir() and not any(directory.iterdir())
    if directory.exists() and not empty and not (directory / MANIFEST).exists():
        yield f"{directory} is there already, but preprocess.py did not make it: move it away, or change name"


def _fill(
    directory: Path, corpora: Corpora, filters: Filters, options: VocabularyOptions, workers: int
) -> dict[str, Any]:
    """Write everything but the manifest, for which it returns the facts."""
    valid_text = _read_all(corpora.valid, "validation")
    test_text = {name: _read_all([source], f"test set {name}") for name, source in corpora.test.items()}
    kept = _KeptText(directory)
    held_out = {line for text in (valid_text, *test_text.values()) for line in text[0]}
    counts, leaked = _filter_text(corpora.train, filters, kept, held_out)
    vocabularies = _learn_vocabularies(kept, options)
    train_tokens = _encode_train(directory, kept, counts, vocabularies, filters, workers)
    valid_tokens = _encode_valid(directory, valid_text, vocabularies, workers)
    kept.remove()
    save_vocabularies(directory, *vocabularies)
    save_text(directory, valid_text)
    for name, text in test_text.items():
        save_text(directory, text, test=name)
    src, tgt = vocabularies
    return {
        "counts": {
            "train": [
                {"source": str(source), "read": count.read, "kept": count.kept, "dropped": count.dropped}
                for source, count in zip(corpora.train, counts, strict=True)
            ],
            "valid": len(valid_text[0]),
            "test": {name: len(text[0]) for name, text in test_text.items()},
        },
        "also_in_train": {
            "valid": sum(line in leaked for line in valid_text[0]),
            "test": {name: sum(line in leaked for line in text[0]) for name, text in test_text.items()},
        },
        "tokens": {"train": train_tokens, "valid": valid_tokens},
        "vocabulary_size": {"src": len(src), "tgt": len(tgt)},
        "vocabulary_hash": {"src": src.hash, "tgt": tgt.hash},
    }


class _KeptText:
    """The training pairs that passed the text filters, on disk."""

    def __init__(self, directory: Path) -> None:
        self.paths = (directory / "kept.src", directory / "kept.tgt")
        self.n_pairs = 0

    def write(self, pairs: Iterator[tuple[str, str]]) -> None:
        with self.paths[0].open("wb") as src_file, self.paths[1].open("wb") as tgt_file:
            for src, tgt in pairs:
                src_file.write(f"{src}\n".encode())
                tgt_file.write(f"{tgt}\n".encode())
                self.n_pairs += 1

    def read(self) -> Iterator[tuple[str, str]]:
        return zip(*map(read_written_lines, self.paths), strict=True)

    def remove(self) -> None:
        for path in self.paths:
            path.unlink()


class _EvenLines:
    """At most `n_wanted` of the `n_lines` lines of each file, evenly spread; read anew by each iteration."""

    def __init__(self, paths: Sequence[Path], n_lines: int, n_wanted: int) -> None:
        self.paths, self.n_lines, self.n_wanted = paths, n_lines, min(n_wanted, n_lines)

    def __iter__(self) -> Iterator[str]:
        for path in self.paths:
            for i, line in enumerate(read_written_lines(path)):
                # i · wanted / lines passes a whole number exactly `wanted` times.
                if i * self.n_wanted // self.n_lines != (i + 1) * self.n_wanted // self.n_lines:
                    yield line


def _read(source: Source, what: str) -> Iterator[tuple[str, str]]:
    total, unit = size_of(source)
    n_pairs = 0
    with tqdm(total=total, unit=unit, unit_scale=True, desc=f"reading {what}", disable=None) as bar:
        for pair in read_pairs(source, bar.update):
            n_pairs += 1
            yield pair
    if not n_pairs:
        raise DataError(f"{source}: empty, not one line. Take it out of the config, or mend it")


def _read_all(sources: Sequence[Source], what: str) -> ParallelText:
    pairs = [pair for source in sources for pair in _read(source, what)]
    return [src for src, _ in pairs], [tgt for _, tgt in pairs]


def _filter_text(
    sources: Sequence[Source], filters: Filters, kept: _KeptText, held_out: set[str]
) -> tuple[list[Counts], set[str]]:
    """First pass: read the training corpora and write what passes.

    Return the counts per corpus, and which of the held-out source sentences occur.
    """
    counts = [Counts() for _ in sources]
    text_filter = TextFilter(filters)
    leaked = set()

    def passing() -> Iterator[tuple[str, str]]:
        for number, (source, count) in enumerate(zip(sources, counts, strict=True), 1):
            for src, tgt in _read(source, f"training corpus {number} of {len(sources)}"):
                count.read += 1
                if reason := text_filter.judge(src, tgt):
                    count.dropped[reason] += 1
                    continue
                if src in held_out:
                    leaked.add(src)
                yield src, tgt

    kept.write(passing())
    _refuse_nothing(counts, filters)
    return counts, leaked


def _refuse_nothing(counts: Sequence[Counts], filters: Filters) -> None:
    total = sum(counts, Counts())
    if total.kept:
        return
    raise DataError(
        f"0 of {total.read} pairs are left to train on: {total.dropped['empty']} empty, "
        f"{total.dropped['duplicate']} duplicate, {total.dropped['too_long']} too long (data.max_length "
        f"{filters.max_length} pieces), {total.dropped['length_ratio']} too unequal (data.max_length_ratio "
        f"{filters.max_length_ratio:g}). Raise these limits, or give other text"
    )


def _learn_vocabularies(kept: _KeptText, options: VocabularyOptions) -> tuple[Vocabulary, Vocabulary]:
    def learn(which: str, *paths: Path) -> Vocabulary:
        lines = _EvenLines(paths, kept.n_pairs, options.sample_lines)
        n_lines = lines.n_wanted * len(paths)
        print(f"learning {options.size:,} pieces of {which} vocabulary from {n_lines:,} lines …", file=sys.stderr)
        try:
            return Vocabulary.learn(
                lines,
                size=options.size,
                type=options.type,
                byte_fallback=options.byte_fallback,
                character_coverage=options.character_coverage,
                normalization=options.normalization,
            )
        except DataError as error:
            raise DataError(f"{which} vocabulary: {error}") from error

    if options.joint:
        vocabulary = learn("joint", *kept.paths)
        return vocabulary, vocabulary
    return learn("source", kept.paths[0]), learn("target", kept.paths[1])


def _encode_train(
    directory: Path,
    kept: _KeptText,
    counts: Sequence[Counts],
    vocabularies: tuple[Vocabulary, Vocabulary],
    filters: Filters,
    workers: int,
) -> dict[str, int]:
    """Second pass: encode the kept text and write the pairs of right length. Return the tokens of each side."""
    pairs = kept.read()
    src_vocabulary, tgt_vocabulary = vocabularies
    with (
        IdWriter(directory, "train.src", len(src_vocabulary)) as src_writer,
        IdWriter(directory, "train.tgt", len(tgt_vocabulary)) as tgt_writer,
        tqdm(total=kept.n_pairs, unit="pairs", unit_scale=True, desc="encoding", disable=None) as bar,
    ):
        for count in counts:
            of_corpus = islice(pairs, count.kept)
            while chunk := list(islice(of_corpus, _PAIRS_AT_A_TIME)):
                src_ids = src_vocabulary.encode([src for src, _ in chunk], workers)
                tgt_ids = tgt_vocabulary.encode([tgt for _, tgt in chunk], workers)
                verdicts = judge_lengths(_lengths(src_ids), _lengths(tgt_ids), filters)
                for index, reason in enumerate(REASONS):
                    count.dropped[reason] += int((verdicts == index).sum())
                src_writer.append(list(compress(src_ids, verdicts < 0)))
                tgt_writer.append(list(compress(tgt_ids, verdicts < 0)))
                bar.update(len(chunk))
    _refuse_nothing(counts, filters)
    return {"src": src_writer.n_tokens, "tgt": tgt_writer.n_tokens}


def _encode_valid(
    directory: Path, text: ParallelText, vocabularies: tuple[Vocabulary, Vocabulary], workers: int
) -> dict[str, int]:
    tokens = {}
    for side, lines, vocabulary in zip(("src", "tgt"), text, vocabularies, strict=True):
        with IdWriter(directory, f"valid.{side}", len(vocabulary)) as writer:
            writer.append(vocabulary.encode(lines, workers))
        tokens[side] = writer.n_tokens
    return tokens


def _lengths(sentences: Sequence[Sequence[int]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.fromiter(map(len, sentences), np.int64, len(sentences))
