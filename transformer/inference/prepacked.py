"""Linear maps for decoding on a CPU, whose matrices are stored in the order in which oneDNN reads them.

A search multiplies the same matrices by a few hundred rows again and again. In fp32 `torch.nn.functional.linear` is
MKL's product of two plain matrices, which is slower on processors of other makers, most of all for a projection to a
large vocabulary; oneDNN packs the matrix first. In bf16, where the processor has it, that is twice as fast again. See
`python benchmarks/linear.py`.
"""

from __future__ import annotations

import platform

import torch
from torch import Tensor, nn

from transformer.attention import StackedLinear
from transformer.model import Transformer

TYPICAL_ROWS = 160
"""Of one product. oneDNN chooses the order for so many; others are as fast, and only very few rows are not."""


class PrepackedLinear(nn.Module):
    """An `nn.Linear` or `StackedLinear` that can only be used, not trained or stored.

    Args:
        linear: what it computes.
        dtype: of the product; input and output are fp32.
        ranges: of the maps of a `StackedLinear`, (first, last) of the parts that will be asked for; None: only all.
    """

    def __init__(
        self, linear: nn.Linear, dtype: torch.dtype = torch.float32, ranges: list[tuple[int, int]] | None = None
    ) -> None:
        super().__init__()
        self.dtype = dtype
        widths = linear.widths if isinstance(linear, StackedLinear) else [linear.out_features]
        self.whole = (0, len(widths))
        self.matrices = {
            (first, last): _prepacked(linear, slice(sum(widths[:first]), sum(widths[:last])), dtype)
            for first, last in ranges or [self.whole]
        }

    def forward(self, x: Tensor) -> Tensor:
        """(…, in_features) → (…, out_features)."""
        return self.part(x, *self.whole)

    def part(self, x: Tensor, first: int, last: int) -> Tensor:
        """`StackedLinear.part`, of a range named before."""
        weight, bias = self.matrices[first, last]
        output: Tensor = torch.ops.mkldnn._linear_pointwise(x.to(self.dtype), weight, bias, "none", [], "")
        return output.float()


def prepack(network: Transformer, dtype: torch.dtype = torch.float32) -> None:
    """Replace the linear maps of an fp32 network on a CPU, if PyTorch can do that here; it can only be used then.

    dtype: of the products, fp32 or bf16; everything else stays fp32.
    """
    if not can_prepack(next(network.parameters()).device):
        return
    crossing = {layer.cross_attention.in_projection for layer in network.decoder.layers}
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):  # queries come from elsewhere than keys and values when attention crosses
                setattr(module, name, PrepackedLinear(child, dtype, [(0, 1), (1, 3)] if child in crossing else None))


def can_prepack(device: torch.device) -> bool:
    """Only x86: nothing else was measured. The operations are those of torch.compile, which are not documented."""
    operations = ("_reorder_linear_weight", "_linear_pointwise")
    return (
        device.type == "cpu"
        and platform.machine().lower() in ("x86_64", "amd64")
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and all(hasattr(torch.ops.mkldnn, operation) for operation in operations)
    )


def _prepacked(linear: nn.Linear, rows: slice, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    weight = linear.weight.detach()[rows].to(dtype).contiguous()
    bias = None if linear.bias is None else linear.bias.detach()[rows].to(dtype)
    return torch.ops.mkldnn._reorder_linear_weight(weight, TYPICAL_ROWS), bias
