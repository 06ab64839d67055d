"""How fast our beam search is on a GPU: precisions, batch sizes, and what torch.compile gives.

    python benchmarks/gpu_decoding.py [--model DIR --data DIR] [--compile MODE]

--model is a run or model directory, --data holds Multi30k's test_2016_flickr.SRC.gz, decoded 20 times over. Without
them a network of the paper's base size with random weights translates made-up words with 32,000 pieces, and every
output has 30 pieces. --compile default lets torch.compile fuse a step of the decoder, reduce-overhead also replays it
as a CUDA graph; both are measured beside the plain one. Where there is no GPU this says so and ends. The result is
printed and written to benchmarks/results/gpu_decoding.md.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

import torch

from data.atomic import whole_directory
from data.lines import read_lines
from data.vocabulary import Vocabulary
from transformer.command_line import CommandParser, run_command
from transformer.config import ModelSettings
from transformer.config_translate import TranslateSettings
from transformer.inference.translator import Translator
from transformer.model_directory import Model, load_model, new_network, save_model

ROOT = Path(__file__).resolve().parent.parent
TEST = "test_2016_flickr"
PRECISIONS = ("fp32", "bf16", "fp16")
BATCH_SIZES = (32, 128, 512)
LENGTH = 30  # pieces of every output of random weights
FORCED = {"min_length": LENGTH, "max_length_ratio": 0.0, "max_extra_length": LENGTH}


def main(argv: Sequence[str] | None = None) -> int:
    """Decode in every way, report."""
    parser = CommandParser(prog="benchmarks/gpu_decoding.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model", type=Path, metavar="DIR", help="a run or model directory (random weights)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the raw Multi30k corpus")
    parser.add_argument("--lines", type=int, default=20_000, metavar="N", help="sentences (20000)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="decodings of each, in turn (3)")
    parser.add_argument(
        "--compile", action="append", default=[], choices=["default", "reduce-overhead"], help="measure that, too"
    )
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: only to try this program out")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/work", metavar="DIR", help="for what is made")
    args = parser.parse_args(argv)
    if (args.model is None) != (args.data is None):
        parser.error("--model and --data go together")
    if args.device == "cuda" and not torch.cuda.is_available():
        print("gpu_decoding: skipped, PyTorch sees no CUDA device here", file=sys.stderr)
        return 0
    folder, lines, settings = trained(args.model, args.data) if args.model else made_up(args.work.resolve())
    lines = (lines * -(-args.lines // len(lines)))[: args.lines]
    ways = list(product([None, *args.compile], PRECISIONS, BATCH_SIZES))
    results = {way: measure(folder, args.device, lines, settings, way, args.rounds) for way in ways}
    page = describe(results, len(lines), args.device)
    print(page)
    if args.device == "cuda":
        path = ROOT / "benchmarks/results/gpu_decoding.md"
        path.write_text(page, encoding="utf-8")
        print(f"wrote {path}")
    return 0


def trained(path: Path, data: Path) -> tuple[Path, list[str], dict[str, Any]]:
    """The model directory, sentences, settings of the search."""
    return path, list(read_lines(data / f"{TEST}.{load_model(path).src_lang}.gz")), {}


def made_up(work: Path) -> tuple[Path, list[str], dict[str, Any]]:
    """As `trained`, for random weights and made-up words: what it costs is the same."""
    draw = random.Random(1)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "el", "ir")]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(100_000)]
    lines = [" ".join(draw.choices(words, k=draw.randint(5, 25))) for _ in range(20_000)]
    vocabulary = Vocabulary.learn(lines, size=32_000)
    torch.manual_seed(1)
    settings = ModelSettings()
    network = new_network(settings, vocabulary, vocabulary).eval()
    folder = work / "gpu_decoding"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole_directory(folder) as place:
        save_model(place, Model(network, settings, TranslateSettings(), vocabulary, vocabulary, "xx", "yy"))
    return folder, lines, FORCED


def measure(
    folder: Path,
    device: str,
    lines: list[str],
    settings: dict[str, Any],
    way: tuple[str | None, str, int],
    n_rounds: int,
) -> tuple[float, float, float] | str:
    """Sentences and target tokens per second, and GiB of the device; or why it did not go."""
    mode, precision, batch_size = way
    budget = {"max_tokens": 10**6, "workers": 1, "beam_size": 5, "precision": precision}
    translator = Translator.load(folder, device, max_sentences=batch_size, **budget, **settings)
    if mode is not None:
        torch._dynamo.config.recompile_limit = 64  # the cache's state brings more versions of a step than the usual 8
        decoder: Any = translator.network.decoder
        decoder.step = torch.compile(decoder.step, mode=mode, dynamic=True)
    try:
        list(translator.translations(lines[: 2 * batch_size]))
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        seconds, n_tokens = [], 0
        for _ in range(n_rounds):
            begin = time.perf_counter()
            n_tokens = sum(translation.n_tokens for translation in translator.translations(lines))
            seconds.append(time.perf_counter() - begin)
    except RuntimeError as error:  # torch's: memory, or a step that cannot be compiled
        return str(error).splitlines()[0]
    memory_gib = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
    return len(lines) / median(seconds), n_tokens / median(seconds), memory_gib


def describe(
    results: dict[tuple[str | None, str, int], tuple[float, float, float] | str], n_lines: int, device: str
) -> str:
    """The figures as a page."""
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    lines = ["# Decoding on a GPU", "", "    " + (__doc__ or "").split("\n")[2].strip(), ""]
    lines += [f"{name}, torch {torch.__version__}, {n_lines:,} sentences, beam 5.", ""]
    lines += ["| compiled | precision | sentences in a batch | sentences/s | target tokens/s | GiB |", "|---" * 6 + "|"]
    for (mode, precision, batch_size), result in results.items():
        if isinstance(result, str):
            figures = [result, "", ""]
        else:
            figures = [f"{result[0]:,.1f}", f"{result[1]:,.0f}", f"{result[2]:.2f}"]
        cells = [mode or "no", precision, str(batch_size), *figures]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(run_command(main))
