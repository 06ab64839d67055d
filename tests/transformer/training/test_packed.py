"""Training on packed batches is training on padded ones: loss, gradients, updates, resuming; compiled once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from data.batches import collate
from data.packing import AnyBatch, PackedBatch, PackedShape, filler_batch, pack, pack_one
from data.prepared import Prepared
from transformer.config import Settings
from transformer.errors import ConfigError, RunError
from transformer.model import Transformer
from transformer.model_directory import Model, new_network
from transformer.training import choices as choices_module
from transformer.training import compilation
from transformer.training import update as update_module
from transformer.training.budget import largest_that_fits, packed_batch
from transformer.training.choices import Choices, choose
from transformer.training.compilation import compilation_failed, compile_loss
from transformer.training.group import Group
from transformer.training.loop import train
from transformer.training.loss import Loss, batch_loss
from transformer.training.plan import measure_plan
from transformer.training.plan_page import format_plan
from transformer.training.run_directory import RunDirectory
from transformer.training.state import TrainingState
from transformer.training.stream import Update, open_stream
from transformer.training.update import update

MakeSettings = Callable[..., Settings]
MakeState = Callable[[Settings], tuple[TrainingState, Model]]
CPU = torch.device("cpu")
PACKED = Choices("cpu", "fp32", "explicit", {}, 60, batching="packed")
SHAPE = PackedShape(n_src=75, n_tgt=80, n_pairs=9, longest=30)
KINDS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm_position": "pre"},
    "rotary": {"positions": "rotary", "norm": "rms_norm", "activation": "swiglu"},
    "own widths": {"d_head": 6, "d_value": 5, "embedding_norm": True, "scaling": "projection"},
    "projection bias": {"scaling": "projection", "projection_bias": True},
}


@pytest.fixture(params=KINDS)
def network(request: pytest.FixtureRequest, prepared: Prepared, make_settings: MakeSettings) -> Transformer:
    settings = make_settings(model={"dropout": 0.0, "n_decoder_layers": 2} | KINDS[request.param])
    torch.manual_seed(3)
    network = new_network(settings.model, prepared.src_vocabulary, prepared.tgt_vocabulary).double()
    if network.projection.bias is not None:
        nn.init.normal_(network.projection.bias)
    return network


def gradients(network: nn.Module, losses: list[Loss]) -> list[Tensor]:
    network.zero_grad()
    torch.autograd.backward([loss.smoothed for loss in losses])
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in network.parameters()]


# --- one micro-batch ---


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_packed_micro_batches_have_the_loss_and_gradient_of_a_padded_one(
    smoothing: float, network: Transformer, prepared: Prepared
) -> None:
    pairs = np.random.default_rng(2).permutation(len(prepared.train))[:12]
    packed = pack(prepared.train, pairs, SHAPE)
    assert len(packed) > 1
    whole = batch_loss(network, collate(prepared.train, pairs), smoothing)
    parts = [batch_loss(network, batch, smoothing) for batch in packed]
    assert_close(sum(part.smoothed for part in parts), whole.smoothed, rtol=1e-12, atol=0)
    assert_close(sum(part.nll for part in parts), whole.nll, rtol=1e-12, atol=0)
    assert_close(gradients(network, parts), gradients(network, [whole]), rtol=1e-10, atol=1e-12)


def test_the_amount_of_filler_changes_nothing(network: Transformer, prepared: Prepared) -> None:
    pairs = np.arange(4)
    tight, wide = SHAPE, PackedShape(n_src=96, n_tgt=130, n_pairs=30, longest=30)
    losses = [batch_loss(network, pack_one(prepared.train, pairs, shape), 0.1) for shape in (tight, wide)]
    assert_close(losses[0].smoothed, losses[1].smoothed, rtol=1e-12, atol=0)
    assert_close(gradients(network, losses[:1]), gradients(network, losses[1:]), rtol=1e-10, atol=1e-12)


def test_nothing_but_filler_has_no_loss_and_no_gradient(network: Transformer) -> None:
    loss = batch_loss(network, filler_batch(SHAPE), 0.1)
    assert_close(torch.stack([loss.smoothed.detach(), loss.nll]), torch.zeros(2).double(), atol=1e-10, rtol=0)
    for name, gradient in zip(dict(network.named_parameters()), gradients(network, [loss]), strict=True):
        if name == "projection.bias":  # what two sums have in common is taken off
            assert_close(gradient, torch.zeros_like(gradient), atol=1e-12, rtol=0)
        else:
            assert gradient.count_nonzero() == 0


def test_in_bf16_packed_and_padded_are_close(network: Transformer, prepared: Prepared) -> None:
    network.float()
    pairs = np.arange(4)
    with torch.autocast("cpu", torch.bfloat16):
        packed = batch_loss(network, pack_one(prepared.train, pairs, SHAPE), 0.1)
    assert_close(packed.smoothed, batch_loss(network, collate(prepared.train, pairs), 0.1).smoothed, rtol=1e-2, atol=0)


# --- updates ---


@pytest.mark.parametrize("changes", [{}, {"augmentation": {"src": {"bpe_dropout": 0.2}, "merge_sentences": 0.3}}])
def test_thirty_updates_on_packed_batches_are_thirty_on_padded_ones(
    changes: dict[str, Any], prepared: Prepared, make_settings: MakeSettings, make_state: MakeState
) -> None:
    """Plain SGD: Adam divides by the size of the gradient, and so magnifies rounding where it is zero."""
    settings = make_settings(model={"dropout": 0.0}, train=changes)
    states, results = [], []
    for batching in ("padded", "packed"):
        state, _ = make_state(settings)
        optimizer: Any = torch.optim.SGD(state.network.parameters(), lr=0.0)
        state.optimizers = [optimizer]
        stream, place = open_stream(settings, prepared, 60, batching="packed"), (0, 0)
        if batching == "padded":
            stream.shape = None  # of the same sentences: padded updates have pairs of about one length
        results.append([])
        for _ in range(30):
            taken = stream.take(*place)
            assert all(isinstance(batch, PackedBatch) == (batching == "packed") for batch in taken.batches)
            results[-1].append(update(state, taken, 0.1, settings.train, replace(PACKED, batching=batching)))
            place = taken.part, taken.update + 1
        stream.close()
        states.append(state)
    for padded, packed in zip(*results, strict=True):
        for name in ("part", "update", "n_tokens", "n_real"):
            assert getattr(packed, name) == getattr(padded, name)
        for name in ("smoothed", "nll", "grad_norm"):
            assert float(getattr(packed, name)) == pytest.approx(float(getattr(padded, name)), rel=1e-4)
    assert float(results[0][-1].nll) < 0.9 * float(results[0][0].nll)  # it has learnt something
    weights = [list(state.network.parameters()) for state in states]
    assert_close(weights[1], weights[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [2, 3])
def test_processes_share_out_the_packed_micro_batches_of_an_update(
    size: int, prepared: Prepared, make_settings: MakeSettings
) -> None:
    streams = [open_stream(make_settings(), prepared, 60, Group(rank, size), batching="packed") for rank in range(size)]
    shapes = {stream.shape for stream in streams}
    assert len(shapes) == 1
    for number in range(7):
        taken = [stream.make(0, number) for stream in streams]
        assert len({len(each.batches) for each in taken}) == 1
        batches = [batch for each in taken for batch in each.batches]
        assert len({(batch.src.shape, batch.tgt_out.shape) for batch in batches}) == 1
        assert {each.n_tokens for each in taken} == {sum(batch.n_tokens for batch in batches)}
    for stream in streams:
        stream.close()


def test_too_little_memory_for_a_packed_micro_batch_is_said(
    prepared: Prepared, make_settings: MakeSettings, make_state: MakeState, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Loss:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(update_module, "batch_loss", full)
    settings = make_settings()
    batch = pack_one(prepared.train, np.arange(3), SHAPE)
    with pytest.raises(RunError, match=r"at step 1: a packed micro-batch, of 75 source and 80 .* train\.max_tokens"):
        update(make_state(settings)[0], Update(0, 0, [batch], batch.n_tokens), 0.1, settings.train, PACKED)


class Watched(TorchDispatchMode):
    """Notes every operation that hands a number from the device to Python, or has a shape only the device knows."""

    WAITING = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "unique", "_unique2")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.n_operations = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        self.n_operations += 1
        if name in self.WAITING:
            self.found.append(name)
        return function(*args, **kwargs or {})


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_an_update_does_not_wait_for_the_device(
    packed: bool, optimizer: str, prepared: Prepared, make_settings: MakeSettings, make_state: MakeState
) -> None:
    settings = make_settings(train={"clip_norm": 1.0, "ema_decay": 0.9, "optimizer": optimizer})
    state, _ = make_state(settings)
    pairs = np.arange(5)
    batch = pack_one(prepared.train, pairs, SHAPE) if packed else collate(prepared.train, pairs)
    taken = Update(0, 0, [batch], batch.n_tokens)
    update(state, taken, 1e-3, settings.train, PACKED)  # the first one makes the optimizer's state
    with Watched() as watched:
        update(state, taken, 1e-3, settings.train, PACKED)
    assert watched.n_operations > 100
    assert watched.found == []
    with Watched() as watched:
        float(torch.ones(()) + 1)
    assert watched.found  # it does notice


def test_pinned_batches_are_pinned_by_the_thread_that_makes_them(
    prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned: list[Tensor] = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda tensor: pinned.append(tensor) or tensor.clone())
    for batching, n_tensors in (("packed", 7), ("padded", 4)):
        pinned.clear()
        stream = open_stream(make_settings(), prepared, 60, batching=batching, pin=True)  # type: ignore[arg-type]
        taken = stream.make(0, 0)
        assert len(pinned) == n_tensors * len(taken.batches)
        stream.close()


# --- compiled ---


@pytest.fixture
def dynamo() -> Iterator[Any]:
    import torch._dynamo

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield torch._dynamo.utils.counters
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_passes_over_many_packed_batches_are_compiled_once(
    backend: str,
    dropout: float,
    dynamo: Any,
    prepared: Prepared,
    make_settings: MakeSettings,
    make_state: MakeState,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also in bf16, with clipping, and where the network is evaluated in between."""
    monkeypatch.setattr(compilation, "BACKEND", backend)
    settings = make_settings(model={"dropout": dropout}, train={"clip_norm": 1.0})
    plain, compiled = make_state(settings)[0], make_state(settings)[0]
    compiled.compiled = compile_loss(compiled.network)
    choices = replace(PACKED, precision="bf16")
    stream, place = open_stream(settings, prepared, 60, batching="packed"), (0, 0)
    n_batches = 0
    for number in range(8):
        taken = stream.take(*place)
        found = update(compiled, taken, 1e-3, settings.train, choices)
        if dropout == 0:
            expected = update(plain, taken, 1e-3, settings.train, choices)
            assert float(found.nll) == pytest.approx(float(expected.nll), rel=1e-2)
        place, n_batches = (taken.part, taken.update + 1), n_batches + len(taken.batches)
        if number == 4:
            compiled.network.eval()
            batch_loss(compiled.network, collate(prepared.train, np.arange(3)), 0.1)
            compiled.network.train()
    stream.close()
    assert n_batches > 12
    assert dynamo["stats"]["unique_graphs"] == 1
    assert not dynamo["graph_break"]


