"""Choices by trial: only what is open is tried, nothing else changes, and what was chosen is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch.testing import assert_close

from data.batches import Batch, longer_side
from data.prepared import Prepared
from transformer.attention import Form
from transformer.config import Settings
from transformer.errors import ConfigError
from transformer.model import Transformer
from transformer.model_directory import new_network
from transformer.training import budget
from transformer.training import choices as module
from transformer.training.budget import longest_batch
from transformer.training.choices import Choices, autocast, choose, describe_choices, make_scaler
from transformer.training.loss import Loss, batch_loss
from transformer.training.run_directory import RunDirectory
from transformer.training.setup import set_up

MakeSettings = Callable[..., Settings]
CPU = torch.device("cpu")
ALL = ["bf16 explicit", "bf16 fused", "fp32 explicit", "fp32 fused"]


@pytest.fixture
def network(prepared: Prepared, make_settings: MakeSettings) -> Transformer:
    torch.manual_seed(1)
    return new_network(make_settings().model, prepared.src_vocabulary, prepared.tgt_vocabulary)


@pytest.fixture
def longest(prepared: Prepared) -> int:
    return int(longer_side(prepared.train).max())


# --- precision and attention ---


@pytest.mark.parametrize(
    ("precision", "attention", "timed"),
    [
        ("auto", "auto", ALL),
        ("fp32", "auto", ["fp32 explicit", "fp32 fused"]),
        ("fp16", "auto", ["fp16 explicit", "fp16 fused"]),
        ("auto", "fused", ["bf16 fused", "fp32 fused"]),
        ("bf16", "explicit", []),
    ],
)
def test_what_the_settings_leave_open_is_timed_and_the_rest_is_as_set(
    precision: str,
    attention: str,
    timed: list[str],
    network: Transformer,
    prepared: Prepared,
    make_settings: MakeSettings,
) -> None:
    settings = make_settings(train={"precision": precision, "attention": attention})
    found = choose(network, prepared, settings, CPU)
    assert sorted(found.seconds) == timed
    assert all(seconds > 0 for seconds in found.seconds.values())
    assert found.device == "cpu"
    assert precision in ("auto", found.precision)
    assert attention in ("auto", found.attention)
    if timed:
        assert min(found.seconds, key=found.seconds.__getitem__) == found.name


@pytest.mark.parametrize("fastest", ALL)
def test_the_fastest_is_chosen(
    fastest: str,
    network: Transformer,
    prepared: Prepared,
    make_settings: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def timed(candidates: dict[str, Any]) -> dict[str, float]:
        return {name: 1.0 if name == fastest else 2.0 for name in candidates}

    monkeypatch.setattr(module, "seconds_in_turn", timed)
    settings = make_settings(train={"precision": "auto", "attention": "auto"})
    assert choose(network, prepared, settings, CPU).name == fastest


def test_what_finds_no_memory_is_not_chosen(
    network: Transformer, prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(train={"precision": "auto", "attention": "auto"})
    monkeypatch.setattr(module, "seconds_in_turn", lambda _: {"fp32 fused": 1.0})
    found = choose(network, prepared, settings, CPU)
    assert (found.name, found.seconds) == ("fp32 fused", {"fp32 fused": 1.0})
    monkeypatch.setattr(module, "seconds_in_turn", lambda _: {})
    assert choose(network, prepared, settings, CPU).name == "bf16 fused"  # needs the least


@pytest.mark.parametrize(
    ("batch_tokens", "max_tokens", "n_processes", "expected"),
    [(80, 60, 1, 60), (80, 500, 1, 80), (80, 500, 2, 40), (10_000, 50, 1, 50), (80, "auto", 1, 80)],
)
def test_timed_is_a_micro_batch_of_an_update_of_one_process(
    batch_tokens: int,
    max_tokens: Any,
    n_processes: int,
    expected: int,
    network: Transformer,
    prepared: Prepared,
    make_settings: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    def timed(candidates: dict[str, Any]) -> dict[str, float]:
        batches = [candidate.args[0] for candidate in candidates.values()]
        sizes.extend(max(batch.src.numel(), batch.tgt_out.numel()) for batch in batches)
        return dict.fromkeys(candidates, 1.0)

    monkeypatch.setattr(module, "seconds_in_turn", timed)
    settings = make_settings(train={"attention": "auto", "batch_tokens": batch_tokens, "max_tokens": max_tokens})
    choose(network, prepared, settings, CPU, n_processes)
    assert len(sizes) == 2
    assert all(expected / 2 < size <= expected for size in sizes)


# --- the budget of a micro-batch ---


def test_a_budget_that_is_set_is_kept_and_nothing_is_run(
    network: Transformer, prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "batch_loss", None)
    found = choose(network, prepared, make_settings(train={"max_tokens": 61}), CPU)
    assert found == Choices("cpu", "fp32", "explicit", {}, 61)


@pytest.mark.parametrize("r_drop", [None, 1.0])
@pytest.mark.parametrize("n_processes", [1, 3])
def test_an_automatic_budget_holds_the_longest_pair_and_at_most_twice_an_update_of_a_process(
    n_processes: int,
    r_drop: float | None,
    longest: int,
    network: Transformer,
    prepared: Prepared,
    make_settings: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget, "_SMALLEST", 16)
    settings = make_settings(train={"max_tokens": "auto", "batch_tokens": 300, "r_drop": r_drop})
    found = choose(network, prepared, settings, CPU, n_processes)
    assert longest <= found.max_tokens <= 600 / n_processes
    tried = list(found.tokens_per_second)
    assert len(tried) >= 3
    assert found.max_tokens == max(tried, key=found.tokens_per_second.__getitem__)
    tiny = choose(network, prepared, make_settings(train={"max_tokens": "auto", "batch_tokens": 1}), CPU)
    assert tiny.max_tokens == longest  # no pair is left out, however small an update is


@pytest.mark.parametrize("factor", [1.0, 2.5, 6.0])
def test_the_trial_settles_below_what_finds_no_memory(
    factor: float,
    longest: int,
    network: Transformer,
    prepared: Prepared,
    make_settings: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = round(factor * longest)

    def limited(network: Transformer, batch: Batch, smoothing: float, r_drop: float | None = None) -> Loss:
        if max(batch.src.numel(), batch.tgt_out.numel()) > limit:
            raise torch.OutOfMemoryError("injected")
        return batch_loss(network, batch, smoothing)

    monkeypatch.setattr(budget, "_SMALLEST", 1)
    monkeypatch.setattr(budget, "bytes_per_token", lambda *_: 1.0)
    monkeypatch.setattr(module, "batch_loss", limited)
    settings = make_settings(train={"max_tokens": "auto", "batch_tokens": 20 * longest})
    found = choose(network, prepared, settings, CPU)
    assert found.max_tokens in found.tokens_per_second
    assert longest <= found.max_tokens < 2 * limit  # neighbours in length may fill a budget by half only
    run = module._pass(network, found, settings.train)
    largest = budget.largest_that_fits(run, longest, 40 * longest, 0, CPU)  # as on a GPU
    assert longest <= largest < limit + limit // longest
    assert largest + max(1, largest // 8) > limit


def test_too_little_memory_for_more_gives_the_smallest_budget(
    longest: int,
    network: Transformer,
    prepared: Prepared,
    make_settings: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget, "_SMALLEST", 1)
    monkeypatch.setattr(module, "available_bytes", lambda: 1000)
    settings = make_settings(train={"max_tokens": "auto", "batch_tokens": 300})
    assert choose(network, prepared, settings, CPU).max_tokens == longest


# --- no trace ---


def test_a_trial_leaves_weights_gradients_random_numbers_and_layer_drop_as_they_were(
    prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "_SMALLEST", 16)
    settings = make_settings(
        model={"layer_drop": 0.5}, train={"precision": "auto", "attention": "auto", "max_tokens": "auto"}
    )
    network = new_network(settings.model, prepared.src_vocabulary, prepared.tgt_vocabulary)
    assert network.training  # dropout draws numbers in the trial
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    gradients = [torch.randn_like(parameter) for parameter in network.parameters()][1:]
    for parameter, gradient in zip(list(network.parameters())[1:], gradients, strict=True):
        parameter.grad = gradient.clone()
    random_state = torch.get_rng_state()
    choose(network, prepared, settings, CPU)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert_close(network.state_dict(), weights, rtol=0, atol=0)
    first, *others = network.parameters()
    assert first.grad is None
    assert_close([parameter.grad for parameter in others], gradients, rtol=0, atol=0)
    assert (network.encoder.layer_drop, network.decoder.layer_drop) == (0.5, 0.5)


def test_every_layer_takes_part_in_a_trial(
    prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory must suffice when they do."""
    settings = make_settings(model={"layer_drop": 0.9}, train={"attention": "auto"})
    network = new_network(settings.model, prepared.src_vocabulary, prepared.tgt_vocabulary)
    passes = []
    for layer in (*network.encoder.layers, *network.decoder.layers):
        layer.register_forward_hook(lambda layer, *_: passes.append(layer))
    choose(network, prepared, settings, CPU)
    counts = [passes.count(layer) for layer in (*network.encoder.layers, *network.decoder.layers)]
    assert len(set(counts)) == 1
    assert counts[0] in (4, 6, 8)  # two forms, a pass to warm up and up to three that are timed


