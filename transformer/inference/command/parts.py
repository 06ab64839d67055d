"""A large translation in parts, each finished on disk or not there: it survives kills, and any number of processes, on
one machine or several that share the disk, make it together.

    OUTPUT.parts/
        manifest.json      what the parts are parts of: checksums of models and inputs, settings, number of lines
        part-00012.jsonl   the translations of lines 12 · n + 1 to 13 · n, one a line (see `translation_lines`)
        claims             empty; only its locks count, which the system takes from a process that ends, however it ends

Byte 1 + N of `claims` is locked by whoever makes part N. Byte 0 is locked by all who work here, together; and by one
alone while it writes the manifest, or makes the output out of the parts and removes them. No clocks, no heartbeats:
what a killed process had claimed is free at once, and whoever comes past takes it. The locks are POSIX's, which NFS
passes on to its server, and Lustre, too, if it is mounted with `flock`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from data.atomic import whole_file
from transformer.errors import RunError
from transformer.inference.command.translation_lines import read_translation_line, translation_line
from transformer.inference.translation import Translation

FORMAT = 1
"""Of the parts; raise it with any change of what they hold."""

Plan = dict[str, Any]
Line = TypeVar("Line")


class Claims:
    """The file of claims, open: which of its bytes this process has locked, and which it can."""

    def __init__(self, path: Path, together: bool) -> None:
        """Raises FileNotFoundError when the directory has just been removed."""
        self._path, self._together = path, together
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)

    def in_place(self) -> bool:
        """Whether it is still what has the name; False: another process has finished everything and removed it."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def enter(self) -> None:
        """Be one of those who work here. Waits for who is here alone."""
        self._lock(fcntl.LOCK_SH, 0)

    def leave(self) -> bool:
        """Be no longer one of those who work here. True: there is no other one, and until `enter` nobody can come."""
        # Let go before trying, or two that leave at the same time would each take the other for one who stays.
        self._lock(fcntl.LOCK_UN, 0)
        return self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, 0) and self.in_place()

    def take(self, part: int) -> bool:
        """Claim a part; False: another process has it."""
        return self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, 1 + part)

    def give_back(self, part: int) -> None:
        """End a claim."""
        self._lock(fcntl.LOCK_UN, 1 + part)

    def close(self) -> None:
        """Give back everything."""
        os.close(self._descriptor)

    def _lock(self, how: int, byte: int) -> bool:
        try:
            fcntl.lockf(self._descriptor, how, 1, byte)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):  # POSIX lets a system say either
                return False
            if self._together:
                raise RunError(
                    f"{self._path}: this disk cannot lock files ({error.strerror}), so several processes cannot share "
                    "the work: write to another disk, or use one process"
                ) from error
        return True


