"""Adam (§5.3), AdamW and Muon, and the gradient norm."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from transformer.attention import StackedLinear
from transformer.config import TrainSettings
from transformer.errors import ConfigError, RunError
from transformer.training.sharding import is_share, whole


def make_optimizers(network: nn.Module, settings: TrainSettings) -> list[torch.optim.Optimizer]:
    """Optimizers that share out the trained parameters, each in exactly one; all at the same rate, set for each step.

    - adam, §5.3: the paper's; no weight decay.
    - adamw (Loshchilov & Hutter 2019): `weight_decay` shrinks the matrices apart from the gradient, biases and norms
      not; helps where a model is large for its corpus and over-fits. Without weight_decay it is adam.
    - muon (Jordan et al. 2024): momentum made orthogonal, for the matrices inside layers; adamw for embeddings,
      projection, biases and norms. Helps where updates are the dearest: language models reached the same loss in about
      half of them (Liu et al. 2025); little is known for translation. Its updates are scaled to the size of
      Adam's (ibid., §2.2), so that one rate fits both. W^Q, W^K, W^V are made orthogonal each for itself.

    Raises:
        ConfigError: this PyTorch has no Muon.
        RunError: all parameters are frozen.
    """
    trained = {name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad}
    if not trained:
        raise RunError("train.freeze leaves nothing to train: its patterns fit every parameter; take some out")
    by_muon = {
        name: parameter
        for name, parameter in trained.items()
        if settings.optimizer == "muon" and ".layers." in name and parameter.ndim == 2
    }
    by_adam = [parameter for name, parameter in trained.items() if name not in by_muon]
    muon = [_make_muon(network, list(by_muon.values()), settings)] if by_muon else []
    return [*muon, _make_adam(by_adam, settings)] if by_adam else muon


def _make_adam(parameters: Sequence[Tensor], settings: TrainSettings) -> torch.optim.Optimizer:
    """Adam or AdamW with the paper's β and ε; in one kernel where PyTorch has it."""
    kind = torch.optim.Adam if settings.optimizer == "adam" else torch.optim.AdamW
    matrices = [parameter for parameter in parameters if parameter.ndim == 2]
    others = [parameter for parameter in parameters if parameter.ndim != 2]
    return kind(
        [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}],
        lr=_first_rate(parameters[0]),
        betas=(settings.adam_beta1, settings.adam_beta2),
        eps=settings.adam_epsilon,
        fused=parameters[0].device.type in ("cpu", "cuda"),
    )


def _first_rate(parameter: Tensor) -> float | Tensor:
    """On a GPU the rate is a tensor there: a step that is captured or compiled would else know the first one only."""
    on_gpu = parameter.device.type == "cuda" and not is_share(parameter)
    return torch.zeros((), device=parameter.device) if on_gpu else 0.0


def _make_muon(network: nn.Module, matrices: Sequence[Tensor], settings: TrainSettings) -> torch.optim.Optimizer:
    if not hasattr(torch.optim, "Muon"):
        raise ConfigError(
            f"train.optimizer: muon needs PyTorch 2.9, this is {torch.__version__}: update it, or take adamw"
        )
    from transformer.training.muon import Muon  # a subclass of PyTorch's

    stacked = {each.weight: each.widths for each in network.modules() if isinstance(each, StackedLinear)}
    return Muon(matrices, stacked, weight_decay=settings.weight_decay)


def set_learning_rate(optimizers: Sequence[torch.optim.Optimizer], rate: float) -> None:
    """Use this rate in the next step."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate


def clip_gradients(network: nn.Module, clip_norm: float | None) -> Tensor:
    """Scale the gradient down to `clip_norm` if it is longer; returns its norm before, always measured.

    Parameters without gradient do not count. Of parameters that several processes share, each holding a part, it is
    the norm of the whole, the same in all of them.
    """
    parameters = list(network.parameters())
    norm = nn.utils.get_total_norm([each.grad for each in parameters if each.grad is not None])
    if clip_norm is not None:
        nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm)
    return whole(norm)
