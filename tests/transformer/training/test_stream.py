"""The stream of updates: a function of the place, whoever prepares it and when; mixed, changed, cut to the budget."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data.augmentation import Augmentation
from data.batches import Batch, EpochPlan, Epochs, collate
from data.errors import DataError
from data.prepared import Prepared
from data.vocabulary import PAD_ID
from transformer.config import Settings
from transformer.model_directory import WEIGHTS
from transformer.training import loop
from transformer.training import stream as module
from transformer.training.checkpoint import PROGRESS, STATE, list_checkpoints
from transformer.training.group import ALONE, Group
from transformer.training.loop import train
from transformer.training.run_directory import RunDirectory
from transformer.training.stream import UpdateStream

MakeSettings = Callable[..., Settings]
Rows = list[tuple[list[int], list[int]]]

WEIGHTS_OF_STAGES = {"large": 0.5, "small": 0.5}, {"large": 1.0, "small": 0.0}
MIXING = {
    "mixing": {"stages": [{"until": 5, "weights": WEIGHTS_OF_STAGES[0]}, {"weights": WEIGHTS_OF_STAGES[1]}]},
}
CHANGES: dict[str, Any] = {
    "src": {"bpe_dropout": 0.2},
    "tgt": {"bpe_dropout": 0.1},
    "typos": 0.2,
    "drop_end_punctuation": 0.2,
    "merge_sentences": 0.3,
}


def rows(batches: list[Batch]) -> Rows:
    """The pairs of some batches, in an order that does not depend on how they are divided."""
    sides = [[[i for i in row if i != PAD_ID] for b in batches for row in side(b)] for side in (src_rows, tgt_rows)]
    return sorted(zip(*sides, strict=True))


def src_rows(batch: Batch) -> list[list[int]]:
    found: list[list[int]] = batch.src.tolist()
    return found


def tgt_rows(batch: Batch) -> list[list[int]]:
    found: list[list[int]] = batch.tgt_out.tolist()
    return found


def open_stream(settings: Settings, prepared: Prepared, group: Group = ALONE) -> UpdateStream:
    assert isinstance(settings.train.max_tokens, int)
    return module.open_stream(settings, prepared, settings.train.max_tokens, group)


def take(stream: UpdateStream, n: int, part: int = 0, update: int = 0) -> list[tuple[int, int, Rows]]:
    found = []
    for _ in range(n):
        part, update, batches, _ = stream.take(part, update)
        found.append((part, update, rows(batches)))
        update += 1
    stream.close()
    return found


@pytest.fixture(scope="module", params=["plain", "mixed", "changed", "mixed and changed"])
def wanted(request: pytest.FixtureRequest, make_settings: MakeSettings) -> Settings:
    kind = request.param
    return make_settings(
        data=MIXING if "mixed" in kind else {},
        train={"augmentation": CHANGES} if "changed" in kind else {},
    )


def test_an_update_is_the_same_from_wherever_the_stream_begins(wanted: Settings, of_two_corpora: Prepared) -> None:
    whole = take(open_stream(wanted, of_two_corpora), 12)
    assert len({str(content) for _, _, content in whole}) == 12
    for step in (0, 3, 4, 5, 8):
        part, update, _ = whole[step]
        assert take(open_stream(wanted, of_two_corpora), 3, part, update) == whole[step : step + 3]
    stream = open_stream(wanted, of_two_corpora)
    for step in (7, 2, 2, 11):  # also where what was prepared ahead is not what is wanted
        part, update, batches, _ = stream.take(*whole[step][:2])
        assert (part, update, rows(batches)) == whole[step]
    stream.close()


def test_memory_decides_only_how_an_update_is_divided(wanted: Settings, of_two_corpora: Prepared) -> None:
    small, large = (
        wanted.model_copy(update={"train": wanted.train.model_copy(update={"max_tokens": m})}) for m in (200, 5000)
    )
    assert take(open_stream(small, of_two_corpora), 8) == take(open_stream(large, of_two_corpora), 8)


def test_no_micro_batch_exceeds_the_budget_with_its_padding(wanted: Settings, of_two_corpora: Prepared) -> None:
    tight = wanted.model_copy(update={"train": wanted.train.model_copy(update={"max_tokens": 25})})
    stream, part, update = open_stream(tight, of_two_corpora), 0, 0
    for _ in range(10):
        part, update, batches, _ = stream.take(part, update)
        assert all(max(batch.src.numel(), batch.tgt_out.numel()) <= 25 for batch in batches)
        update += 1
    stream.close()


def test_without_mixing_and_changes_batches_are_those_of_the_plan(
    prepared: Prepared, make_settings: MakeSettings
) -> None:
    settings = make_settings()
    sizes = {"batch_tokens": 80, "max_tokens": 60, "seed": settings.seed}
    stream, place = open_stream(settings, prepared), (0, 0)
    for epoch in range(2):
        plan = EpochPlan(prepared.train, epoch=epoch, **sizes)
        for update in range(len(plan)):
            *place, batches, n_tokens = stream.take(*place)  # type: ignore[assignment]
            assert n_tokens == sum(batch.n_tokens for batch in batches)
            assert tuple(place) == (epoch, update)
            expected = [collate(prepared.train, part) for part in plan.micro_batches(update)]
            for batch, other in zip(batches, expected, strict=True):
                assert torch.equal(batch.src, other.src)
                assert torch.equal(batch.tgt_in, other.tgt_in)
            place = (epoch, update + 1)
    stream.close()


@pytest.mark.parametrize("size", [2, 3, 4, 50])
def test_processes_together_train_on_what_one_would(size: int, wanted: Settings, of_two_corpora: Prepared) -> None:
    """Each pair of an update exactly once, in equally many micro-batches; also where pairs are fewer than processes."""
    alone = open_stream(wanted, of_two_corpora)
    streams = [open_stream(wanted, of_two_corpora, Group(rank, size)) for rank in range(size)]
    place = (0, 0)
    for _ in range(9):
        whole, shares = alone.take(*place), [stream.take(*place) for stream in streams]
        assert rows([batch for share in shares for batch in share.batches if batch.n_tokens]) == rows(whole.batches)
        assert len({len(share.batches) for share in shares}) == 1
        assert {share[:2] for share in shares} == {whole[:2]}
        assert {share.n_tokens for share in shares} == {whole.n_tokens}
        assert sum(batch.n_tokens for share in shares for batch in share.batches) == whole.n_tokens
        assert all(len(batch.targets) == batch.n_tokens for share in shares for batch in share.batches)
        place = (whole.part, whole.update + 1)
    for stream in (alone, *streams):
        stream.close()


def test_settings_of_rate_zero_change_nothing(
    prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def apply(*args: Any) -> None:
        raise AssertionError("nothing is to be decoded")

    monkeypatch.setattr(Augmentation, "apply", apply)
    plain = take(open_stream(make_settings(), prepared), 9)
    assert take(open_stream(make_settings(train={"augmentation": {}}), prepared), 9) == plain


def test_with_mixing_each_stage_draws_from_its_corpora(of_two_corpora: Prepared, make_settings: MakeSettings) -> None:
    updates = take(open_stream(make_settings(data=MIXING), of_two_corpora), 30)
    assert [place[:2] for place in updates] == [(0, i) for i in range(5)] + [(1, i) for i in range(25)]
    corpus = of_two_corpora.train
    small = {str([*corpus.src[i].tolist(), 3]) for i in range(45, 60)}
    large = {str([*corpus.src[i].tolist(), 3]) for i in range(45)}
    counts = [sum(str(src) in small - large for src, _ in content) for _, _, content in updates]
    assert sum(counts[:5]) > 0
    assert sum(counts[5:]) == 0


def test_a_fault_in_the_thread_arrives_where_the_update_is_taken(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Epochs(prepared.train, batch_tokens=80, max_tokens=60, seed=1)
    sentences = order.sentences

    def broken(epoch: int, update: int) -> Any:
        if update == 2:
            raise OSError("the disk is gone")
        return sentences(epoch, update)

    monkeypatch.setattr(order, "sentences", broken)
    stream = UpdateStream(prepared.train, order, 60)
    stream.take(0, 0)
    stream.take(0, 1)
    with pytest.raises(OSError, match="the disk is gone"):
        stream.take(0, 2)
    stream.close()


def test_no_thread_outlives_the_stream(prepared: Prepared, make_settings: MakeSettings) -> None:
    before = threading.active_count()
    stream = open_stream(make_settings(), prepared)
    stream.take(0, 0)
    stream.close()
    assert threading.active_count() == before


# --- whole runs ---


def progress_of(run: RunDirectory) -> dict[str, Any]:
    saved: dict[str, Any] = json.loads((run.checkpoints / "last" / PROGRESS).read_text())["progress"]
    return saved | {"seconds": 0}


@pytest.fixture(scope="module")
def mixed_and_changed(make_settings: MakeSettings) -> Settings:
    seldom = {"max_steps": 10, "save_every": 5, "validate_every": 10, "log_every": 5}
    return make_settings(data=MIXING, train={"augmentation": CHANGES} | seldom)


@pytest.fixture(scope="module")
def uninterrupted(
    mixed_and_changed: Settings, of_two_corpora: Prepared, tmp_path_factory: pytest.TempPathFactory
) -> RunDirectory:
    run = RunDirectory(tmp_path_factory.mktemp("uninterrupted"))
    assert train(mixed_and_changed, of_two_corpora, run).model == run.model
    return run


@pytest.mark.parametrize("stops", [[4], [5], [6], [1, 9]], ids=str)
def test_n_updates_saved_and_m_more_are_n_plus_m_bit_by_bit(
    stops: list[int],
    mixed_and_changed: Settings,
    uninterrupted: RunDirectory,
    of_two_corpora: Prepared,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, at and behind the border of stages (5), wherever Ctrl-C comes."""
    run, update, left = RunDirectory(tmp_path), loop.update, list(stops)

    def watched(state: Any, *arguments: Any) -> Any:
        if left and state.progress.step + 1 == left[0]:
            left.pop(0)
            signal.raise_signal(signal.SIGINT)
        return update(state, *arguments)

    monkeypatch.setattr(loop, "update", watched)
    for _ in stops:
        assert train(mixed_and_changed, of_two_corpora, run).model is None
        np.random.seed(1)
        torch.rand(3)
    assert train(mixed_and_changed, of_two_corpora, run).model == run.model
    assert progress_of(run) == progress_of(uninterrupted)
    assert (run.model / WEIGHTS).read_bytes() == (uninterrupted.model / WEIGHTS).read_bytes()
    for step, path in list_checkpoints(run.checkpoints).items():
        for name in (WEIGHTS, STATE):
            assert (path / name).read_bytes() == (list_checkpoints(uninterrupted.checkpoints)[step] / name).read_bytes()


