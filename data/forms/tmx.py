"""TMX 1.1 to 1.4, the translation memories of CAT tools, OPUS and ParaCrawl."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from data.errors import DataError
from data.forms.xml import InlineTags, language_distance, read_elements, text_of
from data.pairs import NO_META, Pair

_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_MOST_LANGUAGES = 50  # remembered; a file may hold anything there
_FAR = 2  # farther than any of the same primary language


def read_tmx(
    stream: BinaryIO,
    name: str,
    src_lang: str,
    tgt_lang: str,
    inline_tags: InlineTags = "drop",
    left_out: Counter[str] | None = None,
) -> Iterator[Pair]:
    """The units that hold both languages, each once; a few units in memory at a time.

    A variant whose language is exactly the wanted one is preferred, else one of the same primary language (de-AT for
    de, de for de-DE); of several equally near, the first in the unit. `inline_tags` as in `text_of`. place: number of
    the unit; meta: its <prop> values by type, without x-; ParaCrawl's score-bicleaner also as score.
    Units without one of the languages are left out, which `left_out` counts by reason ("no de").

    Raises DataError: not well-formed, cut short, no TMX, an entity that would have to be expanded, or units but none
    with both languages (naming those there are).
    """
    n_units = n_pairs = 0
    languages = _Languages(src_lang, tgt_lang)
    for n_units, unit in enumerate(read_elements(stream, name, "tmx", "tu"), 1):
        src, tgt, properties = languages.choose(unit)
        if src is None or tgt is None or src is tgt:
            if left_out is not None:
                left_out[f"no {src_lang if src is None else tgt_lang}"] += 1
            continue
        n_pairs += 1
        src_text = _segment_text(src, name, n_units, inline_tags)
        tgt_text = _segment_text(tgt, name, n_units, inline_tags)
        yield Pair(src_text, tgt_text, n_units, _meta(properties) if properties else NO_META)
    if n_units and not n_pairs:
        raise DataError(
            f"{name}: none of the {n_units} units holds both {src_lang} and {tgt_lang}; languages there: "
            f"{', '.join(languages.seen) or 'none'}. Set the languages as the file has them"
        )


class _Languages:
    """Chooses the variants of a unit, and knows the codes it has seen."""

    def __init__(self, src_lang: str, tgt_lang: str) -> None:
        self.src_lang, self.tgt_lang = src_lang, tgt_lang
        self.seen: dict[str, tuple[int, int]] = {}  # how far from the source and the target language

    def choose(self, unit: Any) -> tuple[Any, Any, list[Any]]:
        """The nearest variant of each language, None where there is none, and the <prop> elements."""
        src = tgt = None
        src_best = tgt_best = _FAR
        variant_tag, property_tag = f"{unit.tag}v", f"{unit.tag[:-2]}prop"  # tuv and prop, in the namespace of tu
        properties = []
        for child in unit:  # iterchildren(tag) takes four times as long
            tag = child.tag
            if tag == property_tag:
                properties.append(child)
            elif tag == variant_tag:
                language = child.get(_XML_LANG) or child.get("lang") or ""  # lang: TMX 1.1
                src_distance, tgt_distance = self.seen.get(language) or self._measure(language)
                if src_distance < src_best:
                    src, src_best = child, src_distance
                if tgt_distance < tgt_best:
                    tgt, tgt_best = child, tgt_distance
        return src, tgt, properties

    def _measure(self, language: str) -> tuple[int, int]:
        src = language_distance(language, self.src_lang, self.tgt_lang)
        tgt = language_distance(language, self.tgt_lang, self.src_lang)
        distances = _FAR if src is None else src, _FAR if tgt is None else tgt
        if len(self.seen) < _MOST_LANGUAGES:
            self.seen[language] = distances
        return distances


def _segment_text(variant: Any, name: str, place: int, inline_tags: InlineTags) -> str:
    segment_tag = f"{variant.tag[:-3]}seg"
    for child in reversed(variant):  # it is the last
        if child.tag == segment_tag:
            return text_of(child, name, place, inline_tags)
    return ""


def _meta(properties: list[Any]) -> Mapping[str, str]:
    found = {
        (element.get("type") or "").removeprefix("x-"): " ".join((element.text or "").split()) for element in properties
    }
    if "score-bicleaner" in found:
        found.setdefault("score", found["score-bicleaner"])
    return found
