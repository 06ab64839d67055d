"""Lines with what is wanted of their translations: a beginning, phrases that must appear, phrases that must not.

Wishes come from files with a line for each line of the input, from a glossary, or with the text in JSON Lines. All is
read as the input is, some lines at a time, so that neither need fit into memory.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from data.errors import DataError
from data.lines import one_line, read_lines
from transformer.inference.glossary import Glossary
from transformer.inference.word_bounds import occurs

_FORM = 'A line is one object: {"text": "…"}'


@dataclass(frozen=True)
class Request:
    """A line of text, and what is wanted of its translation.

    Attributes:
        prefix: the translation begins so; the search goes on from there.
        required: phrases that the translation holds, in any order.
        avoided: phrases that it does not hold.
    """

    text: str
    prefix: str = ""
    required: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wishes:
    """Where wishes come from, beside the input itself.

    Attributes:
        prefix: a file, the beginning of a translation in each line; blank: any.
        required, avoided: files, in each line the phrases for that line, parted by tabs; blank: none.
        avoided_everywhere: phrases that no translation may hold.
        glossary: of its terms in a line, the translations are required.
    """

    prefix: Path | None = None
    required: Path | None = None
    avoided: Path | None = None
    avoided_everywhere: tuple[str, ...] = ()
    glossary: Glossary | None = None


def read_requests(
    lines: Iterable[str], name: str, wishes: Wishes | None = None, *, json_lines: bool = False
) -> Iterator[Request]:
    """A request for each line of an input, in order, as soon as the line is there.

    Where wishes for a line come from several places, they add up; but a prefix comes from one.

    Args:
        name: of the input, for messages.
        json_lines: each line is an object {"text": …, "prefix": …, "required": [ … ], "avoided": [ … ]}; all but text
            may be left out. A blank line is a blank text.

    Raises:
        DataError: a file has more or fewer lines than the input; a line contradicts itself; a line is no such object;
            and as `read_lines`.
    """
    wishes = wishes or Wishes()
    avoided_everywhere = phrases_of(wishes.avoided_everywhere)
    _check_glossary(wishes.glossary, avoided_everywhere)
    lines = iter(lines)
    for number, (line, prefix, required, avoided) in enumerate(_with_files(lines, name, wishes), 1):
        place = f"{name}, line {number}"
        request = parse_request(line, place) if json_lines else Request(line)
        if request.prefix and prefix.strip():
            raise DataError(f"{place}: a prefix in the line, and another one in {wishes.prefix}. Leave out one of them")
        terms = wishes.glossary.find(request.text) if wishes.glossary else []
        request = Request(
            request.text,
            request.prefix or (prefix if prefix.strip() else ""),
            phrases_of([*request.required, *required.split("\t"), *(term.tgt for term in terms)]),
            phrases_of([*request.avoided, *avoided.split("\t"), *avoided_everywhere]),
        )
        if problems := contradictions(request):
            raise DataError("\n".join(f"{place}: {problem}" for problem in problems))
        yield request


def phrases_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Phrases without the spaces around them, each once, in order; blank ones are none."""
    return tuple(dict.fromkeys(phrase for text in texts if (phrase := text.strip())))


def contradictions(request: Request) -> list[str]:
    """Why no translation can be as requested; of an avoided phrase, only whole words count as an occurrence."""
    problems = []
    for avoided in request.avoided:
        problems += [
            f"{required!r} is required, but {avoided!r} is avoided. Take one of them back"
            for required in request.required
            if occurs(avoided, required)
        ]
        if occurs(avoided, request.prefix):
            problems.append(f"the prefix {request.prefix!r} holds {avoided!r}, which is avoided. Take one of them back")
    return problems


def parse_request(line: str, place: str) -> Request:
    """The request that is a line of JSON Lines; line ends inside texts become spaces.

    Raises:
        DataError: what is wrong with it, all of it, with `place`.
    """
    if not line.strip():
        return Request("")
    record = _parse_object(line, place)
    known = [field.name for field in fields(Request)]
    problems = [_explain_unknown(key, known) for key in record if key not in known]
    problems += [] if "text" in record else ["no text"]
    problems += [problem for key in known if key in record and (problem := _explain_type(key, record[key]))]
    if problems:
        raise DataError("\n".join(f"{place}: {problem}. Mend the line" for problem in problems))
    phrases = {key: phrases_of(map(one_line, record.get(key, ()))) for key in ("required", "avoided")}
    request = Request(one_line(record["text"]), one_line(record.get("prefix", "")), **phrases)
    return request if request.prefix.strip() else replace(request, prefix="")


def _with_files(lines: Iterator[str], name: str, wishes: Wishes) -> Iterator[tuple[str, str, str, str]]:
    """Each line of the input with that of each of the three files; blank where there is no file."""
    paths = (wishes.prefix, wishes.required, wishes.avoided)
    given = [path for path in paths if path]
    streams = [lines, *map(read_lines, given)]
    for n_read, row in enumerate(zip_longest(*streams)):
        if None in row:
            ended = zip((name, *given), row, streams, strict=True)
            counts = [(at, n_read + (last is not None) + sum(1 for _ in rest)) for at, last, rest in ended]
            found = ", ".join(f"{at} has {n} lines" for at, n in counts)
            raise DataError(
                f"{found}: line N of one belongs to line N of the others. Write a blank line where nothing is wanted"
            )
        line, *wanted = row
        rest = iter(wanted)
        prefix, required, avoided = (next(rest) if path else "" for path in paths)
        yield line, prefix, required, avoided


def _check_glossary(glossary: Glossary | None, avoided: Sequence[str]) -> None:
    """A term that is avoided everywhere would end the work at the first line that has it."""
    if glossary is None or not avoided:
        return
    for term in glossary:
        for phrase in avoided:
            if occurs(phrase, term.tgt):
                place = f"{glossary.name}, line {term.line}" if term.line else glossary.name
                raise DataError(
                    f"{place}: {term.tgt!r} is required where {term.src!r} is, but {phrase!r} is avoided everywhere. "
                    "Take one of them back"
                )


def _parse_object(line: str, place: str) -> dict[str, Any]:
    try:
        record = json.loads(line, object_pairs_hook=_refuse_repeated)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: broken JSON: {error}. {_FORM}") from error
    if isinstance(record, dict):
        return record
    raise DataError(f"{place}: {line.strip():.40} is no object. {_FORM}")


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in record if keys.count(key) > 1)
        raise ValueError(f"{repeated} stands there twice")
    return record


def _explain_unknown(key: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, known, 1)
    return f"{key:.40}: no such key" + (f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}")


def _explain_type(key: str, value: object) -> str:
    """What is wrong with a value, or nothing."""
    many = key in ("required", "avoided")
    texts = value if many else [value]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return f"{key} is {json.dumps(value):.40}, not {'a list of texts' if many else 'text'}"
    try:
        "".join(map(str, texts)).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start].encode("unicode_escape").decode()
        return f"{key}: {half} is half of a character"
    return ""
