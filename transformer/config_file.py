"""From a YAML file and `section.key=value` overrides to `Settings`, and back to a file."""

from __future__ import annotations

import difflib
import os
import string
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transformer.config import Settings
from transformer.config_corpora import PATH_KEYS
from transformer.config_draft import Draft, Place, dotted, short
from transformer.config_schema import SECTIONS, SETTINGS
from transformer.config_section import Section
from transformer.errors import ConfigError
from transformer.yaml12 import Key, YamlError, read_yaml, write_yaml

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
_LARGEST = 256 * 1024  # bytes; a config is a page or two
_FIRST_OVERRIDE = 10**9  # as the order of its place: after every line of a file


def load_config(config: str | Path, overrides: Sequence[str] = ()) -> Settings:
    """Read settings from a file, put overrides such as "train.lr=1e-3" in their place, and check everything.

    Input paths (`src`, `tgt`, and `hub` where it is a folder) come out absolute: in a file they are relative to it, in
    an override to the working directory. `$VAR`, `${VAR}` and `~` are expanded in them; `$$` is a dollar sign.

    Raises:
        ConfigError: every problem there is, in one message.
    """
    path = find_config(config)
    draft = _read_file(path)
    _override_all(draft, overrides)
    for holder_path, holder, keys in _path_holders(draft.values):
        _make_paths_absolute(draft, holder_path, holder, keys)
    return draft.finish()


def section_overrides(section: str, overrides: Sequence[str], stored: Section | None = None) -> dict[str, Any]:
    """Read overrides where only one section counts, as for a model whose network is fixed; returns key → value.

    `stored` has the values that are not overridden, with which the others must agree; None: the defaults.

    Raises:
        ConfigError: every problem there is, in one message.
    """
    draft = Draft(
        {section: stored.model_dump(exclude_none=True)} if stored else {},
        {(): Place(0, "the command line", Path.cwd())},
    )
    _override_all(draft, overrides)
    for path in draft.places:
        if dotted(path) in SETTINGS and path[0] != section:
            draft.refuse(path, f"{dotted(path)} is fixed here; only settings of {section} can be given")
    chosen = getattr(draft.finish(), section)
    keys = dict.fromkeys(str(path[1]) for path in draft.places if len(path) > 1)
    return {key: getattr(chosen, key) for key in keys}


def save_settings(settings: Settings, path: Path) -> None:
    """Write all settings, defaults included, so that `load_config` gives them back; atomically.

    Equal they come back only if their input paths are absolute, as those from `load_config` are.
    """
    values = settings.model_dump()
    for _, holder, keys in _path_holders(values):
        for key in keys:
            if isinstance(holder.get(key), str):
                holder[key] = holder[key].replace("$", "$$")
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write("# Every setting of this run, defaults included; can be given as --config.\n" + write_yaml(values))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


class Difference(NamedTuple):
    """A setting that two runs do not share, such as ("train.lr", 0.001, 0.002)."""

    key: str
    first: Any
    second: Any

    def __str__(self) -> str:
        return f"{self.key}: {_plain(self.first)!r} → {_plain(self.second)!r}"


