"""Muon (Jordan et al. 2024): momentum made orthogonal, all matrices of one shape in one batch of products."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from transformer.training.sharding import like, whole

# p(x) = a x + b x³ + c x⁵, five times over, takes every singular value from (0, 1] to about 1: Jordan et al. 2024.
_COEFFICIENTS, _ITERATIONS = (3.4445, -4.7750, 2.0315), 5
_SMALLEST_NORM = 1e-7


class Muon(torch.optim.Muon):
    """`torch.optim.Muon`, with the same state and the same steps, in fewer and larger products.

    PyTorch's takes one matrix after the other, through some fifteen small products each. Here they are stacked by
    shape. `row_blocks` has, for parameters that stack several maps (W^Q, W^K, W^V), the rows of each: every map is
    made orthogonal for itself. The rate is scaled so that an element moves by 0.2 times the rate in root mean square,
    as with Adam (Liu et al. 2025, §2.2). Of weights that
    processes share, each process makes the whole update orthogonal, and takes its part.
    """

    def __init__(
        self,
        matrices: Iterable[Tensor],
        row_blocks: Mapping[Tensor, Sequence[int]],
        *,
        weight_decay: float,
        momentum: float = 0.95,
    ) -> None:
        super().__init__(matrices, lr=0.0, weight_decay=weight_decay, momentum=momentum, adjust_lr_fn="match_rms_adamw")
        self._row_blocks = row_blocks

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every matrix that has a gradient."""
        for group in self.param_groups:
            parameters = [each for each in group["params"] if each.grad is not None]
            directions = self._directions(parameters, self._momentum(parameters, group["momentum"]))
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(parameters, directions, alpha=-group["lr"])

    def _momentum(self, parameters: Sequence[Tensor], momentum: float) -> Sequence[Tensor]:
        """Keep a moving average of gradients; returns it as it will be one step ahead (Nesterov)."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        for parameter in parameters:
            if "momentum_buffer" not in self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        averages = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
        torch._foreach_lerp_(averages, gradients, 1 - momentum)
        return torch._foreach_lerp(gradients, averages, momentum)

    def _directions(self, parameters: Sequence[Tensor], updates: Sequence[Tensor]) -> list[Tensor]:
        """Of each parameter, its maps' updates made orthogonal, with elements of 0.2 in root mean square."""
        maps = [torch.split(whole(update), self._rows(p)) for p, update in zip(parameters, updates, strict=True)]
        places: dict[torch.Size, list[tuple[int, int]]] = defaultdict(list)  # of the maps of each shape
        for place, of_parameter in enumerate(maps):
            for row, each in enumerate(of_parameter):
                places[each.shape].append((place, row))
        found: list[list[Tensor]] = [list(of_parameter) for of_parameter in maps]
        for shape, same in places.items():
            stacked = orthogonal(torch.stack([maps[place][row] for place, row in same]))
            scaled = stacked.to(maps[0][0].dtype) * (0.2 * math.sqrt(max(shape)))
            for (place, row), direction in zip(same, scaled.unbind(), strict=True):
                found[place][row] = direction
        return [like(torch.cat(each), parameter) for each, parameter in zip(found, parameters, strict=True)]

    def _rows(self, parameter: Tensor) -> list[int]:
        return list(self._row_blocks.get(parameter, [len(parameter)]))


def orthogonal(matrices: Tensor) -> Tensor:
    """U S' Vᵀ of matrices (N, rows, columns) U S Vᵀ, where the diagonal of S' is from about 0.7 to 1.2.

    By products alone (Newton–Schulz), in bf16 where there are instructions for it. Directions that are weaker than a
    thousandth of the strongest stay weak.
    """
    x = matrices.to(_product_type(matrices.device))
    wide = x.mT if x.size(1) > x.size(2) else x
    wide = wide / wide.norm(dim=(1, 2), keepdim=True).clamp(min=_SMALLEST_NORM)  # no singular value is above 1
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = wide @ wide.mT
        wide = torch.baddbmm(wide, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide.mT if x.size(1) > x.size(2) else wide


def _product_type(device: torch.device) -> torch.dtype:
    """bf16, but for processors that would have to emulate it, some hundred times more slowly."""
    emulated = device.type == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return torch.float32 if emulated else torch.bfloat16
