"""Settings being put together: what was given where, and everything wrong with it in plain sentences, all at once."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from transformer.config import Settings
from transformer.config_corpora import CORPUS_KINDS
from transformer.config_filters import FILTERS
from transformer.config_schema import SCHEMA, meant, resolve, rule, schema_at
from transformer.errors import ConfigError
from transformer.yaml12 import Key, YamlError, read_yaml

_MOST_PROBLEMS = 50  # told in one message
_LONGEST_SHOWN = 60  # characters of a value or key


class Place(NamedTuple):
    """Where a value was given; places sort in reading order."""

    order: int
    name: str  # "base.yaml:12" or "override train.lr=1"
    folder: Path  # what relative paths there are relative to


@dataclass
class Draft:
    """Values as read, the place of every key, and the problems found so far."""

    values: dict[str, Any]
    places: dict[Key, Place]  # () is always there
    problems: list[tuple[Place, str]] = field(default_factory=list)
    refused: set[Key] = field(default_factory=set)  # settings (two words at most) that have a problem already

    def place(self, path: Key) -> Place:
        """Return the place of a value, or of the nearest thing around it that has one."""
        while path not in self.places:
            path = path[:-1]
        return self.places[path]

    def refuse(self, path: Key, sentence: str, place: Place | None = None) -> None:
        """Note a problem with the value at a path."""
        problem = (place or self.place(path), sentence)
        if problem not in self.problems:  # of a value that may be one of several kinds, each kind complains
            self.problems.append(problem)
        self.refused.add(path[:2])

    def finish(self) -> Settings:
        """Turn the draft into settings.

        Raises:
            ConfigError: with one sentence per problem: place, key, value, rule and remedy.
        """
        settings = self._validated()
        if settings is None or self.problems:
            raise ConfigError(_message(self.problems))
        return settings

    def _validated(self) -> Settings | None:
        # pydantic looks for contradictions only where every value is good by itself. So what is refused is taken out
        # and the rest tried again, until nothing new is found.
        while True:
            try:
                return Settings.model_validate(self.values)
            except ValidationError as error:
                findings = error.errors(include_url=False)
            before = frozenset(self.refused)
            faulty = [key for finding in findings[:_MOST_PROBLEMS] for key in self._note(finding, before)]
            if not [key for key in faulty if self._drop(key)]:
                return None

    def _note(self, finding: ErrorDetails, before: frozenset[Key]) -> list[Key]:
        """Note one finding of pydantic's as problems, and return the settings to take out."""
        path = _path(finding["loc"])
        if finding["type"] != "value_error":
            self.refuse(path, _about_filter(finding) or _sentence(path, finding))
            return [path[:2]]
        faulty: list[Key] = []
        for contradiction in str(finding["ctx"]["error"]).splitlines():
            words = re.findall(r"[a-z]\w*(?:\.\w+)?", contradiction)
            named = [key for word in words if (key := (*path, *word.split("."))) in self.places] or [path]
            faulty += [key[:2] for key in named]
            # One that names a value refused before may only come from the default that stands in for it.
            if before.isdisjoint(key[:2] for key in named):
                where = f"{dotted(path)}: " if path else ""
                self.refuse(path, where + contradiction, max(self.place(key) for key in named))
        self.refused.update(faulty)
        return faulty

    def _drop(self, path: Key) -> bool:
        section: Any = self.values if len(path) == 1 else self.values.get(str(path[0])) if path else None
        return isinstance(section, dict) and section.pop(path[-1], self) is not self


def _path(loc: tuple[int | str, ...]) -> Key:
    # pydantic puts the kind of corpus or filter into the path: data, train, 0, files, src; and each kind it has tried.
    of_kinds = ("constrained-int", "function-", "literal[", "bool")
    if loc[:1] in (("train",), ("translate",)) and len(loc) > 2 and str(loc[-1]).startswith(of_kinds):
        loc = loc[:-1]
    of_a_kind = loc[:1] == ("data",) and loc[1:2] in (("train",), ("valid",), ("test",), ("filters",))
    return loc[:3] + loc[4:] if of_a_kind and loc[3:4] != ("[key]",) else loc


def _about_filter(finding: ErrorDetails) -> str:
    """What is wrong with the kind or a key of an entry of data.filters; empty for all else."""
    loc = finding["loc"]
    if loc[:2] != ("data", "filters") or len(loc) < 3:
        return ""
    where = dotted(loc[:3])
    if finding["type"] in ("union_tag_invalid", "union_tag_not_found", "model_attributes_type"):
        entry = finding["input"]
        name = entry.get("filter", "") if isinstance(entry, dict) else entry
        near = difflib.get_close_matches(str(name), FILTERS, 1)
        remedy = (
            f"did you mean {{filter: {near[0]}}}?" if near else f"write {{filter: NAME}}, one of {', '.join(FILTERS)}"
        )
        return f"{where} is {_shown(entry)}, which is no filter; {remedy}"
    if finding["type"] == "missing":
        return f"{where}: the filter {loc[3]} has no {loc[4]}; give it one"
    if finding["type"] == "extra_forbidden":
        keys = [key for key in FILTERS[str(loc[3])].model_fields if key != "filter"]
        there = f"its settings are {', '.join(keys)}" if keys else "it has no settings"
        return f"{where}: the filter {loc[3]} has no {short(str(loc[4]))}; {there}"
    return ""


