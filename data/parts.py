"""The unfinished state of a preparation, on disk: parts of some ten thousand pairs, each whole or not there.

    .NAME.work-HASH/    HASH is of sources and settings, so that what lies here fits exactly one preparation
        corpus-C.json   how many pairs and parts training corpus C has, once it has been read to its end
        text-C-P.npz    part P of corpus C: the pairs that passed the filters of text, their keys, and counts
        ids-C-P.npz     the same pairs without repetitions, as ids, and counts

A run that is killed leaves its parts, and the next one makes only those that are missing. Any number of processes, on
any number of machines that share the disk, can make parts at the same time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data.atomic import whole_file
from data.errors import DataError
from data.pairs import Texts
from data.statistics import Statistics

PAIRS_PER_PART = 20_000
_FORMAT = 1  # of parts; raise it with any change of what they hold or of what filters drop

Facts = dict[str, Any]


@dataclass(frozen=True)
class TextPart:
    """Pairs that passed the filters of text."""

    src: list[str]
    tgt: list[str]
    places: npt.NDArray[np.int64]  # of each pair in its source
    keys: npt.NDArray[np.uint64]  # (rules about duplicates, pairs)
    facts: Facts  # read, dropped, examples, …

    @property
    def texts(self) -> Texts:
        """The pairs without their keys."""
        return Texts(self.src, self.tgt)


@dataclass(frozen=True)
class IdsPart:
    """Kept pairs as ids, one sentence after the other."""

    src_ids: npt.NDArray[np.uint32]
    src_lengths: npt.NDArray[np.int32]
    tgt_ids: npt.NDArray[np.uint32]
    tgt_lengths: npt.NDArray[np.int32]
    statistics: Statistics
    facts: Facts  # dropped, examples


class WorkDirectory:
    """Where the parts lie; see the module."""

    def __init__(self, target: Path, plan: Facts) -> None:
        target = Path(os.path.realpath(target))
        digest = hashlib.sha256(json.dumps([_made_by(), plan], sort_keys=True).encode()).hexdigest()[:16]
        self.path = target.with_name(f".{target.name}.work-{digest}")
        self._others = f".{target.name}.work-*"

    @contextmanager
    def locked(self, *, shared: bool, wait: bool = False) -> Iterator[None]:
        """Hold the directory, alone or with others that make parts. The lock ends with the process, however it ends.

        Raises DataError when somebody else holds it and this is not to `wait`.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError as error:
                raise DataError(
                    f"{self.path}: another process is preparing the same data now; wait for it or end it"
                ) from error
            yield
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Delete the parts; only for who holds the directory."""
        shutil.rmtree(self.path, ignore_errors=True)

    def remove_leftovers(self) -> None:
        """Delete what preparations of the same name have left that were ended, if no process holds it."""
        for path in self.path.parent.glob(self._others):
            if _is_free(path):
                shutil.rmtree(path, ignore_errors=True)

    def end_of(self, corpus: int) -> Facts | None:
        """How many pairs and parts a corpus has, if it has been read to its end."""
        path = self.path / f"corpus-{corpus}.json"
        return dict(json.loads(path.read_bytes())) if path.exists() else None

    def save_end(self, corpus: int, facts: Facts) -> None:
        """Write what `end_of` reads."""
        path = self.path / f"corpus-{corpus}.json"
        own = path.with_name(f"{path.name}.{own_name()}")  # shards may come to the end of a corpus at the same time
        own.write_bytes(json.dumps(facts).encode())
        own.replace(path)

    def text_path(self, corpus: int, part: int) -> Path:
        """Where a `TextPart` belongs."""
        return self.path / f"text-{corpus}-{part}.npz"

    def ids_path(self, corpus: int, part: int) -> Path:
        """Where an `IdsPart` belongs."""
        return self.path / f"ids-{corpus}-{part}.npz"


def own_name() -> str:
    """What no other process calls itself, on this machine or another."""
    return f"{os.uname().nodename}-{os.getpid()}"


def _made_by() -> Facts:
    """What parts depend on besides corpora and settings: parts of another version are no parts of this preparation."""
    libraries = {name: version(name) for name in ("sentencepiece", "py3langid", "numpy")}
    return {"format": _FORMAT, "pairs_per_part": PAIRS_PER_PART, "unicode": unicodedata.unidata_version, **libraries}


def _is_free(path: Path) -> bool:
    """Whether no process holds this work directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def save_text_part(path: Path, part: TextPart) -> None:
    """Write a part, whole or not at all."""
    _save(path, part.facts, src=_pack(part.src), tgt=_pack(part.tgt), places=part.places, keys=part.keys)


def load_text_part(path: Path) -> TextPart:
    """Read what `save_text_part` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        facts = json.loads(arrays["facts"].tobytes())
        return TextPart(_unpack(arrays["src"]), _unpack(arrays["tgt"]), arrays["places"], arrays["keys"], facts)


def load_keys(path: Path) -> npt.NDArray[np.uint64]:
    """The keys of a part alone: (rules, pairs)."""
    with np.load(path, allow_pickle=False) as arrays:
        keys: npt.NDArray[np.uint64] = arrays["keys"]
        return keys


def load_facts(path: Path) -> Facts:
    """The counts of a part alone."""
    with np.load(path, allow_pickle=False) as arrays:
        return dict(json.loads(arrays["facts"].tobytes()))


def save_ids_part(path: Path, part: IdsPart) -> None:
    """Write a part, whole or not at all."""
    _save(
        path,
        part.facts,
        src_ids=part.src_ids,
        src_lengths=part.src_lengths,
        tgt_ids=part.tgt_ids,
        tgt_lengths=part.tgt_lengths,
        **{f"statistics.{name}": array for name, array in part.statistics.to_arrays().items()},
    )


def load_ids_part(path: Path) -> IdsPart:
    """Read what `save_ids_part` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        facts = json.loads(arrays["facts"].tobytes())
        prefix = "statistics."
        statistics = {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}
        return IdsPart(
            arrays["src_ids"],
            arrays["src_lengths"],
            arrays["tgt_ids"],
            arrays["tgt_lengths"],
            Statistics.from_arrays(statistics),
            facts,
        )


def _save(path: Path, facts: Facts, **arrays: npt.NDArray[Any]) -> None:
    with whole_file(path) as stream:
        np.savez(stream, allow_pickle=False, facts=_bytes(json.dumps(facts)), **arrays)


def _pack(lines: list[str]) -> npt.NDArray[np.uint8]:
    """Lines as bytes, each with its line end."""
    return _bytes("".join([f"{line}\n" for line in lines]))


def _unpack(array: npt.NDArray[np.uint8]) -> list[str]:
    return array.tobytes().decode().split("\n")[:-1]


def _bytes(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)
