"""How fast training is on a GPU: packed and padded batches, compiled or not, for the paper's base and big models.

    python benchmarks/gpu.py [--limit-seconds 450] [--cpu-rehearsal]

First it checks that results are right: packed bf16 passes against padded fp64 ones, and that no update waits for the
device. Then it times whole updates of 25,000 target tokens of made-up sentences with 37,000 pieces, as a run does them,
against a product of two 8,192² matrices in bf16. Targets on one H200: big trains at least 250,000 target tokens a
second, and 100,000 updates of base take at most an hour and a half. What fails or finds no time is named in the table,
and the rest goes on. Where there is no GPU this says so and ends; --cpu-rehearsal runs every part on the CPU, with toy
sizes, to try this program out. The table is printed last and written to benchmarks/results/gpu.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from data.batches import collate
from data.packing import AnyBatch, PackedShape, pack_one
from data.prepared import IdSequences, ParallelIds, Prepared
from transformer.command_line import CommandParser, run_command
from transformer.config import Settings
from transformer.describe import TRAINING_FACTOR, describe
from transformer.model import Transformer
from transformer.training.budget import largest_that_fits, packed_batch
from transformer.training.choices import Choices, autocast
from transformer.training.compilation import compile_loss
from transformer.training.loss import batch_loss
from transformer.training.optimizer import make_optimizers
from transformer.training.progress import Progress
from transformer.training.state import TrainingState
from transformer.training.stream import UpdateStream, open_stream
from transformer.training.update import update

ROOT = Path(__file__).resolve().parent.parent
BASE: dict[str, Any] = {}  # the defaults are the paper's
BIG: dict[str, Any] = {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "dropout": 0.3}
TOY: dict[str, Any] = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 32, "d_ff": 64, "n_heads": 2}
BIG_TARGET, BASE_TARGET_HOURS = 250_000, 1.5
N_WARM_UP = 3  # updates, the first of which compiles
LONGEST = 128  # tokens of the longest sentence


@dataclass(frozen=True)
class Sizes:
    """What is measured, and how much of it."""

    device: str
    models: dict[str, dict[str, Any]]
    vocabulary: int
    n_pairs: int
    batch_tokens: int
    budget: int  # tokens of a micro-batch
    product: int  # rows of the matrices of the fastest product
    seconds: float  # timed, of each way
    ceiling: int  # tokens of the largest micro-batch that is tried


ON_GPU = Sizes("cuda", {"base": BASE, "big": BIG}, 37_000, 100_000, 25_000, 32_768, 8192, 8.0, 2**18)
ON_CPU = Sizes("cpu", {"base": TOY, "big": TOY | {"dropout": 0.3}}, 300, 2_000, 1_000, 1_500, 512, 0.3, 4_096)


@dataclass(frozen=True)
class Way:
    """A way to train: which network, which batches, and torch.compile's mode, if any."""

    model: str
    batching: str
    mode: str | None = None


WAYS = [  # the most telling first, in case time runs out
    Way("base", "packed"),
    Way("big", "packed"),
    Way("big", "packed", "default"),
    Way("base", "packed", "default"),
    Way("big", "padded"),
    Way("base", "padded"),
    Way("base", "packed", "reduce-overhead"),
    Way("big", "packed", "reduce-overhead"),
]


