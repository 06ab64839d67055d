"""Eight to 64 GPUs on paper: bytes, times, efficiency, batch and learning rate; the tables of docs/scaling.md.

    python benchmarks/scaling_plan.py [--tokens-per-second N] [--write]

Nothing is measured here. An update is taken to be the time of its products, at a speed given as target tokens per
second of one GPU for the big model, and one all-reduce of all gradients; what is assumed stands in `Assumed`, what was
published in `MLPERF` and `PUBLISHED_RATES`. With `--write`, the tables of docs/scaling.md are replaced by these.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from transformer.command_line import CommandParser, run_command
from transformer.config_file import load_config
from transformer.describe import describe
from transformer.errors import RunError
from transformer.training.schedule import peak_of_paper

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/scaling.md"
GPUS_OF_A_NODE = 8
SIZES = (8, 16, 32, 64)  # GPUs
BATCHES = (25_000, 100_000, 400_000)  # real target tokens of an update
NUMBERS_OF_A_CALL = 16 * 2**20  # gradients of one all-reduce, as transformer.training.group cuts them
BACKWARD = 2 / 3  # share of the backward pass in the products: two of three
FP32, BF16 = 4, 2  # bytes
BIG_D_MODEL = 1024  # the rates below were published for it


@dataclass(frozen=True)
class Assumed:
    """What no measurement of ours says."""

    tokens_per_second: float = 250_000  # of one H200, target tokens, big model, without communication
    nvlink: float = 450e9  # bytes/s of one GPU, each way: half of the 900 GB/s that vendors state for both
    attainable: float = 0.8  # share of a link's nominal speed
    hop_seconds: float = 2.5e-6  # from one GPU of the ring to the next


class Model(NamedTuple):
    """A network of the paper, as far as it matters here."""

    name: str
    d_model: int
    parameters: int
    late: float  # share of the gradients that is complete only when the backward pass is: the tied matrix
    flops: float  # of a target token, relative to big
    paper_tokens: float  # target tokens of the paper's whole run


class Rate(NamedTuple):
    """A published batch with its learning rate."""

    source: str
    n_tokens: int  # real target tokens of an update
    lr: float  # the peak
    warmup_steps: int


class Published(NamedTuple):
    """Figures of a log of MLPerf v0.7, big model, fp16, up to 25.0 BLEU."""

    n_gpus: int
    n_tokens: int  # real target tokens of an update
    tokens_per_second: float
    epochs: int
    updates: int


# github.com/mlcommons/training_results_v0.7, NVIDIA/results/dgxa100{,_n2,_n10}_ngc20.06_pytorch:
# transformer/result_0.txt, the last line of an epoch each (wps, wpb, num_updates).
# Their budgets, padding counted, are 110,592, 110,592 and 737,280 tokens.
MLPERF = (
    Published(8, 100_937, 810_000, 3, 3_632),
    Published(16, 100_766, 1_475_000, 3, 3_638),
    Published(80, 668_546, 7_176_000, 5, 989),
)
MLPERF_PARAMETERS = 210_808_832
A100 = Assumed(nvlink=300e9)
A100_NETWORK = 200  # Gbit/s of each GPU
_PAPER = Rate("paper, big", 25_000, peak_of_paper(BIG_D_MODEL, 4000), 4000)
PUBLISHED_RATES = {  # by model.norm_position
    "post": (_PAPER, Rate("Ott et al. 2018", 400_000, 1e-3, 4000)),
    "pre": (
        _PAPER,
        Rate("MLPerf v0.7, 8 and 16 GPUs", MLPERF[0].n_tokens, 1.9e-3, 750),
        Rate("MLPerf v0.7, 80 GPUs", MLPERF[2].n_tokens, 1.732e-3, 400),
    ),
}
MAX_TOKENS = 16_384  # of a micro-batch of one GPU, padding counted
REAL_SHARE = 0.9  # real target tokens of it; 0.91 in the MLPerf logs
SETTINGS = ((8, 25_000), (8, 100_000), (8, 400_000), (16, 200_000), (32, 400_000), (64, 400_000))  # GPUs, batch


# --- arithmetic ---


def ring_bytes(n_bytes: float, n_gpus: int) -> float:
    """What each GPU sends, and receives, in a ring all-reduce: 2 (n − 1) / n of the data."""
    return 2 * (n_gpus - 1) / n_gpus * n_bytes


def all_reduce_seconds(
    parameters: int, bytes_each: int, n_gpus: int, bytes_per_second: float, hop_seconds: float
) -> float:
    """The sum of all gradients over all GPUs: bytes at the speed of the narrowest link, and 2 (n − 1) hops a call."""
    n_calls = math.ceil(parameters / NUMBERS_OF_A_CALL)
    return ring_bytes(parameters * bytes_each, n_gpus) / bytes_per_second + n_calls * 2 * (n_gpus - 1) * hop_seconds


def narrowest(n_gpus: int, network_gbit: float, assumed: Assumed) -> float:
    """Bytes/s of each GPU's traffic: NVLink's within a node; between nodes, eight rings share eight adapters.

    Each of the rings crosses the border of a node by another adapter, with an eighth of the data, so that all of them
    together are as fast as the adapters together. `network_gbit` is the speed of one adapter; each GPU has one.
    """
    nominal = assumed.nvlink
    if n_gpus > GPUS_OF_A_NODE:
        nominal = min(nominal, GPUS_OF_A_NODE * network_gbit * 1e9 / 8)
    return assumed.attainable * nominal


def efficiency(compute_seconds: float, communication_seconds: float, late: float | None = None) -> float:
    """Share of an update spent on its products, of 1 for GPUs that need not talk.

    `late` None: gradients are summed after the backward pass. Else while it runs, as far as it is long enough, but for
    the share `late` of them that is not there before its end.
    """
    exposed = communication_seconds
    if late is not None:
        exposed = max(late * communication_seconds, communication_seconds - BACKWARD * compute_seconds)
    return compute_seconds / (compute_seconds + exposed)


def micro_batches(n_tokens: int, n_gpus: int, max_tokens: int = MAX_TOKENS) -> int:
    """Of each process in an update: as many as it takes for its share of the tokens to fit."""
    return math.ceil(n_tokens / (n_gpus * max_tokens * REAL_SHARE))


def exponent(first: Rate, second: Rate) -> float:
    """How the peak grows with the batch between two published points: 1 is the linear rule, ½ the square root's."""
    return math.log(second.lr / first.lr) / math.log(second.n_tokens / first.n_tokens)