def _plain(value: Any) -> Any:
    """A setting as a config would spell it: corpora as mappings, without what is left to its default."""
    if isinstance(value, Section):
        return value.model_dump(exclude_none=True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def differences(first: Settings, second: Settings) -> list[Difference]:
    """List the settings that differ, in the order of config.py; corpora are compared list by list."""
    found = []
    for name in Settings.model_fields:
        one, other = getattr(first, name), getattr(second, name)
        if name not in SECTIONS:
            found.append(Difference(name, one, other))
            continue
        for key in SECTIONS[name]:
            found.append(Difference(f"{name}.{key}", getattr(one, key), getattr(other, key)))
    return [difference for difference in found if difference.first != difference.second]


def find_config(config: str | Path) -> Path:
    """Find a config by path, else in the repository's configs/, each with or without `.yaml`.

    Raises:
        ConfigError: none of these is there.
    """
    given = Path(os.path.expanduser(config))  # noqa: PTH111 (Path.expanduser fails where there is no home)
    places = [given, given.with_name(given.name + ".yaml")] if given.name else [given]
    if not given.is_absolute() and ".." not in given.parts:
        places += [CONFIGS / place for place in places]
    try:
        found = [place for place in places if place.exists() and not place.is_dir()]
    except OSError as error:  # a name too long, a folder that may not be entered
        raise ConfigError(f"the config {short(str(config))} cannot be read ({error.strerror})") from None
    if found:
        return found[0]
    shipped = sorted(file.stem for file in CONFIGS.glob("*.yaml"))
    near = difflib.get_close_matches(given.stem, shipped, 1)
    what = "is a folder, not a config" if given.is_dir() else "is not there, and not in configs/ either"
    remedy = f"did you mean {near[0]}?" if near else f"give a path, or one of: {', '.join(shipped)}"
    raise ConfigError(f"the config {short(str(config))} {what}; {remedy}")


def _read_file(path: Path) -> Draft:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
    if len(content) > _LARGEST:
        raise ConfigError(f"{path}: is larger than {_LARGEST // 1024} KiB; this is no config")
    try:
        document = read_yaml(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise ConfigError(f"{path}:{line}: the byte 0x{byte:02x} is not UTF-8; save the file as UTF-8") from None
    except YamlError as error:
        raise ConfigError(f"{path}:{error.line}: {error.sentence}") from None
    if not isinstance(document.value, dict):
        raise ConfigError(f"{path}:1: holds no settings; the sections are {', '.join(SECTIONS)}")

    folder = path.parent.resolve()

    def place(line: int) -> Place:
        return Place(line, f"{path}:{line}", folder)

    draft = Draft(document.value, {key: place(line) for key, line in document.lines.items()})
    for key, line in document.duplicates:
        sentence = f"{dotted(key)} is given twice, first in line {document.lines[key]}; remove one"
        draft.refuse(key, sentence, place(line))
    return draft


def _override_all(draft: Draft, overrides: Sequence[str]) -> None:
    for order, override in enumerate(overrides):
        _override(draft, override, Place(_FIRST_OVERRIDE + order, f"override {short(override)}", Path.cwd()))


def _override(draft: Draft, text: str, place: Place) -> None:
    name, equals, written = text.partition("=")
    path = tuple(name.strip().split(".", 1))
    sentence = _not_one_setting(path) if equals and path != ("",) else _malformed(text)
    if not sentence and path in draft.places and draft.places[path].order >= _FIRST_OVERRIDE:
        sentence = f"{dotted(path)} is given twice on the command line; remove one"
    if sentence:
        draft.refuse(path, sentence, place)
        return
    try:
        document = read_yaml(written)
    except YamlError as error:
        draft.refuse(path, f"the value of {dotted(path)} cannot be read: {error.sentence}", place)
        return
    for key, _ in document.duplicates:
        draft.refuse(path, f"{dotted((*path, *key))} is given twice; remove one", place)
    for key in [key for key in draft.places if key[: len(path)] == path]:
        del draft.places[key]
    draft.places[path] = place
    draft.places.setdefault(path[:1], place)
    section = draft.values if len(path) == 1 else draft.values.setdefault(path[0], {})
    if isinstance(section, dict):  # else the file is wrong there, and told so
        section[path[-1]] = document.value


def _malformed(text: str) -> str:
    if text.endswith((".yaml", ".yml")):
        return f"a config file is given as --config {text}; an override is section.key=value"
    return "an override is section.key=value, such as train.max_steps=1000"


def _not_one_setting(path: tuple[str, ...]) -> str:
    section, *keys = path
    if section in SECTIONS and not keys:
        first = next(iter(SECTIONS[section]))
        return f"{section} is a section; give its settings one by one, such as {section}.{first}=…"
    inside, dot, _ = "".join(keys).partition(".")
    if dot and inside in SECTIONS.get(section, {}):
        return f"{section}.{inside} is given as a whole: {section}.{inside}=…"
    return ""


def _path_holders(values: dict[str, Any]) -> Iterator[tuple[Key, dict[str, Any], tuple[str, ...]]]:
    """Every mapping that names input files: where it is, and the keys that do so; in values that need not be valid."""
    if isinstance(values.get("vocabulary"), dict):
        yield ("vocabulary",), values["vocabulary"], ("path",)
    if isinstance(values.get("train"), dict):
        yield ("train",), values["train"], ("init_from",)
    data = values.get("data")
    for split in ("train", "valid", "test"):
        entries = data.get(split) if isinstance(data, dict) else None
        if isinstance(entries, list):
            entries = dict(enumerate(entries))
        for name, corpus in entries.items() if isinstance(entries, dict) else ():
            if isinstance(corpus, dict):
                yield ("data", split, name), corpus, PATH_KEYS


def _make_paths_absolute(draft: Draft, path: Key, corpus: dict[str, Any], keys: tuple[str, ...]) -> None:
    for key in keys:
        text = corpus.get(key)
        if not isinstance(text, str) or not text:
            continue
        try:
            text = _expanded(text)
        except ValueError as error:
            draft.refuse((*path, key), f"{dotted((*path, key))} is {short(text)}, but {error}")
            continue
        absolute = os.path.abspath(draft.place((*path, key)).folder / text)  # noqa: PTH100 (resolve follows links)
        if key != "hub" or text.startswith((".", "/")) or os.path.isdir(absolute):  # noqa: PTH112 (never raises)
            corpus[key] = absolute


def _expanded(text: str) -> str:
    try:
        text = string.Template(text).substitute({name: value for name, value in os.environ.items() if value})
    except KeyError as error:
        raise ValueError(f"the environment variable {error.args[0]} is not set, or empty; set it") from None
    except ValueError:
        raise ValueError("a $ begins an environment variable; write $$ for a dollar sign") from None
    if "\0" in text:
        raise ValueError("no path holds a zero byte")
    return os.path.expanduser(text)  # noqa: PTH111 (Path.expanduser fails where there is no home)
