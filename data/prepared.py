"""The format of `prepared/NAME`: what preprocess.py leaves for training, validation and evaluation.

    manifest.json              format, sources, settings, counts per corpus, vocabulary hashes, size of every file
    vocabulary.model           sentencepiece; or src.model and tgt.model when the languages have one each
    train.src.ids.npy          all sentences one after the other, uint16 up to 65,535 pieces, else uint32; no specials
    train.src.offsets.npy      int64; sentence i is ids[offsets[i] : offsets[i + 1]]
    train.tgt.*  valid.*       likewise; valid is encoded unfiltered, and may hold empty sentences
    valid.src.txt  test.X.src.txt …    text as it was read, one sentence per line, never filtered

Everything is read through memory maps, whatever its size; nothing is a pickle.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from data.errors import DataError
from data.lines import read_written_lines, write_lines
from data.vocabulary import Vocabulary

FORMAT = 2
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class IdSequences:
    """Sentences of one language as ids, without special ones."""

    ids: npt.NDArray[np.integer[Any]]  # (all tokens,) uint16 or uint32
    offsets: npt.NDArray[np.int64]  # (sentences + 1,)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, sentence: int) -> npt.NDArray[np.integer[Any]]:
        return self.ids[self.offsets[sentence] : self.offsets[sentence + 1]]

    @cached_property
    def lengths(self) -> npt.NDArray[np.int32]:
        """Pieces of each sentence."""
        return np.diff(self.offsets).astype(np.int32)


@dataclass(frozen=True)
class ParallelIds:
    """Sentence pairs as ids: sentence i of `tgt` translates sentence i of `src`."""

    src: IdSequences
    tgt: IdSequences

    def __len__(self) -> int:
        return len(self.src)

    @property
    def src_lengths(self) -> npt.NDArray[np.int32]:
        """Pieces of each source sentence."""
        return self.src.lengths

    @property
    def tgt_lengths(self) -> npt.NDArray[np.int32]:
        """Pieces of each target sentence."""
        return self.tgt.lengths


ParallelText = tuple[list[str], list[str]]


@dataclass(frozen=True)
class Prepared:
    """Everything in `prepared/NAME`."""

    train: ParallelIds
    valid: ParallelIds
    valid_text: ParallelText
    test_text: dict[str, ParallelText]
    src_vocabulary: Vocabulary
    tgt_vocabulary: Vocabulary  # the very same object when the vocabulary is joint
    manifest: dict[str, Any]
    directory: Path


def load_prepared(directory: Path) -> Prepared:
    """Open what preprocess.py made; ids stay on disk until they are used.

    Raises DataError when it is missing, of a newer format, or damaged.
    """
    manifest = read_manifest(directory)
    src_vocabulary, tgt_vocabulary = load_vocabularies(directory)
    if {"src": src_vocabulary.hash, "tgt": tgt_vocabulary.hash} != manifest["vocabulary_hash"]:
        raise DataError(f"{directory}: the vocabulary is not the one these ids were made with; run preprocess.py again")
    return Prepared(
        train=_load_ids(directory, "train"),
        valid=_load_ids(directory, "valid"),
        valid_text=load_text(directory),
        test_text={name: load_text(directory, name) for name in manifest["counts"]["test"]},
        src_vocabulary=src_vocabulary,
        tgt_vocabulary=tgt_vocabulary,
        manifest=manifest,
        directory=directory,
    )


def load_vocabularies(directory: Path) -> tuple[Vocabulary, Vocabulary]:
    """The source and target vocabulary of a directory; the very same object when it is joint. Raises DataError."""
    joint = (directory / "vocabulary.model").exists()
    src = Vocabulary.load(directory / ("vocabulary.model" if joint else "src.model"))
    return src, src if joint else Vocabulary.load(directory / "tgt.model")


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest, after a look whether everything it lists is there in full length.

    Raises DataError when it is missing, of a newer format, or damaged.
    """
    path = directory / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        if manifest["format"] > FORMAT:
            raise DataError(
                f"{directory}: prepared data of format {manifest['format']}, but this version reads up to {FORMAT}; "
                "update the program, or run preprocess.py again with this one"
            )
        if manifest["format"] < FORMAT:
            raise DataError(f"{directory}: prepared by an older version of this program; run preprocess.py again")
        sizes: dict[str, int] = dict(manifest["files"])
    except FileNotFoundError as error:
        raise DataError(f"{directory}: no prepared data here; run preprocess.py with the same config first") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: damaged; run preprocess.py again") from error
    for name, size in sizes.items():
        found = (directory / name).stat().st_size if (directory / name).exists() else 0
        if found != size:
            raise DataError(f"{directory / name}: has {found} bytes instead of {size}; run preprocess.py again")
    return dict(manifest)