# --- precision ---


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_autocast_runs_products_in_the_chosen_precision(precision: Any, dtype: torch.dtype) -> None:
    with autocast(Choices("cpu", precision, "explicit", {})):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


@pytest.mark.parametrize("form", ["explicit", "fused"])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_the_gradient_in_half_precision_is_that_of_fp32_but_for_rounding(
    precision: Any, form: Form, network: Transformer, prepared: Prepared
) -> None:
    """Of the scaled loss, unscaled, as in training."""
    network.eval()  # no dropout
    batch = budget.ordinary_batch(prepared.train, 100)

    def gradient(choices: Choices) -> torch.Tensor:
        network.use_attention(choices.attention)
        optimizer = torch.optim.SGD(network.parameters())
        scaler = make_scaler(choices) or torch.amp.GradScaler("cpu", enabled=False)
        with autocast(choices):
            loss = batch_loss(network, batch, 0.1).smoothed / batch.n_tokens
        torch.autograd.backward(scaler.scale(loss))
        scaler.unscale_(optimizer)
        found = torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
        network.zero_grad()
        assert found.dtype == torch.float32
        return found

    exact = gradient(Choices("cpu", "fp32", form, {}))
    error = (gradient(Choices("cpu", precision, form, {})) - exact).norm() / exact.norm()
    assert 0 < error < {"bf16": 3e-2, "fp16": 4e-3}[precision]  # three bits less are eight times the error


