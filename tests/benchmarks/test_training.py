"""The parts of benchmarks/training.py that need no other toolkit: batches, their file, FLOPs, the table, a program."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.training import Shape, Workload, describe, drawn, flops_per_token, goals
from benchmarks.training_peers import runs
from benchmarks.training_peers.ours import made_batch
from benchmarks.training_peers.plain import Network
from benchmarks.training_peers.runs import Run, System, train
from benchmarks.training_peers.task import Batch, Task
from data.batches import collate
from data.prepared import IdSequences, ParallelIds
from transformer.config import ModelSettings
from transformer.errors import RunError

SMALL = ModelSettings(n_encoder_layers=2, n_decoder_layers=1, d_model=16, d_ff=24, n_heads=2, dropout=0.1)
VOCAB = 50


@pytest.fixture
def corpus() -> ParallelIds:
    """2,000 pairs of 1 to 30 pieces, the target about as long as the source."""
    random = np.random.default_rng(1)
    src = random.integers(1, 30, 2000)
    tgt = np.maximum(1, src + random.integers(-3, 4, 2000))

    def side(lengths: np.ndarray) -> IdSequences:
        ids = random.integers(4, VOCAB, int(lengths.sum())).astype(np.uint16)
        return IdSequences(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

    return ParallelIds(side(src), side(tgt))


@pytest.fixture
def workload(corpus: ParallelIds, tmp_path: Path) -> Workload:
    """Three batches of it, written to a folder."""
    made = [collate(corpus, each) for each in drawn(corpus, 300, 3)]
    batches = [Batch(each.src.numpy(), each.tgt_out.numpy()) for each in made]
    task = Task(tmp_path, SMALL.model_dump(), VOCAB, 0.1, 1.0, "nowhere")
    task.save(batches)
    return Workload("small", Shape(SMALL, 300, 3, goal=2.0), task, batches)


# --- batches ---


def test_no_batch_exceeds_the_budget_of_padded_target_tokens_and_all_come_near_it(corpus: ParallelIds) -> None:
    sentences = drawn(corpus, 500, 10)
    sizes = [len(each) * int(corpus.tgt_lengths[each].max() + 1) for each in sentences]
    assert max(sizes) <= 500
    assert min(sizes) > 400
    assert len(np.unique(np.concatenate(sentences))) == sum(map(len, sentences))


def test_batches_are_taken_from_short_and_long_sentences_alike(corpus: ParallelIds) -> None:
    sentences = drawn(corpus, 500, 30)
    tokens = sum(int((corpus.tgt_lengths[each] + 1).sum()) for each in sentences)
    mean = float((corpus.tgt_lengths + 1).mean())
    # Batches have equal tokens, so what is drawn has as many tokens per sentence as the corpus.
    assert tokens / sum(map(len, sentences)) == pytest.approx(mean, rel=0.05)


def test_a_budget_that_the_longest_sentences_exceed_is_refused(corpus: ParallelIds) -> None:
    with pytest.raises(RunError, match="too long for batches of at most 20 target tokens"):
        drawn(corpus, 20, 10)


def test_a_task_and_its_batches_are_read_as_they_were_written(workload: Workload) -> None:
    task = Task.load(workload.task.folder)
    assert replace(task) == workload.task
    assert len(task.batches) == 3
    for read, written in zip(task.batches, workload.batches, strict=True):
        assert np.array_equal(read.src, written.src)
        assert np.array_equal(read.tgt, written.tgt)


def test_we_train_on_the_batches_that_our_own_training_makes(corpus: ParallelIds) -> None:
    for sentences in drawn(corpus, 300, 3):
        own = collate(corpus, sentences)
        read = made_batch(Batch(own.src.numpy(), own.tgt_out.numpy()))
        for name in ("src", "tgt_in", "tgt_out", "targets"):
            assert torch.equal(getattr(read, name), getattr(own, name)), name
        assert (read.n_tokens, read.n_src_tokens) == (own.n_tokens, own.n_src_tokens)


# --- figures ---


def test_flops_are_what_torch_counts_in_an_update_of_the_plain_loop() -> None:
    length, rows = 7, 5
    network = Network(SMALL.model_dump(), VOCAB).train()
    ids = torch.randint(4, VOCAB, (rows, length))
    with FlopCounterMode(display=False) as counter:
        network(ids, ids).sum().backward()
    assert counter.get_total_flops() == rows * length * flops_per_token(SMALL, VOCAB, length)


def test_the_mean_length_is_that_of_both_sides_without_padding(workload: Workload) -> None:
    lengths = [int((row != 0).sum()) for batch in workload.batches for side in (batch.src, batch.tgt) for row in side]
    assert workload.mean_length == round(sum(lengths) / len(lengths))


ROWS = [
    System("this project, fp32", "ours", Path(sys.executable)),
    System("this project, auto", "ours", Path(sys.executable)),
    System("slow", "a", Path(sys.executable)),
    System("fast", "b", Path(sys.executable)),
    System("broken", "c", Path(sys.executable)),
]


def run(precision: str, *rates: float) -> Run:
    return Run("some 1.0", precision, "", list(rates), 3 * 2**29)


def test_the_table_has_medians_of_all_intervals_with_least_and_most(workload: Workload) -> None:
    results = {
        "this project, fp32": [run("fp32", 300, 100), run("fp32", 200)],
        "this project, auto": [run("bf16", 600)],
        "slow": [run("fp32", 50)],
        "fast": [run("fp32", 150)],
        "broken": [],
    }
    peaks = {"fp32": [workload.flops_per_token * 1000.0], "bf16": [workload.flops_per_token * 2000.0]}
    lines = describe(workload, ROWS, results, peaks, {"broken": "broken: out of breath"}).splitlines()
    cells = {line.split(" | ")[0].strip("| "): [c.strip(" |") for c in line.split(" | ")[1:]] for line in lines}
    assert cells["this project, fp32"][:2] == ["200", "100–300"]
    assert cells["this project, fp32"][3:] == ["20.0%", "1.50"]
    assert cells["this project, auto: bf16"][3] == "30.0%"  # of the peak of its own precision
    assert "broken" not in cells
    assert "disturbed" not in "\n".join(lines)
    assert "- not measured: broken: out of breath" in lines


def test_the_table_says_how_many_intervals_others_disturbed(workload: Workload) -> None:
    results = {row.name: [replace(run("fp32", 1, 2), n_disturbed=row.name == "fast")] for row in ROWS}
    lines = describe(workload, ROWS, results, {"fp32": [1.0], "bf16": [1.0]}, {}).splitlines()
    (line,) = [line for line in lines if "disturbed" in line]
    assert line.startswith("- 1 of 10 intervals")


def test_the_goal_is_measured_on_the_fastest_of_the_others() -> None:
    rates = {"this project, fp32": 200.0, "this project, auto": 600.0, "slow": 50.0, "fast": 150.0}
    fastest, fp32, goal = goals(ROWS, rates, 2.2)
    assert "**4.00** (this project, auto / fast)" in fastest
    assert "**1.33** (this project, fp32 / fast)" in fp32
    assert "2.2 ×" in goal
    assert goals(ROWS, {"this project, fp32": 200.0}, 2.2) == []


# --- a program ---


def test_a_program_is_timed_in_as_many_intervals_as_wanted(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PATIENCE_SECONDS", 0.0)  # other tests may run beside this one
    found = train(System("plain", "plain", Path(sys.executable)), workload.task.folder, 2, tmp_path / "log")
    assert len(found.tokens_per_second) == 2
    assert all(rate > 0 for rate in found.tokens_per_second)
    assert found.version == f"torch {torch.__version__}"
    assert found.memory_bytes is None or found.memory_bytes > 2**26


def test_a_program_that_fails_is_named_with_what_it_said_last(workload: Workload, tmp_path: Path) -> None:
    (workload.task.folder / "batches.npz").unlink()
    with pytest.raises(RunError, match=r"plain: ended with exit code 1.*No such file"):
        train(System("plain", "plain", Path(sys.executable)), workload.task.folder, 1, tmp_path / "log")
