"""How fast corpora are prepared, how much memory it takes, and how soon training starts, from text of real length.

    python benchmarks/preparation.py --data DIR

DIR holds tatoeba/train.en-de.{en,de}.gz (short everyday sentences) and multi30k/train.{en,de}.gz (captions, 12 words).
From each, corpora of 250,000 and 1,000,000 different pairs are made by adding numbers to the sentences. They are
prepared by preprocess.py with the default filters and a joint vocabulary that is given, and one update is trained. The
limit is what sentencepiece alone takes to encode the same text on as many threads. The result is printed and written
to benchmarks/results/preparation.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from data.lines import read_lines, write_lines
from data.vocabulary import Vocabulary
from transformer.command_line import CommandParser, run_command
from transformer.errors import RunError

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("en", "de")
TEXTS = {"tatoeba": "tatoeba/train.en-de", "multi30k": "multi30k/train"}
SIZES = (250_000, 1_000_000)
TINY = [f"model.n_{side}_layers=1" for side in ("encoder", "decoder")]
TINY += ["model.d_model=32", "model.n_heads=2", "model.d_ff=32", "train.max_steps=1", "train.batch_tokens=2000"]
TINY += ["train.device=cpu", "train.precision=fp32", "train.attention=explicit"]


@dataclass(frozen=True)
class Result:
    """One corpus prepared."""

    text: str
    n_pairs: int
    words: float  # per sentence, both sides
    seconds: float
    limit_seconds: float  # sentencepiece alone
    memory_gib: float  # of the largest process
    first_step_seconds: float  # from the command to the end of a run of one update, which validates on ten lines


def main(argv: Sequence[str] | None = None) -> int:
    """Make the corpora, prepare them, train one update, report."""
    parser = CommandParser(prog="benchmarks/preparation.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the raw corpora")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/work", metavar="DIR", help="for what is made")
    args = parser.parse_args(argv)
    work = args.work.resolve() / "preprocess"
    work.mkdir(parents=True, exist_ok=True)
    results = [
        measure(text, n_pairs, args.data.resolve() / stem, work) for text, stem in TEXTS.items() for n_pairs in SIZES
    ]
    page = describe(results)
    print(page)
    path = ROOT / "benchmarks/results/preparation.md"
    path.write_text(page, encoding="utf-8")
    print(f"wrote {path}")
    return 0


def measure(text: str, n_pairs: int, stem: Path, work: Path) -> Result:
    """Prepare `n_pairs` pairs grown from one corpus."""
    paths = [work / f"{text}-{n_pairs}.{language}" for language in LANGUAGES]
    for path, language in zip(paths, LANGUAGES, strict=True):
        if not path.exists():
            write_lines(path, islice(grown(Path(f"{stem}.{language}.gz")), n_pairs))
    model = work / f"{text}.model"
    if not model.exists():
        lines = [line for language in LANGUAGES for line in islice(read_lines(Path(f"{stem}.{language}.gz")), 30_000)]
        size = 32_000 if text == "tatoeba" else 16_000  # captions have fewer words
        Vocabulary.learn(lines, size=size).save(model)
    name = f"{text}-{n_pairs}"
    shutil.rmtree(work / "prepared" / name, ignore_errors=True)
    shutil.rmtree(work / "runs" / name, ignore_errors=True)
    train = f"data.train=[{{src: {paths[0]}, tgt: {paths[1]}}}]"
    valid = ", ".join(f"{side}: {few_lines(stem.parent / f'{held_out(text)}.{lang}.gz', work)}" for side, lang in SIDES)
    config = ["--config", "base.yaml", f"name={name}", train, f"data.valid=[{{{valid}}}]", "data.test={}"]
    config += [f"vocabulary.path={model}"]
    seconds, memory = timed("preprocess.py", config, work)
    limit, words = encode_alone(paths, model)
    first_step, _ = timed("train.py", [*config, *TINY], work)
    return Result(text, n_pairs, words, seconds, limit, memory, first_step)


SIDES = (("src", "en"), ("tgt", "de"))


def held_out(text: str) -> str:
    """The stem of the file to validate on."""
    return "val" if text == "multi30k" else "dev.en-de"


def few_lines(path: Path, work: Path) -> Path:
    """Ten lines of a file, as a file: enough to validate on."""
    few = work / f"few-{path.name.removesuffix('.gz')}"
    write_lines(few, islice(read_lines(path), 10))
    return few


def grown(path: Path) -> Iterator[str]:
    """All lines, and then all again with a number behind them, for ever."""
    lines = list(read_lines(path))
    yield from lines
    number = 2
    while True:
        yield from (f"{line} {number}" for line in lines)
        number += 1


def encode_alone(paths: Sequence[Path], model: Path) -> tuple[float, float]:
    """Seconds for sentencepiece on all cores, from text in memory to ids; and words per sentence."""
    vocabulary = Vocabulary.load(model)
    seconds, n_words, n_lines = 0.0, 0, 0
    for path in paths:
        lines = list(read_lines(path))
        n_words += sum(len(line.split()) for line in lines)
        n_lines += len(lines)
        begin = time.perf_counter()
        for start in range(0, len(lines), 100_000):
            vocabulary.encode(lines[start : start + 100_000], os.cpu_count() or 1)
        seconds += time.perf_counter() - begin
    return seconds, n_words / n_lines


def timed(script: str, arguments: Sequence[str], work: Path) -> tuple[float, float]:
    """Seconds, and the peak memory in GiB of the largest process."""
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, str(ROOT / script), *arguments], cwd=work)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RunError(f"{script} ended with exit code {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
    return time.perf_counter() - begin, usage.ru_maxrss * unit / 2**30


def describe(results: Sequence[Result]) -> str:
    """The figures as a page."""
    lines = ["# Preparing corpora", "", "    python benchmarks/preparation.py --data DIR", ""]
    lines += [
        "| text | pairs | words/sentence | seconds | pairs/s | sentencepiece alone, pairs/s | peak memory GiB "
        "| run of one update |"
    ]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for r in results:
        cells = [r.text, f"{r.n_pairs:,}", f"{r.words:.1f}", f"{r.seconds:.1f}", f"{r.n_pairs / r.seconds:,.0f}"]
        cells += [f"{r.n_pairs / r.limit_seconds:,.0f}", f"{r.memory_gib:.2f}", f"{r.first_step_seconds:.1f} s"]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for text in TEXTS:
        small, large = (r for r in results if r.text == text)
        lines.append(
            f"{text}: memory of {large.n_pairs:,} pairs / {small.n_pairs:,} pairs = "
            f"{large.memory_gib / small.memory_gib:.2f}; seconds of a run of one update "
            f"{large.first_step_seconds / small.first_step_seconds:.2f}."
        )
    lines += [
        "",
        f"{os.cpu_count()} cores, default filters, vocabulary given; start of Python and reading of text included.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(run_command(main))
