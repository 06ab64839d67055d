"""README.md of a model directory: what the model is, learnt from, worth, and how to use it.

Its first lines are the metadata that the hub of Hugging Face reads
(https://huggingface.co/docs/hub/model-cards#model-card-metadata). It is written with the model, and anew when more is
known, by evaluate.py. The licence is what the file says already.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from transformer.config import ModelSettings
from transformer.config_file import load_config
from transformer.config_translate import TranslateSettings
from transformer.errors import ConfigError

Licence = Mapping[str, str | list[str]]
"""The keys of the metadata that begin with `license`: itself, `license_name`, `license_link`."""

UNKNOWN_LICENCE: Licence = {"license": "unknown"}
UNDETERMINED = "und"  # a language, in ISO 639-2
METRICS = {"bleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++", "ter": "TER", "comet": "COMET"}


@dataclass(frozen=True)
class ModelFacts:
    """What a model directory says."""

    src_lang: str
    tgt_lang: str
    settings: ModelSettings
    translate: TranslateSettings
    n_parameters: int
    n_src_pieces: int
    n_tgt_pieces: int


@dataclass(frozen=True)
class RunFacts:
    """What a run says besides: nothing, where there is none.

    Attributes:
        corpora: training pairs of each.
        train: settings of `train` other than the defaults.
        evaluations: what evaluate.py left, by test set.
    """

    name: str = ""
    corpora: Mapping[str, int] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    evaluations: Sequence[Mapping[str, Any]] = ()


def read_run(run: Path) -> RunFacts:
    """Settings, record and evaluations of a run; what is missing or damaged is left out."""
    try:
        settings = load_config(run / "settings.yaml")
    except (ConfigError, OSError):
        return RunFacts()
    record = _read_json(run / "record.json")
    recorded = record.get("corpora")
    corpora = {name: n for name, n in recorded.items() if _is_figure(n)} if isinstance(recorded, dict) else {}
    found = [_read_json(path) for path in sorted((run / "translations").glob("*.json"))]
    train = settings.train.model_dump(exclude_defaults=True, exclude={"device", "threads"})
    return RunFacts(settings.name, corpora, train, [each for each in found if isinstance(each.get("metrics"), dict)])


def model_card(model: ModelFacts, run: RunFacts, licence: Licence = UNKNOWN_LICENCE) -> str:
    """The text, in Markdown with YAML before it."""
    settings = model.settings
    parts = [
        front_matter(model.src_lang, model.tgt_lang, licence, results=_model_index(run)),
        f"# {model.src_lang} → {model.tgt_lang} translation model",
        f"A Transformer (Vaswani et al. 2017): {settings.n_encoder_layers} + {settings.n_decoder_layers} layers, "
        f"d_model {settings.d_model}, {settings.n_heads} heads, {model.n_parameters:,} parameters; "
        f"{model.n_src_pieces:,} source and {model.n_tgt_pieces:,} target pieces.",
        "`model.json` holds the settings, `model.safetensors` the weights, `*.model` the sentencepiece vocabularies.",
        "## Data",
        _data(run),
        "## Scores",
        _scores(run),
        "## Use",
        _use(model),
        "## Settings",
        _settings(model, run),
        "## Licence",
        f"{_names(licence)}: the line `license:` at the top of this file says so; change it there, and it stays when "
        "this file is written anew.",
    ]
    return "\n\n".join(parts) + "\n"


def front_matter(
    src_lang: str, tgt_lang: str, licence: Licence, library: str | None = None, results: Sequence[Any] = ()
) -> str:
    """The metadata of a card, between lines of dashes."""
    languages = [language for language in dict.fromkeys((src_lang, tgt_lang)) if language != UNDETERMINED]
    metadata: dict[str, Any] = {"language": languages} if languages else {}
    metadata |= {**licence, "pipeline_tag": "translation", "tags": ["translation"]}
    if library:
        metadata["library_name"] = library
    if results:
        metadata["model-index"] = list(results)
    # In ASCII, as some characters do not survive PyYAML otherwise.
    return f"---\n{yaml.safe_dump(metadata, sort_keys=False, width=120)}---"


def stated_licence(card: Path) -> Licence:
    """The licence that a card has in its metadata; unknown, where it has none."""
    try:
        begin, head, *_ = re.split(r"^---\n", card.read_text(encoding="utf-8"), maxsplit=2, flags=re.MULTILINE)
        stated = {} if begin else dict(yaml.safe_load(head))
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError):
        return UNKNOWN_LICENCE
    kept = {key: value for key, value in stated.items() if str(key).startswith("license") and _is_text(value)}
    return {**UNKNOWN_LICENCE, **kept}


def _is_text(value: object) -> bool:
    """Whether it is a string, or some."""
    strings = value if isinstance(value, list) else [value]
    return bool(strings) and all(isinstance(string, str) and string for string in strings)


def _names(licence: Licence) -> str:
    """As a reader wants to see them."""
    names = licence.get("license_name", licence["license"])
    return names if isinstance(names, str) else ", ".join(names)


# --- its parts ---


def _data(run: RunFacts) -> str:
    if not run.corpora:
        return "Not recorded here."
    rows = [(name, f"{n:,}") for name, n in run.corpora.items()]
    return _table(("corpus", "training pairs"), [*rows, ("all", f"{sum(run.corpora.values()):,}")])


def _scores(run: RunFacts) -> str:
    if not run.evaluations:
        model = f"runs/{run.name}" if run.name else "RUN"
        return f"Not measured yet: `python evaluate.py --model {model}` does so, and writes them here."
    figures = [(each, _figures(each)) for each in run.evaluations]
    known = [key for key in METRICS if any(key in found for _, found in figures)]
    rows = [
        (str(each.get("test_set")), str(each.get("n_lines")), *(_shown(found.get(key)) for key in known))
        for each, found in figures
    ]
    table = _table(("test set", "lines", *(METRICS[key] for key in known)), rows)
    signatures = dict.fromkeys(str(figure.get("signature")) for _, found in figures for figure in found.values())
    listing = "\n".join(f"- `{signature}`" for signature in signatures)
    return f"{table}\n\nIn brackets 95 % confidence intervals. Signatures:\n\n{listing}"


def _use(model: ModelFacts) -> str:
    text = f"text.{model.src_lang}"
    return f"""With the program that trained it:

    python translate.py --model THIS_FOLDER < {text}

