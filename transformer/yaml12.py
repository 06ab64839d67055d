"""YAML as its version 1.2 means it (core schema, yaml.org/spec/1.2.2 §10.3), with the line of every key.

PyYAML follows version 1.1, where `1e-4` is text, `010` is 8 and `no` is false. Its parser is kept; which plain words
are numbers, how nodes become values and what is refused (tags, endless aliases) is decided here.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import yaml

Key = tuple[str | int, ...]  # ("data", "train", 0, "src") is data.train[0].src

_TAG = "tag:yaml.org,2002:"
_PLAIN_WORDS = {  # kind → (words, the characters they begin with)
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
}

# Nine lines of aliases to lists of aliases are a thousand million values; an alias may also contain itself.
_MOST_VALUES = 10_000
_DEEPEST = 20
_LONGEST_NUMBER = 100  # characters; Python's int() gives up at 4300


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own form)


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _kind, (_words, _first_characters) in _PLAIN_WORDS.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_TAG + _kind, re.compile(rf"(?:{_words})\Z"), _first_characters)


class YamlError(Exception):
    """A text holds no usable YAML: the `line` where that shows, counted from 1, and a `sentence` that says why."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(f"line {line}: {sentence}")
        self.line = line
        self.sentence = sentence


class Document(NamedTuple):
    """A YAML text as plain values; the line of every key and list item; keys given again, whose first value counts."""

    value: Any
    lines: dict[Key, int]
    duplicates: list[tuple[Key, int]]


def read_yaml(text: str) -> Document:
    """Read one YAML document into dicts with string keys, lists, strings, numbers, booleans and None.

    Raises:
        YamlError: for anything else: bad syntax, tags, several documents or none, too many or too deep values.
    """
    node = _compose(text)
    if node is None:
        raise YamlError(1, "there is nothing in it")
    document = Document(None, {}, [])
    return document._replace(value=_Conversion(document).value_of(node, ()))


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Text that breaks lines, as YAML sees it, is only safe where it is escaped; PyYAML folds U+0085 and its kin."""
    breaks_lines = any(character in text for character in "\n\r\x85\u2028\u2029")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if breaks_lines else None)


_Dumper.add_representer(str, _represent_text)


def write_yaml(value: Any) -> str:
    """Write plain values so that `read_yaml` gives them back."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def _compose(text: str) -> yaml.Node | None:
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        found = ", ".join(part for part in (error.context, error.problem) if part)
        raise YamlError(
            mark.line + 1 if mark else 1,
            f"this is not YAML ({found}): check indentation (spaces, no tabs), colons and quotes here and just above",
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(line, f"the character U+{ord(text[error.position]):04X} is not allowed in YAML") from None
    except RecursionError:
        raise YamlError(1, f"values are nested deeper than {_DEEPEST} levels") from None
    except (ValueError, OverflowError) as error:  # PyYAML lets \U escapes and %YAML versions out of range through
        raise YamlError(loader.line + 1 if loader else 1, f"this is not YAML ({error})") from None


class _Conversion:
    """Turns PyYAML's nodes into values, and notes lines and duplicate keys in `document`."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.n_values = 0

    def value_of(self, node: yaml.Node, path: Key) -> Any:
        line = node.start_mark.line + 1
        self.document.lines.setdefault(path, line)
        self.n_values += 1
        if self.n_values > _MOST_VALUES:
            raise YamlError(line, f"more than {_MOST_VALUES} values, aliases (*name) written out: too many")
        if len(path) > _DEEPEST:
            raise YamlError(line, f"values are nested deeper than {_DEEPEST} levels, or an alias contains itself")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.value_of(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self.mapping(node, path)
        raise _tag_error(node)

    def mapping(self, node: yaml.MappingNode, path: Key) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise YamlError(line, "a key must be one word, not a list or mapping")
            key = _text(key_node)  # as written: a test set may be called 2016
            here = (*path, key)
            if key in values:
                self.document.duplicates.append((here, line))
            else:
                self.document.lines[here] = line
                values[key] = self.value_of(value_node, here)
        return values


def _scalar(node: yaml.ScalarNode) -> str | int | float | bool | None:
    text, kind = _text(node), node.tag.removeprefix(_TAG)
    if kind == "str":
        return text
    if kind not in _PLAIN_WORDS or not re.fullmatch(_PLAIN_WORDS[kind][0], text):  # `!!python/name:x`, `!!int abc`
        raise _tag_error(node)
    if len(text) > _LONGEST_NUMBER:
        raise YamlError(node.start_mark.line + 1, f"a number of {len(text)} characters is too long")
    match kind:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":  # int("010") is ten
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        case _:  # Python writes inf and nan without YAML's dot
            return float(re.sub(r"\.(?=[iInN])", "", text))


def _text(node: yaml.ScalarNode) -> str:
    # Half a character, from an escape such as "\ud800" or a broken command line, can be neither shown nor stored.
    if re.search("[\ud800-\udfff]", node.value):
        raise YamlError(node.start_mark.line + 1, "there are bytes or escapes here that are no Unicode characters")
    return str(node.value)


def _tag_error(node: yaml.Node) -> YamlError:
    tag = node.tag.replace(_TAG, "!!")[:60]
    return YamlError(node.start_mark.line + 1, f"the tag {tag} is not allowed here: write plain values, without tags")