def test_only_fp16_has_a_scaler_which_keeps_a_gradient_that_overflows_out_of_the_weights() -> None:
    assert make_scaler(Choices("cpu", "fp32", "explicit", {})) is None
    assert make_scaler(Choices("cpu", "bf16", "explicit", {})) is None
    scaler = make_scaler(Choices("cpu", "fp16", "explicit", {}))
    assert scaler is not None
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    for gradient, expected in ((1.0, 0.5), (float("inf"), 0.5), (1.0, 0.0)):
        before = scaler.get_scale()
        torch.autograd.backward(scaler.scale((weight * gradient).sum()))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        assert weight.tolist() == [expected, expected]
        assert (scaler.get_scale() < before) == (gradient == float("inf"))


# --- recorded ---


def test_choices_survive_json_and_those_of_older_versions_load() -> None:
    adapter = TypeAdapter(Choices)
    choices = Choices("cpu", "fp16", "fused", {"fp16 fused": 0.1 + 0.2}, 2048, {1024: 1 / 3, 2048: 2e5})
    assert adapter.validate_json(json.dumps(asdict(choices))) == choices
    old = '{"device": "cpu", "precision": "bf16", "attention": "explicit", "seconds": {"bf16 explicit": 0.5}}'
    assert adapter.validate_json(old) == Choices("cpu", "bf16", "explicit", {"bf16 explicit": 0.5}, 0, {})


