"""Text of corpora, shown as it is: nothing hidden, nothing that acts on the page or the terminal around it."""

from __future__ import annotations

import re
import unicodedata

from markupsafe import Markup

# Controls, line ends other than LF, marks of direction, blanks without width, soft hyphens, tags, half characters.
# Joiners (U+200C, U+200D) stay: Persian and emoji need them.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0e\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_MARKS = 40  # of one text
_NAMES = {"\t": "TAB", "\n": "LF", "\r": "CR", "\x00": "NUL", "\x1b": "ESC", "\x07": "BEL", "\x0b": "VT", "\x0c": "FF"}


def plain(text: str) -> str:
    """The text with what cannot be seen spelled out, as in `U+202E`: for attributes, titles and terminals."""
    return _INVISIBLE.sub(lambda found: f"‹{_name(found[0])}›", text)


def shown(text: str, limit: int = 240, language: str = "") -> Markup:
    """The text as HTML, in a direction of its own, at most `limit` characters; what cannot be seen is marked."""
    cut = cut_to(text, limit)
    parts = [marked(cut)]
    if len(text) > len(cut):
        parts.append(Markup('<span class="more"> … {:,} characters in all</span>').format(len(text)))
    if not text.strip():
        parts.append(Markup('<span class="more">{}</span>').format("blank" if text else "empty"))
    return in_its_direction(Markup().join(parts), language)


def cut_to(text: str, limit: int) -> str:
    """The beginning of the text, at most `limit` characters, and not too many that cannot be seen."""
    marks = [*_INVISIBLE.finditer(text[:limit])]
    return text[: marks[_MARKS].start() if len(marks) > _MARKS else limit]


def marked(text: str) -> Markup:
    """The text as HTML; what cannot be seen is marked."""
    parts, end = [], 0
    for found in _INVISIBLE.finditer(text):
        parts += [Markup.escape(text[end : found.start()]), _mark(found[0])]
        end = found.end()
    return Markup().join([*parts, Markup.escape(text[end:])])


def in_its_direction(content: Markup, language: str = "") -> Markup:
    """HTML made from text of one language, set in the direction of its own letters."""
    lang = Markup(' lang="{}"').format(plain(language)) if language else Markup()
    return Markup('<bdi dir="auto"{}>{}</bdi>').format(lang, content)


def shortened(text: str, columns: int) -> str:
    """The end of the text, in which paths differ, as wide as `columns` of a terminal at most."""
    if sum(map(_columns, text)) <= columns:
        return text
    kept, used = "", 1
    for character in reversed(text):
        used += _columns(character)
        if used > columns:
            break
        kept = character + kept
    return f"…{kept}"


def _columns(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _mark(character: str) -> Markup:
    title = unicodedata.name(character, "").lower() or f"control character U+{ord(character):04X}"
    return Markup('<span class="invisible" title="{}">{}</span>').format(title, _name(character))


def _name(character: str) -> str:
    return _NAMES.get(character, f"U+{ord(character):04X}")
