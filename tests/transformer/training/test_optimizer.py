"""Adam, AdamW and Muon against their published equations, and clipping against its formula."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from transformer.config import ModelSettings, TrainSettings
from transformer.errors import ConfigError, RunError
from transformer.model import Transformer
from transformer.training.muon import Muon, orthogonal
from transformer.training.optimizer import clip_gradients, make_optimizers, set_learning_rate

TINY: dict[str, Any] = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 24, "n_heads": 2}
KINDS = ["adam", "adamw", "muon"]


def network_with_gradients(*gradients: Tensor) -> nn.Module:
    network = nn.ParameterList([nn.Parameter(torch.randn_like(gradient)) for gradient in gradients])
    for parameter, gradient in zip(network.parameters(), gradients, strict=True):
        parameter.grad = gradient.clone()
    return network


def transformer_with_gradients(**model: Any) -> Transformer:
    network = Transformer(ModelSettings(**TINY, **model), 11, 11)
    for parameter in network.parameters():
        parameter.grad = torch.randn_like(parameter)
    return network


def names_of(optimizer: torch.optim.Optimizer, network: nn.Module) -> list[str]:
    names = {parameter: name for name, parameter in network.named_parameters()}
    return [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]


def take_steps(network: nn.Module, settings: TrainSettings, rates: list[float], gradients: list[Tensor]) -> None:
    """One step for each rate, each on the gradient of the only parameter that stands beside it."""
    (parameter,) = network.parameters()
    optimizers = make_optimizers(network, settings)
    for rate, gradient in zip(rates, gradients, strict=True):
        parameter.grad = gradient.clone()
        set_learning_rate(optimizers, rate)
        for optimizer in optimizers:
            optimizer.step()


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_a_step_is_that_of_kingma_and_ba_with_the_papers_constants(kind: str, weight_decay: float) -> None:
    """Kingma & Ba 2015, algorithm 1; Loshchilov & Hutter 2019, algorithm 2; β 0.9 and 0.98, ε 1e-9 of §5.3."""
    if kind == "adam":
        weight_decay = 0.0
    rates, gradients = [1e-3, 2e-3, 5e-4], [torch.randn(4, 3) for _ in range(3)]
    network = network_with_gradients(gradients[0])
    theta = next(network.parameters()).detach().double()
    m, v = torch.zeros_like(theta), torch.zeros_like(theta)
    take_steps(network, TrainSettings(optimizer=kind, weight_decay=weight_decay), rates, gradients)
    for t, (rate, gradient) in enumerate(zip(rates, gradients, strict=True), 1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.98 * v + 0.02 * gradient**2
        decayed = theta * (1 - rate * weight_decay)
        theta = decayed - rate * (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)).sqrt() + 1e-9)
    assert_close(next(network.parameters()).detach().double(), theta, rtol=1e-5, atol=1e-6)


def test_the_constants_of_adam_are_settings() -> None:
    for kind in ("adam", "adamw"):
        settings = TrainSettings(optimizer=kind, adam_beta1=0.8, adam_beta2=0.9, adam_epsilon=1e-3)
        for group in make_optimizers(nn.Linear(2, 2), settings)[0].param_groups:
            assert (group["betas"], group["eps"]) == ((0.8, 0.9), 1e-3)


@pytest.mark.parametrize("tie_embeddings", ["three_way", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_trained_parameter_is_optimised_once_and_frozen_ones_never(kind: str, tie_embeddings: str) -> None:
    network = transformer_with_gradients(tie_embeddings=tie_embeddings)
    network.encoder.layers[0].feed_forward.requires_grad_(False)
    network.decoder.final_norm.requires_grad_(False)
    optimizers = make_optimizers(network, TrainSettings(optimizer=kind))
    names = [name for optimizer in optimizers for name in names_of(optimizer, network)]
    assert sorted(names) == sorted(name for name, each in network.named_parameters() if each.requires_grad)


@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_parameter_stays_and_the_others_move(kind: str) -> None:
    network = transformer_with_gradients()
    network.encoder.requires_grad_(False)
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    optimizers = make_optimizers(network, TrainSettings(optimizer=kind))
    set_learning_rate(optimizers, 0.1)
    for optimizer in optimizers:
        optimizer.step()
    for name, parameter in network.named_parameters():
        assert torch.equal(parameter, before[name]) is not parameter.requires_grad, name


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_left_to_train_is_refused(kind: str) -> None:
    network = transformer_with_gradients().requires_grad_(False)
    with pytest.raises(RunError, match=r"train\.freeze leaves nothing to train"):
        make_optimizers(network, TrainSettings(optimizer=kind))


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_weight_decay_shrinks_matrices_and_nothing_else(kind: str) -> None:
    """With a gradient of zero nothing else moves a parameter."""
    network = transformer_with_gradients(attention_bias=True)
    for parameter in network.parameters():
        nn.init.normal_(parameter)
        parameter.grad = torch.zeros_like(parameter)
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    optimizers = make_optimizers(network, TrainSettings(optimizer=kind, weight_decay=0.5))
    set_learning_rate(optimizers, 0.1)
    for optimizer in optimizers:
        optimizer.step()
    for name, parameter in network.named_parameters():
        assert_close(parameter.detach(), before[name] * (0.95 if parameter.ndim == 2 else 1.0), msg=name)


# --- Muon ---


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_muon_takes_the_matrices_inside_layers_and_adamw_the_rest(norm_position: str) -> None:
    network = transformer_with_gradients(norm_position=norm_position, tie_embeddings="none", attention_bias=True)
    muon, adamw = make_optimizers(network, TrainSettings(optimizer="muon"))
    assert (type(muon), type(adamw)) == (Muon, torch.optim.AdamW)
    inside = {
        f"{side}.layers.0.{part}" for side in ("encoder", "decoder") for part in ("self_attention", "feed_forward")
    }
    inside.add("decoder.layers.0.cross_attention")
    assert {name.rsplit(".", 2)[0] for name in names_of(muon, network)} == inside
    assert all(network.get_parameter(name).ndim == 2 for name in names_of(muon, network))
    outside = {name for name in names_of(adamw, network) if network.get_parameter(name).ndim == 2}
    assert outside == {"encoder.embedding.table.weight", "decoder.embedding.table.weight", "projection.weight"}


def test_muon_without_matrices_or_without_the_rest_is_one_optimizer() -> None:
    network = transformer_with_gradients()
    network.encoder.layers.requires_grad_(False)  # type: ignore[attr-defined]
    network.decoder.layers.requires_grad_(False)  # type: ignore[attr-defined]
    (only,) = make_optimizers(network, TrainSettings(optimizer="muon"))
    assert isinstance(only, torch.optim.AdamW)

    network.requires_grad_(False)
    network.encoder.layers[0].feed_forward.inner.weight.requires_grad_(True)
    (only,) = make_optimizers(network, TrainSettings(optimizer="muon"))
    assert isinstance(only, torch.optim.Muon)


@pytest.mark.parametrize("shape", [(48, 16), (16, 16), (16, 48)])
def test_a_step_of_muon_is_nearly_orthogonal_and_as_large_as_one_of_adam(shape: tuple[int, int]) -> None:
    """All directions of the gradient, however weak, move alike; in root mean square 0.2 · rate (Liu et al. 2025)."""
    u, s, v = torch.linalg.svd(torch.randn(shape, dtype=torch.float64), full_matrices=False)
    gradient = u @ (s.mean() * torch.logspace(-1, 0, len(s), dtype=torch.float64)).diag() @ v
    layers = nn.ModuleDict({"layers": nn.ModuleDict({"0": nn.Linear(*reversed(shape), bias=False)})})
    network = nn.ModuleDict({"encoder": layers})
    (parameter,) = network.parameters()
    before = parameter.detach().clone()
    take_steps(network, TrainSettings(optimizer="muon"), [0.01], [gradient.float()])
    moved = (before - parameter.detach()).double()

    directions = (u.T @ moved @ v.T).diag() / (0.01 * 0.2 * math.sqrt(max(shape)))  # of an orthogonal matrix: 1
    assert directions.min() > 0.5
    assert directions.max() < 1.5
    assert 0.7 < float(moved.square().mean().sqrt()) / (0.2 * 0.01) < 1.3


def test_steps_of_muon_are_those_of_pytorch_whose_state_it_can_go_on_from() -> None:
    shapes = [(16, 16), (24, 16), (16, 24), (16, 16), (24, 16)]
    ours = network_with_gradients(*[torch.randn(shape) for shape in shapes])
    theirs = copy.deepcopy(ours)
    reference = torch.optim.Muon(
        theirs.parameters(), lr=0.01, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    optimizer = Muon(ours.parameters(), {}, weight_decay=0.1)
    for step in range(4):
        for parameter, same in zip(ours.parameters(), theirs.parameters(), strict=True):
            parameter.grad = torch.randn_like(parameter)
            same.grad = parameter.grad.clone()
        if step == 2:  # as a checkpoint of before
            optimizer = Muon(ours.parameters(), {}, weight_decay=0.1)
            optimizer.load_state_dict(copy.deepcopy(reference.state_dict()))
        set_learning_rate([optimizer], 0.01)
        optimizer.step()
        reference.step()
    for parameter, same in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(parameter, same, rtol=1e-3, atol=1e-4)


def test_muon_makes_maps_that_are_stacked_orthogonal_each_for_itself() -> None:
    """A step on W^Q, W^K, W^V stacked is one on each of the three; a parameter without gradient stays."""
    network = transformer_with_gradients()
    stacked = network.encoder.layers[0].self_attention.in_projection.weight
    parts = [nn.Parameter(part.detach().clone()) for part in stacked.split(16)]
    for part, gradient in zip(parts, stacked.grad.split(16), strict=True):
        part.grad = gradient.clone()
    alone = Muon(parts, {}, weight_decay=0.0)
    network.decoder.layers[0].feed_forward.inner.weight.grad = None
    still = network.decoder.layers[0].feed_forward.inner.weight.detach().clone()
    for optimizers in ([alone], make_optimizers(network, TrainSettings(optimizer="muon"))):
        set_learning_rate(optimizers, 0.01)
        for optimizer in optimizers:
            optimizer.step()
    assert_close(stacked.detach(), torch.cat(parts).detach(), rtol=1e-2, atol=1e-4)
    assert torch.equal(network.decoder.layers[0].feed_forward.inner.weight.detach(), still)


@pytest.mark.parametrize("emulated", [False, True])
def test_matrices_of_all_scales_are_made_orthogonal_in_one_batch(
    emulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without instructions for bf16 it computes in fp32, where it follows the polynomial to the last bits."""
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: not emulated)
    matrices = torch.stack([torch.randn(12, 7) * scale for scale in (1e-4, 1.0, 1e5, 0.0)])
    found = orthogonal(matrices)
    assert found.dtype == (torch.float32 if emulated else torch.bfloat16)
    assert (found[3] == 0).all()
    for matrix, close in zip(matrices[:3].double(), found[:3].double(), strict=True):
        u, s, v = torch.linalg.svd(matrix, full_matrices=False)
        s = s / s.norm()
        for _ in range(5):
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
        tolerance = 1e-4 if emulated else 0.1
        assert_close(close, u @ s.diag() @ v, rtol=0, atol=tolerance)