class Page:
    """The lines of the report; kept on the disk after each, so that nothing is lost."""

    def __init__(self, sizes: Sizes, path: Path | None, limit_seconds: float) -> None:
        self.path, self.deadline, self.n_failed = path, time.perf_counter() + limit_seconds, 0
        name = torch.cuda.get_device_name() if sizes.device == "cuda" else "CPU, a rehearsal: the figures mean nothing"
        self.head = [
            "# Training on a GPU",
            "",
            "    python benchmarks/gpu.py",
            "",
            f"{name}, torch {torch.__version__}.",
        ]
        self.rows: list[str] = []
        self.bar = tqdm(total=3 + len(WAYS) + len(sizes.models), unit="part", dynamic_ncols=True)

    def part(self, name: str, measure: Callable[[], str]) -> None:
        """Measure, and note the figures, or why there are none."""
        begin = time.perf_counter()
        if begin > self.deadline:
            found = "no time left"
        else:
            try:
                found = measure()
            except Exception as error:  # whatever it is, the other parts are worth having
                self.n_failed += 1
                reason = (str(error).strip() or "no message").splitlines()[0]
                found = f"FAILED, {type(error).__name__}: {reason}"
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.rows.append(f"| {name} | {found} | {time.perf_counter() - begin:.1f} |")
        self.bar.write(self.rows[-1])
        self.bar.update()
        if self.path is not None:
            self.path.write_text(self.text(), encoding="utf-8")

    def text(self) -> str:
        """The whole page."""
        table = ["", "| what | found | s |", "|---|---|---|", *self.rows]
        return "\n".join([*self.head, *table]) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Check, measure, report."""
    parser = CommandParser(prog="benchmarks/gpu.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--limit-seconds", type=float, default=450, metavar="S", help="no part begins later (450)")
    parser.add_argument("--cpu-rehearsal", action="store_true", help="every part with toy sizes on the CPU")
    args = parser.parse_args(argv)
    if not args.cpu_rehearsal and not torch.cuda.is_available():
        print("gpu: skipped, PyTorch sees no CUDA device here", file=sys.stderr)
        return 0
    sizes = ON_CPU if args.cpu_rehearsal else ON_GPU
    page = Page(sizes, None if args.cpu_rehearsal else ROOT / "benchmarks/results/gpu.md", args.limit_seconds)
    corpus = made_up(sizes)
    page.part("packed bf16 against padded fp64", lambda: compare(sizes, corpus))
    page.part("an update waits for the device", lambda: waits(sizes, corpus))
    peak = 0.0

    def measure_peak() -> str:
        nonlocal peak
        peak = fastest_product(sizes)
        return f"{peak / 1e12:,.4g} TFLOP/s"

    page.part(f"product of {sizes.product:,}² matrices in bf16", measure_peak)
    for way in WAYS:
        mode = f"compiled ({way.mode})" if way.mode else "not compiled"
        page.part(f"{way.model}, {way.batching}, {mode}", lambda way=way: time_updates(way, sizes, corpus, peak))  # type: ignore[misc]
    for model in sizes.models:
        page.part(f"largest packed micro-batch of {model}", lambda model=model: largest(model, sizes))  # type: ignore[misc]
    page.bar.close()
    print("\n" + page.text())
    return 1 if page.n_failed else 0


def made_up(sizes: Sizes) -> ParallelIds:
    """Random pieces; lengths as in news: 27 tokens on average, target sides a little shorter or longer."""
    random = np.random.default_rng(1)
    src = np.clip(random.lognormal(3.1, 0.6, sizes.n_pairs), 1, LONGEST - 1).astype(np.int64)
    tgt = np.clip(src * random.lognormal(0.0, 0.15, sizes.n_pairs), 1, LONGEST - 1).astype(np.int64)
    sides = (
        IdSequences(
            random.integers(4, sizes.vocabulary, lengths.sum()).astype(np.uint16), np.cumsum([0, *lengths.tolist()])
        )
        for lengths in (src, tgt)
    )
    return ParallelIds(*sides)


def compare(sizes: Sizes, corpus: ParallelIds) -> str:
    """Relative differences of loss and gradient, of base without dropout, for packed and padded passes in bf16."""
    device, pairs = torch.device(sizes.device), np.arange(32)
    model = Settings.model_validate({"model": sizes.models["base"] | {"dropout": 0.0}}).model
    torch.manual_seed(1)
    network = Transformer(model, sizes.vocabulary, sizes.vocabulary).to(device)
    n = LONGEST * len(pairs)
    packed = pack_one(corpus, pairs, PackedShape(n, n, len(pairs), LONGEST))
    padded = collate(corpus, pairs)

    def gradient_of(batch: AnyBatch, precision: str) -> tuple[float, Tensor]:
        network.to(torch.float64 if precision == "fp64" else torch.float32).zero_grad()
        with torch.autocast(sizes.device, torch.bfloat16, enabled=precision == "bf16"):
            loss = batch_loss(network, batch.to(device), 0.1)
        torch.autograd.backward(loss.smoothed)
        flat = torch.cat([p.grad.double().flatten() for p in network.parameters() if p.grad is not None])
        return float(loss.smoothed.detach()), flat

    expected, slope = gradient_of(padded, "fp64")
    words, errors = [], {}
    for name, batch in (("packed", packed), ("padded", padded)):
        loss, gradient = gradient_of(batch, "bf16")
        errors[name] = float((gradient - slope).norm() / slope.norm())
        words.append(f"{name} loss {abs(loss / expected - 1):.1e}, gradient {errors[name]:.1e}")
        if not abs(loss / expected - 1) < 1e-2:
            raise ArithmeticError(f"loss {loss}, expected {expected}")
    if not errors["packed"] < 1.5 * errors["padded"] + 1e-3:
        raise ArithmeticError("; ".join(words))
    return "; ".join(words)


def waits(sizes: Sizes, corpus: ParallelIds) -> str:
    """An update that did would raise an error here; only a GPU has anything to wait for."""
    state, stream, settings, choices = set_up(Way("base", "packed"), sizes, corpus)
    with closing(stream):
        for number in range(2):
            update(state, stream.take(0, number), 1e-4, settings.train, choices)
        taken = stream.take(0, 2)
        if sizes.device == "cuda":
            torch.cuda.set_sync_debug_mode("error")
        try:
            update(state, taken, 1e-4, settings.train, choices)
        finally:
            if sizes.device == "cuda":
                torch.cuda.set_sync_debug_mode("default")
    return "no"


def fastest_product(sizes: Sizes) -> float:
    """Operations per second."""
    left, right = torch.randn(2, sizes.product, sizes.product, device=sizes.device).bfloat16()
    seconds = []
    for _ in range(5):
        wait(sizes)
        begin = time.perf_counter()
        for _ in range(10):
            left @ right
        wait(sizes)
        seconds.append((time.perf_counter() - begin) / 10)
    return float(2 * sizes.product**3 / min(seconds))


def time_updates(way: Way, sizes: Sizes, corpus: ParallelIds, peak: float) -> str:
    """Figures of whole updates, one after the other as in a run; the loss is read at the end."""
    state, stream, settings, choices = set_up(way, sizes, corpus)
    with closing(stream):
        part = number = 0
        if sizes.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        begin, n_tokens, n_updates, n_real, n_padded, warm_up = time.perf_counter(), 0, 0, 0, 0, 0.0
        results: list[Tensor] = []
        while time.perf_counter() - begin < sizes.seconds or n_updates < 3:
            taken = stream.take(part, number)
            result = update(state, taken, 1e-4, settings.train, choices)
            part, number = taken.part, taken.update + 1
            if len(results) < N_WARM_UP:
                results.append(result.smoothed / result.n_tokens)
                wait(sizes)
                warm_up, begin = warm_up + time.perf_counter() - begin, time.perf_counter()
                continue
            n_tokens, n_updates = n_tokens + result.n_tokens, n_updates + 1
            n_real, n_padded = n_real + result.n_real, n_padded + result.n_padded
            if n_updates % 20 == 0:
                wait(sizes)  # else the device falls behind by as much as the queue holds
        results.append(result.smoothed / result.n_tokens)
        wait(sizes)
        seconds = time.perf_counter() - begin
    if not all(bool(loss.isfinite()) for loss in results):
        raise ArithmeticError("the loss is no finite number")
    return _figures(way, sizes, settings, peak, n_tokens / seconds, n_updates / seconds, 1 - n_real / n_padded, warm_up)


def _figures(
    way: Way, sizes: Sizes, settings: Settings, peak: float, speed: float, updates: float, filler: float, warm_up: float
) -> str:
    """Speed, what share of the fastest product that is, memory, and how it stands to the target."""
    length = 27
    n_flops = TRAINING_FACTOR * describe(settings.model, sizes.vocabulary, sizes.vocabulary, length).flops * speed
    memory = torch.cuda.max_memory_allocated() / 2**30 if sizes.device == "cuda" else 0.0
    if way.model == "big":
        target = f"target {BIG_TARGET:,}: {'met' if speed >= BIG_TARGET else 'missed'}"
    else:
        hours = 100_000 * ON_GPU.batch_tokens / speed / 3600
        target = f"100,000 updates {hours:.2f} h, target {BASE_TARGET_HOURS}: "
        target += "met" if hours <= BASE_TARGET_HOURS else "missed"
    share = f"MFU {n_flops / peak:.1%}" if peak else "MFU unknown"
    return (
        f"{speed:,.0f} target tokens/s, {share}, {updates:.2f} updates/s, {filler:.1%} filler or padding, "
        f"{memory:.1f} GiB, first {N_WARM_UP} updates {warm_up:.0f} s; {target}"
    )


def largest(model: str, sizes: Sizes) -> str:
    """The most tokens on each side, to an eighth, whose pass fits beside weights, gradients and Adam's state."""
    device = torch.device(sizes.device)
    state, stream, _, choices = set_up(Way(model, "packed"), sizes, made_up(ON_CPU))
    stream.close()

    def run(batch: AnyBatch) -> None:
        with autocast(choices):
            loss = batch_loss(state.network, batch.to(device), 0.1)
        torch.autograd.backward(loss.smoothed)

    spare = 8 * sum(parameter.numel() for parameter in state.network.parameters())
    found = largest_that_fits(run, LONGEST, sizes.ceiling, spare, device, packed_batch)
    return f"{found:,} tokens on each side{' or more' if found == sizes.ceiling else ''}"


