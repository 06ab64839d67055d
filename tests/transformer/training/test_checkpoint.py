"""Checkpoints: everything comes back bit by bit, and the right ones are kept."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from transformer.config import Settings
from transformer.errors import RunError
from transformer.model_directory import Model, load_model, load_tensors
from transformer.training.checkpoint import (
    STATE,
    best_checkpoints,
    last_checkpoints,
    list_checkpoints,
    load_checkpoint,
    newest_checkpoint,
    save_checkpoint,
    take_snapshot,
)
from transformer.training.progress import Progress
from transformer.training.state import TrainingState
from transformer.training.validation import Validation

Trained = tuple[TrainingState, Model]
MakeState = Callable[[Settings], Trained]
Save = Callable[..., Path]
EMA = pytest.mark.parametrize("ema_decay", [None, 0.9])


def tensors_of(state: TrainingState) -> dict[str, Tensor]:
    """Every tensor of a state by name."""
    tensors = {f"network.{name}": tensor for name, tensor in state.network.state_dict().items()}
    if state.average is not None:
        tensors |= {f"average.{name}": tensor for name, tensor in state.average.state_dict().items()}
    for index, entry in state.optimizers[0].state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{key}": value for key, value in entry.items()}
    return {name: tensor.clone() for name, tensor in tensors.items()}


# --- there and back ---


@EMA
def test_a_state_comes_back_bit_by_bit(
    ema_decay: float | None,
    tmp_path: Path,
    save: Save,
    make_settings: Callable[..., Settings],
    make_state: MakeState,
    make_trained: MakeState,
) -> None:
    settings = make_settings(train={"ema_decay": ema_decay})
    state, model = make_trained(settings)
    path = save(tmp_path, state, model)
    saved, progress = tensors_of(state), state.progress
    assert any(name.endswith("exp_avg_sq") for name in saved)

    fresh, _ = make_state(settings)
    assert not torch.equal(fresh.network.projection.weight, state.network.projection.weight)
    load_checkpoint(path, fresh)
    assert fresh.progress == progress
    assert_close(tensors_of(fresh), saved, rtol=0, atol=0)
    assert fresh.network.projection.weight is fresh.network.encoder.embedding.table.weight  # still tied
    assert fresh.optimizers[0].param_groups[0]["params"][0] is next(fresh.network.parameters())


@EMA
def test_users_get_the_evaluated_weights(
    ema_decay: float | None, tmp_path: Path, save: Save, make_settings: Callable[..., Settings], make_trained: MakeState
) -> None:
    state, model = make_trained(make_settings(train={"ema_decay": ema_decay}))
    path = save(tmp_path, state, model)
    assert state.evaluated is (state.average if ema_decay else state.network)
    assert_close(load_model(path).network.state_dict(), state.evaluated.state_dict(), rtol=0, atol=0)


def test_nothing_on_disk_is_a_pickle_or_is_loaded_as_one(
    tmp_path: Path,
    save: Save,
    trained: Trained,
    files_of: Callable[[Path], dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = save(tmp_path, *trained)
    for name, content in files_of(tmp_path).items():
        assert not content.startswith((b"PK", b"\x80", b"\x1f\x8b", b"\x93NUMPY")), name
        if name.endswith(".safetensors"):
            length = int.from_bytes(content[:8], "little")
            assert isinstance(json.loads(content[8 : 8 + length]), dict)  # its header is JSON, the rest plain numbers

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a pickle was read")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(module, name, refuse)
    load_checkpoint(path, trained[0])


def test_another_network_is_refused_by_the_names_that_differ(
    tmp_path: Path,
    save: Save,
    trained: Trained,
    make_settings: Callable[..., Settings],
    make_state: MakeState,
) -> None:
    path = save(tmp_path, *trained)
    other, _ = make_state(make_settings(model={"d_ff": 40}, train={"ema_decay": 0.9}))
    with pytest.raises(RunError, match=r"feed_forward\.inner\.bias is \(48,\), the network needs \(40,\)"):
        load_checkpoint(path, other)


def test_a_checkpoint_without_optimizer_state_is_refused(tmp_path: Path, save: Save, trained: Trained) -> None:
    state, model = trained
    del state.optimizers[0].state[state.network.encoder.embedding.table.weight]
    path = save(tmp_path, state, model)
    with pytest.raises(RunError, match=rf"{STATE}: no optimizer state of encoder\.embedding\.table\.weight"):
        load_checkpoint(path, state)


def test_in_fp16_a_run_goes_on_whose_updates_have_all_overflown(
    tmp_path: Path, save: Save, make_settings: Callable[..., Settings], make_state: MakeState
) -> None:
    """Its optimizers have no state yet; the scale of the loss has."""
    settings = make_settings(train={"optimizer": "muon"})
    state, model = make_state(settings)
    state.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**5)
    state.scaler.scale(torch.ones(()))  # makes the scale
    path = save(tmp_path, state, model)
    fresh, _ = make_state(settings)
    fresh.scaler = torch.amp.GradScaler("cpu")
    load_checkpoint(path, fresh)
    assert fresh.scaler.get_scale() == 2.0**5
    assert all(not optimizer.state for optimizer in fresh.optimizers)


# --- which are kept ---


def save_sequence(
    save: Save, directory: Path, state: TrainingState, model: Model, bleus: list[float | None], keep: int
) -> list[Validation]:
    """Save after steps 1, 2, …, validated with these scores, or not validated."""
    state.progress = Progress()
    for step, bleu in enumerate(bleus, 1):
        state.progress.step = step
        if bleu is not None:
            state.progress.validations.append(Validation(step, nll_per_token=step / 10, bleu=bleu))
        save(directory, state, model, keep=keep)
    return state.progress.validations


@pytest.mark.parametrize("keep", [1, 2, 3])
@pytest.mark.parametrize(
    "bleus",
    [
        [1, 2, 3, 4, 5, 6],  # ever better
        [6, 5, 4, 3, 2, 1],  # ever worse
        [3, 9, 3, 9, 3, 1],  # ties: the earlier is the better
        [None, 5, None, None, 1, None],  # saved more often than validated
        [None, None, None],  # never validated
    ],
)
def test_the_newest_k_and_the_best_k_are_kept(
    keep: int, bleus: list[float | None], tmp_path: Path, save: Save, trained: Trained
) -> None:
    validations = save_sequence(save, tmp_path, *trained, bleus, keep)
    ranked = [v.step for v in sorted(validations, key=lambda v: (-v.bleu, v.step))]
    newest = list(range(1, len(bleus) + 1))[-keep:]
    assert set(list_checkpoints(tmp_path)) == {*newest, *ranked[:keep]}
    assert [int(path.name[5:]) for path in last_checkpoints(tmp_path, keep)] == newest
    best = best_checkpoints(tmp_path, trained[0].progress, "bleu", keep)
    assert [int(path.name[5:]) for path in best] == ranked[:keep]
    assert (tmp_path / "last").resolve().name == f"step-{len(bleus):08d}"
    if validations:
        assert (tmp_path / "best").resolve().name == f"step-{ranked[0]:08d}"
    else:
        assert not (tmp_path / "best").exists()


def test_the_best_of_another_measure_is_the_best_that_is_still_there(
    tmp_path: Path, save: Save, trained: Trained
) -> None:
    """The lowest nll was at step 1, whose checkpoint is gone; best_by may change between two parts of a run."""
    state, model = trained
    save_sequence(save, tmp_path, state, model, [1, 2, 3, 4, 5], keep=2)
    assert list(list_checkpoints(tmp_path)) == [4, 5]
    best = best_checkpoints(tmp_path, state.progress, "nll", 2)
    assert [path.name for path in best] == ["step-00000004", "step-00000005"]


def test_where_a_run_was_stopped_is_kept_until_the_next_checkpoint_and_counts_for_nothing(
    tmp_path: Path, trained: Trained
) -> None:
    state, model = trained
    save_all: dict[str, Any] = {"best_by": "bleu", "keep": 2}
    state.progress = Progress()
    for step, regular in ((2, True), (3, False), (4, True), (5, False)):
        state.progress.step = step
        path = save_checkpoint(tmp_path, take_snapshot(state), model, regular=regular, **save_all)
        assert newest_checkpoint(tmp_path) == path
        assert (tmp_path / "last").resolve() == path
        load_checkpoint(path, state)
    assert sorted(path.name for path in tmp_path.glob("st*")) == ["step-00000002", "step-00000004", "stop-00000005"]
    assert [path.name for path in last_checkpoints(tmp_path, 2)] == ["step-00000002", "step-00000004"]


def test_the_links_survive_a_move_of_the_run(tmp_path: Path, save: Save, trained: Trained) -> None:
    save(tmp_path / "a", *trained)
    shutil.move(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "last").resolve() == tmp_path / "b" / "step-00000004"


@pytest.mark.parametrize("name", ["step-4.old", "step-", "step-4x", ".step-00000009.partial", "xstep-1"])
def test_only_complete_checkpoints_are_listed(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "step-00000010").mkdir()
    assert list(list_checkpoints(tmp_path)) == [10]


# --- what the progress knows ---


def test_the_best_is_the_first_of_the_highest_and_patience_counts_from_it() -> None:
    progress = Progress(validations=[Validation(1, 2.0, 30), Validation(2, 1.0, 25), Validation(3, 1.0, 30)])
    best = progress.best("bleu")
    assert best is not None
    assert (best.step, progress.validations_since_best("bleu")) == (1, 2)
    best = progress.best("nll")
    assert best is not None
    assert (best.step, progress.validations_since_best("nll")) == (2, 1)
    assert (Progress().best("bleu"), Progress().validations_since_best("bleu")) == (None, 0)


def test_every_number_of_the_optimizer_is_named_by_its_parameter(tmp_path: Path, save: Save, trained: Trained) -> None:
    """Not by its place in a list: another version of the network may have another order."""
    state, model = trained
    tensors = load_tensors(save(tmp_path, state, model) / STATE)
    for name, parameter in state.network.named_parameters():
        assert torch.equal(tensors[f"optimizer.{name}.exp_avg"], state.optimizers[0].state[parameter]["exp_avg"])
        assert tensors[f"optimizer.{name}.step"] == 1
