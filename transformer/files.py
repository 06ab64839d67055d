"""Checksums, links and leftovers; `data.atomic` writes the files and directories themselves."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from transformer.errors import RunError


def sha256_of(path: Path) -> str:
    """The checksum of a file, in hexadecimal.

    Raises:
        RunError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); the directory is incomplete") from error


def point_to(link: Path, target: str) -> None:
    """Make `link` a symbolic link to `target`, in one step also where it pointed elsewhere before."""
    partial = link.with_name(f".{link.name}.partial")
    partial.unlink(missing_ok=True)
    partial.symlink_to(target)
    partial.replace(link)


def remove_directory(path: Path) -> None:
    """Remove a directory so that it is whole, or gone under its name, whenever the program is stopped."""
    doomed = path.with_name(f".{path.name}.partial")
    path.rename(doomed)
    shutil.rmtree(doomed)


def sweep(directory: Path) -> None:
    """Remove what a killed writer left behind."""
    for path in directory.glob(".*.partial"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
