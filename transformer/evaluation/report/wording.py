"""Texts side by side: the words in which they differ, marked."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from markupsafe import Markup

from data.report.visible import cut_to, in_its_direction, marked

LIMIT = 400  # characters shown of a text
# Blanks; marks; single characters of scripts that put no blanks between words; what is left.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_MARKS = ".,;:!?…\"'()„“”»«。、，！？؟،"
_WORDS = re.compile(rf"\s+|[{_MARKS}]|[{_UNSPACED}]|[^\s{_MARKS}{_UNSPACED}]+")


def with_differences(one: str, other: str, style: str, language: str = "") -> Markup:
    """`one` as HTML, its words that `other` has not in the same place marked with a class of the page."""
    cut = cut_to(one, LIMIT)
    text, compared = (_WORDS.findall(side) for side in (cut, cut_to(other, LIMIT)))
    parts = []
    # autojunk would take words that come often in long texts for noise
    for what, _, _, begin, end in SequenceMatcher(None, compared, text, autojunk=False).get_opcodes():
        words = "".join(text[begin:end])
        if what == "equal" or not words.strip():
            parts.append(marked(words))
            continue
        core = words.strip()
        before, after = words.split(core, 1)
        parts += [marked(before), Markup('<mark class="{}">{}</mark>').format(style, marked(core)), marked(after)]
    if len(cut) < len(one):
        parts.append(Markup('<span class="more"> …</span>'))
    if not one.strip():
        parts.append(Markup('<span class="more">{}</span>').format("blank" if one else "empty"))
    return in_its_direction(Markup().join(parts), language)
