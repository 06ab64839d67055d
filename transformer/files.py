"""Links and leftovers in directories of checkpoints; `data.atomic` writes the files and directories themselves."""

from __future__ import annotations

import shutil
from pathlib import Path


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
