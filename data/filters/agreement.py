"""Filters that compare what both sides hold: copies, numbers, markup, and a score that came with the pair."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from data.filters.filter import Filter, Kept
from data.pairs import Texts

_DIGITS = re.compile(r"\d+")
_TAG = re.compile(r"<[/!?]?[A-Za-z][^<>]*>|&(?:[a-zA-Z]{2,8}|#\d+|#x[0-9a-fA-F]+);|\\f[BIRP]|\b[BI](?=<)")


def numbers(max_missing: int = 0) -> Filter:
    """Drop pairs of which a side has more than `max_missing` numbers of two digits or more that the other lacks.

    Separators differ between languages (1,234.5 and 1.234,5), so numbers are compared without them, digit by digit;
    single digits are often written as words, and not compared.
    """

    def keep(texts: Texts) -> Kept:
        kept = np.ones(len(texts), np.bool_)
        for place, (src, tgt) in enumerate(zip(texts.src, texts.tgt, strict=True)):
            if src == tgt:
                continue
            one, other = Counter("".join(_DIGITS.findall(src))), Counter("".join(_DIGITS.findall(tgt)))
            kept[place] = _lacking(src, tgt, one, other) <= max_missing
        return kept

    return keep


def _lacking(src: str, tgt: str, one: Counter[str], other: Counter[str]) -> int:
    if one == other:
        return 0
    in_src, in_tgt = (Counter(_joined(text)) for text in (src, tgt))
    lost, added = in_src - in_tgt, in_tgt - in_src
    return max(sum(lost.values()), sum(added.values()))


_NUMBER = re.compile(r"\d(?:[.,'’\u00a0\u202f ]?\d)+")


def _joined(text: str) -> list[str]:
    return ["".join(_DIGITS.findall(number)) for number in _NUMBER.findall(text)]


def markup(max_difference: int = 2) -> Filter:
    """Drop pairs of which one side has more than `max_difference` tags, entities or roff requests more than the other.

    Counted are `<b>`, `</b>`, `&amp;`, `&#39;`, and of manual pages `\\fB` and `B<`.
    """

    def keep(texts: Texts) -> Kept:
        kept = np.ones(len(texts), np.bool_)
        for place, (src, tgt) in enumerate(zip(texts.src, texts.tgt, strict=True)):
            if ("<" in src or "&" in src or "\\" in src) or ("<" in tgt or "&" in tgt or "\\" in tgt):
                kept[place] = abs(len(_TAG.findall(src)) - len(_TAG.findall(tgt))) <= max_difference
        return kept

    return keep


def score(at_least: float) -> Filter:
    """Drop pairs whose score, a column of the file they come from, is lower, missing or no number."""

    def passes(value: str | None) -> bool:
        try:
            return value is not None and float(value) >= at_least
        except ValueError:
            return False

    def keep(texts: Texts) -> Kept:
        if texts.meta is None:
            return np.zeros(len(texts), np.bool_)
        return np.fromiter((passes(of_pair.get("score")) for of_pair in texts.meta), np.bool_, len(texts))

    return keep