def test_a_failure_of_the_compiler_is_one_message_with_a_remedy(
    prepared: Prepared, make_settings: MakeSettings
) -> None:
    network = new_network(make_settings().model, prepared.src_vocabulary, prepared.tgt_vocabulary)
    with pytest.raises(RuntimeError) as error:
        compile_loss(network, backend=_broken)(pack_one(prepared.train, np.arange(3), SHAPE), 0.1)
    explained = compilation_failed(error.value)
    assert explained is not None
    assert "torch.compile failed" in str(explained) and "train.compile=false" in str(explained)
    assert compilation_failed(RuntimeError("anything else")) is None


def _broken(*_: Any) -> Any:
    raise ValueError("no C++ compiler here")


# --- whole runs ---


def lines_of(run: RunDirectory) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    differ = ("seconds", "tokens_per_second", "memory_gib")
    return [{k: v for k, v in line.items() if k not in differ} for line in lines]


def test_a_packed_and_compiled_run_goes_on_where_it_ended(
    tmp_path: Path, prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was made ahead and not trained on counts for nothing; the model is that of an undisturbed run."""
    monkeypatch.setattr(compilation, "BACKEND", "aot_eager")
    wanted = {"batching": "packed", "compile": True, "validate_every": 20, "max_steps": 10}
    settings, short = make_settings(train=wanted), make_settings(train=wanted | {"max_steps": 4})
    whole, parts = RunDirectory(tmp_path / "whole"), RunDirectory(tmp_path / "parts")
    train(settings, prepared, whole)
    train(short, prepared, parts)
    train(settings, prepared, parts)
    recorded = json.loads(whole.choices.read_text())
    assert (recorded["batching"], recorded["compiled"]) == ("packed", True)
    logged = [[line for line in lines_of(run) if "lr" in line] for run in (whole, parts)]
    assert [line["step"] for line in logged[0]] == list(range(1, 11))
    assert logged[0] == logged[1]
    assert all(0 < line["padding_share"] < 0.6 for line in logged[0])
    names = [(run.checkpoints / "step-00000010" / "model.safetensors").read_bytes() for run in (whole, parts)]
    assert names[0] == names[1]


def test_compilation_may_be_turned_off_when_a_run_goes_on(
    tmp_path: Path, prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDirectory(tmp_path / "run")
    made: list[Any] = []
    monkeypatch.setattr("transformer.training.setup.compile_loss", lambda network: made.append(network) or None)
    wanted = {"batching": "packed", "compile": True, "max_steps": 2}
    train(make_settings(train=wanted), prepared, run)
    assert len(made) == 1
    train(make_settings(train=wanted | {"compile": False, "max_steps": 3}), prepared, run)
    assert len(made) == 1
    assert not json.loads(run.choices.read_text())["compiled"]


# --- what is chosen ---


def test_on_a_cpu_batches_are_padded_unless_asked_for(
    network: Transformer, prepared: Prepared, make_settings: MakeSettings
) -> None:
    found = choose(network, prepared, make_settings(), CPU)
    assert (found.batching, found.compiled) == ("padded", False)
    found = choose(network, prepared, make_settings(train={"batching": "packed"}), CPU)
    assert (found.batching, found.compiled) == ("packed", False)
    with pytest.raises(ConfigError, match="needs batches of one shape"):
        choose(network, prepared, make_settings(train={"compile": True}), CPU)


@pytest.mark.parametrize(
    ("precision", "model", "train_", "expected"),
    [
        ("bf16", {"d_head": 16}, {}, ("packed", True)),
        ("fp16", {"d_head": 16}, {}, ("packed", True)),
        ("bf16", {"d_head": 16}, {"compile": False}, ("packed", False)),
        ("bf16", {"d_head": 16, "layer_drop": 0.1}, {}, ("packed", False)),
        ("bf16", {"d_head": 16, "attention_dropout": 0.1}, {}, ("padded", False)),
        ("bf16", {"d_head": 16}, {"r_drop": 1.0}, ("padded", False)),
        ("bf16", {"d_head": 16}, {"batching": "padded"}, ("padded", False)),
        ("bf16", {"d_head": 12}, {}, ("padded", False)),
        ("fp32", {"d_head": 16}, {}, ("padded", False)),
    ],
)
def test_on_a_gpu_batches_are_packed_where_nothing_speaks_against_it(
    precision: Any,
    model: dict[str, Any],
    train_: dict[str, Any],
    expected: tuple[str, bool],
    network: Transformer,
    make_settings: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choices_module, "_packed_runs", lambda *_: True)
    settings = make_settings(model=model, train=train_)
    found = choices_module._with_batching(Choices("cuda", precision, "fused", {}), network, settings, 20)
    assert (found.batching, found.compiled) == expected


def test_a_gpu_on_which_a_packed_batch_does_not_go_gets_padded_ones(
    network: Transformer,
    make_settings: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(batch: PackedBatch) -> None:
        raise RuntimeError("FlashAttention only supports Ampere GPUs or newer.\nmore")

    monkeypatch.setattr(choices_module, "_pass", lambda *_: fails)
    settings = make_settings(model={"d_head": 16})
    found = choices_module._with_batching(Choices("cuda", "bf16", "fused", {}), network, settings, 20)
    assert found.batching == "padded"
    assert "only supports Ampere GPUs or newer.)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("precision", "d_head", "words"), [("fp32", 16, "bf16 or fp16"), ("bf16", 12, "a multiple of 8")]
)
def test_packed_batches_that_a_gpu_cannot_do_are_refused(
    precision: Any, d_head: int, words: str, network: Transformer, make_settings: MakeSettings
) -> None:
    settings = make_settings(model={"d_head": d_head}, train={"batching": "packed"})
    with pytest.raises(ConfigError, match=words):
        choices_module._with_batching(Choices("cuda", precision, "fused", {}), network, settings, 20)


@pytest.mark.parametrize(
    ("model", "train_", "words"),
    [
        ({"attention_dropout": 0.1}, {"batching": "packed"}, "set model.attention_dropout 0"),
        ({}, {"batching": "packed", "r_drop": 5.0}, "it knows no train.r_drop"),
        ({}, {"batching": "padded", "compile": True}, "compile true needs batches of one shape"),
        ({"layer_drop": 0.1}, {"batching": "packed", "compile": True}, "set model.layer_drop 0"),
        ({}, {"compile": True, "parallel": "fully_shard"}, "set train.parallel replicate"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(
    model: dict[str, Any], train_: dict[str, Any], words: str, make_settings: MakeSettings
) -> None:
    with pytest.raises(ValueError, match=words):
        make_settings(model=model, train=train_)


# --- before a run ---


def test_a_plan_tells_of_packed_batches(prepared: Prepared, make_settings: MakeSettings) -> None:
    settings = make_settings(train={"batching": "packed"}, model={"dropout": 0.0})
    plan = measure_plan(settings, prepared)
    stream = open_stream(settings, prepared, 60, batching="packed")
    stream.close()
    assert stream.shape is not None
    assert plan.sample.largest == stream.shape
    assert plan.sample.n_padded == plan.sample.n_micro_batches * (stream.shape.n_src + stream.shape.n_tgt)
    assert plan.memory["activations"] > 0
    assert "batches of training are packed" in format_plan(plan)


@pytest.mark.parametrize("limit", [100, 137, 400])
def test_the_largest_packed_budget_is_found_by_trial(limit: int) -> None:
    def run(batch: AnyBatch) -> None:
        assert isinstance(batch, PackedBatch)
        if batch.n_padded > 2 * limit:
            raise torch.OutOfMemoryError

    found = largest_that_fits(run, 20, 10_000, 0, CPU, packed_batch)
    assert limit * 7 / 8 - 1 <= found <= limit
