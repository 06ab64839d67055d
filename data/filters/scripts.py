"""Which scripts languages are written in, and the filter that asks for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from data.filters.characters import Characters, letters, table_of
from data.filters.filter import Filter, Kept, primary
from data.pairs import Texts

# Blocks of Unicode 16 that hold the letters of a script; some also hold signs, which are no letters and not counted.
SCRIPTS: dict[str, tuple[tuple[int, int], ...]] = {
    "Latin": ((0x41, 0x24F), (0x250, 0x2FF), (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x2C60, 0x2C7F), (0xA720, 0xA7FF),
              (0xAB30, 0xAB6F), (0xFB00, 0xFB06), (0xFF21, 0xFF5A)),
    "Greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "Cyrillic": ((0x400, 0x52F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
    "Armenian": ((0x530, 0x58F), (0xFB13, 0xFB17)),
    "Hebrew": ((0x590, 0x5FF), (0xFB1D, 0xFB4F)),
    "Arabic": ((0x600, 0x6FF), (0x750, 0x77F), (0x870, 0x8FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFF)),
    "Thaana": ((0x780, 0x7BF),),
    "Devanagari": ((0x900, 0x97F), (0xA8E0, 0xA8FF)),
    "Bengali": ((0x980, 0x9FF),),
    "Gurmukhi": ((0xA00, 0xA7F),),
    "Gujarati": ((0xA80, 0xAFF),),
    "Oriya": ((0xB00, 0xB7F),),
    "Tamil": ((0xB80, 0xBFF),),
    "Telugu": ((0xC00, 0xC7F),),
    "Kannada": ((0xC80, 0xCFF),),
    "Malayalam": ((0xD00, 0xD7F),),
    "Sinhala": ((0xD80, 0xDFF),),
    "Thai": ((0xE00, 0xE7F),),
    "Lao": ((0xE80, 0xEFF),),
    "Tibetan": ((0xF00, 0xFFF),),
    "Myanmar": ((0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)),
    "Georgian": ((0x10A0, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2F)),
    "Ethiopic": ((0x1200, 0x139F), (0x2D80, 0x2DDF), (0xAB00, 0xAB2F)),
    "Khmer": ((0x1780, 0x17FF),),
    "Hangul": ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xFFA0, 0xFFDC)),
    "Kana": ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F)),
    "Bopomofo": ((0x3100, 0x312F), (0x31A0, 0x31BF)),
    "Han": ((0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF),
            (0x20000, 0x3FFFF)),
}  # fmt: skip

# Of languages that are not in the Latin script alone. Latin is always allowed beside: names, commands, units.
OF_LANGUAGES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("ru", "uk", "be", "bg", "mk", "ba", "tt", "ky", "tg", "mn", "kk"), ("Cyrillic",)),
    **dict.fromkeys(("sr", "bs", "uz", "az", "tk"), ("Latin", "Cyrillic")),
    **dict.fromkeys(("ar", "fa", "ur", "ps", "ug", "arz", "ary", "sdh", "ckb", "sd"), ("Arabic",)),
    "ku": ("Latin", "Arabic"),
    **dict.fromkeys(("he", "yi", "hbo"), ("Hebrew",)),
    **dict.fromkeys(("hi", "mr", "ne", "sa", "gom"), ("Devanagari",)),
    **dict.fromkeys(("bn", "as"), ("Bengali",)),
    **dict.fromkeys(("el", "grc"), ("Greek",)),
    **dict.fromkeys(("am", "ti"), ("Ethiopic",)),
    **dict.fromkeys(("dz", "bo"), ("Tibetan",)),
    **dict.fromkeys(("zh", "yue", "wuu"), ("Han", "Bopomofo")),
    "ja": ("Kana", "Han"), "ko": ("Hangul", "Han"), "hy": ("Armenian",), "ka": ("Georgian",), "dv": ("Thaana",),
    "pa": ("Gurmukhi",), "gu": ("Gujarati",), "or": ("Oriya",), "ta": ("Tamil",), "te": ("Telugu",),
    "kn": ("Kannada",), "ml": ("Malayalam",), "si": ("Sinhala",), "th": ("Thai",), "lo": ("Lao",),
    "my": ("Myanmar",), "km": ("Khmer",),
}  # fmt: skip


def script(src_lang: str, tgt_lang: str, min_share: float = 0.5, min_letters: int = 5) -> Filter:
    """Drop pairs with a side of `min_letters` letters of which less than `min_share` are in its language's scripts.

    Where a language is not in the Latin script, Latin letters are neither for nor against it, so that names and
    commands pass; a language that is not in the table counts as Latin.
    """
    sides = [_tables(src_lang), _tables(tgt_lang)]

    def keep(texts: Texts) -> Kept:
        kept = np.ones(len(texts), np.bool_)
        for side, (expected, foreign) in zip((texts.src, texts.tgt), sides, strict=True):
            places = np.flatnonzero(~np.fromiter(map(str.isascii, side), np.bool_, len(side)))
            characters = Characters.of([side[place] for place in places.tolist()])
            right, wrong = characters.count(expected), characters.count(foreign)
            n = right + wrong
            kept[places] &= (n < min_letters) | (right >= min_share * n)
        return kept

    return keep


def scripts_of(language: str) -> Sequence[str]:
    """The scripts a language is written in."""
    return OF_LANGUAGES.get(primary(language), ("Latin",))


def _tables(language: str) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    names = scripts_of(language)
    expected = table_of([block for name in names for block in SCRIPTS[name]]) & letters()
    neutral = table_of(SCRIPTS["Latin"])
    return expected, letters() & ~expected & ~neutral