```python
from transformer.inference.translator import Translator

print(Translator.load("THIS_FOLDER").translate(["…"]))
```

With CTranslate2 (the fastest on a CPU) and with Hugging Face's transformers, after an export; each writes a README.md
that says how:

    python -m transformer export THIS_FOLDER --to ctranslate2 --output FOLDER
    python -m transformer export THIS_FOLDER --to huggingface --output FOLDER"""


def _settings(model: ModelFacts, run: RunFacts) -> str:
    sections = {
        "model": model.settings.model_dump(exclude_none=True),
        "train": dict(run.train),
        "translate": model.translate.model_dump(exclude_defaults=True),
    }
    text = yaml.safe_dump({name: keys for name, keys in sections.items() if keys}, sort_keys=False, allow_unicode=True)
    return f"Those of the network; of training and search where they are not the defaults.\n\n```yaml\n{text}```"


def _model_index(run: RunFacts) -> list[Any]:
    """Scores as the hub reads them."""
    results = [
        {
            "task": {"type": "translation"},
            "dataset": {"name": str(each.get("test_set")), "type": str(each.get("test_set"))},
            "metrics": [
                {"type": key, "name": METRICS[key], "value": round(float(figure["score"]), 2)}
                for key, figure in _figures(each).items()
            ],
        }
        for each in run.evaluations
    ]
    return [{"name": run.name, "results": results}] if results else []


def _figures(evaluation: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The metrics that have a score."""
    return {
        key: figure
        for key, figure in evaluation["metrics"].items()
        if key in METRICS and isinstance(figure, dict) and _is_figure(figure.get("score"))
    }


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e12  # in which nan is not, either


def _shown(figure: Mapping[str, Any] | None) -> str:
    if figure is None:
        return ""
    match figure.get("interval"):
        case [low, high] if _is_figure(low) and _is_figure(high):
            return f"{figure['score']:.1f} ({low:.1f}–{high:.1f})"
    return f"{figure['score']:.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def lines() -> Iterator[str]:
        for row in (head, ["---"] * len(head), *rows):
            cells = (" ".join(cell.split()).replace("|", "\\|") for cell in row)
            yield f"| {' | '.join(cells)} |"

    return "\n".join(lines())


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