class Parts:
    """The parts of one translation, for a process that works on them; see the module."""

    def __init__(self, directory: Path, plan: Plan, claims: Claims) -> None:
        self.directory = directory
        self.n_lines: int = plan["lines"]
        self.lines_per_part: int = plan["lines_per_part"]
        self.n_parts = -(-self.n_lines // self.lines_per_part)
        self._claims = claims
        self.n_found = self.n_parts - len(self.missing())
        """How many were finished before."""

    def missing(self) -> list[int]:
        """The parts that are not finished, in order; none when all is over and removed."""
        there = {path.name for path in _finished(self.directory)}
        if not self._claims.in_place():  # asked after looking: it may be removed at any time, and is so at once
            return []
        return [number for number in range(self.n_parts) if self._path(number).name not in there]

    def n_finished_lines(self) -> int:
        """How many lines of the input are in finished parts."""
        return self.n_lines - sum(map(self._size, self.missing()))

    def make(
        self,
        lines: Callable[[], Iterable[Line]],
        translate: Callable[[int, list[Line]], Iterable[Translation]],
    ) -> bool:
        """Translate parts until there is none that is neither finished nor claimed by another process.

        `lines` gives all lines of the input, from the first, each time it is called. `translate` gets the number of the
        first line of a part, from 0, and its lines. Whatever it raises ends this; what is finished stays.

        Returns whether this process is the last one here, and all parts are finished: it must then `take_all`.
        """
        while True:
            while self._walk(lines(), translate):
                pass  # once more: who had claimed what was passed over may have died since
            if not self._claims.leave():
                return False
            if not self.missing():
                return True
            self._claims.enter()  # others died after this process passed what they had claimed

    def _walk(self, lines: Iterable[Line], translate: Callable[[int, list[Line]], Iterable[Translation]]) -> int:
        """Go through the input once, and make what nobody else makes; returns how many parts that were."""
        missing, n_made = self.missing(), 0
        for number, part in enumerate(_cut(lines, self.lines_per_part)):
            if not missing or number > missing[-1]:
                break
            if number in missing and self._claims.take(number):
                if not self._path(number).exists():
                    self._save(number, translate(number * self.lines_per_part, part))
                    n_made += 1
                self._claims.give_back(number)
        return n_made

    @contextmanager
    def take_all(self) -> Iterator[Iterator[Translation]]:
        """All translations, in order, for a process to which `make` said True; removed when the block ends well.

        Raises:
            RunError: a part is damaged.
        """
        yield self._translations()
        self._remove()

    def close(self) -> None:
        """Leave. Nothing stays on the disk if no part was finished and nobody else works here."""
        try:
            # Not where parts are finished: those who leave now must not be hindered at finding who is the last.
            if self.missing() and len(self.missing()) == self.n_parts and self._claims.leave():
                self._remove()
        finally:
            self._claims.close()

    def _translations(self) -> Iterator[Translation]:
        for number in range(self.n_parts):
            path, n_read = self._path(number), 0
            try:
                with path.open(encoding="utf-8", newline="\n") as file:
                    for line in file:
                        yield read_translation_line(line)
                        n_read += 1
            except ValueError as error:
                raise RunError(f"{path}, line {n_read + 1}: {error}; {_CHANGED}") from error
            if n_read != self._size(number):
                raise RunError(f"{path}: {n_read} lines instead of {self._size(number)}; {_CHANGED}")

    def _save(self, number: int, translations: Iterable[Translation]) -> None:
        own = self.directory / uuid.uuid4().hex
        with whole_file(own) as stream:
            for translation in translations:
                stream.write(f"{translation_line(translation)}\n".encode())
        own.replace(self._path(number))

    def _remove(self) -> None:
        """Remove the directory: at once for who looks for it, then what is in it."""
        _sweep(self.directory)
        self.directory.rename(_doomed(self.directory))
        _sweep(self.directory)

    def _path(self, number: int) -> Path:
        return self.directory / f"part-{number:05}.jsonl"

    def _size(self, number: int) -> int:
        return min(self.lines_per_part, self.n_lines - number * self.lines_per_part)


_CHANGED = "the part was changed after it was written. Remove that file: the same command makes it again"


@contextmanager
def open_parts(output: Path, plan: Plan, together: bool = False) -> Iterator[Parts]:
    """The parts of what is to become `output`.

    `plan` says of what: `lines`, `lines_per_part`, all that the translations depend on. `together` says that several
    processes have been started for it, and that the disk must therefore be able to lock.

    Raises:
        RunError: parts are there of another plan; or the disk cannot lock.
        OSError: the directory cannot be made or written.
    """
    output = Path(os.path.realpath(output))  # a link to another disk stays a link
    directory = output.with_name(f"{output.name}.parts")
    plan = json.loads(json.dumps({"format": FORMAT, **plan}))
    claims = _enter(directory, plan, together)
    parts = Parts(directory, plan, claims)
    try:
        yield parts
    finally:
        parts.close()


def _doomed(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.partial")


def _sweep(directory: Path) -> None:
    """Delete what was removed, also by a process that was killed before it came to that."""
    shutil.rmtree(_doomed(directory), ignore_errors=True)


def _enter(directory: Path, plan: Plan, together: bool) -> Claims:
    """Be one of those who work in the directory, with a manifest there of this plan."""
    _sweep(directory)
    while True:
        directory.mkdir(exist_ok=True)
        try:
            claims = Claims(directory / "claims", together)
        except FileNotFoundError:
            continue  # removed since the line before
        try:
            claims.enter()
            if claims.in_place():
                there = _read_manifest(directory)
                if there == plan:
                    return claims
                if not _finished(directory) and claims.leave() and not _finished(directory):
                    _write_manifest(directory, plan)
                elif there is not None:
                    raise RunError(_refusal(directory, there, plan))
        except BaseException:
            claims.close()
            raise
        claims.close()  # and once more, as one of many


def _read_manifest(directory: Path) -> Plan | None:
    path = directory / "manifest.json"
    try:
        return dict(json.loads(path.read_bytes()))
    except FileNotFoundError:
        if _finished(directory):
            raise RunError(f"{directory}: holds parts, but no manifest.json that says of what: remove it") from None
        return None
    except ValueError as error:
        raise RunError(f"{path}: damaged ({error}): remove {directory} to begin anew") from error


def _write_manifest(directory: Path, plan: Plan) -> None:
    with whole_file(directory / "manifest.json") as stream:
        stream.write(json.dumps(plan, indent=2, ensure_ascii=False).encode() + b"\n")


def _finished(directory: Path) -> list[Path]:
    """The parts that are there; none if the directory is not."""
    with suppress(FileNotFoundError):
        return sorted(directory.glob("part-*.jsonl"))
    return []


def _refusal(directory: Path, there: Plan, wanted: Plan) -> str:
    return "\n".join(
        [
            f"{directory} has {len(_finished(directory))} finished parts of another translation, which differs in",
            *(f"    {difference}" for difference in differences(there, wanted)),
            "Give the command that began it, to go on with it; or another --output; or lose what is finished: "
            f"rm -r {directory}",
        ]
    )


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """What two plans do not share, one line each: checksums by name, settings by name and value."""
    flat, other = dict(_flattened(first)), dict(_flattened(second))
    return [
        f"{key}: another one, or changed" if _is_checksum(values) else f"{key}: {values[0]} → {values[1]}"
        for key in {**flat, **other}
        if len(set(values := (_shown(flat.get(key)), _shown(other.get(key))))) > 1
    ]


def _flattened(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flattened(inner, f"{key}.{name}" if key else str(name))
    else:
        yield key, value


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_checksum(values: Sequence[str]) -> bool:
    return all(len(value) == 66 for value in values)  # sha256 in hexadecimal, in quotes


def _cut(lines: Iterable[Line], size: int) -> Iterator[list[Line]]:
    lines = iter(lines)
    while part := list(islice(lines, size)):
        yield part
