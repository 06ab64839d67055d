"""PO and MO, the catalogues of GNU gettext, in which most free software is translated."""

from __future__ import annotations

import codecs
import gettext
import io
import re
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

import polib

from data.errors import DataError
from data.forms.xml import one_line
from data.pairs import NO_META, Pair

_CHARSET = re.compile(rb"^\"Content-Type:.*?charset=([\w:.-]+)", re.MULTILINE | re.IGNORECASE)
_UNCLOSED = re.compile(r'^[ \t]*(?:#~[ \t]*)?(?:msg\w+(?:\[\d*\])?[ \t]*)?"(?:[^"\\\n]|\\.)*$', re.MULTILINE)
_PLURAL_FORMS = re.compile(r"plural\s*=\s*([^;]+)")


def read_po(stream: BinaryIO, name: str, left_out: Counter[str] | None = None) -> Iterator[Pair]:
    """The translated entries of a PO file; fuzzy, obsolete, untranslated ones and the header are left out.

    An entry with a plural gives two pairs: the singular with the form that the catalogue's rule chooses for 1, the
    plural with the form for 5; only the latter where both are the same form, as in Chinese. place: line where the
    entry begins; meta: context (msgctxt). `left_out` counts by reason. The whole file is in memory.

    Raises DataError: not text in the encoding that its header states (UTF-8 if none), not PO, cut short within a text.
    """
    text = _decode(stream.read(), name)
    unclosed = _UNCLOSED.search(text)
    if unclosed:
        line = text.count("\n", 0, unclosed.start()) + 1
        raise DataError(f"{name}, line {line}: the text has no closing quote. Copy or make the file again")
    # A file, as polib cuts a string at U+2028 and its kin, and would open the file whose name a string holds.
    with tempfile.NamedTemporaryFile(suffix=".po") as file:
        file.write(text.encode(errors="surrogatepass"))
        file.flush()
        try:
            catalogue = polib.pofile(file.name, encoding="utf-8")
        except Exception as error:  # OSError, but also what its parser trips over
            raise _not_po(error, name) from error
    if text.strip() and not len(catalogue) and not catalogue.metadata:
        raise DataError(f"{name}: holds no entry (msgid …): not a PO file. State the form that the file has")
    yield from _pairs(catalogue, _plural_rule(catalogue), left_out)


def read_mo(stream: BinaryIO, name: str, left_out: Counter[str] | None = None) -> Iterator[Pair]:
    """The entries of a compiled catalogue, as `read_po`; place: number of the entry.

    Raises DataError: not MO, cut short, not text in the encoding that its header states.
    """
    content = stream.read()
    _check_whole(content, name)
    try:
        catalogue = polib.mofile(content)  # type: ignore[call-overload]  # bytes are content, its stubs know only names
    except Exception as error:  # as above
        raise DataError(f"{name}: not a readable MO file: {error}. Make it again with msgfmt") from error
    for number, entry in enumerate(catalogue, 1):
        entry.linenum = number
    yield from _pairs(catalogue, _plural_rule(catalogue), left_out)


def _decode(content: bytes, name: str) -> str:
    stated = _CHARSET.search(content[: 1 << 16])
    encoding = stated[1].decode() if stated and stated[1] != b"CHARSET" else "utf-8"  # CHARSET: a template's blank
    try:
        return io.TextIOWrapper(io.BytesIO(content.removeprefix(codecs.BOM_UTF8)), encoding).read()
    except LookupError as error:
        raise DataError(f"{name}: the header names an unknown encoding, {encoding}. Correct charset=…") from error
    except UnicodeError as error:
        line = content.count(b"\n", 0, getattr(error, "start", 0)) + 1
        raise DataError(
            f"{name}, line {line}: not {encoding}, as the header says ({error}). Correct charset=…, or convert the "
            "file with msgconv"
        ) from error


def _not_po(error: Exception, name: str) -> DataError:
    found = re.search(r"\(line (\d+)\)(?::\s*(.*))?", str(error))
    where, what = (f", line {found[1]}", found[2] or "syntax error") if found else ("", type(error).__name__)
    return DataError(f"{name}{where}: not a PO file: {what}. msgfmt --check tells what is wrong with it")


def _check_whole(content: bytes, name: str) -> None:
    """Raises DataError where a text would lie beyond the end: polib would give what there is of it.

    The layout: gettext manual, section "The Format of GNU MO Files".
    """
    order = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}.get(content[:4])
    if order is None:
        raise DataError(f"{name}: not a MO file. State the form that the file has")
    try:
        n_texts, *tables = struct.unpack_from(f"{order}III", content, 8)
        for table in tables:
            places = struct.unpack_from(f"{order}{2 * n_texts}I", content, table)
            lengths, starts = places[::2], places[1::2]
            if any(length + start > len(content) for length, start in zip(lengths, starts, strict=True)):
                raise struct.error
            if sum(lengths) > len(content):  # texts upon each other: a small file could fill the memory
                raise struct.error
    except (struct.error, MemoryError, OverflowError) as error:
        raise DataError(f"{name}: the MO file is cut short or damaged. Copy or make it again") from error


def _plural_rule(catalogue: Any) -> tuple[int, int] | None:
    """Which form the catalogue takes for one and for five things; None: it does not say."""
    rule = _PLURAL_FORMS.search(catalogue.metadata.get("Plural-Forms", ""))
    try:
        form = gettext.c2py(rule[1]) if rule else None  # the parser of Python's own reader
        return (form(1), form(5)) if form else None
    except (ValueError, ArithmeticError, RecursionError):  # a damaged rule
        return None


def _pairs(catalogue: Any, plural_rule: tuple[int, int] | None, left_out: Counter[str] | None) -> Iterator[Pair]:
    for entry in catalogue:
        reason = _reason_to_leave_out(entry)
        if reason:
            if left_out is not None:
                left_out[reason] += 1
            continue
        meta = {"context": one_line(entry.msgctxt)} if entry.msgctxt else NO_META
        for src, tgt in _texts(entry, plural_rule):
            yield Pair(one_line(src), one_line(tgt), entry.linenum, meta)


def _reason_to_leave_out(entry: Any) -> str | None:
    if entry.obsolete:
        return "obsolete"
    if "fuzzy" in getattr(entry, "flags", ()):  # entries of an MO file have none
        return "fuzzy"
    translations = [*entry.msgstr_plural.values(), entry.msgstr]
    return None if entry.msgid and any(text.strip() for text in translations) else "untranslated"


def _texts(entry: Any, plural_rule: tuple[int, int] | None) -> Iterator[tuple[str, str]]:
    forms: dict[int, str] = entry.msgstr_plural
    if not forms:
        yield entry.msgid, entry.msgstr
        return
    one, many = plural_rule or (0, -1)
    if one not in forms or many not in forms:
        one, many = min(forms), max(forms)
    if one != many and forms.get(one):
        yield entry.msgid, forms[one]
    if forms.get(many):
        yield entry.msgid_plural, forms[many]
