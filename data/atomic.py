"""Files and directories that are either whole or not there, whenever the program is stopped."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from data.errors import DataError


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write beside `path`; it takes the name when the block ends well, and vanishes otherwise.

    Where a device or a pipe has that name, such as /dev/null, it is written to directly.

    Raises OSError (disk full, not writable) with the name of `path`; what it held before is then still there.
    """
    path = Path(os.path.realpath(path))  # a link to a file stays a link
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())  # else a power cut after the rename could leave the name on an empty file
        partial.replace(path)
    except OSError as error:
        if error.filename == str(partial):
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_directory(directory: Path) -> Iterator[Path]:
    """An empty directory to fill with files; it takes the name `directory`, in place of an older one, at the end.

    The older one stays valid until then; what killed runs left behind is removed.

    Raises DataError when another process is writing the same directory, OSError as `whole_file`.
    """
    directory = Path(os.path.realpath(directory))  # a link to another disk stays a link
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial, old = (directory.with_name(f".{directory.name}.{state}") for state in ("partial", "old"))
    partial.mkdir(exist_ok=True)
    with _locked(partial):
        try:
            if old.exists() and not directory.exists():
                old.rename(directory)  # a run was killed between the two renames below
            for leftover in partial.iterdir():
                leftover.unlink()
            yield partial
            for path in [*partial.iterdir(), partial]:
                _flush(path)
            if directory.exists():
                directory.rename(old)
            partial.rename(directory)
            _flush(directory.parent)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            if old.exists() and not directory.exists():
                old.rename(directory)  # stopped between the two renames above
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold a lock that ends with the process, however the process ends."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataError(
                f"{directory}: another process is writing here now; wait for it or end it", about_text=False
            ) from error
        yield
    finally:
        os.close(descriptor)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
