"""Our preparation beside that of eole and JoeyNMT, in turn, on the same text with the same sentencepiece model.

    python benchmarks/preparation_peers.py --data DIR --eole PYTHON --joeynmt PYTHON

DIR as for benchmarks/preparation.py. PYTHON is the interpreter of an environment that has eole==0.6.4 (and aiohttp), or
joeynmt==2.3.0 (and importlib_metadata, sentencepiece==0.2.0). What their users run before they can train, with all
corpora read to the end:

ours     preprocess.py: default filters, ids on the disk; what training starts from
eole     `eole build_vocab` with the transforms sentencepiece and filtertoolong and n_sample -1, on as many threads as
         there are cores; it counts pieces for the vocabulary and keeps no ids: training reads and encodes again
JoeyNMT  `load_data` of the training set with its sentencepiece tokenizer, which every start of training does anew

Neither of them removes duplicates, looks at languages, or compares with test sets. The result is printed and written to
benchmarks/results/preparation_peers.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from benchmarks.preparation import SIDES, TEXTS, encode_alone, few_lines, grown, held_out
from data.lines import read_lines, write_lines
from data.vocabulary import Vocabulary
from transformer.command_line import CommandParser, run_command
from transformer.errors import RunError

ROOT = Path(__file__).resolve().parent.parent
JOEY = """
import sys
from types import SimpleNamespace
from joeynmt.config import _check_special_symbols
from joeynmt.data import load_data
side = lambda lang: {"lang": lang, "level": "bpe", "lowercase": False, "max_length": 256, "voc_min_freq": 1,
    "tokenizer_type": "sentencepiece", "tokenizer_cfg": {"model_file": sys.argv[2]}}
src_vocab, _, train, _, _ = load_data(
    {"train": sys.argv[1], "dataset_type": "plain", "src": side("en"), "trg": side("de"),
    "special_symbols": SimpleNamespace(**_check_special_symbols({}))}, ["train"])
print(len(train), "pairs", len(src_vocab), "pieces")
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Make the text, prepare it with each, report."""
    parser = CommandParser(prog="benchmarks/preparation_peers.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the raw corpora")
    parser.add_argument("--eole", type=Path, metavar="PYTHON", help="the Python that has eole")
    parser.add_argument("--joeynmt", type=Path, metavar="PYTHON", help="the Python that has JoeyNMT")
    parser.add_argument("--pairs", type=int, default=1_000_000, metavar="N", help="(1000000)")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/work", metavar="DIR", help="for what is made")
    args = parser.parse_args(argv)
    work = args.work.resolve() / "peers"
    work.mkdir(parents=True, exist_ok=True)
    stem = args.data.resolve() / TEXTS["tatoeba"]
    texts, model = make_text(stem, args.pairs, work)
    seconds = {"sentencepiece alone": encode_alone(texts, model)[0]}
    seconds["this project"] = timed(*ours(texts, model, stem, work))
    if args.eole is not None:
        seconds["eole 0.6.4"] = timed(*eole(args.eole, texts, model, work))
    if args.joeynmt is not None:
        command = [str(args.joeynmt), "-c", JOEY, str(texts[0].with_suffix("")), str(model)]
        seconds["JoeyNMT 2.3.0"] = timed(command, work)
    page = describe(seconds, args.pairs)
    print(page)
    path = ROOT / "benchmarks/results/preparation_peers.md"
    path.write_text(page, encoding="utf-8")
    print(f"wrote {path}")
    return 0


def make_text(stem: Path, n_pairs: int, work: Path) -> tuple[list[Path], Path]:
    """Both sides of the corpus, and a joint BPE model of 32,000 pieces."""
    texts = [work / f"tatoeba-{n_pairs}.{language}" for _, language in SIDES]
    for path, (_, language) in zip(texts, SIDES, strict=True):
        if not path.exists():
            write_lines(path, islice(grown(Path(f"{stem}.{language}.gz")), n_pairs))
    model = work / "tatoeba.model"
    if not model.exists():
        lines = [line for _, language in SIDES for line in islice(read_lines(Path(f"{stem}.{language}.gz")), 30_000)]
        Vocabulary.learn(lines, size=32_000).save(model)
    return texts, model


def ours(texts: Sequence[Path], model: Path, stem: Path, work: Path) -> tuple[list[str], Path]:
    """The command, and where it is run."""
    shutil.rmtree(work / "prepared", ignore_errors=True)
    few = [few_lines(stem.parent / f"{held_out('tatoeba')}.{language}.gz", work) for _, language in SIDES]
    settings = ["name=peers", f"data.train=[{{src: {texts[0]}, tgt: {texts[1]}}}]", "data.test={}"]
    settings += [f"data.valid=[{{src: {few[0]}, tgt: {few[1]}}}]", f"vocabulary.path={model}"]
    return [sys.executable, str(ROOT / "preprocess.py"), "--config", "base.yaml", *settings], work


def eole(python: Path, texts: Sequence[Path], model: Path, work: Path) -> tuple[list[str], Path]:
    """The command, and where it is run."""
    config = work / "eole.yaml"
    config.write_text(
        "save_data: eole\noverwrite: true\nn_sample: -1\nshare_vocab: true\n"
        f"num_threads: {os.cpu_count()}\nsrc_vocab: eole.vocab\ntgt_vocab: eole.vocab\n"
        "transforms: [sentencepiece, filtertoolong]\n"
        "transforms_configs:\n  filtertoolong: {src_seq_length: 256, tgt_seq_length: 256}\n"
        f"  sentencepiece: {{src_subword_model: {model}, tgt_subword_model: {model}}}\n"
        f"data:\n  corpus: {{path_src: {texts[0]}, path_tgt: {texts[1]}}}\n",
        encoding="utf-8",
    )
    return [str(python), "-m", "eole.bin.main", "build_vocab", "-config", str(config)], work


def timed(command: Sequence[str], work: Path) -> float:
    """Seconds; what the command prints is shown when it fails."""
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise RunError(f"{' '.join(command[:4])} … ended with exit code {done.returncode}:\n{done.stderr[-2000:]}")
    return seconds


def describe(seconds: dict[str, float], n_pairs: int) -> str:
    """The figures as a page."""
    lines = ["# Preparation beside that of others", "", "    " + (__doc__ or "").split("\n")[2].strip(), ""]
    lines += ["| | seconds | pairs/s | ours is faster by |", "|---|---|---|---|"]
    own = seconds["this project"]
    for name, value in seconds.items():
        lines.append(f"| {name} | {value:.1f} | {n_pairs / value:,.0f} | {value / own:.1f} × |")
    lines += ["", f"{n_pairs:,} pairs of Tatoeba's length, {os.cpu_count()} cores; start of Python included, but for "]
    lines[-1] += "sentencepiece alone."
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(run_command(main))
