"""The task that every toolkit of `benchmarks.decoding` is given, and how its program answers.

A task is a folder that needs none of our libraries to be read: task.json, and weights.npz with our network's parameters
under our names. A program of this package is run by the toolkit's own Python, from the root of the repository, as

    python -m benchmarks.decoding_peers.NAME FOLDER OPTIONS        OPTIONS: a JSON object

It prints a line of JSON when it is ready, with its version and the batch size it found best; decodes when it is sent a
line; prints a second line with seconds and outputs; and stays until its standard input is closed, so that its memory
can be looked at. Only this module's two lines reach standard output.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

Weights = dict[str, npt.NDArray[np.float32]]
PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)  # of our vocabularies
N_SAMPLE = 512  # sentences on which batch sizes are compared


@dataclass(frozen=True)
class Task:
    """What to decode, with which network, under which rules."""

    folder: Path
    network: dict[str, Any]  # our ModelSettings
    vocab_size: int
    beam_size: int
    length: int | None  # pieces of every output, </s> counted; None: as long as the network wants
    limit: int  # the most pieces of any output
    sentences: list[list[int]]  # source pieces, without </s>
    lines: list[str]  # the same as text

    @classmethod
    def load(cls, folder: Path) -> Task:
        """Read a task."""
        return cls(folder=folder, **json.loads((folder / "task.json").read_text(encoding="utf-8")))

    def save(self, weights: Weights) -> None:
        """Write the task into its folder."""
        values = {name: value for name, value in vars(self).items() if name != "folder"}
        (self.folder / "task.json").write_text(json.dumps(values), encoding="utf-8")
        arrays: dict[str, Any] = dict(weights)
        np.savez(self.folder / "weights.npz", **arrays)

    def weights(self) -> Weights:
        """Our network's parameters; tied ones are there once."""
        with np.load(self.folder / "weights.npz") as stored:
            return {name: stored[name] for name in stored.files}

    def part(self, first: int, step: int) -> Task:
        """Every step-th sentence."""
        return replace(self, sentences=self.sentences[first::step], lines=self.lines[first::step])


@dataclass(frozen=True)
class Decoded:
    """One output for each sentence: ids without </s>, or text; and the pieces decoded, </s> counted."""

    outputs: Sequence[Sequence[int]] | Sequence[str]
    n_tokens: int


@dataclass(frozen=True)
class Peer:
    """A toolkit, loaded: what it is, and what it does with a task in batches of a size."""

    version: str
    decode: Callable[[Task, int], Decoded]


def serve(load: Callable[[Task, dict[str, Any]], Peer]) -> None:
    """Do what the module's text says with the toolkit that `load` gives."""
    answers = answer_stream()
    options = json.loads(sys.argv[2])
    task = Task.load(Path(sys.argv[1])).part(*options["part"])
    peer = load(task, options)
    batch_size = fastest(peer, task, options["batch_sizes"])
    print(json.dumps({"version": peer.version, "batch_size": batch_size}), file=answers)
    if sys.stdin.readline():
        begin = time.perf_counter()
        decoded = peer.decode(task, batch_size)
        seconds = time.perf_counter() - begin
        print(json.dumps({"seconds": seconds, "outputs": decoded.outputs, "tokens": decoded.n_tokens}), file=answers)
        sys.stdin.read()


def answer_stream() -> TextIO:
    """Standard output, from here on for answers alone."""
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    return answers


def fastest(peer: Peer, task: Task, batch_sizes: Sequence[int]) -> int:
    """The best of several batch sizes on a sample, which also warms up what is warm in real use."""
    sample = task.part(0, max(1, len(task.sentences) // N_SAMPLE))
    few = task.part(0, max(1, len(task.sentences) // 16))
    peer.decode(few, batch_sizes[0])
    # Of sizes that hold everything, one is enough.
    batch_sizes = [
        size for size, before in zip(batch_sizes, (0, *batch_sizes), strict=False) if before < len(task.lines)
    ]
    if len(batch_sizes) == 1:
        return batch_sizes[0]
    seconds = {}
    for batch_size in batch_sizes:
        begin = time.perf_counter()
        peer.decode(sample, batch_size)
        seconds[batch_size] = time.perf_counter() - begin
    return min(seconds, key=lambda batch_size: seconds[batch_size])


def in_batches(task: Task, batch_size: int, decode: Callable[[list[list[int]]], Sequence[Sequence[int]]]) -> Decoded:
    """Decode batches of sentences of like length, for toolkits that leave it to the caller to form them.

    `decode` is given sources without </s>; of its outputs everything from </s> on is cut off.
    """
    outputs: list[Sequence[int]] = [[]] * len(task.sentences)
    order = sorted(range(len(outputs)), key=lambda i: len(task.sentences[i]))
    for begin in range(0, len(order), batch_size):
        places = order[begin : begin + batch_size]
        for place, output in zip(places, decode([task.sentences[i] for i in places]), strict=True):
            outputs[place] = until_end(output)
    return Decoded(outputs, sum(n_pieces(output, task) for output in outputs))


def until_end(ids: Sequence[int]) -> list[int]:
    """The ids before the first </s>."""
    ids = list(ids)
    return ids[: ids.index(EOS_ID)] if EOS_ID in ids else ids


def n_pieces(output: Sequence[int], task: Task) -> int:
    """Pieces that were decoded, </s> counted where there was one."""
    return min(len(output) + 1, task.length or math.inf)  # type: ignore[return-value]


def sinusoidal_positions(n: int, d_model: int) -> npt.NDArray[np.float32]:
    """§3.5 of the paper, columns sin, cos, sin, cos, …, as in our network: (n, D)."""
    angles = np.arange(n)[:, None] / 10_000 ** (np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(n, d_model).astype(np.float32)
