"""What a preparation is of: corpora, and how their vocabulary is come by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from data.corpora import Source, fingerprint


@dataclass(frozen=True)
class VocabularyOptions:
    """How vocabularies are learnt, see `Vocabulary.learn`; or the one that is given."""

    size: int
    type: Literal["bpe", "unigram"] = "bpe"
    joint: bool = True
    byte_fallback: bool = True
    character_coverage: float = 1.0
    normalization: str = "nmt_nfkc"
    sample_lines: int = 2_000_000  # at most so many lines of each side are read
    path: Path | None = None  # a sentencepiece model, or a directory of prepared data: used instead of learning one


@dataclass(frozen=True)
class TrainingCorpus:
    """A source to train on, the name it is counted and mixed under, and the tag before its source sentences."""

    source: Source
    name: str
    tag: str | None = None


@dataclass(frozen=True)
class Corpora:
    """What to prepare: all training and all validation corpora are joined, test sets keep their names."""

    src_lang: str
    tgt_lang: str
    train: Sequence[TrainingCorpus]
    valid: Sequence[Source]
    test: Mapping[str, Source]

    def __iter__(self) -> Iterator[Source]:
        return iter((*(corpus.source for corpus in self.train), *self.valid, *self.test.values()))

    @property
    def tags(self) -> list[str]:
        """All tags, each once."""
        return list(dict.fromkeys(corpus.tag for corpus in self.train if corpus.tag))

    def fingerprints(self) -> dict[str, Any]:
        """What tells whether a source has changed. Raises DataError when a file is missing."""
        return {
            "train": [{"name": corpus.name, "tag": corpus.tag, **fingerprint(corpus.source)} for corpus in self.train],
            "valid": [fingerprint(source) for source in self.valid],
            "test": {name: fingerprint(source) for name, source in self.test.items()},
        }


@dataclass(frozen=True)
class Shard:
    """The part of the work that one of several machines does: every `count`-th part, from `number` (from 0) on."""

    number: int
    count: int