def test_choices_are_described_in_one_line() -> None:
    plain = Choices("cpu", "bf16", "explicit", {}, 8192)
    assert describe_choices(plain) == (
        "computing on cpu in bf16 with explicit attention; micro-batches of at most 8,192 tokens"
    )
    timed = replace(
        plain,
        seconds={"fp32 explicit": 0.0312, "bf16 explicit": 0.0199},
        tokens_per_second={4096: 10_000.4, 8192: 12_000.0},
    )
    assert describe_choices(timed) == (
        "computing on cpu in bf16 with explicit attention, the fastest (fp32 explicit 0.0312 s, bf16 explicit 0.0199 "
        "s); micro-batches of at most 8,192 tokens, the fastest (4,096: 10,000 tokens/s, 8,192: 12,000 tokens/s)"
    )


# --- in a run ---


def test_the_choices_are_recorded_in_the_run_and_not_made_again(
    tmp_path: Any, prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(train={"precision": "auto", "attention": "auto", "max_tokens": "auto"})
    run = RunDirectory(tmp_path / "run")
    _, _, chosen = set_up(settings, prepared, run)
    assert len(chosen.seconds) == 4
    assert chosen.max_tokens > 0
    assert run.load_choices() == chosen

    def refuse(*args: Any) -> None:
        raise AssertionError("made again")

    monkeypatch.setattr("transformer.training.setup.choose", refuse)
    state, _, again = set_up(settings, prepared, run)
    assert again == chosen
    assert {m.form for m in state.network.modules() if hasattr(m, "form")} == {chosen.attention}


def test_trials_do_not_change_what_a_run_starts_from(
    tmp_path: Any, prepared: Prepared, make_settings: MakeSettings
) -> None:
    """The first weights and all later random numbers depend on the seed only."""
    starts = []
    for name, train in {
        "tried": {"precision": "auto", "attention": "auto", "max_tokens": "auto"},
        "set": {},
    }.items():
        state, _, _ = set_up(make_settings(train=train), prepared, RunDirectory(tmp_path / name))
        starts.append((state.network.state_dict(), torch.rand(5)))
    assert_close(starts[0], starts[1], rtol=0, atol=0)


def test_choices_made_on_another_device_are_made_again(
    tmp_path: Any, prepared: Prepared, make_settings: MakeSettings
) -> None:
    run = RunDirectory(tmp_path)
    run.save_choices(Choices("cuda", "bf16", "fused", {"bf16 fused": 0.1}))
    _, _, found = set_up(make_settings(train={"precision": "fp32"}), prepared, run)
    assert (found.device, found.precision, found.attention) == ("cpu", "fp32", "explicit")
    assert run.load_choices() == found


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_demanded_but_absent_is_a_wrong_setting(
    tmp_path: Any, prepared: Prepared, make_settings: MakeSettings
) -> None:
    with pytest.raises(ConfigError, match="cuda is demanded") as error:
        set_up(make_settings(train={"device": "cuda"}), prepared, RunDirectory(tmp_path / "run"))
    assert error.value.exit_code == 2
    assert not (tmp_path / "run").exists()  # nothing begun


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["auto", "fp16"])
def test_on_a_gpu_every_candidate_runs_and_random_numbers_stay(
    precision: str, network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    device = torch.device("cuda")
    before = torch.cuda.get_rng_state()
    settings = make_settings(train={"precision": precision, "attention": "auto", "max_tokens": "auto"})
    found = choose(network.to(device), prepared, settings, device)
    assert found.device == "cuda"
    assert len(found.seconds) >= 2
    assert found.max_tokens == 2 * settings.train.batch_tokens  # so little surely fits
    assert torch.equal(torch.cuda.get_rng_state(), before)


@pytest.mark.gpu
def test_on_a_gpu_the_budget_leaves_the_room_that_was_asked_for(
    network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    """Of a twentieth of the memory, half is kept spare: a batch of the budget takes no more than the other."""
    device = torch.device("cuda")
    total = torch.cuda.mem_get_info()[1]
    run = module._pass(network.to(device), Choices("cuda", "fp32", "explicit", {}), make_settings().train)
    torch.cuda.set_per_process_memory_fraction(0.05)
    try:
        found = budget.largest_that_fits(run, 500, 10**8, total // 40, device)
        torch.cuda.reset_peak_memory_stats()
        run(longest_batch(500, found))
        peak = torch.cuda.max_memory_allocated()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert total / 160 < peak <= total / 40