def test_with_mixing_the_place_is_stage_and_update(
    of_two_corpora: Prepared, make_settings: MakeSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunDirectory(tmp_path)
    train(make_settings(data=MIXING, train={"max_steps": 8, "save_every": 8, "validate_every": 8}), of_two_corpora, run)
    assert {key: progress_of(run)[key] for key in ("step", "epoch", "update")} == {"step": 8, "epoch": 1, "update": 3}
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    assert [line["stage"] for line in lines if "stage" in line] == [0] * 5 + [1] * 3
    message = capsys.readouterr().err
    assert "mixing, stage 1 of 2, until step 5: large 50.0%, small 50.0%" in message
    assert "mixing, stage 2 of 2, to the end: large 100.0%, small 0.0%" in message


def test_shares_of_corpora_that_are_not_there_are_refused_before_there_is_a_run(
    of_two_corpora: Prepared, prepared: Prepared, make_settings: MakeSettings, tmp_path: Path
) -> None:
    run = RunDirectory(tmp_path / "run")
    stages = [{"until": 5, "weights": {"large": 1, "smal": 1}}, {"temperature": 5}, {"weights": {"large": 1}}]
    stages[1] |= {"until": 9}
    with pytest.raises(DataError) as refusal:
        train(make_settings(data={"mixing": {"stages": stages}}), of_two_corpora, run)
    unknown, *missing = str(refusal.value).splitlines()
    assert unknown.startswith(
        "data.mixing.stages[0].weights: smal: no training corpus has this name; they are large, s"
    )
    assert [line.split(" has no")[0] for line in missing] == [
        "data.mixing.stages[0].weights: small",
        "data.mixing.stages[2].weights: small",
    ]
    old = prepared.manifest | {"counts": {"train": [{"kept": 60}], "test": {}}}
    with pytest.raises(DataError, match=r"run preprocess\.py again"):
        open_stream(make_settings(data={"mixing": {}}), Prepared(**vars(prepared) | {"manifest": old}))
    assert not run.path.exists()
