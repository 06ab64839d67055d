"""`train.max_tokens: auto`: the budget of a micro-batch, found by trial passes before the first update.

The budget changes memory and speed, not what is learnt: on a GPU it is the largest that fits, on a CPU the fastest.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from data.batches import Batch, collate, longer_side
from data.packing import AnyBatch, PackedBatch, PackedShape, filler_batch
from data.prepared import ParallelIds
from data.vocabulary import EOS_ID
from transformer.errors import RunError
from transformer.model import Transformer

Pass = Callable[[AnyBatch], None]  # forward and backward, as in training
Name = TypeVar("Name")

_SMALLEST = 1024  # tokens: the first budget that is timed
_SAMPLE = 100_000  # pairs, evenly chosen, among which the sentences of a trial are looked for
_ROUNDS = 3  # timed passes of each candidate, after one that warms up
_ENOUGH_SECONDS = 2.0  # fewer rounds, where they take longer together
_PATIENCE_SECONDS = 10.0  # warming up so long, no further budget is tried
_SHORT = 8  # tokens of a pair by which room for pairs is reserved in a trial
_TEMPORARY = 1.5  # memory of a pass / what its forward half keeps for the other: gradients come on top
_CONTAINER_LIMITS = [Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")]


def largest_that_fits(
    run: Pass,
    longest: int,
    ceiling: int,
    spare_bytes: int,
    device: torch.device,
    make: Callable[[int, int], AnyBatch] | None = None,
) -> int:
    """The largest budget, to an eighth, whose dearest batch finds memory while `spare_bytes` more are taken.

    `make` makes it of the tokens of the longest pair and the budget: `longest_batch`, or `packed_batch`.

    Doubled from the longest pair on, `longest` tokens, until it reaches `ceiling` or no longer fits; then the gap
    between what fits and what does not is halved.

    Raises:
        RunError: a batch of one longest pair does not fit.
    """
    make = make or longest_batch
    if not _fits(run, make(longest, longest), spare_bytes, device):
        raise RunError(
            f"out of memory: one pair of the longest, {longest:,} tokens, does not fit beside the network, its "
            "gradient and the optimizer's state. Lower data.max_length and prepare again, make the model smaller, or "
            "use a larger device"
        )
    fitting, failing = longest, ceiling + 1
    while fitting < ceiling and (failing > ceiling or failing - fitting > max(1, fitting // 8)):
        budget = min(2 * fitting, ceiling) if failing > ceiling else (fitting + failing) // 2
        if _fits(run, make(longest, budget), spare_bytes, device):
            fitting = budget
        else:
            failing = budget
    return fitting


def fastest(
    run: Pass, corpus: ParallelIds, longest: int, ceiling: int, room_bytes: float
) -> tuple[int, dict[int, float]]:
    """The budget that trains the most target tokens a second, and the speed of each that was timed.

    Timed are 1,024 tokens, 2,048 … up to `ceiling`, on pairs of middle length; at least the longest pair, `longest`
    tokens. Budgets end where a micro-batch of the longest pairs would need more than `room_bytes`, and where the trial
    has taken ten seconds: larger ones are seldom much faster.
    """
    smallest = max(longest, min(_SMALLEST, ceiling))
    if 2 * smallest > ceiling:
        return smallest, {}
    largest = min(ceiling, room_bytes / bytes_per_token(run, longest))
    batches = {smallest: ordinary_batch(corpus, smallest)}
    while 2 * max(batches) <= largest:
        batches[2 * max(batches)] = ordinary_batch(corpus, 2 * max(batches))
    seconds = seconds_in_turn({budget: partial(run, batch) for budget, batch in batches.items()}, _PATIENCE_SECONDS)
    speeds = {budget: batches[budget].n_tokens / seconds[budget] for budget in seconds}
    return max(speeds, key=speeds.__getitem__, default=longest), speeds


_CLEAR = 1.25  # times as long as the fastest: noise does not turn that round


def seconds_in_turn(
    candidates: Mapping[Name, Callable[[], None]], patience_seconds: float = math.inf
) -> dict[Name, float]:
    """The shortest of up to three times of each candidate, after one that warms up; fewer where one is clearly ahead.

    In turn, so that what else the machine does hits all alike; the shortest, because that only ever adds time. Without
    candidates that find too little memory, and those whose turn to warm up comes after `patience_seconds`.
    """
    seconds: dict[Name, float] = {}
    begin = time.perf_counter()
    for name, candidate in candidates.items():
        if time.perf_counter() - begin > patience_seconds:
            break
        try:
            candidate()
        except torch.OutOfMemoryError:
            continue
        seconds[name] = math.inf
    begin = time.perf_counter()
    for _ in range(_ROUNDS):
        for name in seconds:
            start = time.perf_counter()
            candidates[name]()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
        first, second = [*sorted(seconds.values()), math.inf][:2] if seconds else (0.0, math.inf)
        if second > _CLEAR * first or time.perf_counter() - begin > _ENOUGH_SECONDS:
            break
    return seconds


def ordinary_batch(corpus: ParallelIds, max_tokens: int) -> Batch:
    """Pairs of middle length, neighbours in length as those of an update are, as many as the budget holds."""
    sample = np.arange(0, len(corpus), -(-len(corpus) // _SAMPLE))
    longer = longer_side(corpus)[sample]
    order = np.argsort(longer, kind="stable")
    order = order[: max(1, np.count_nonzero(longer <= max_tokens))]
    middle = len(order) // 2
    n_rows = max_tokens // int(longer[order[middle]])
    rows = order[max(0, middle - n_rows // 2) :][: max(1, n_rows)]
    rows = rows[: max(1, max_tokens // int(longer[rows[-1]]))]  # the last is the longest
    return collate(corpus, sample[rows])


def longest_batch(longest: int, max_tokens: int) -> Batch:
    """The dearest batch of a budget: rows of the longest pair, full on both sides, that use it up (or nearly)."""
    n_rows = max_tokens // longest
    return full_batch(n_rows, max_tokens // n_rows, max_tokens // n_rows)


def full_batch(n_rows: int, n_src: int, n_tgt: int) -> Batch:
    """So many rows of so many tokens on each side, without padding."""
    src, tgt = torch.full((n_rows, n_src), EOS_ID), torch.full((n_rows, n_tgt), EOS_ID)
    return Batch(src, tgt, tgt, torch.arange(tgt.numel()), n_src_tokens=src.numel(), n_tokens=tgt.numel())


def packed_batch(longest: int, max_tokens: int) -> PackedBatch:
    """A packed batch of a budget; none is dearer, whatever it holds."""
    return filler_batch(PackedShape(max_tokens, max_tokens, -(-max_tokens // _SHORT), longest))


def bytes_per_token(run: Pass, longest: int) -> float:
    """Memory of a pass for each token of its micro-batch, of the longest pairs: attention's grows with their length.

    Measured is what the forward pass keeps for the backward pass, with three rows against two: so what does not depend
    on the batch, such as weights, falls out. (A single row can do without some copies.)
    """
    batches = (longest_batch(longest, n * longest) for n in (2, 3))
    two, three = (sum(kept_storages(partial(run, batch)).values()) for batch in batches)
    return _TEMPORARY * (three - two) / longest


def available_bytes() -> int:
    """Main memory that can still be had: as Linux says, at most a container's limit; elsewhere, half of all."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    limits = [path.read_text().strip() for path in _CONTAINER_LIMITS if path.exists()]
    return min([available, *(int(limit) for limit in limits if limit.isdigit())])  # the other is "max": none


def _fits(run: Pass, batch: AnyBatch, spare_bytes: int, device: torch.device) -> bool:
    """Whether a pass finds memory while the spare is taken. Gradients stay, as they do from micro-batch to the next."""
    try:
        _spare = torch.empty(spare_bytes, dtype=torch.uint8, device=device)
        run(batch)
        fitted = True
    except torch.OutOfMemoryError:
        fitted = False
    if device.type == "cuda":
        torch.cuda.empty_cache()  # outside the handler: while the exception lives, so do the tensors it names
    return fitted


def kept_storages(run: Callable[[], object]) -> dict[int, int]:
    """All storages that a forward pass saves for the backward pass, each once: bytes by address."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = run()  # held: memory that is let go would be given out again at the same address
    del result
    return kept


@contextmanager
def all_layers(network: Transformer) -> Iterator[None]:
    """Leave out no layer by chance: the most memory that there can be need of."""
    encoder, decoder = network.encoder, network.decoder
    probabilities = encoder.layer_drop, decoder.layer_drop
    encoder.layer_drop = decoder.layer_drop = 0.0
    try:
        yield
    finally:
        encoder.layer_drop, decoder.layer_drop = probabilities
