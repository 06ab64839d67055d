"""Pieces of a vocabulary as a reader of a picture knows them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from unicodedata import category

_SPECIAL = {"<s>": "⟨start⟩", "</s>": "⟨end⟩"}
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def labels(pieces: Sequence[str]) -> list[str]:
    """ "▁hou", "se", ".", "</s>" → "hou", "-se", ".", "⟨end⟩"; one for each piece.

    Bytes that spell a character are named after it: "ß 1/2", "ß 2/2".
    """
    found: list[str] = []
    while len(found) < len(pieces):
        n_bytes = 0
        while (place := len(found) + n_bytes) < len(pieces) and _BYTE.fullmatch(pieces[place]):
            n_bytes += 1
        if n_bytes:
            found += _byte_labels(bytes(int(piece[3:5], 16) for piece in pieces[len(found) : len(found) + n_bytes]))
        else:
            found.append(_label(pieces[len(found)]))
    return found


def starts_word(piece: str) -> bool:
    """Whether a word begins with this piece, or the sentence begins or ends."""
    return piece.startswith("▁") or piece in _SPECIAL


def printable(text: str) -> str:
    """Without control characters, which would make an SVG file invalid; joiners, which shape Arabic, stay."""
    return "".join(
        character if character.isprintable() or category(character) == "Cf" else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


def _label(piece: str) -> str:
    if piece in _SPECIAL:
        return _SPECIAL[piece]
    # Only scripts with capitals: Chinese and its kin do not part words, so a dash would mean nothing there.
    is_suffix = piece[:1].lower() != piece[:1].upper()
    text = printable(f"-{piece}" if is_suffix else piece.removeprefix("▁"))
    if all(category(character) == "Cf" for character in text):  # nothing to be seen
        return " ".join(f"U+{ord(character):04X}" for character in text) or "␣"
    return text


def _byte_labels(spelled: bytes) -> Iterator[str]:
    """What a run of bytes spells, and, byte by byte, what spells nothing."""
    while spelled:
        for length in (1, 2, 3, 4):
            try:
                character = spelled[:length].decode()
            except UnicodeDecodeError:
                continue
            shown = character if character.isprintable() else f"U+{ord(character):04X}"
            yield from (f"{shown} {n + 1}/{length}" if length > 1 else shown for n in range(length))
            break
        else:
            length = 1
            yield f"0x{spelled[0]:02X}"
        spelled = spelled[length:]