def rate_for(n_tokens: float, d_model: int, points: Sequence[Rate]) -> tuple[float, float]:
    """Peak and warm-up steps for a batch: on straight lines between published points, both axes logarithmic.

    Outside of them, those of the nearest. The peak is multiplied by (1024 / d_model)^½, as equation 3 has it.
    """
    scale = math.sqrt(BIG_D_MODEL / d_model)
    n_tokens = min(max(n_tokens, points[0].n_tokens), points[-1].n_tokens)
    after = next(i for i, point in enumerate(points) if n_tokens <= point.n_tokens)
    left, right = points[max(after - 1, 0)], points[max(after, 1)]
    way = math.log(n_tokens / left.n_tokens) / math.log(right.n_tokens / left.n_tokens)
    lr = left.lr * (right.lr / left.lr) ** way
    return scale * lr, left.warmup_steps * (right.warmup_steps / left.warmup_steps) ** way


# --- tables ---


@cache
def models() -> tuple[Model, Model]:
    """Base and big, by configs/."""
    found: list[Model] = []
    for name in ("big", "base"):
        settings = load_config(ROOT / "configs" / f"{name}.yaml")
        size, network = settings.vocabulary.size, settings.model
        description = describe(network, size, size)
        late = size * network.d_model / description.parameters
        run = settings.train.max_steps * settings.train.batch_tokens
        flops = description.flops / (found[0].flops if found else 1)
        found.append(Model(name, network.d_model, description.parameters, late, flops, run))
    big, base = found
    return base, big._replace(flops=1.0)


