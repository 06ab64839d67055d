"""XLIFF 1.2 and 2.x, the files that translators' tools exchange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from data.errors import DataError
from data.forms.xml import InlineTags, find_child, language_distance, local_name, read_elements, text_of
from data.pairs import Pair

# States that say of a text in the target that it is no translation yet: XLIFF 1.2 (state of target), 2 (of segment).
_UNTRANSLATED = frozenset({"new", "needs-translation", "initial"})


def read_xliff(
    stream: BinaryIO,
    name: str,
    src_lang: str,
    tgt_lang: str,
    inline_tags: InlineTags = "drop",
    left_out: Counter[str] | None = None,
) -> Iterator[Pair]:
    """The translated units, segment by segment where the file is segmented; a file in the other direction is turned.

    A unit is untranslated, and left out, without a target, with an empty one, or where its state says so; suggestions
    (alt-trans, matches) are never read. Languages match as in TMX; a missing target language is taken to be the wanted
    one. place: number of the unit. `left_out` counts by reason; `inline_tags` as in `text_of`.

    Raises DataError: not well-formed, cut short, no XLIFF, an entity that would have to be expanded, or units of other
    languages only.
    """
    n_units = n_fitting = 0
    languages: dict[tuple[str, str], bool | None] = {}  # as found in the file: whether to turn them; None: others
    for n_units, unit in enumerate(read_elements(stream, name, "xliff", "trans-unit", "unit"), 1):
        found = _languages(unit)
        if found not in languages and len(languages) < 50:  # a file may hold anything there
            languages[found] = _is_turned(found, src_lang, tgt_lang)
        turned = languages.get(found)
        segments = [] if turned is None else list(_segments(unit))
        n_fitting += turned is not None
        texts = [[text_of(side, name, n_units, inline_tags) for side in segment] for segment in segments]
        translated = [(src, tgt) for src, tgt in texts if tgt.strip()]
        if left_out is not None and not translated:
            left_out["other languages" if turned is None else "untranslated"] += 1
        for src, tgt in translated:
            yield Pair(tgt, src, n_units) if turned else Pair(src, tgt, n_units)
    if n_units and not n_fitting:
        there = ", ".join(f"{src}-{tgt}" for src, tgt in languages)
        raise DataError(
            f"{name}: none of the {n_units} units is in {src_lang}-{tgt_lang}; there: {there}. Set the languages as "
            "the file has them"
        )


def _languages(unit: Any) -> tuple[str, str]:
    """The languages that the file (1.2) or the document (2) of a unit states."""
    file = next(unit.iterancestors("{*}file"), None)
    if file is not None and file.get("source-language"):
        return file.get("source-language"), file.get("target-language") or ""
    root = unit.getroottree().getroot()
    return root.get("srcLang") or "", root.get("trgLang") or ""


def _is_turned(found: tuple[str, str], src_lang: str, tgt_lang: str) -> bool | None:
    src, tgt = found
    if _matches(src, src_lang, tgt_lang) and _matches(tgt, tgt_lang, src_lang):
        return False
    return True if _matches(src, tgt_lang, src_lang) and _matches(tgt, src_lang, tgt_lang) else None


def _matches(found: str, wanted: str, other: str) -> bool:
    return not found or language_distance(found, wanted, other) is not None


def _segments(unit: Any) -> Iterator[tuple[Any, Any]]:
    """Source and target elements that belong together, without those that are marked as untranslated."""
    if local_name(unit) == "unit":
        for segment in unit.iterchildren("{*}segment"):
            source, target = find_child(segment, "source"), find_child(segment, "target")
            if source is not None and target is not None and segment.get("state") not in _UNTRANSLATED:
                yield source, target
        return
    source, target = find_child(unit, "source"), find_child(unit, "target")
    if source is None or target is None or target.get("state") in _UNTRANSLATED:
        return
    src_parts, tgt_parts = _marked(find_child(unit, "seg-source")), _marked(target)
    if src_parts and src_parts.keys() == tgt_parts.keys():
        yield from ((part, tgt_parts[key]) for key, part in src_parts.items())
    else:
        yield source, target


def _marked(element: Any | None) -> dict[str, Any]:
    """The sentences that a tool has marked in a unit (XLIFF 1.2, <mrk mtype="seg" mid="…">)."""
    if element is None:
        return {}
    marks = element.iterdescendants("{*}mrk")
    return {mark.get("mid"): mark for mark in marks if mark.get("mtype") == "seg" and mark.get("mid")}
