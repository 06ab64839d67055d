"""How fast is a product with a packed matrix? `python benchmarks/linear.py`

Times, in turn and on one thread, the linear maps of a decoder's step: `torch.nn.functional.linear`, and packed as
`transformer/inference/prepacked.py` does it, in fp32 and bf16. Prints GFLOP/s, the medians. `set-up` is what a packed
product in fp32 takes longer the first time that it meets a number of rows.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

import torch
from torch import Tensor, nn

from transformer.command_line import CommandParser, run_command
from transformer.errors import ConfigError
from transformer.inference.prepacked import PrepackedLinear, can_prepack

SHAPES = [(128, 384), (128, 256), (128, 10_000), (512, 1536), (512, 2048), (2048, 512), (512, 10_000)]
ROWS = (40, 160, 320)


def main(argv: Sequence[str] | None = None) -> int:
    parser = CommandParser(prog="benchmarks/linear.py", description=(__doc__ or "").split("\n\n", 1)[1])
    parser.add_argument("--repeats", type=int, default=30, metavar="N", help="timed products of each (30)")
    args = parser.parse_args(argv)
    if not can_prepack(torch.device("cpu")):
        raise ConfigError("there are no packed products here: they need an x86 processor and a PyTorch with oneDNN")
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, one thread, GFLOP/s")
    print(f"{'inner × outer':>14} {'rows':>5} {'plain':>7} {'packed':>7} {'packed bf16':>12} {'set-up':>9}")
    with torch.inference_mode():
        for inner, outer in SHAPES:
            linear = nn.Linear(inner, outer, bias=False)
            packed = PrepackedLinear(linear)
            ways: list[Callable[[Tensor], Tensor]] = [linear, packed, PrepackedLinear(linear, torch.bfloat16)]
            for n_rows in ROWS:
                x = torch.randn(n_rows, inner)
                rates = [2 * n_rows * inner * outer / seconds / 1e9 for seconds in in_turn(ways, x, args.repeats)]
                set_up = first_call(packed, torch.randn(n_rows + 1, inner))
                print(
                    f"{f'{inner} × {outer}':>14} {n_rows:>5} {rates[0]:>7.0f} {rates[1]:>7.0f} {rates[2]:>12.0f} "
                    f"{set_up * 1e3:>6.2f} ms"
                )
    return 0


def in_turn(ways: Sequence[Callable[[Tensor], Tensor]], x: Tensor, repeats: int) -> list[float]:
    """Median seconds of each."""
    seconds: list[list[float]] = [[] for _ in ways]
    for _ in range(repeats + 2):
        for way, times in zip(ways, seconds, strict=True):
            times.append(timed(way, x))
    return [statistics.median(times[2:]) for times in seconds]


def first_call(way: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """Seconds that the first call takes longer than the second."""
    first, second = timed(way, x), timed(way, x)
    return max(0.0, first - second)


def timed(way: Callable[[Tensor], Tensor], x: Tensor) -> float:
    start = time.perf_counter()
    way(x)
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(run_command(main))