def tables(assumed: Assumed) -> Iterator[list[list[str]]]:
    """Those of docs/scaling.md, from top to bottom; the first row of each is its head."""
    yield from (_bytes(), _times(assumed), _efficiencies(assumed), _check(), _rates(), _settings())


def _bytes() -> list[list[str]]:
    rows = [["network", "parameters", "gradients, fp32", *(f"sent by each of {n}" for n in SIZES)]]
    for model in models():
        n_bytes = model.parameters * FP32
        sent = [f"{ring_bytes(n_bytes, n) / 1e6:,.0f} MB" for n in SIZES]
        rows.append([model.name, f"{model.parameters / 1e6:.1f} M", f"{n_bytes / 1e6:,.0f} MB", *sent])
    return rows


def _times(assumed: Assumed) -> list[list[str]]:
    places = {
        "8 GPUs, NVLink": (8, 0.0),
        "16, 400 Gbit/s": (16, 400.0),
        "64, 400 Gbit/s": (64, 400.0),
        "64, 200 Gbit/s": (64, 200.0),
        "64, one adapter of 100 Gbit/s a node": (64, 100 / GPUS_OF_A_NODE),
    }
    rows = [["ms for one sum of all gradients", *places]]
    for model in models():
        for bytes_each, precision in ((FP32, "fp32"), (BF16, "bf16")):
            found = [_seconds(model, bytes_each, *place, assumed) for place in places.values()]
            rows.append([f"{model.name}, {precision}", *(f"{1000 * seconds:.1f}" for seconds in found)])
    return rows


def _efficiencies(assumed: Assumed) -> list[list[str]]:
    places = [*((n, 400.0) for n in SIZES), (SIZES[-1], 200.0)]
    rows = [["network", "batch", *(f"{n} GPUs" for n in SIZES), f"{SIZES[-1]}, 200 Gbit/s"]]
    for model in models():
        for n_tokens in BATCHES:
            cells = []
            for n, gbit in places:
                compute = n_tokens / n * model.flops / assumed.tokens_per_second
                now = efficiency(compute, _seconds(model, FP32, n, gbit, assumed))
                best = efficiency(compute, _seconds(model, BF16, n, gbit, assumed), model.late)
                cells.append(f"{now:.0%} – {best:.0%}")
            rows.append([model.name, f"{n_tokens:,}", *cells])
    return rows


def _seconds(model: Model, bytes_each: int, n_gpus: int, network_gbit: float, assumed: Assumed) -> float:
    speed = narrowest(n_gpus, network_gbit, assumed)
    return all_reduce_seconds(model.parameters, bytes_each, n_gpus, speed, assumed.hop_seconds)


def _check() -> list[list[str]]:
    """The same arithmetic on the machines of the MLPerf logs, with the speed there on 8 GPUs."""
    rows = [["A100", "batch", "tokens/s of a GPU", "of that on 8", "computed", "updates to 25.0 BLEU", "epochs"]]
    first, late = MLPERF[0], models()[1].late
    for log in MLPERF:
        own = log.tokens_per_second / log.n_gpus
        compute = log.n_tokens / log.n_gpus / (first.tokens_per_second / first.n_gpus)
        speed = narrowest(log.n_gpus, A100_NETWORK, A100)
        seconds = all_reduce_seconds(MLPERF_PARAMETERS, BF16, log.n_gpus, speed, A100.hop_seconds)
        computed = f"{efficiency(compute, seconds):.0%} – {efficiency(compute, seconds, late):.0%}"
        ratio = own * first.n_gpus / first.tokens_per_second
        cells = [f"{log.n_gpus}", f"{log.n_tokens:,}", f"{own:,.0f}", f"{ratio:.0%}"]
        cells.append(computed if log.n_gpus > GPUS_OF_A_NODE else "")
        rows.append([*cells, f"{log.updates:,}", f"{log.epochs}"])
    return rows


