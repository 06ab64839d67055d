"""The task that every toolkit of `benchmarks.training` is given, and how its program answers.

A task is a folder that needs none of our libraries to be read: task.json, and batches.npz with the ids of all batches,
padded. A program of this package is run by the toolkit's own Python, from the root of the repository, as

    python -m benchmarks.training_peers.NAME FOLDER OPTIONS        OPTIONS: a JSON object

It makes a network and does an update on each batch, which warms up all shapes; prints a line of JSON with its version;
and for each line it is sent does the same updates again and prints a line with their seconds and their target tokens,
until its standard input is closed. Only these lines reach standard output.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.decoding_peers.task import BOS_ID, EOS_ID, PAD_ID, answer_stream

Ids = npt.NDArray[np.int64]


class Batch(NamedTuple):
    """Sentence pairs padded to one length per side."""

    src: Ids  # (B, S): pieces, </s>, padding
    tgt: Ids  # (B, T): likewise

    @property
    def tgt_in(self) -> Ids:
        """What the decoder reads: <s>, pieces, padding; (B, T)."""
        shifted = np.where(self.tgt == EOS_ID, PAD_ID, self.tgt)[:, :-1]
        return np.concatenate([np.full_like(self.tgt[:, :1], BOS_ID), shifted], axis=1)

    @property
    def n_tokens(self) -> int:
        """Real target tokens, </s> counted."""
        return int((self.tgt != PAD_ID).sum())

    @property
    def n_src_tokens(self) -> int:
        """Real source tokens, </s> counted."""
        return int((self.src != PAD_ID).sum())


@dataclass(frozen=True)
class Task:
    """What to train on which batches."""

    folder: Path
    network: dict[str, Any]  # our ModelSettings
    vocab_size: int
    label_smoothing: float
    clip_norm: float
    prepared: str  # where our own program finds the whole corpus

    @classmethod
    def load(cls, folder: Path) -> Task:
        """Read a task; its batches are read when they are asked for."""
        return cls(folder=folder, **json.loads((folder / "task.json").read_text(encoding="utf-8")))

    def save(self, batches: Sequence[Batch]) -> None:
        """Write task and batches into the folder."""
        values = {name: value for name, value in vars(self).items() if name != "folder"}
        (self.folder / "task.json").write_text(json.dumps(values), encoding="utf-8")
        arrays: dict[str, Any] = {}
        for number, batch in enumerate(batches):
            arrays |= {f"src.{number}": batch.src, f"tgt.{number}": batch.tgt}
        np.savez(self.folder / "batches.npz", **arrays)

    @cached_property
    def batches(self) -> list[Batch]:
        """All batches, in order."""
        with np.load(self.folder / "batches.npz") as stored:
            return [Batch(stored[f"src.{i}"], stored[f"tgt.{i}"]) for i in range(len(stored.files) // 2)]


@dataclass(frozen=True)
class Peer:
    """A toolkit, loaded: what it is, and a whole update on one batch of the task."""

    version: str
    update: Callable[[int], None]
    precision: str = "fp32"
    note: str = ""


def serve(load: Callable[[Task, dict[str, Any]], Peer]) -> None:
    """Do what the module's text says with the toolkit that `load` gives."""
    answers = answer_stream()
    task = Task.load(Path(sys.argv[1]))
    peer = load(task, json.loads(sys.argv[2]))
    n_tokens = sum(batch.n_tokens for batch in task.batches)
    update_on_all(peer, task)
    print(json.dumps({"version": peer.version, "precision": peer.precision, "note": peer.note}), file=answers)
    while sys.stdin.readline():
        print(json.dumps({"seconds": update_on_all(peer, task), "tokens": n_tokens}), file=answers)


def update_on_all(peer: Peer, task: Task) -> float:
    """An update on each batch; their seconds together."""
    begin = time.perf_counter()
    for number in range(len(task.batches)):
        peer.update(number)
    return time.perf_counter() - begin