def test_an_older_pytorch_without_muon_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(
        ConfigError, match=r"train\.optimizer: muon needs PyTorch 2\.9, this is .*: update it, or take adamw"
    ):
        make_optimizers(transformer_with_gradients(), TrainSettings(optimizer="muon"))


# --- the gradient norm ---


@pytest.mark.parametrize("clip_norm", [0.5, 100.0, None])
def test_a_gradient_longer_than_the_limit_is_scaled_down_to_it(clip_norm: float | None) -> None:
    gradients = [torch.randn(4, 3), torch.randn(5)]
    norm = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))
    network = network_with_gradients(*gradients)
    assert float(clip_gradients(network, clip_norm)) == pytest.approx(norm)  # the norm before
    scale = min(1.0, clip_norm / norm) if clip_norm is not None else 1.0
    for parameter, gradient in zip(network.parameters(), gradients, strict=True):
        assert_close(parameter.grad, gradient * scale)


@pytest.mark.parametrize("clip_norm", [0.5, None])
def test_parameters_without_gradient_do_not_count(clip_norm: float | None) -> None:
    gradients = [torch.randn(4, 3), torch.randn(5)]
    network = network_with_gradients(*gradients, torch.randn(6))
    list(network.parameters())[2].grad = None
    without = network_with_gradients(*gradients)
    assert torch.equal(clip_gradients(network, clip_norm), clip_gradients(without, clip_norm))
    for parameter, same in zip(network.parameters(), without.parameters(), strict=False):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, same.grad)