def _rates() -> list[list[str]]:
    rows = [["published, big", "norm", "tokens", "peak", "warm-up", "exponent", "linear", "square root", "× eq. 3"]]
    for norm, points in PUBLISHED_RATES.items():
        for before, point in zip((None, *points), points, strict=False):
            if before is None and norm != "post":
                continue  # the paper's, which stands there already
            grown = point.n_tokens / _PAPER.n_tokens
            cells = [point.source, norm, f"{point.n_tokens:,}", _lr(point.lr), f"{point.warmup_steps:,}"]
            cells += [f"{exponent(before, point):+.2f}" if before else ""]
            cells += [_lr(_PAPER.lr * grown), _lr(_PAPER.lr * math.sqrt(grown))]
            rows.append([*cells, f"{point.lr / peak_of_paper(BIG_D_MODEL, point.warmup_steps):.1f}"])
    return rows


def _settings() -> list[list[str]]:
    base, big = models()
    rows = [["GPUs", "`batch_tokens`", "micro-batches", "`max_steps`, base; big"]]
    rows[0] += [f"{norm}-norm: `lr`, base; big; `warmup_steps`" for norm in PUBLISHED_RATES]
    for n_gpus, n_tokens in SETTINGS:
        steps = "; ".join(f"{model.paper_tokens / n_tokens:,.0f}" for model in (base, big))
        cells = [f"{n_gpus}", f"{n_tokens:,}", f"{micro_batches(n_tokens, n_gpus)}", steps]
        for points in PUBLISHED_RATES.values():
            lr, warmup = rate_for(n_tokens, base.d_model, points)
            cells.append(f"{_lr(lr)}; {_lr(rate_for(n_tokens, big.d_model, points)[0])}; {round(warmup, -1):,.0f}")
        rows.append(cells)
    return rows


def _lr(rate: float) -> str:
    mantissa, power = f"{rate:.1e}".split("e")
    return f"{mantissa}e{int(power)}"


def render(table: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    head, *rows = table
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in [head, ["---"] * len(head), *rows])


def tables_of(page: str) -> list[str]:
    """The tables of a page, as they stand there."""
    runs = groupby(page.split("\n"), key=lambda line: line.startswith("|"))
    return ["\n".join(lines) for is_table, lines in runs if is_table]


def with_tables(page: str, new: Sequence[str]) -> str:
    """The page with its tables replaced, in their order.

    Raises:
        RunError: it has more or fewer.
    """
    old = tables_of(page)
    if len(old) != len(new):
        raise RunError(f"{PAGE} has {len(old)} tables, and there are {len(new)} to put there")
    parts, rest = [], page
    for before, after in zip(old, new, strict=True):
        text, _, rest = rest.partition(before)
        parts += [text, after]
    return "".join([*parts, rest])


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables, or put them into the page."""
    parser = CommandParser(prog="benchmarks/scaling_plan.py", description=(__doc__ or "").split("\n\n")[0])
    default = Assumed().tokens_per_second
    parser.add_argument(
        "--tokens-per-second", type=float, default=default, metavar="N", help=f"of one GPU, big model ({default:,.0f})"
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/scaling.md")
    args = parser.parse_args(argv)
    if not args.tokens_per_second > 0:
        parser.error(f"--tokens-per-second {args.tokens_per_second}: more than 0")
    made = [render(table) for table in tables(Assumed(tokens_per_second=args.tokens_per_second))]
    if args.write:
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
        print(f"wrote {PAGE}")
    else:
        print("\n\n".join(made))
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
