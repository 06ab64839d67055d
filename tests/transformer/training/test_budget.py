"""The budget of a micro-batch: it holds every pair, it fits, and it is the fastest or the largest of those that do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from data.batches import Batch, longer_side
from data.prepared import IdSequences, ParallelIds
from transformer.errors import RunError
from transformer.training import budget as module
from transformer.training.budget import (
    available_bytes,
    bytes_per_token,
    fastest,
    largest_that_fits,
    longest_batch,
    ordinary_batch,
    seconds_in_turn,
)

CPU = torch.device("cpu")


def corpus_of(src_lengths: Sequence[int], tgt_lengths: Sequence[int]) -> ParallelIds:
    """Pairs of these lengths, without eos."""
    sides = []
    for lengths in (src_lengths, tgt_lengths):
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        sides.append(IdSequences(np.full(offsets[-1], 7, dtype=np.uint16), offsets))
    return ParallelIds(*sides)


def random_corpus(n: int, longest: int) -> ParallelIds:
    random = np.random.default_rng(n)
    return corpus_of(random.integers(1, longest, n).tolist(), random.integers(1, longest, n).tolist())


def padded(batch: Batch) -> int:
    """What a budget counts: rows × columns of the wider side."""
    return max(batch.src.numel(), batch.tgt_out.numel())


class Memory:
    """A pass that finds no memory above `limit` tokens."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.tried: list[int] = []

    def __call__(self, batch: Batch) -> None:
        self.tried.append(padded(batch))
        if padded(batch) > self.limit:
            raise torch.OutOfMemoryError("injected")


# --- the batches of the trial ---


@pytest.mark.parametrize("longest", [1, 2, 7, 40])
def test_the_longest_batch_uses_up_the_budget_with_rows_of_at_least_the_longest_pair(longest: int) -> None:
    for max_tokens in range(longest, 5 * longest + 3):
        batch = longest_batch(longest, max_tokens)
        n_rows, n_columns = batch.src.shape
        assert n_columns >= longest
        assert n_rows == max_tokens // longest
        assert max_tokens - n_rows < padded(batch) <= max_tokens
        assert batch.n_tokens == len(batch.targets) == batch.tgt_out.numel()  # nothing is padding
        assert batch.padding_share == 0


@pytest.mark.parametrize("max_tokens", [3, 10, 64, 500, 100_000])
@pytest.mark.parametrize("n", [1, 2, 50, 1000])
def test_an_ordinary_batch_keeps_the_budget_and_has_neighbours_in_length_around_the_middle(
    n: int, max_tokens: int
) -> None:
    corpus = random_corpus(n, 30)
    batch = ordinary_batch(corpus, max_tokens)
    fitting = np.sort(longer_side(corpus)[longer_side(corpus) <= max_tokens])
    if not len(fitting):
        assert len(batch.src) == 1
        return
    assert padded(batch) <= max_tokens
    real = torch.maximum((batch.src != 0).sum(1), (batch.tgt_out != 0).sum(1)).sort().values.numpy()
    places = [i for i in range(len(fitting) - len(real) + 1) if np.array_equal(fitting[i : i + len(real)], real)]
    assert places, "not a stretch of the pairs in order of length"
    assert len(real) == len(fitting) or padded(batch) > max_tokens / 2 or len(real) == 1


def test_of_a_large_corpus_an_even_sample_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SAMPLE", 10)
    corpus = corpus_of([4, 90] * 100, [4, 2] * 100)  # every 20th pair is a short one
    batch = ordinary_batch(corpus, 1000)
    assert batch.src.shape == (10, 5)


# --- the largest that fits ---


