"""The whole path on Multi30k (Elliott et al. 2016), from raw text to BLEU, through the scripts that users run.

    python benchmarks/multi30k.py --data DIR

DIR holds train, val, test_2016_flickr, test_2017_flickr and test_2017_mscoco as NAME.LANGUAGE.gz, which are the files
of data/task1/raw in github.com/multi30k/dataset. Stopped and started again, it goes on where it was. The result is
printed and written to benchmarks/results/multi30k-SRC-TGT.md and .json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from data.lines import read_lines, write_lines
from transformer.command_line import CommandParser, run_command
from transformer.config import Settings
from transformer.config_file import differences, load_config
from transformer.errors import ConfigError, RunError
from transformer.evaluation.metrics import Scores, literature_score, score

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
# Wu et al. 2021, "Good for Misconceived Reasons", Transformer-Tiny on text alone; in the literature's form.
PUBLISHED = {
    ("en-de", "test_2016_flickr"): 41.02,
    ("en-de", "test_2017_flickr"): 33.36,
    ("en-de", "test_2017_mscoco"): 29.88,
    ("en-fr", "test_2016_flickr"): 61.80,
}
LIBRARIES = ("torch", "sentencepiece", "sacrebleu", "sacremoses")


@dataclass(frozen=True)
class Result:
    """The figures of one test set."""

    scores: Scores
    literature_bleu: float
    literature_signature: str
    published_bleu: float | None
    translate_seconds: float  # loading the model included


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare, train, translate, score, report."""
    args = parse_arguments(argv)
    src, _, tgt = args.pair.partition("-")
    data, name = args.data.resolve(), f"multi30k-{args.pair}"
    work = Work(args.work.resolve())

    config = ["--config", "multi30k.yaml", f"name={name}", *data_overrides(data, src, tgt), *args.overrides]
    work.run("preprocess", config)
    work.run("train", config)
    results = {}
    for test in tests_in(data, src, tgt):
        source, reference, output = data / f"{test}.{src}.gz", data / f"{test}.{tgt}.gz", work.path / f"{test}.{tgt}"
        files = ["--model", f"runs/{name}", "--input", str(source), "--output", str(output)]
        seconds = work.run("translate", files)
        results[test] = measure(args.pair, test, list(read_lines(output)), list(read_lines(reference)), seconds)

    command = " ".join(["python benchmarks/multi30k.py --data DIR --pair", args.pair, *args.overrides])
    facts = {"command": command, **training_facts(work.path / "runs" / name), **work.facts(), **machine_facts()}
    write(name, results, facts)
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What there is to choose."""
    parser = CommandParser(prog="benchmarks/multi30k.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the raw corpus")
    parser.add_argument("--pair", default="en-de", metavar="SRC-TGT", help="languages (en-de)")
    parser.add_argument(
        "--work",
        type=Path,
        default=ROOT / "benchmarks/work",
        metavar="DIR",
        help="for prepared data, run, translations",
    )
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings instead of multi30k.yaml's")
    args: argparse.Namespace = parser.parse_args(argv)
    return args


def data_overrides(data: Path, src: str, tgt: str) -> list[str]:
    """The settings that name the corpus; JSON is YAML."""
    missing = [
        path.name
        for split in ("train", "val", TESTS[0])
        for path in (data / f"{split}.{language}.gz" for language in (src, tgt))
        if not path.is_file()
    ]
    if missing:
        raise ConfigError(f"{data}: {', '.join(missing)} not there; --data takes data/task1/raw of multi30k/dataset")

    def files(split: str) -> dict[str, str]:
        return {"src": str(data / f"{split}.{src}.gz"), "tgt": str(data / f"{split}.{tgt}.gz")}

    values = {
        "src_lang": src,
        "tgt_lang": tgt,
        "train": [files("train")],
        "valid": [files("val")],
        "test": {test: files(test) for test in tests_in(data, src, tgt)},
    }
    return [f"data.{key}={json.dumps(value).replace('$', '$$')}" for key, value in values.items()]


def tests_in(data: Path, src: str, tgt: str) -> list[str]:
    """The test sets that there are in both languages; not all are in all."""
    return [test for test in TESTS if all((data / f"{test}.{language}.gz").is_file() for language in (src, tgt))]


class Work:
    """The folder where the scripts run, and what they took, remembered from one start to the next."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes = path / "peak_memory.json"
        path.mkdir(parents=True, exist_ok=True)

    def run(self, script: str, arguments: Sequence[str]) -> float:
        """Run a script of the repository as a user would; returns seconds.

        Raises:
            RunError: it failed; its own message is on the screen.
        """
        begin = time.perf_counter()
        process = subprocess.Popen([sys.executable, str(ROOT / f"{script}.py"), *arguments], cwd=self.path)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except KeyboardInterrupt:  # the script got it too, and may be saving
            process.wait()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RunError(f"{script}.py ended with exit code {process.returncode}; run this again to go on from there")
        unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
        memory = self._peak_memory()
        # A finished run that is started again does little: its peak is that of the start that did the work.
        memory[script] = max(memory.get(script, 0), usage.ru_maxrss * unit / 2**30)
        self.notes.write_text(json.dumps(memory))
        return time.perf_counter() - begin

    def facts(self) -> dict[str, Any]:
        """Peak memory of each script, in GiB."""
        return {f"{script}_peak_memory_gib": round(gib, 2) for script, gib in self._peak_memory().items()}

    def _peak_memory(self) -> dict[str, float]:
        return dict(json.loads(self.notes.read_text())) if self.notes.exists() else {}


