"""Which form a text is in, by its first bytes; its name only decides between forms that look alike."""

from __future__ import annotations

import csv
import json
import re
import tarfile
from typing import Literal, get_args

from data.errors import DataError
from data.lines import encoding_of

Form = Literal["tsv", "csv", "jsonl", "parquet", "tmx", "xliff", "po", "mo", "wmt_xml", "zip", "tar"]
FORMS: tuple[str, ...] = get_args(Form)

_MAGIC = {
    "parquet": (b"PAR1",),
    "zip": (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"),
    "mo": (b"\xde\x12\x04\x95", b"\x95\x04\x12\xde"),
}
_ROOTS = {
    "tmx": "tmx",
    "xliff": "xliff",
    "dataset": "wmt_xml",
    "srcset": "sgm",
    "refset": "sgm",
    "tstset": "sgm",
    "mteval": "sgm",
    "doc": "sgm",
}
_WORDS = {"doc", "dataset"}  # a sentence may begin so, as in the documentation of programs
_TAG_NEXT = re.compile(r"[^<>]*>\s*<")
_PO = re.compile(r'(?:[^\S\n]*(?:#[^\n]*)?\n)*[^\S\n]*(?:msgctxt|msgid)[^\S\n]*"')
_MISC = re.compile(r"\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>", re.DOTALL | re.IGNORECASE)
_ROOT = re.compile(r"<(?:\w+:)?(\w+)(?=[\s>/])")
_SAMPLE_LINES = 20


def form_of(first: bytes, name: str) -> str:
    """The form of a file that begins with these bytes: one of FORMS, "sgm", or "plain".

    Of plain text the first lines decide: tabs make a TSV, equally many commas a CSV.
    """
    if binary := _binary_form(first):
        return binary
    text = _decode(first)
    if form := _xml_form(text):
        return form
    if _PO.match(text):
        return "po"
    lines = _sample(text)
    return "jsonl" if _looks_like_json(lines) else _table_form(lines, name.lower())


def form_of_side(first: bytes, name: str) -> str:
    """The form of a file with one side only: "plain" or "sgm".

    Braces and tabs are text here. Raises DataError for a file that is in a form of both sides.
    """
    form = _binary_form(first) or _xml_form(_decode(first))
    if form in (None, "sgm"):
        return form or "plain"
    raise DataError(f"{name} is {form}, which holds both sides: give it as file: {name}, instead of src and tgt")


def _binary_form(first: bytes) -> str | None:
    for form, magics in _MAGIC.items():
        if first.startswith(magics):
            return form
    return "tar" if _is_tar(first) else None


def _is_tar(first: bytes) -> bool:
    """A header block with a right checksum; old archives have no magic bytes."""
    if len(first) < tarfile.BLOCKSIZE or 0 not in first[: tarfile.BLOCKSIZE]:
        return False
    try:
        tarfile.TarInfo.frombuf(first[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True


def _decode(first: bytes) -> str:
    return first.decode(encoding_of(first) or "utf-8", "replace").removeprefix("\ufeff")


def _xml_form(text: str) -> str | None:
    """What the root element tells, after declarations and comments."""
    at = 0
    while misc := _MISC.match(text, at):
        at = misc.end()
    root = _ROOT.match(text, at)
    if not root:
        return None
    name = root[1].lower()
    in_prose = name in _WORDS and not text[:at].strip() and not _TAG_NEXT.match(text, root.end())
    return None if in_prose else _ROOTS.get(name)


def _sample(text: str) -> list[str]:
    lines = text.split("\n", _SAMPLE_LINES)
    return [line.removesuffix("\r") for line in lines[:_SAMPLE_LINES] if line.strip()]


def _looks_like_json(lines: list[str]) -> bool:
    """An object on the first line; or an array, of which the reader says what to do with it."""
    if not lines or not lines[0].lstrip().startswith(("{", "[")):
        return False
    try:
        return isinstance(json.loads(lines[0]), dict | list)
    except (ValueError, RecursionError):
        return re.match(r'\s*(?:\[\s*)?\{\s*"', lines[0]) is not None or lines[0].strip() == "["


def _table_form(lines: list[str], name: str) -> str:
    tabs = sum("\t" in line for line in lines) * 2 > len(lines)
    commas = _same_fields(lines)
    if tabs and commas:
        return "csv" if ".csv" in name else "tsv"
    if tabs or commas:
        return "tsv" if tabs else "csv"
    return next((form for form in ("tsv", "csv") if f".{form}" in name), "plain")


def _same_fields(lines: list[str]) -> bool:
    """Whether records have equally many fields, more than one, as CSV; the last may be cut, and does not count."""
    for delimiter in (",", ";"):
        try:
            counts = [len(record) for record in csv.reader([f"{line}\n" for line in lines], delimiter=delimiter)]
        except csv.Error:
            continue
        if len(set(counts[:-1] or counts)) == 1 and counts[0] > 1:
            return True
    return False