def save_manifest(directory: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest of a directory that is otherwise complete, adding format and the size of every file."""
    sizes = {path.name: path.stat().st_size for path in sorted(directory.iterdir())}
    text = json.dumps({"format": FORMAT, **manifest, "files": sizes}, indent=2, ensure_ascii=False)
    (directory / MANIFEST).write_text(text + "\n", encoding="utf-8")


def save_vocabularies(directory: Path, src: Vocabulary, tgt: Vocabulary) -> None:
    """Write one model file, or two when the vocabularies are not the same object."""
    if src is tgt:
        src.save(directory / "vocabulary.model")
    else:
        src.save(directory / "src.model")
        tgt.save(directory / "tgt.model")


def save_text(directory: Path, text: ParallelText, test: str | None = None) -> None:
    """Write the sentences of the validation set or of the test set of that name."""
    for path, lines in zip(_text_paths(directory, test), text, strict=True):
        write_lines(path, lines)


def load_text(directory: Path, test: str | None = None) -> ParallelText:
    """The sentences that `save_text` wrote. Raises OSError."""
    src, tgt = (list(read_written_lines(path)) for path in _text_paths(directory, test))
    return src, tgt


def _text_paths(directory: Path, test: str | None) -> list[Path]:
    prefix = "valid" if test is None else f"test.{quote(test, safe=' ')}"
    return [directory / f"{prefix}.{side}.txt" for side in ("src", "tgt")]


class IdWriter:
    """Appends sentences to `PREFIX.ids.npy` and `PREFIX.offsets.npy`, holding none of them in memory."""

    def __init__(self, directory: Path, prefix: str, vocab_size: int) -> None:
        self._ids = _NpyWriter(directory / f"{prefix}.ids.npy", np.uint16 if vocab_size <= 65_535 else np.uint32)
        self._offsets = _NpyWriter(directory / f"{prefix}.offsets.npy", np.int64)
        self._offsets.append(np.zeros(1, np.int64))
        self.n_tokens = 0

    def append(self, sentences: Sequence[Sequence[int]]) -> None:
        """Add these sentences behind those already there."""
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        self.append_flat(np.fromiter(chain.from_iterable(sentences), self._ids.dtype), lengths)

    def append_flat(self, ids: npt.NDArray[np.integer[Any]], lengths: npt.NDArray[np.integer[Any]]) -> None:
        """Add sentences that lie one after the other already."""
        self._ids.append(ids)
        self._offsets.append(self.n_tokens + np.cumsum(lengths, dtype=np.int64))
        self.n_tokens += len(ids)

    def __enter__(self) -> IdWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ids.close()
        self._offsets.close()


class _NpyWriter:
    """A one-dimensional .npy file that grows; the header leaves room for the length, which `close` fills in."""

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self._length = 0
        self._stream = path.open("wb")
        self._write_header()
        self._header_bytes = self._stream.tell()

    def _write_header(self) -> None:
        # numpy pads this header so that the first axis can grow to any length in place.
        header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._stream, header)

    def append(self, values: npt.NDArray[Any]) -> None:
        self._stream.write(values.astype(self.dtype, copy=False).data)
        self._length += len(values)

    def close(self) -> None:
        with self._stream:
            self._stream.seek(0)
            self._write_header()
            assert self._stream.tell() == self._header_bytes, "numpy no longer pads headers for growth"


def _load_ids(directory: Path, prefix: str) -> ParallelIds:
    try:
        src, tgt = (
            IdSequences(*(np.load(directory / f"{prefix}.{side}.{part}.npy", "r") for part in ("ids", "offsets")))
            for side in ("src", "tgt")
        )
        whole = all(int(side.offsets[-1]) == len(side.ids) for side in (src, tgt)) and len(src) == len(tgt)
    except (OSError, ValueError, IndexError) as error:
        raise DataError(f"{directory}: the ids of {prefix} are damaged; run preprocess.py again") from error
    if not whole:
        raise DataError(f"{directory}: the ids and offsets of {prefix} disagree; run preprocess.py again")
    return ParallelIds(src, tgt)