def test_no_gradient_at_all_has_the_norm_zero() -> None:
    assert clip_gradients(nn.Linear(2, 2), 1.0) == 0


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_without_a_limit_a_gradient_is_left_as_it_is_whatever_it_is(bad: float) -> None:
    network = network_with_gradients(torch.tensor([1.0, bad]))
    assert not torch.isfinite(clip_gradients(network, None))
    (parameter,) = network.parameters()
    assert parameter.grad is not None
    assert parameter.grad[0] == 1


SHARDED = """
import sys
import torch
from torch import distributed
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor
from transformer.config import ModelSettings, TrainSettings
from transformer.model import Transformer
from transformer.training.optimizer import clip_gradients, make_optimizers, set_learning_rate

rank, file = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
layout = ModelSettings(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=24, n_heads=2)
for kind in ("adamw", "muon"):
    ends = []
    for sharded in (False, True):
        torch.manual_seed(1)
        network = Transformer(layout, 11, 11)
        if sharded:
            fully_shard(network)
        optimizers = make_optimizers(network, TrainSettings(optimizer=kind, weight_decay=0.1))
        set_learning_rate(optimizers, 0.01)
        for _ in range(3):
            for parameter in network.parameters():
                gradient = torch.randn(parameter.shape)
                if sharded:
                    gradient = distribute_tensor(gradient, parameter.device_mesh, parameter.placements)
                parameter.grad = gradient
            norm = clip_gradients(network, 0.5)
            for optimizer in optimizers:
                optimizer.step()
        assert type(norm) is torch.Tensor, type(norm)
        whole = [each.full_tensor() if sharded else each for each in network.parameters()]
        ends.append([norm, *(each.detach() for each in whole)])
    rtol, atol = (1e-2, 1e-3) if kind == "muon" else (1e-5, 1e-6)  # Muon computes in bf16; an element moves by 6e-3
    torch.testing.assert_close(ends[0], ends[1], rtol=rtol, atol=atol)
distributed.destroy_process_group()
"""


def test_two_processes_with_half_of_the_weights_each_take_the_steps_of_one(tmp_path: Path) -> None:
    root, meeting_place = Path(__file__).parents[3], str(tmp_path / "meeting place")
    command = [sys.executable, "-c", SHARDED]
    processes = [subprocess.Popen([*command, str(rank), meeting_place], cwd=root) for rank in range(2)]
    try:
        assert [process.wait(timeout=60) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
