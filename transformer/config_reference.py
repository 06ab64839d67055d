"""`python -m transformer.config_reference` writes docs/configuration.md and docs/configuration.schema.json.

Both say what `config` says. With `--check` nothing is written, and the exit code is 1 if one of them is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformer.command_line import CommandParser, run_command
from transformer.config import Settings
from transformer.config_augmentation import AugmentationSettings, SubwordSampling
from transformer.config_corpora import CORPUS_KINDS
from transformer.config_filters import FILTERS
from transformer.config_mixing import MixingSettings, MixingStage
from transformer.config_schema import SCHEMA, SECTIONS, resolve, rule
from transformer.config_section import Section
from transformer.config_translate import DiversitySettings, SamplingSettings
from transformer.errors import RunError

DOCS = Path(__file__).resolve().parent.parent / "docs"

_INTRODUCTION = """\
# Settings

<!-- Written by `python -m transformer.config_reference` from transformer/config.py; change it there. -->

All four scripts take `--config FILE` and overrides:

    python train.py --config base.yaml train.max_steps=1000 model.dropout=0.3 name=trial
    python preprocess.py name=mine 'data.train=[{src: a.en, tgt: a.de}, {src: b.en, tgt: b.de}]'

- **Which file.** `--config` is looked up as a path first, then in `configs/`, each with or without `.yaml`.
- **YAML** means what version 1.2 says: `1e-4` and `1e5` are numbers, `010` is 10, `no` is text, and a quoted `'0.1'` is
  not a number. Duplicate and unknown keys, `.nan`, `.inf` and tags are refused; all problems are told at once.
- **Paths** in a config are relative to that config file, in an override to the working directory. `$VAR`, `${VAR}` and
  `~` are expanded; `$$` is a dollar sign. Outputs, `prepared/NAME` and `runs/NAME`, are relative to the working
  directory.
- **Overrides** are `section.key=value`, with a value as it would stand in the file. Each replaces a whole setting,
  lists included, and may be given once.
- **Editors** that know YAML schemas complete and check a config that begins with the line
  `# yaml-language-server: $schema=../docs/configuration.schema.json`.
"""

_CORPORA = """
## Corpora

`data.train` and `data.valid` are lists of corpora, `data.test` maps names to corpora. A corpus is a mapping of one of
four kinds.
"""

_FILTERS = """
## Filters

`data.filters` is a list of mappings such as `{filter: length, max_words: 100}`, one for each filter, in the order in
which they are tried. Blank lines and pairs that are also in validation or test sets never need one.
"""


def reference() -> str:
    """Return the text of docs/configuration.md."""
    top = {key: schema for key, schema in SCHEMA["properties"].items() if key not in SECTIONS}
    parts = [_INTRODUCTION, "\n## The experiment\n", _table(top, "", "Setting")]
    for section, keys in SECTIONS.items():
        parts += [f"\n## {section}\n", _about(SCHEMA["properties"][section]), _table(keys, f"{section}.", "Setting")]
        if section == "data":
            parts.append(_CORPORA)
            parts += [_kind(kind) for kind in CORPUS_KINDS]
            parts.append(_FILTERS)
            parts += [_kind(kind, name) for name, kind in FILTERS.items()]
            parts.append("\n## Mixing\n")
            parts += [_kind(kind) for kind in (MixingSettings, MixingStage)]
        if section == "train":
            parts.append("\n## Augmentation\n")
            parts += [_kind(kind) for kind in (AugmentationSettings, SubwordSampling)]
        if section == "translate":
            parts += [_kind(DiversitySettings, "diversity"), _kind(SamplingSettings, "sampling")]
    return "".join(parts)


def _kind(kind: type[Section], name: str = "") -> str:
    """What a mapping inside a section can hold."""
    schema = SCHEMA["$defs"][kind.__name__]
    keys = {key: about for key, about in schema["properties"].items() if key != "filter"}
    heading = f"**{name}**: " if name else ""
    return f"\n{heading}{schema['description']}\n" + (_table(keys, "", "Key") if keys else "")


def json_schema() -> str:
    """Return the text of docs/configuration.schema.json."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Settings.model_json_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _about(schema: dict[str, Any]) -> str:
    return f"\n{resolve(schema)['description']}\n"


def _table(keys: dict[str, dict[str, Any]], prefix: str, heading: str) -> str:
    rows = [(heading, "Default", "Allowed", "Meaning"), ("---", "---", "---", "---")]
    for key, schema in keys.items():
        default = f"`{json.dumps(schema['default'])}`" if "default" in schema else "required"
        rows.append((f"`{prefix}{key}`", default.replace('"', ""), rule(schema), schema["description"]))
    return "\n" + "".join("| " + " | ".join(_cell(text) for text in row) + " |\n" for row in rows)


def _cell(text: str) -> str:
    return re.sub(r"\||<(?=[a-z])", r"\\\g<0>", text)  # neither a column's end nor an HTML tag


def main(argv: Sequence[str] | None = None) -> int:
    """Write both files, or check that they are up to date."""
    parser = CommandParser(prog="python -m transformer.config_reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is out of date")
    args = parser.parse_args(argv)
    for name, text in (("configuration.md", reference()), ("configuration.schema.json", json_schema())):
        path = DOCS / name
        if not args.check:
            path.write_text(text, encoding="utf-8", newline="\n")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            raise RunError(f"{path} is out of date: run python -m transformer.config_reference")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