@pytest.mark.parametrize("longest", [1, 9, 100])
@pytest.mark.parametrize("ceiling", [100, 257, 5000])
def test_the_largest_that_fits_is_found_to_an_eighth_and_never_exceeds_the_ceiling(longest: int, ceiling: int) -> None:
    for limit in [longest, longest + 1, 2 * longest, 150, 256, 1000, 4999, 5000, 10**6]:
        if limit < longest:
            continue
        memory = Memory(limit)
        found = largest_that_fits(memory, longest, ceiling, 0, CPU)
        assert longest <= found <= max(longest, ceiling)
        assert padded(longest_batch(longest, found)) <= limit
        assert found == max(longest, ceiling) or found + max(1, found // 8) > limit
        assert len(memory.tried) < 25


def test_where_not_even_the_longest_pair_fits_the_user_is_told() -> None:
    with pytest.raises(RunError, match=r"the longest, 257 tokens, does not fit .* Lower data\.max_length"):
        largest_that_fits(Memory(256), 257, 10_000, 0, CPU)


def test_the_spare_is_taken_while_the_pass_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device of 1,000 bytes, of which a token takes ten."""
    taken: list[int] = []

    def empty(size: int, **_: object) -> object:
        taken.append(size)
        return object()

    def run(batch: Batch) -> None:
        if taken[-1] + 10 * padded(batch) > 1000:
            raise torch.OutOfMemoryError

    monkeypatch.setattr("transformer.training.budget.torch.empty", empty)
    assert largest_that_fits(run, 10, 80, 0, CPU) == 80
    assert largest_that_fits(run, 10, 80, 600, CPU) == 40
    assert taken[-1] == 600


# --- the fastest ---


def test_the_fastest_budget_is_chosen_and_all_speeds_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = random_corpus(5000, 30)
    speeds = {1024: 100.0, 2048: 300.0, 4096: 200.0, 8192: 250.0}

    def seconds(candidates: dict[int, Any], _: float) -> dict[int, float]:
        return {budget: candidates[budget].args[0].n_tokens / speeds[budget] for budget in candidates}

    monkeypatch.setattr(module, "seconds_in_turn", seconds)
    monkeypatch.setattr(module, "bytes_per_token", lambda *_: 1.0)
    found, told = fastest(Memory(10**9), corpus, 30, 10_000, 1e12)
    assert found == 2048
    assert told == pytest.approx(speeds)


def test_budgets_end_where_the_longest_pairs_would_need_more_memory_than_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "bytes_per_token", lambda *_: 10.0)
    corpus = random_corpus(2000, 30)
    assert list(fastest(Memory(10**9), corpus, 30, 10_000, 10 * 4096.0)[1]) == [1024, 2048, 4096]
    assert list(fastest(Memory(10**9), corpus, 30, 10_000, 10 * 4095.0)[1]) == [1024, 2048]
    assert list(fastest(Memory(10**9), corpus, 30, 10_000, -1.0)[1]) == [1024]  # there is nothing smaller


def test_budgets_end_where_the_trial_has_taken_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "bytes_per_token", lambda *_: 1.0)
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 0.02)
    found = fastest(lambda _: time.sleep(0.03), random_corpus(99, 30), 30, 10_000, 1e12)
    assert list(found[1]) == [1024]


def test_a_budget_that_finds_no_memory_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "bytes_per_token", lambda *_: 1.0)
    found, told = fastest(Memory(3000), random_corpus(5000, 30), 30, 50_000, 1e12)
    assert list(told) == [1024, 2048]
    assert found in told
    assert fastest(Memory(500), random_corpus(5000, 30), 30, 50_000, 1e12) == (30, {})


@pytest.mark.parametrize(("longest", "ceiling", "expected"), [(30, 160, 160), (30, 1500, 1024), (1500, 2000, 1500)])
def test_where_only_one_budget_is_open_nothing_is_timed(longest: int, ceiling: int, expected: int) -> None:
    memory = Memory(0)
    assert fastest(memory, random_corpus(9, 30), longest, ceiling, 1e12) == (expected, {})
    assert memory.tried == []


def timed(monkeypatch: pytest.MonkeyPatch, durations: dict[str, list[float]]) -> tuple[dict[str, float], str]:
    """The seconds found for candidates that take so long, run after run, and the order in which they ran."""
    now, order = [0.0], []

    def candidate(name: str) -> Callable[[], None]:
        def run() -> None:
            order.append(name)
            now[0] += durations[name][order.count(name) - 1]

        return run

    with monkeypatch.context() as patch:
        patch.setattr("transformer.training.budget.time.perf_counter", lambda: now[0])
        return seconds_in_turn({name: candidate(name) for name in durations}), "".join(order)


def test_candidates_run_in_turn_and_their_shortest_time_after_the_first_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    found, order = timed(monkeypatch, {"a": [0.125, 0.25, 0.5, 0.25], "b": [9.0, 0.25, 0.21875, 0.5]})
    assert found == {"a": 0.25, "b": 0.21875}
    assert order == "abababab"


def test_one_round_is_enough_where_one_is_clearly_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    found, order = timed(monkeypatch, {"a": [0.125, 0.25], "b": [9.0, 0.125]})
    assert found == {"a": 0.25, "b": 0.125}
    assert order == "abab"


def test_of_candidates_that_take_long_there_are_fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    found, order = timed(monkeypatch, {"a": [1.0, 2.0], "b": [1.0, 3.0]})
    assert found == {"a": 2.0, "b": 3.0}
    assert order == "abab"


# --- memory ---


def test_memory_of_a_token_is_half_as_much_again_as_what_is_kept_for_the_backward_pass() -> None:
    table = nn.Embedding(8, 16)

    def run(batch: Batch) -> None:
        vectors = table(batch.src)  # keeps the ids, 8 bytes each
        torch.autograd.backward(vectors.exp().sum())  # exp keeps its result, 16 numbers of 4 bytes
        assert table.weight.grad is not None

    assert bytes_per_token(run, 50) == pytest.approx(1.5 * (8 + 16 * 4))


def test_what_does_not_depend_on_the_batch_is_not_counted() -> None:
    weight = nn.Parameter(torch.randn(100, 100))

    def run(batch: Batch) -> None:
        torch.autograd.backward((batch.src[:, :1].float() * weight[:1].square().sum()).sum())

    assert bytes_per_token(run, 1000) < 1


def test_available_memory_is_that_of_the_machine_or_the_limit_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CONTAINER_LIMITS", [tmp_path / "absent", tmp_path / "limit"])
    (tmp_path / "limit").write_text("max\n")
    assert available_bytes() > 2**26
    (tmp_path / "limit").write_text("5000\n")
    assert available_bytes() == 5000
