"""Checkpoints written on a thread while training goes on: it is held up for a copy in memory, not for the disk."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from transformer.model_directory import Model
from transformer.training.checkpoint import Snapshot, save_checkpoint


class CheckpointWriter:
    """Writes one checkpoint at a time; the next waits for it."""

    def __init__(self, checkpoints: Path, model: Model) -> None:
        self._checkpoints, self._model = checkpoints, model
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._writing: Future[Path] | None = None

    def save(self, snapshot: Snapshot, *, best_by: str, keep: int, regular: bool) -> None:
        """Begin to write a checkpoint, as `save_checkpoint`. Raises what `wait` raises, of the one before."""
        self.wait()
        self._writing = self._executor.submit(
            save_checkpoint, self._checkpoints, snapshot, self._model, best_by=best_by, keep=keep, regular=regular
        )

    def check(self) -> None:
        """Raise what has gone wrong since the last call, without waiting."""
        if self._writing is not None and self._writing.done():
            self.wait()

    def wait(self) -> None:
        """Return when everything is on the disk.

        Raises:
            RunError: it could not be written; the checkpoint before is whole.
        """
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()

    def close(self) -> None:
        """Finish what was begun."""
        self._executor.shutdown(wait=True)
