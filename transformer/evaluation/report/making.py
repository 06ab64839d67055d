"""How a run was made: the settings that matter, on what and with what, and how to make it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from data.report.visible import plain, shortened
from transformer.config import Settings
from transformer.config_file import differences
from transformer.evaluation.report.run import Run
from transformer.yaml12 import write_yaml

_VALUE = 160  # characters shown of a setting
_SETTINGS = 20_000  # of all settings


def settings_table(runs: Sequence[Run]) -> list[tuple[str, str, list[tuple[str, bool]]]]:
    """(setting, its default, what each run has and whether that is not the default) of all settings that matter here.

    Of one run these are the ones that are not the default; of several, the ones in which runs differ.
    """
    default = Settings()
    known = [run.settings for run in runs if run.settings is not None]
    if not known or len(known) < len(runs):
        return []
    keys = {d.key for settings in known[1:] for d in differences(known[0], settings)}
    if len(runs) == 1:
        keys = {d.key for d in differences(default, known[0])}
    order = [d.key for d in differences(default, known[0])] + [
        d.key for one in known[1:] for d in differences(known[0], one)
    ]
    return [
        (key, _value(default, key), [(_value(one, key), _plain(one, key) != _plain(default, key)) for one in known])
        for key in dict.fromkeys(order)
        if key in keys
    ]


def _plain(settings: Settings, key: str) -> Any:
    value: Any = settings.model_dump(mode="json")
    for part in key.split("."):
        value = value[part]
    return value


def _value(settings: Settings, key: str) -> str:
    """A setting as a config would spell it, on one line."""
    tree: Any = settings.model_dump(mode="json", exclude_none=True)
    for part in key.split("."):
        tree = tree.get(part)
    text = yaml.safe_dump(tree, default_flow_style=True, allow_unicode=True, sort_keys=False, width=10**6)
    text = plain(text.removesuffix("\n").removesuffix("\n..."))
    return text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"


def all_settings(run: Run) -> str:
    """Every setting as YAML."""
    if run.settings is None:
        return ""
    text = write_yaml(run.settings.model_dump(mode="json"))
    cut = f"{text[:_SETTINGS]}\n… (cut)" if len(text) > _SETTINGS else text
    return "\n".join(map(plain, cut.split("\n")))


def environment(run: Run) -> list[tuple[str, str]]:
    """What the run was made on and with, as record.json and choices.json tell."""
    return [(plain(name), plain(shortened(value, 200))) for name, value in _environment(run) if value]


def _environment(run: Run) -> Iterator[tuple[str, str]]:
    found = _mapping(run.record, "environment")
    device, git, system = (_mapping(found, part) for part in ("device", "git", "platform"))
    if device:
        kind = "processors" if device.get("type") == "cpu" else "GPUs"
        yield "device", f"{device.get('name', '')}, {device.get('count', '')} {kind}"
        yield "threads", f"{device.get('threads', '')}, {device.get('instructions', '')}"
    yield "processes", str(found.get("processes") or "")
    if run.choices:
        chosen = (str(run.choices.get(key) or "") for key in ("precision", "attention", "batching"))
        yield "chosen by timing", ", ".join(filter(None, chosen))
    if git:
        yield "program", f"commit {str(git.get('commit', ''))[:12]}{' with changes' if git.get('dirty') else ''}"
    yield "libraries", ", ".join(f"{name} {version}" for name, version in _mapping(found, "versions").items())
    yield "system", ", ".join(str(system[key]) for key in ("system", "release", "machine", "libc") if system.get(key))
    files = _mapping(run.record, "files")
    if files:
        yield "data", f"{len(files)} files with sha256 in record.json"


def _mapping(tree: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = tree.get(key)
    return found if isinstance(found, Mapping) else {}


def reproduction(run: Run) -> str:
    """The commands that make this run again, from its own files."""
    path = shlex.quote(plain(str(run.path)))
    return (
        f"python train.py --reproduce {path}                  # the same data, settings and seed: the same weights\n"
        f"python preprocess.py --config {path}/settings.yaml  # if prepared/ is no longer there, before that"
    )
