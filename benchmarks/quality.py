"""What this project reaches on real corpora, from raw text to scores, through the scripts that users run.

    python benchmarks/quality.py --data DIR [RECIPE …]

DIR holds multi30k/ (see benchmarks/multi30k.py) and, for `small-en-de`, corpora for half a million pairs: tatoeba/ and
l10n/ with train.en-de.en.gz, …, and WMT's, Flores' and Tatoeba's test sets in wmt/. Without a name, every recipe whose
corpora are there is trained. Stopped and started again, it goes on where it was. What a recipe reached is written to
benchmarks/results/quality-RECIPE.json, and the table of all of them to benchmarks/results/quality.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # to run like the scripts there

from benchmarks.machine import machine_facts
from benchmarks.multi30k import data_overrides
from benchmarks.scripts import ROOT, Work
from data.lines import write_lines
from transformer.command_line import CommandParser, run_command
from transformer.config import Settings
from transformer.config_file import differences, load_config
from transformer.errors import ConfigError
from transformer.evaluation.results import Evaluation, Figure, find_evaluations, load_evaluation

RESULTS = ROOT / "benchmarks/results"
# Wu et al. 2021, "Good for Misconceived Reasons", Transformer-Tiny on text alone; in the literature's form.
PUBLISHED = {
    ("multi30k-en-de", "test_2016_flickr"): 41.02,
    ("multi30k-en-de", "test_2017_flickr"): 33.36,
    ("multi30k-en-de", "test_2017_mscoco"): 29.88,
    ("multi30k-en-fr", "test_2016_flickr"): 61.80,
}


@dataclass(frozen=True)
class Recipe:
    """A config and the corpora that it is trained and tested on here."""

    name: str
    config: str
    corpora: str  # for the table
    src_lang: str
    tgt_lang: str

    def overrides(self, data: Path) -> list[str]:
        """What to tell the scripts. Raises ConfigError when a file is not there."""
        if self.config == "multi30k.yaml":
            return data_overrides(data / "multi30k", self.src_lang, self.tgt_lang)
        return half_million_overrides(data)


MULTI30K = "Multi30k, 29,000 pairs"
RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("multi30k-en-de", "multi30k.yaml", MULTI30K, "en", "de"),
        Recipe("multi30k-en-fr", "multi30k.yaml", MULTI30K, "en", "fr"),
        Recipe("multi30k-en-cs", "multi30k.yaml", MULTI30K, "en", "cs"),
        Recipe("multi30k-de-en", "multi30k.yaml", MULTI30K, "de", "en"),
        Recipe("small-en-de", "small.yaml", "software, Tatoeba, Multi30k, 512,000 pairs", "en", "de"),
    )
}


def half_million_overrides(data: Path) -> list[str]:
    """The settings that name the corpora of `small-en-de`; JSON is YAML. Raises ConfigError for what is not there."""
    tatoeba_test = "wmt/other/deu-eng.tatoeba-test-v2021-08-07"
    files = {
        "train": {
            "l10n": ("l10n/train.en-de.en.gz", "l10n/train.en-de.de.gz"),
            "tatoeba": ("tatoeba/train.en-de.en.gz", "tatoeba/train.en-de.de.gz"),
            "multi30k": ("multi30k/train.en.gz", "multi30k/train.de.gz"),
        },
        "valid": {
            "l10n": ("l10n/dev.en-de.en.gz", "l10n/dev.en-de.de.gz"),
            "tatoeba": ("tatoeba/dev.en-de.en.gz", "tatoeba/dev.en-de.de.gz"),
        },
        "test": {
            "tatoeba": (f"{tatoeba_test}.eng.gz", f"{tatoeba_test}.deu.gz"),
            "flores101": ("wmt/multilingual/flores101.eng.devtest", "wmt/multilingual/flores101.deu.devtest"),
            "newstest2019": (
                "wmt/multilingual/newstest2019-src.eng.txt",
                "wmt/multilingual/newstest2019-ref.deu.txt",
            ),
            "test_2016_flickr": ("multi30k/test_2016_flickr.en.gz", "multi30k/test_2016_flickr.de.gz"),
        },
    }
    missing = [
        name for split in files.values() for pair in split.values() for name in pair if not (data / name).is_file()
    ]
    if missing:
        raise ConfigError(f"small-en-de: not there: {', '.join(missing)}")
    sources = {
        split: {name: {"src": str(data / src), "tgt": str(data / tgt)} for name, (src, tgt) in pairs.items()}
        for split, pairs in files.items()
    }
    values: dict[str, Any] = {
        "src_lang": "en",
        "tgt_lang": "de",
        "train": [{**source, "name": name} for name, source in sources["train"].items()],
        "valid": list(sources["valid"].values()),
        "test": sources["test"],
    }
    return [f"data.{key}={json.dumps(value).replace('$', '$$')}" for key, value in values.items()]


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare, train, evaluate what was asked for; write the table of all."""
    args = parse_arguments(argv)
    for name in args.recipes or available(args.data):
        reach(RECIPES[name], args.data.resolve(), Work(args.work.resolve(), name), args.overrides)
    write_lines(RESULTS / "quality.md", render(load_results()).split("\n"))
    print(f"wrote {RESULTS / 'quality.md'}")
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What there is to choose."""
    parser = CommandParser(prog="benchmarks/quality.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the raw corpora")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/work", metavar="DIR", help="for data and runs")
    parser.add_argument(
        "words", nargs="*", metavar="RECIPE", help=f"of {', '.join(RECIPES)} (all); section.key=value changes settings"
    )
    args: argparse.Namespace = parser.parse_args(argv)
    args.overrides = [word for word in args.words if "=" in word]
    args.recipes = [word for word in args.words if "=" not in word]
    if unknown := [name for name in args.recipes if name not in RECIPES]:
        raise ConfigError(f"{', '.join(unknown)}: no such recipe; there are {', '.join(RECIPES)}")
    return args


def available(data: Path) -> list[str]:
    """The recipes whose corpora are there; says which are not. Raises ConfigError when none are."""
    found = []
    for name, recipe in RECIPES.items():
        try:
            recipe.overrides(data)
        except ConfigError as error:
            print(f"left out: {error}", file=sys.stderr)
        else:
            found.append(name)
    if not found:
        raise ConfigError(f"--data {data}: has the corpora of no recipe; name the folder that holds multi30k/")
    return found


def reach(recipe: Recipe, data: Path, work: Work, overrides: Sequence[str]) -> None:
    """Train a recipe, translate and score its test sets, and keep what is to be told of it."""
    config = ["--config", recipe.config, f"name={recipe.name}", *recipe.overrides(data), *overrides]
    work.run("preprocess", config)
    work.run("train", config)
    run = work.path / "runs" / recipe.name
    work.run("evaluate", ["--model", f"runs/{recipe.name}", "--literature"])
    translations = run / "translations"
    evaluations = {name: load_evaluation(translations, name) for name in find_evaluations(translations)}
    command = " ".join(["python benchmarks/quality.py --data DIR", recipe.name, *overrides])
    facts = {"command": command, **training_facts(run), **work.facts(), **where_trained(run)}
    result = {"recipe": recipe.name, "tests": {name: figures(each) for name, each in evaluations.items()}, **facts}
    path = RESULTS / f"quality-{recipe.name}.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    same = ("training_seconds", "target_tokens", "target_tokens_per_second")
    if all(before.get(key) == result[key] for key in same):  # that training has been told of
        result["date"] = before["date"]
    write_lines(path, json.dumps(result, indent=2, ensure_ascii=False).split("\n"))


def figures(evaluation: Evaluation) -> dict[str, Any]:
    """What the table shows of a test set."""

    def shown(figure: Figure | None) -> dict[str, Any] | None:
        return vars(figure) if figure is not None else None

    keys = ("bleu", "chrf")
    return {key: shown(evaluation.metrics[key]) for key in keys} | {
        "literature": shown(evaluation.literature),
        "length_ratio": evaluation.length_ratio,
        "n_lines": evaluation.n_lines,
    }


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
        "best_validation_bleu": round(max(line.get("valid_bleu", 0.0) for line in lines), 2),
        "choices": json.loads((run / "choices.json").read_text(encoding="utf-8")),
        "settings": chosen,
    }


def where_trained(run: Path) -> dict[str, Any]:
    """As `machine_facts`, with the processor or GPU and the versions that the run was trained with, if it tells."""
    facts = machine_facts()
    try:
        # not by `load_record`: torch would count among the memory of every script that this process starts
        trained = json.loads((run / "record.json").read_bytes())["environment"]
        device, versions, system = trained["device"], trained["versions"], trained["platform"]
        if device["type"] == "cpu":
            facts |= {"cpu": device["name"], "cores": device["count"]}
        else:
            facts |= {"gpu": f"{device['count']} × {device['name']}"}
        facts["system"] = f"{system['system']} {system['machine']}, Python {versions['python']}"
        # sacrebleu and sacremoses have scored just now
        facts["libraries"] |= {name: versions[name] for name in ("torch", "sentencepiece")}
    except (OSError, ValueError, KeyError, TypeError):
        return machine_facts()
    return facts


def load_results() -> list[dict[str, Any]]:
    """What has been reached so far, by any session, in the order of the recipes."""
    paths = [RESULTS / f"quality-{name}.json" for name in RECIPES]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]


def render(results: Sequence[Mapping[str, Any]]) -> str:
    """The table in Markdown."""
    rows, signatures = [], dict.fromkeys(["bleu", "chrf", "literature"], "")
    for result in results:
        recipe = RECIPES[result["recipe"]]
        for test, found in result["tests"].items():
            cells = [_shown(found[key]) for key in signatures]
            for key in signatures:
                signatures[key] = found[key]["signature"] if found[key] else signatures[key]
            published = PUBLISHED.get((recipe.name, test))
            rows.append(
                f"| {recipe.name} | {test} | {' | '.join(cells)} | {f'{published:.2f}' if published else ''} "
                f"| {found['length_ratio']:.3f} |"
            )
    facts = [
        f"| {result['recipe']} | {RECIPES[result['recipe']].corpora} | {result['training_seconds'] / 60:.0f} "
        f"| {result['updates']:,} | {result['target_tokens'] / 1e6:.1f} | {result['target_tokens_per_second']:,} "
        f"| {_device(result)}, {result['date']} | `{result['command']}` |"
        for result in results
    ]
    settings = [
        f"- {result['recipe']}: " + ", ".join(f"`{key}={value}`" for key, value in result["settings"].items())
        for result in results
    ]
    return "\n".join(
        [
            "# What is reached",
            "",
            "    python benchmarks/quality.py --data DIR",
            "",
            "| recipe | test set | BLEU (a) | chrF (b) | BLEU (c) | published (c) | length ratio |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            "In brackets the 95 % confidence interval by bootstrap resampling.",
            f"(a) detokenised, cased: `{signatures['bleu']}`. (b) `{signatures['chrf']}`.",
            f"(c) the literature's form, lower-cased and tokenised by sacremoses: `{signatures['literature']}`;",
            "published: Wu et al. 2021, Transformer-Tiny, text only.",
            "",
            "| recipe | training text | minutes | updates | million target tokens | tokens/s | where, when | command |",
            "|---|---|---|---|---|---|---|---|",
            *facts,
            "",
            "Minutes are those of training, with validation, saving and whatever else the machine did meanwhile;",
            "tokens/s are the median of the updates. Settings that are not the defaults of `transformer/config.py`:",
            "",
            *settings,
        ]
    )


def _device(result: Mapping[str, Any]) -> str:
    return str(result["gpu"]) if "gpu" in result else f"{result['cores']} cores of {result['cpu']}"


def _shown(figure: Mapping[str, Any] | None) -> str:
    if figure is None:
        return ""
    if figure["interval"] is None:
        return f"{figure['score']:.2f}"
    low, high = figure["interval"]
    return f"{figure['score']:.2f} ({low:.1f}–{high:.1f})"


if __name__ == "__main__":
    sys.exit(run_command(main))
