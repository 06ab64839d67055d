"""Which of the two equal forms of attention is faster here? `python benchmarks/attention.py`

Times forward and backward of encoder self-attention with a padding mask, 4,096 tokens a batch, in turn, and prints the
median of each and their ratio. `attention.FASTEST_FORM` follows from it; `train.attention: auto` measures again.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

import torch
from torch import Tensor

from transformer.attention import fused_attention, scaled_dot_product_attention
from transformer.command_line import CommandParser, run_command
from transformer.device import choose_device

N_TOKENS = 4096  # B · S of each batch
SHAPES = [(heads, width, length) for heads, width in ((4, 32), (8, 64)) for length in (8, 16, 32, 64, 128, 512)]
FORMS: dict[str, Callable[..., Tensor]] = {
    "explicit": lambda *inputs: scaled_dot_product_attention(*inputs)[0],
    "fused": fused_attention,
}


def main(argv: Sequence[str] | None = None) -> int:
    args = parse_arguments(argv)
    device = choose_device(args.device)
    print(f"device {device}, PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    print(
        f"{'heads × width':>14} {'length':>7} {'type':>9} {'explicit ms':>12} {'fused ms':>10} {'fused / explicit':>17}"
    )
    for heads, width, length in SHAPES:
        for dtype in (torch.float32, torch.bfloat16):
            explicit, fused = time_forms(heads, width, length, dtype, device, args.repeats)
            name = str(dtype).removeprefix("torch.")
            print(
                f"{f'{heads} × {width}':>14} {length:>7} {name:>9} {explicit * 1e3:>12.2f} {fused * 1e3:>10.2f} "
                f"{fused / explicit:>17.2f}"
            )
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandParser(prog="benchmarks/attention.py", description=__doc__)
    parser.add_argument("--device", default="auto", choices=["auto", "cuda", "mps", "cpu"], help="(auto)")
    parser.add_argument("--repeats", type=int, default=10, metavar="N", help="timed passes of each form (10)")
    args: argparse.Namespace = parser.parse_args(argv)
    return args


def time_forms(
    heads: int, width: int, length: int, dtype: torch.dtype, device: torch.device, repeats: int
) -> tuple[float, float]:
    """Median seconds of a forward and backward pass of the explicit and of the fused form, measured in turn."""
    rows = N_TOKENS // length
    generator = torch.Generator().manual_seed(1)
    # As projections leave them: (B, S, H, K) seen as (B, H, S, K).
    inputs = [
        torch.randn(rows, length, heads, width, generator=generator).to(device, dtype).transpose(1, 2).requires_grad_()
        for _ in range(3)
    ]
    lengths = torch.randint(length // 2, length + 1, (rows, 1), generator=generator)
    mask = (torch.arange(length) < lengths)[:, None, None, :].to(device)  # (B, 1, 1, S)
    seconds: dict[str, list[float]] = {name: [] for name in FORMS}
    for _ in range(repeats + 2):
        for name, form in FORMS.items():
            begin = time.perf_counter()
            torch.autograd.backward(form(*inputs, mask).sum())
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds[name].append(time.perf_counter() - begin)
    explicit, fused = (statistics.median(times[2:]) for times in seconds.values())
    return explicit, fused


if __name__ == "__main__":
    sys.exit(run_command(main))