def set_up(way: Way, sizes: Sizes, corpus: ParallelIds) -> tuple[TrainingState, UpdateStream, Settings, Choices]:
    """What a run has before its first update."""
    sections = {
        "model": sizes.models[way.model],
        "train": {
            "batch_tokens": sizes.batch_tokens,
            "max_tokens": sizes.budget,
            "precision": "bf16",
            "clip_norm": 1.0,
        },
    }
    settings = Settings.model_validate(sections)
    batching: Any = way.batching
    choices = Choices(sizes.device, "bf16", "fused", {}, sizes.budget, batching=batching, compiled=way.mode is not None)
    torch.manual_seed(1)
    network = Transformer(settings.model, sizes.vocabulary, sizes.vocabulary).to(sizes.device)
    network.use_attention("fused")
    state = TrainingState(network, None, make_optimizers(network, settings.train), Progress())
    if way.mode is not None:
        torch._dynamo.reset()
        options = {} if way.mode == "default" else {"mode": way.mode}
        state.compiled = compile_loss(network, **options)
    prepared = cast(Prepared, SimpleNamespace(train=corpus))  # all that a stream needs
    pin = sizes.device == "cuda"
    return state, open_stream(settings, prepared, sizes.budget, batching=batching, pin=pin), settings, choices


def wait(sizes: Sizes) -> None:
    """Until the device has done what it was given."""
    if sizes.device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(run_command(main))
