"""One update: k micro-batches are one batch; clipping, moving average and counts follow their formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from data.batches import Batch, collate
from data.prepared import Prepared
from data.vocabulary import PAD_ID
from transformer.config import Settings, TrainSettings
from transformer.errors import RunError
from transformer.model_directory import Model
from transformer.training import update as module
from transformer.training.averaging import moving_average_copy
from transformer.training.choices import Choices
from transformer.training.loss import Loss
from transformer.training.state import TrainingState
from transformer.training.stream import Update
from transformer.training.update import UpdateResult
from transformer.training.update import update as train_on

MakeState = Callable[[Settings], tuple[TrainingState, Model]]
ON_CPU = Choices("cpu", "fp32", "explicit", {})


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(model={"dropout": 0.0})


@pytest.fixture
def sgd_state(settings: Settings, make_state: MakeState) -> Callable[..., TrainingState]:
    """A state under plain SGD: Adam divides by the gradient's size, and so magnifies rounding where it is zero."""

    def make(dtype: torch.dtype = torch.float32) -> TrainingState:
        state, _ = make_state(settings)
        state.network.to(dtype)
        optimizer: Any = torch.optim.SGD(state.network.parameters(), lr=0.0)
        state.optimizers = [optimizer]
        return state

    return make


def eight_sentences(prepared: Prepared, sizes: Sequence[int]) -> list[Batch]:
    """Sentences of unequal length, cut into batches of these sizes."""
    lengths = prepared.train.tgt_lengths
    chosen = np.argsort(lengths, kind="stable")[:: len(lengths) // 8][:8]
    assert len(set(lengths[chosen])) > 4
    return [collate(prepared.train, part) for part in np.split(chosen, np.cumsum(sizes)[:-1])]


def update(
    state: TrainingState, batches: list[Batch], lr: float, settings: TrainSettings, choices: Choices
) -> UpdateResult:
    return train_on(state, Update(0, 0, batches, sum(batch.n_tokens for batch in batches)), lr, settings, choices)


def weights_of(network: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in network.parameters()]


SPLITS = [[4, 4], [1] * 8, [7, 1], [1, 2, 5]]


@pytest.mark.parametrize("sizes", SPLITS)
def test_case_l3_micro_batches_are_one_batch(
    sizes: list[int], prepared: Prepared, settings: Settings, sgd_state: Callable[..., TrainingState]
) -> None:
    """The same loss, gradient norm and, after three updates of plain SGD, the same parameters."""
    whole, split = sgd_state(), sgd_state()
    for _ in range(3):
        one = update(whole, eight_sentences(prepared, [8]), 0.1, settings.train, ON_CPU)
        many = update(split, eight_sentences(prepared, sizes), 0.1, settings.train, ON_CPU)
        assert many.n_tokens == one.n_tokens
        for name in ("smoothed", "nll", "grad_norm"):
            assert float(getattr(many, name)) == pytest.approx(float(getattr(one, name)), rel=1e-6)
        assert_close(weights_of(split.network), weights_of(whole.network), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sizes", [[8], *SPLITS])
def test_the_gradient_is_that_of_pytorchs_mean_over_all_tokens_of_the_update(
    sizes: list[int], prepared: Prepared, settings: Settings, sgd_state: Callable[..., TrainingState]
) -> None:
    """In fp64 and with a rate of 1, the change of the weights is the gradient itself."""
    state = sgd_state(torch.float64)
    (whole,) = eight_sentences(prepared, [8])
    logits = state.network(whole.src, whole.tgt_in).flatten(0, 1)
    mean = F.cross_entropy(logits, whole.tgt_out.flatten(), ignore_index=PAD_ID, label_smoothing=0.1)
    expected = torch.autograd.grad(mean, list(state.network.parameters()))
    before = weights_of(state.network)
    result = update(state, eight_sentences(prepared, sizes), 1.0, settings.train, ON_CPU)
    found = [old - new for old, new in zip(before, weights_of(state.network), strict=True)]
    assert_close(found, list(expected), rtol=1e-6, atol=1e-7)  # the positions are in fp32
    assert float(result.smoothed) / result.n_tokens == pytest.approx(mean.item(), rel=1e-6)
    norm = torch.stack([gradient.square().sum() for gradient in expected]).sum().sqrt()
    assert float(result.grad_norm) == pytest.approx(float(norm), rel=1e-6)


def test_case_l3_one_token_of_loss_4_and_three_of_loss_1_make_1_75(
    prepared: Prepared,
    settings: Settings,
    sgd_state: Callable[..., TrainingState],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """(4 + 3) / 4, not (4 + 1) / 2: an average of averages would give short micro-batches too much weight."""
    state = sgd_state()
    loss_of_a_token = {1: 4.0, 3: 1.0}  # by tokens of the micro-batch

    def batch_loss(network: nn.Module, batch: Batch, smoothing: float, r_drop: float | None) -> Loss:
        """Sums of that value, whose gradient by the network's first number is the same value."""
        total = loss_of_a_token[batch.n_tokens] * batch.n_tokens
        first = next(network.parameters()).flatten()[0]
        return Loss((first - first.detach() + 1.0) * total, torch.tensor(total))

    monkeypatch.setattr(module, "batch_loss", batch_loss)
    batch = collate(prepared.train, np.array([0]))
    batches = [Batch(batch.src, batch.tgt_in, batch.tgt_out, batch.targets, 5, n) for n in (1, 3)]
    before = next(state.network.parameters()).flatten()[0].item()
    result = update(state, batches, 1.0, settings.train, ON_CPU)
    assert result.n_tokens == 4
    assert float(result.smoothed) / result.n_tokens == 1.75
    assert before - next(state.network.parameters()).flatten()[0].item() == pytest.approx(1.75, rel=1e-5)


def test_every_update_divides_by_its_own_tokens(
    prepared: Prepared, settings: Settings, sgd_state: Callable[..., TrainingState]
) -> None:
    """A short group, as the last of an epoch may be, has a mean of its own: copies of a sentence change nothing."""
    sentence = collate(prepared.train, np.array([3]))
    one, many = sgd_state(torch.float64), sgd_state(torch.float64)
    short = update(one, [sentence], 1.0, settings.train, ON_CPU)
    long = update(many, [sentence] * 5, 1.0, settings.train, ON_CPU)
    assert long.n_tokens == 5 * short.n_tokens
    assert float(long.grad_norm) == pytest.approx(float(short.grad_norm))
    assert_close(weights_of(many.network), weights_of(one.network))


@pytest.mark.parametrize("clip_norm", [0.01, 1e6])
def test_clipping_scales_the_whole_gradient_of_the_update(
    clip_norm: float,
    prepared: Prepared,
    make_settings: Callable[..., Settings],
    sgd_state: Callable[..., TrainingState],
) -> None:
    settings = make_settings(model={"dropout": 0.0}, train={"clip_norm": clip_norm})
    free, clipped = sgd_state(torch.float64), sgd_state(torch.float64)
    before = weights_of(free.network)
    batches = eight_sentences(prepared, [4, 4])
    norm = float(update(free, batches, 1.0, make_settings().train, ON_CPU).grad_norm)
    assert float(update(clipped, batches, 1.0, settings.train, ON_CPU).grad_norm) == pytest.approx(norm)
    for start, full, short in zip(before, weights_of(free.network), weights_of(clipped.network), strict=True):
        assert_close(short - start, (full - start) * min(1.0, clip_norm / norm), rtol=1e-4, atol=1e-9)


def test_the_moving_average_follows_the_weights_of_every_update(
    prepared: Prepared, make_settings: Callable[..., Settings], sgd_state: Callable[..., TrainingState]
) -> None:
    settings = make_settings(train={"ema_decay": 0.15})
    state = sgd_state(torch.float64)
    state.average = moving_average_copy(state.network)
    expected = weights_of(state.network)
    for step, decay in enumerate([1 / 10, 0.15, 0.15]):  # min(0.15, (1 + step) / (10 + step))
        state.progress.step = step
        update(state, eight_sentences(prepared, [8]), 0.5, settings.train, ON_CPU)
        new = weights_of(state.network)
        expected = [decay * old + (1 - decay) * weight for old, weight in zip(expected, new, strict=True)]
    assert_close(weights_of(state.average), expected)
    assert state.evaluated is state.average


def test_an_update_counts_real_and_padded_tokens_and_leaves_no_gradient(
    prepared: Prepared, settings: Settings, make_state: MakeState
) -> None:
    state, _ = make_state(settings)
    batches = eight_sentences(prepared, [4, 4])
    result: UpdateResult = update(state, batches, 1e-3, settings.train, ON_CPU)
    real = [(b.src != PAD_ID).sum() + (b.tgt_out != PAD_ID).sum() for b in batches]
    assert result.n_real == int(sum(real))
    assert result.n_padded == sum(b.src.numel() + b.tgt_in.numel() for b in batches)
    assert result.n_tokens == int(sum((b.tgt_out != PAD_ID).sum() for b in batches))
    assert all(parameter.grad is None for parameter in state.network.parameters())


def test_dropout_is_on_while_training(
    prepared: Prepared, make_settings: Callable[..., Settings], make_state: MakeState
) -> None:
    def smoothed(dropout: float) -> float:
        settings = make_settings(model={"dropout": dropout})
        state, _ = make_state(settings)
        return float(update(state, eight_sentences(prepared, [8]), 1e-3, settings.train, ON_CPU).smoothed)

    assert smoothed(0.3) != smoothed(0.0)


def test_in_bf16_the_loss_is_close_and_the_weights_stay_fp32(
    prepared: Prepared, settings: Settings, make_state: MakeState
) -> None:
    (one, _), (other, _) = make_state(settings), make_state(settings)
    batches = eight_sentences(prepared, [4, 4])
    expected = update(one, batches, 1e-3, settings.train, ON_CPU)
    found = update(other, batches, 1e-3, settings.train, Choices("cpu", "bf16", "explicit", {}))
    assert float(found.nll) == pytest.approx(float(expected.nll), rel=1e-2)
    assert float(found.nll) != float(expected.nll)
    assert {parameter.dtype for parameter in other.network.parameters()} == {torch.float32}


# --- too little memory ---


def limited(monkeypatch: pytest.MonkeyPatch, most: int, during: str = "backward") -> list[int]:
    """Micro-batches of more padded tokens than `most` find too little memory; returns the sizes that were tried."""
    real, tried = module.batch_loss, []

    class Full(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Tensor) -> Tensor:
            return value.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore")

    def batch_loss(network: nn.Module, batch: Batch, smoothing: float, r_drop: float | None) -> Loss:
        size = batch.src.numel() + batch.tgt_out.numel()
        tried.append(size)
        if size <= most:
            return real(network, batch, smoothing, r_drop)  # type: ignore[arg-type]
        if during == "forward":
            raise torch.OutOfMemoryError("CUDA out of memory")
        # The backward pass gets through the part that runs first, and breaks off with half a gradient made.
        loss = real(network, batch, smoothing, r_drop)  # type: ignore[arg-type]
        early = next(iter(network.parameters())).sum()
        return Loss(loss.smoothed + early + Full.apply(loss.smoothed), loss.nll)

    monkeypatch.setattr(module, "batch_loss", batch_loss)
    return tried


@pytest.mark.parametrize("during", ["forward", "backward"])
def test_too_little_memory_halves_the_micro_batch_and_keeps_the_gradient(
    during: str,
    prepared: Prepared,
    settings: Settings,
    sgd_state: Callable[..., TrainingState],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole, split = sgd_state(), sgd_state()
    expected = update(whole, eight_sentences(prepared, [2, 6]), 0.1, settings.train, ON_CPU)
    tried = limited(monkeypatch, 60, during)
    found = update(split, eight_sentences(prepared, [2, 6]), 0.1, settings.train, ON_CPU)
    assert float(found.nll) == pytest.approx(float(expected.nll), rel=1e-6)
    assert float(found.grad_norm) == pytest.approx(float(expected.grad_norm), rel=1e-5)
    assert_close(weights_of(split.network), weights_of(whole.network), rtol=1e-5, atol=1e-6)
    assert max(tried) > 60
    told = capsys.readouterr().err
    assert "step 1: out of memory" in told and "two halves" in told

    tried.clear()  # the next update does not try in vain what has failed
    update(split, eight_sentences(prepared, [2, 6]), 0.1, settings.train, ON_CPU)
    assert max(tried) <= 60
    assert capsys.readouterr().err == ""


def test_one_pair_that_does_not_fit_is_said_and_never_dropped(
    prepared: Prepared, settings: Settings, sgd_state: Callable[..., TrainingState], monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, 10)
    with pytest.raises(RunError, match=r"out of memory at step 1: one sentence pair alone.*data\.max_length"):
        update(sgd_state(), eight_sentences(prepared, [8]), 0.1, settings.train, ON_CPU)


# --- dropout is a function of the place ---


def test_an_update_draws_the_same_numbers_whatever_was_drawn_before(
    prepared: Prepared, make_settings: Callable[..., Settings], make_state: MakeState
) -> None:
    settings = make_settings(model={"dropout": 0.3})

    def smoothed(step: int) -> float:
        state, _ = make_state(settings)
        state.progress.step = step
        torch.rand(int(torch.randint(1, 9, ())))
        return float(update(state, eight_sentences(prepared, [3, 5]), 1e-3, settings.train, ON_CPU).smoothed)

    assert smoothed(0) == smoothed(0) != smoothed(1)


def test_micro_batches_draw_different_numbers(
    prepared: Prepared, make_settings: Callable[..., Settings], make_state: MakeState
) -> None:
    settings = make_settings(model={"dropout": 0.3})
    state, _ = make_state(settings)
    sentence = collate(prepared.train, np.array([3]))
    first = update(state, [sentence], 0.0, settings.train, ON_CPU)
    both = update(state, [sentence, sentence], 0.0, settings.train, ON_CPU)
    assert float(both.smoothed) != pytest.approx(2 * float(first.smoothed), rel=1e-6)


def test_in_fp16_a_gradient_that_overflows_is_skipped_and_the_scale_is_lowered(
    prepared: Prepared, settings: Settings, make_state: MakeState
) -> None:
    state, _ = make_state(settings)
    state.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    overflow = state.network.projection.weight.register_hook(lambda gradient: gradient * torch.inf)
    before = weights_of(state.network)
    result = update(state, eight_sentences(prepared, [8]), 1e-3, settings.train, ON_CPU)
    assert not result.grad_norm.isfinite()
    assert_close(weights_of(state.network), before, rtol=0, atol=0)
    assert state.scaler.get_scale() == 2.0**15
    overflow.remove()
    for _ in range(9):
        result = update(state, eight_sentences(prepared, [8]), 1e-3, settings.train, ON_CPU)
    assert result.grad_norm.isfinite()
    assert all(bool(parameter.isfinite().all()) for parameter in state.network.parameters())
    assert not torch.equal(weights_of(state.network)[0], before[0])


@pytest.mark.parametrize("clip_norm", [None, 1.0])
def test_in_fp16_several_optimizers_step_together_or_not_at_all(
    clip_norm: float | None, prepared: Prepared, make_settings: Callable[..., Settings], make_state: MakeState
) -> None:
    """An overflow in a norm, which AdamW trains, holds back the matrices of Muon, too."""
    settings = make_settings(model={"dropout": 0.0}, train={"optimizer": "muon", "clip_norm": clip_norm})
    state, _ = make_state(settings)
    assert len(state.optimizers) == 2
    state.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    norm = next(p for name, p in state.network.named_parameters() if p.ndim == 1 and "norm" in name)
    norm.register_hook(lambda gradient: gradient * torch.inf)
    before = weights_of(state.network)
    update(state, eight_sentences(prepared, [8]), 1e-3, settings.train, ON_CPU)
    assert_close(weights_of(state.network), before, rtol=0, atol=0)
    assert state.scaler.get_scale() == 2.0**15