def _sentence(path: Key, finding: ErrorDetails) -> str:
    if finding["type"] == "extra_forbidden":
        return _unknown(path)
    if finding["type"] == "missing":
        return f"{dotted(path[:-1])} has no {path[-1]}; it must be {rule(schema_at(path[:-1]) or {})}"
    if path[-1:] == ("[key]",):  # the name of a test set
        return f"{dotted(path[:-2])}: the name {_shown(path[-2])} must be {rule(schema_at(('name',)) or {})}"
    schema = _schema_in_filter(finding["loc"]) or schema_at(path) or {}
    value = finding["input"]
    remedy = _remedy(value, schema)
    return f"{dotted(path) or 'the file'} is {_shown(value)}, but must be {rule(schema)}" + (remedy and f"; {remedy}")


def _schema_in_filter(loc: tuple[int | str, ...]) -> dict[str, Any] | None:
    """The schema of a setting of a filter: others may have a setting of the same name with other bounds."""
    if loc[:2] != ("data", "filters") or len(loc) < 5:
        return None
    found: dict[str, Any] | None = SCHEMA["$defs"][FILTERS[str(loc[3])].__name__]["properties"].get(loc[4])
    return found


def _remedy(value: Any, schema: dict[str, Any]) -> str:
    of_kinds = schema.get("anyOf", [schema])
    words = [str(kind["const"]) for kind in of_kinds if "const" in kind]
    kinds = {str(kind.get("type")) for kind in of_kinds if "const" not in kind}
    if isinstance(value, str):
        near = difflib.get_close_matches(value.lower(), [*schema.get("enum", []), *words], 1)
        if near:
            return f"did you mean {near[0]}?"
        if _fits(value, kinds):
            return "remove the quotes"
        if _fits(value.replace("_", ""), kinds):
            return f"write {value.replace('_', '')}"
    elif "string" in kinds and isinstance(value, bool | int | float):
        return "put it in quotes"
    elif value is None and "properties" in schema:
        return "indent its settings below it, or remove the line"
    return f"the default is {_shown(schema['default'])}" if "default" in schema else ""


def _fits(text: str, kinds: set[str]) -> bool:
    """Whether a quoted text would be a number or true or false without its quotes, where that is wanted."""
    try:
        value = read_yaml(text).value
    except YamlError:
        return False
    if isinstance(value, bool):
        return "boolean" in kinds
    return isinstance(value, int | float) and bool(kinds & {"integer", "number"})


def _unknown(path: Key) -> str:
    key = str(path[-1])
    if len(path) > 2 and path[1] in ("train", "valid", "test"):
        corpus = rule(schema_at(path[:-1]) or {})
        near = difflib.get_close_matches(key, {name for kind in CORPUS_KINDS for name in kind.model_fields}, 1)
        remedy = f"did you mean {near[0]}? A" if near and key not in near else "a"
        return f"{dotted(path)} is not allowed here; {remedy} corpus is {corpus}"
    if len(path) > 2:
        around = schema_at(path[:-1]) or {}
        allowed = [name for kind in around.get("anyOf", [around]) for name in resolve(kind).get("properties", {})]
        near = difflib.get_close_matches(key, allowed, 1)
        remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(allowed)}"
        return f"{dotted(path)} is not allowed here; {remedy}"
    section = str(path[0]) if len(path) == 2 else ""
    names = meant(section, key)
    if not names:
        return f"{dotted(path)} is not a setting; docs/configuration.md lists all"
    home = names[0].rpartition(".")[0]
    belongs = f" (in the section {home})" if len(names) == 1 and home not in ("", section) else ""
    return f"{dotted(path)} is not a setting; did you mean {' or '.join(names)}{belongs}?"


def dotted(path: Key) -> str:
    """Write a path as data.train[0].src."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{short(part)}" for part in path).removeprefix(".")


def _shown(value: Any) -> str:
    return short(json.dumps(value, ensure_ascii=False, default=str))


def short(text: str) -> str:
    """Make a text fit a message: one line, printable, not long."""
    text = text if text.isprintable() else json.dumps(text)[1:-1]
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _message(problems: list[tuple[Place, str]]) -> str:
    lines = [f"{place.name}: {sentence}" for place, sentence in sorted(problems)]
    if len(lines) == 1:
        return lines[0]
    more = len(lines) - _MOST_PROBLEMS
    told = lines[:_MOST_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
    return f"{len(lines)} problems in the settings:\n  " + "\n  ".join(told)
