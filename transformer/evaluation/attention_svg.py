"""A picture of encoder-decoder attention to stand in a page: SVG without fonts, ids or fixed ink.

Text has the page's own colour (`currentColor`) and fonts, cells are one blue of more or less opacity, the background is
what lies behind: so the same picture is right on white and on black. The browser finds fonts for any script and shapes
Arabic. Pointing at a cell shows its words and its share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from unicodedata import category, east_asian_width
from xml.etree import ElementTree

from torch import Tensor

from transformer.evaluation.attention_reading import mean_of, read_attention
from transformer.evaluation.piece_labels import labels, printable, starts_word
from transformer.inference.translator import Translator

CELL = 19.0
FONT_SIZE = 12.0
SLANT = 55.0  # degrees, of the labels along the top
FAINTEST = 0.02  # of the largest share: what is below is left out, as nobody would see it; most of a matrix
BLUE = "#3f8ee6"  # as far from black as from white


def cross_attention_svg(translator: Translator, sentence: str, translation: str | None = None) -> str:
    """Encoder-decoder attention, the mean of all layers and heads, as an `<svg>` element for an HTML page.

    Its width and height are those at which it is legible: let the page scroll what is wider than the screen.

    Args:
        translation: None for that of the translator.

    Raises:
        ConfigError: as `read_attention`.
    """
    reading = read_attention(translator, sentence, translation)
    weights = mean_of(reading.weights.cross)
    return matrix_svg(weights, reading.src_pieces, reading.written, f"{sentence} → {reading.translation}")


def matrix_svg(weights: Tensor, src_pieces: Sequence[str], tgt_pieces: Sequence[str], description: str) -> str:
    """Weights (T, S) with the source pieces along the top and the target pieces down the side, as an `<svg>` element.

    Args:
        description: what the picture says to those who cannot see it.
    """
    columns, rows = labels(src_pieces), labels(tgt_pieces)
    slant = math.radians(SLANT)
    left, above = _widest(rows) + 8, _widest(columns) * math.sin(slant) + FONT_SIZE
    overhang = _text_width(columns[-1]) * math.cos(slant)  # of the last label, beyond its column
    width, height = left + len(columns) * CELL + overhang + 6, above + len(rows) * CELL + 6
    size = {"width": f"{width:.0f}", "height": f"{height:.0f}", "viewBox": f"0 0 {width:.0f} {height:.0f}"}
    svg = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, "role": "img", "direction": "ltr"})
    svg.set("aria-label", printable(description))
    svg.set("font-size", f"{FONT_SIZE:g}")
    _add(svg, "path", d=_rules(src_pieces, tgt_pieces, left, above), stroke="currentColor", stroke_opacity=0.16)
    for column, text in enumerate(columns):
        x, y = left + (column + 0.6) * CELL, above - 6
        _add(svg, "text", text, transform=f"translate({x:.1f} {y:.1f}) rotate(-{SLANT:g})", fill="currentColor")
    for row, text in enumerate(rows):
        y = above + (row + 0.5) * CELL + FONT_SIZE * 0.35
        _add(svg, "text", text, x=round(left - 6, 1), y=round(y, 1), text_anchor="end", fill="currentColor")
    cells = ElementTree.SubElement(svg, "g", {"fill": BLUE})
    largest = max(float(weights.max()), 1e-9)
    for row, shares in enumerate(weights.tolist()):
        for column, share in enumerate(shares):
            if share >= FAINTEST * largest:
                x, y = left + column * CELL + 1, above + row * CELL + 1
                box = {"x": f"{x:.0f}", "y": f"{y:.0f}", "width": f"{CELL - 2:g}", "height": f"{CELL - 2:g}"}
                cell = _add(cells, "rect", rx=2, fill_opacity=round(share / largest, 2), **box)
                _add(cell, "title", f"{rows[row]} ← {columns[column]}: {share:.0%}")
    return ElementTree.tostring(svg, encoding="unicode")  # which escapes text


def _rules(src_pieces: Sequence[str], tgt_pieces: Sequence[str], left: float, above: float) -> str:
    """Lines between words, and around everything."""
    right, bottom = left + len(src_pieces) * CELL, above + len(tgt_pieces) * CELL
    columns = [i for i, piece in enumerate(src_pieces) if not i or starts_word(piece)] + [len(src_pieces)]
    rows = [i for i, piece in enumerate(tgt_pieces) if not i or starts_word(piece)] + [len(tgt_pieces)]
    down = "".join(f"M{left + i * CELL:.0f} {above:.0f}V{bottom:.0f}" for i in columns)
    return down + "".join(f"M{left:.0f} {above + i * CELL:.0f}H{right:.0f}" for i in rows)


def _add(parent: ElementTree.Element, tag: str, text: str = "", **attributes: float | str) -> ElementTree.Element:
    names = {name.replace("_", "-"): f"{value}" for name, value in attributes.items()}
    element = ElementTree.SubElement(parent, tag, names)
    element.text = text or None
    return element


def _widest(labels: Sequence[str]) -> float:
    return max(map(_text_width, labels))


def _text_width(text: str) -> float:
    """About how much room a label takes in a usual font: marks none, Han and its kin a square, others less."""
    wide = sum(east_asian_width(character) in "WF" for character in text)
    marks = sum(category(character) in ("Mn", "Me", "Cf") for character in text)
    return FONT_SIZE * (wide + 0.6 * (len(text) - wide - marks))