def measure(pair: str, test: str, hypotheses: list[str], references: list[str], seconds: float) -> Result:
    """Score one test set in both forms."""
    bleu, signature = literature_score(hypotheses, references, pair.partition("-")[2])
    return Result(score(hypotheses, references), bleu, signature, PUBLISHED.get((pair, test)), seconds)


def training_facts(run: Path) -> dict[str, Any]:
    """What the run directory says about training; `seconds` there includes validation and saving, over all restarts."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    intervals = [line for line in lines if "tokens_per_second" in line]
    settings = load_config(run / "settings.yaml")
    chosen = {d.key: d.second for d in differences(Settings(), settings) if not d.key.startswith(("data.", "name"))}
    return {
        "training_seconds": round(intervals[-1]["seconds"]),
        "updates": intervals[-1]["step"],
        "epochs_begun": intervals[-1]["epoch"] + 1,
        "target_tokens": intervals[-1]["n_tokens"],
        "target_tokens_per_second": round(median(line["tokens_per_second"] for line in intervals)),
        "padding_share": round(median(line["padding_share"] for line in intervals), 4),
        "best_validation_bleu": round(max(line.get("valid_bleu", 0.0) for line in lines), 2),
        "choices": json.loads((run / "choices.json").read_text(encoding="utf-8")),
        "settings": chosen,
    }


def machine_facts() -> dict[str, Any]:
    """Where and with what it was measured."""
    cpu_info = Path("/proc/cpuinfo")
    models = [line for line in cpu_info.read_text().splitlines() if "model name" in line] if cpu_info.exists() else []
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": models[0].partition(": ")[2] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "libraries": {library: version(library) for library in LIBRARIES},
    }


def write(name: str, results: dict[str, Result], facts: dict[str, Any]) -> None:
    """Print the report and write it beside this file, as text and as JSON."""
    report = render(name, results, facts)
    print(report)
    folder = ROOT / "benchmarks" / "results"
    folder.mkdir(exist_ok=True)
    as_json = {"results": {test: asdict(result) for test, result in results.items()}, **facts}
    write_lines(folder / f"{name}.md", report.split("\n"))
    write_lines(folder / f"{name}.json", json.dumps(as_json, indent=2, ensure_ascii=False).split("\n"))
    print(f"wrote {folder / name}.md and .json")


def render(name: str, results: dict[str, Result], facts: dict[str, Any]) -> str:
    """The report in Markdown."""
    apart = ("command", "settings")
    rows = [
        f"| {test} | {result.scores.bleu:.2f} | {result.scores.chrf:.2f} | {result.literature_bleu:.2f} "
        f"| {_published(result)} | {result.scores.length_ratio:.3f} "
        f"| {result.scores.n_lines:,} in {result.translate_seconds:.0f} s |"
        for test, result in results.items()
    ]
    scores, literature = next((result.scores, result.literature_signature) for result in results.values())
    return "\n".join(
        [
            f"# {name}",
            "",
            f"    {facts['command']}",
            "",
            "| test set | BLEU (a) | chrF | BLEU (b) | published (b) | length ratio | lines translated |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            f"(a) detokenised, cased: `{scores.bleu_signature}`; chrF: `{scores.chrf_signature}`.",
            f"(b) the literature's form, lower-cased and tokenised by sacremoses: `{literature}`;",
            "published: Wu et al. 2021, Transformer-Tiny, text only. Translation times include loading the model.",
            "",
            "| | |",
            "|---|---|",
            *(f"| {key.replace('_', ' ')} | {_shown(value)} |" for key, value in facts.items() if key not in apart),
            "",
            "Settings that are not the defaults of `transformer/config.py`:",
            "",
            *(f"    {key}: {value}" for key, value in facts["settings"].items()),
        ]
    )


def _published(result: Result) -> str:
    if result.published_bleu is None:
        return ""
    return f"{result.published_bleu:.2f} ({result.literature_bleu - result.published_bleu:+.2f})"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items() if item != {})
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    sys.exit(run_command(main))
