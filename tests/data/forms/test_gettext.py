"""Catalogues of gettext: what is translated, whatever characters it holds; the same from PO and MO."""

from __future__ import annotations

import io
from collections import Counter

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from data.forms.gettext import read_mo, read_po
from data.pairs import Pair

HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={}\\n"\n"Plural-Forms: {}\\n"\n\n'
GERMAN = HEADER.format("UTF-8", "nplurals=2; plural=(n != 1);")

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\4\n"), min_size=1, max_size=8)


def po(content: str | bytes, left_out: Counter[str] | None = None) -> list[Pair]:
    return list(read_po(io.BytesIO(content.encode() if isinstance(content, str) else content), "name", left_out))


def mo(content: bytes) -> list[Pair]:
    return list(read_mo(io.BytesIO(content), "name"))


def compiled(content: str) -> bytes:
    return bytes(polib.pofile(content).to_binary())


def quoted(text: str) -> str:
    """A PO string, in the few escapes that the format needs."""
    escapes = {"\\": "\\\\", '"': '\\"', "\r": "\\r", "\n": "\\n"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'


@given(st.dictionaries(texts, texts.filter(str.strip)))
def test_every_translated_entry_is_read_from_po_and_mo(translations: dict[str, str]) -> None:
    entries = [f"msgid {quoted(src)}\nmsgstr {quoted(tgt)}\n\n" for src, tgt in translations.items()]
    pairs = po(GERMAN + "".join(entries))
    assert [(pair.src, pair.tgt) for pair in pairs] == list(translations.items())
    catalogue = polib.POFile()
    catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    catalogue.extend(polib.POEntry(msgid=src, msgstr=tgt) for src, tgt in translations.items())
    assert sorted((pair.src, pair.tgt) for pair in mo(bytes(catalogue.to_binary()))) == sorted(translations.items())


@given(
    st.binary()
    | st.lists(st.sampled_from(["msgid ", "msgstr ", '"a"', '"', "\n", "#, fuzzy", "[0]", "\\"])).map(
        lambda parts: "".join(parts).encode()
    )
)
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    for read in (read_po, read_mo):
        try:
            list(read(io.BytesIO(content), "name"))
        except DataError as error:
            assert str(error).startswith("name")


WHOLE = compiled(
    GERMAN + 'msgid "one"\nmsgid_plural "many"\nmsgstr[0] "eins"\nmsgstr[1] "viele"\n\nmsgid "x"\nmsgstr "y"\n'
)


@given(st.integers(0, len(WHOLE) - 2))
def test_a_cut_mo_file_is_refused(length: int) -> None:
    with pytest.raises(DataError):
        mo(WHOLE[:length])


@given(st.integers(0, len(WHOLE) - 4), st.binary(min_size=1, max_size=4))
def test_a_damaged_mo_file_is_read_or_refused(place: int, junk: bytes) -> None:
    try:
        mo(WHOLE[:place] + junk + WHOLE[place + len(junk) :])
    except DataError as error:
        assert str(error).startswith("name")


def test_lines_are_places_and_what_is_not_translated_is_counted() -> None:
    left_out: Counter[str] = Counter()
    content = GERMAN + (
        '#, fuzzy\nmsgid "a"\nmsgstr "guess"\n\n'
        'msgid "b"\nmsgstr ""\n\n'
        '#, c-format\nmsgctxt "menu"\nmsgid "c %d"\nmsgstr "d %d"\n\n'
        '#~ msgid "e"\n#~ msgstr "f"\n'
    )
    (pair,) = po(content, left_out)
    assert pair[:2] == ("c %d", "d %d")
    assert pair.meta == {"context": "menu"}
    assert content.split("\n")[pair.place - 1] == "#, c-format"
    assert left_out == {"fuzzy": 1, "untranslated": 1, "obsolete": 1}


@pytest.mark.parametrize(
    ("rule", "forms", "expected"),
    [
        ("nplurals=2; plural=(n != 1);", ["eins", "viele"], [("one", "eins"), ("many", "viele")]),
        ("nplurals=1; plural=0;", ["alle"], [("many", "alle")]),
        ("nplurals=3; plural=n==1 ? 0 : n<5 ? 1 : 2;", ["1", "2-4", "5"], [("one", "1"), ("many", "5")]),
        ("nplurals=3; plural=n==0 ? 0 : n==1 ? 1 : 2;", ["0", "1", "2"], [("one", "1"), ("many", "2")]),  # not form 0
        ("nplurals=2; plural=(n/0);", ["eins", "viele"], [("one", "eins"), ("many", "viele")]),
        ("nplurals=9; plural=8;", ["eins", "viele"], [("one", "eins"), ("many", "viele")]),
        ("", ["eins", "viele"], [("one", "eins"), ("many", "viele")]),
    ],
)
def test_singular_and_plural_are_paired_by_the_rule_of_the_catalogue(
    rule: str, forms: list[str], expected: list[tuple[str, str]]
) -> None:
    lines = "".join(f'msgstr[{number}] "{form}"\n' for number, form in enumerate(forms))
    content = HEADER.format("UTF-8", rule) + f'msgid "one"\nmsgid_plural "many"\n{lines}'
    assert [(pair.src, pair.tgt) for pair in po(content)] == expected
    assert [(pair.src, pair.tgt) for pair in mo(compiled(content))] == expected


def test_a_text_over_several_lines_is_one_line() -> None:
    (pair,) = po(GERMAN + 'msgid ""\n"first\\n"\n"  second \\"quoted\\"\\n"\nmsgstr "a\\n\\nb\u2028c"\n')
    assert pair[:2] == ('first second "quoted"', "a b\u2028c")


def test_the_encoding_is_that_of_the_header() -> None:
    content = HEADER.format("ISO-8859-1", "") + 'msgid "a"\nmsgstr "ä"\n'
    assert po(content.encode("iso-8859-1"))[0].tgt == "ä"
    with pytest.raises(DataError, match=r"name, line 7: not utf-8"):
        po(content.replace("ISO-8859-1", "utf-8").encode("iso-8859-1"))
    with pytest.raises(DataError, match=r"unknown encoding, klingon"):
        po(HEADER.format("klingon", ""))


@pytest.mark.parametrize("content", ['msgid "a"\nmsgstr "b', 'msgid "a"\nmsgstr ""\n"b\\"\n', 'msgid "a\nmsgstr "b"\n'])
def test_a_text_that_is_not_closed_is_an_error_with_its_line(content: str) -> None:
    with pytest.raises(DataError, match=r"name, line \d+: the text has no closing quote"):
        po(content)


def test_what_is_no_catalogue_is_refused() -> None:
    for content in ("just text\n", "{}", 'msgid "a" "b"\nmsgstr "c"\n'):
        with pytest.raises(DataError, match="name"):
            po(content)
    with pytest.raises(DataError, match="not a MO file"):
        mo(b"just text")
