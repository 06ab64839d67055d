"""Pictures of word alignments: lines between two rows of words, and marks in the matrix of attention.

Beside an alignment that people made, links are told apart: those that it holds, those that it does not, and those that
were missed.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from torch import Tensor

from transformer.errors import ConfigError
from transformer.evaluation.attention_plot import CELL, SLANT, draw_scale
from transformer.evaluation.gold_alignments import Gold, Link
from transformer.evaluation.picture import PAPER, Drawn, Sheet, check_suffix, drawing, text_width
from transformer.evaluation.piece_labels import printable

MAX_WORDS = 120  # on a side
LONGEST_WORD = 24  # characters; of longer ones the beginning is shown
BETWEEN = 0.16  # inches, between the words of a row
ROWS_APART = 1.1  # inches
GOOD, WRONG, GOLD = "#2f79bd", "#d9542b", "#d99a00"


@dataclass(frozen=True)
class AlignedWords:
    """A sentence and its translation, word by word.

    Attributes:
        attention: (target words, source words).
        links: the alignment to be drawn.
        gold: that of people, if there is one.
    """

    src: Sequence[str]
    tgt: Sequence[str]
    attention: Tensor
    links: Sequence[Link]
    gold: Gold | None = None


def draw_alignment(path: Path, words: AlignedWords, title: str = "") -> Drawn:
    """Draw an alignment as lines above and as marks below, and write a picture whose format the suffix names.

    Args:
        path: ends in .png, .svg or .pdf; appears complete or not at all.

    Raises:
        ConfigError: the suffix is another one, or a sentence has no words or too many.
    """
    check_suffix(path)
    n_src, n_tgt = len(words.src), len(words.tgt)
    if not n_src or not n_tgt:
        raise ConfigError("a text without words has no alignment: there is nothing to draw.")
    if max(n_src, n_tgt) > MAX_WORDS:
        raise ConfigError(
            f"{n_src} source and {n_tgt} target words: at most {MAX_WORDS} can be drawn legibly; give a shorter "
            "sentence."
        )
    with drawing(" ".join([*words.src, *words.tgt, title])) as drawn:
        return _draw(path, words, title).save(drawn)


def _draw(path: Path, words: AlignedWords, title: str) -> Sheet:
    src, tgt = ([_shown(word) for word in row] for row in (words.src, words.tgt))
    row_widths = [sum(map(text_width, row)) + BETWEEN * len(row) for row in (src, tgt)]
    above = max(map(text_width, src)) * math.sin(math.radians(SLANT)) + 0.2
    beside = max(map(text_width, tgt)) + 0.25
    columns, rows = len(src) * CELL, len(tgt) * CELL
    width = max(*row_widths, beside + columns + 0.5, 5.2) + 0.2
    matrix_top = 0.75 + ROWS_APART + 0.25 + above
    sheet = Sheet(path, width, matrix_top + rows + 1.0)
    sheet.write(width / 2, 0.1, printable(title), ha="center", va="top", fontsize=10)
    _draw_lines(sheet, src, tgt, words, top=0.6)
    axes = sheet.place((width - columns - beside) / 2 + beside, matrix_top, columns, rows)
    colours = sheet.show_weights(axes, words.attention, Normalize(0, max(float(words.attention.max()), 1e-9)))
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(src)), src, rotation=SLANT, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(tgt)), tgt)
    axes.tick_params(length=0, pad=3)
    _mark(axes, words)
    _explain(sheet, words.gold)
    draw_scale(sheet.figure, colours, sheet.place((width - 4) / 2, sheet.height - 0.4, 4, 0.1), "word")
    return sheet


def _draw_lines(sheet: Sheet, src: Sequence[str], tgt: Sequence[str], words: AlignedWords, top: float) -> None:
    """Two rows of words, with lines from one to the other."""
    centres = []
    for row, baseline in ((src, top), (tgt, top + ROWS_APART + 0.1)):
        places = _centres(row, sheet.width)
        for word, x in zip(row, places, strict=True):
            sheet.write(x, baseline, word, ha="center", va="baseline")
        centres.append(places)
    axes = sheet.place(0, top + 0.06, sheet.width, ROWS_APART - 0.12)
    axes.set_axis_off()
    axes.set_xlim(0, sheet.width)
    axes.set_ylim(0, 1)

    def connect(link: Link, **style: Any) -> None:
        axes.plot([centres[0][link[0]], centres[1][link[1]]], [1, 0], **style)

    for link in sorted(words.gold.sure.difference(words.links)) if words.gold else ():
        connect(link, color=GOLD, linewidth=1.2, linestyle="--")
    for link in words.links:
        connect(link, color=_colour(link, words.gold), linewidth=1.6)


def _centres(row: Sequence[str], width: float) -> list[float]:
    """Where the words of a row stand, spread over the width; from right to left if their script is."""
    widths = [text_width(word) for word in row]
    between = (width - sum(widths)) / len(row)
    x, places = 0.0, []
    for word_width in widths:
        places.append(x + (between + word_width) / 2)
        x += between + word_width
    return [width - place for place in places] if _is_right_to_left("".join(row)) else places


def _is_right_to_left(text: str) -> bool:
    kinds = [unicodedata.bidirectional(character) for character in text]
    return sum(kind in ("R", "AL") for kind in kinds) > kinds.count("L")


def _colour(link: Link, gold: Gold | None) -> str:
    return GOOD if gold is None or link in gold.possible else WRONG


def _mark(axes: Axes, words: AlignedWords) -> None:
    """A dot for each link of the model; a frame for each of people's, dotted where it is only possible."""
    for s, t in words.links:
        axes.plot(s, t, **_dot(_colour((s, t), words.gold)))
    if words.gold is None:
        return
    for s, t in sorted(words.gold.possible):
        left, right, top, bottom = s - 0.43, s + 0.43, t - 0.43, t + 0.43
        x, y = [left, right, right, left, left], [top, top, bottom, bottom, top]
        axes.plot(x, y, color=GOLD, linewidth=1.6, linestyle="-" if (s, t) in words.gold.sure else ":")


def _dot(colour: str) -> dict[str, Any]:
    return {"marker": "o", "markersize": 7.5, "color": colour, "markeredgecolor": PAPER, "linestyle": "none"}


def _explain(sheet: Sheet, gold: Gold | None) -> None:
    """What lines and marks mean, below everything."""
    handles = [Line2D([], [], **_dot(GOOD), label="a link: what a target word attends to most")]
    if gold is not None:
        handles = [
            Line2D([], [], **_dot(GOOD), label="a link of the gold alignment"),
            Line2D([], [], **_dot(WRONG), label="not of it"),
            Line2D([], [], color=GOLD, linestyle="-", linewidth=1.6, label="gold, sure"),
            Line2D([], [], color=GOLD, linestyle=":", linewidth=1.6, label="possible"),
            Line2D([], [], color=GOLD, linestyle="--", linewidth=1.2, label="missed"),
        ]
    place = (0.5, 0.62 / sheet.height)
    sheet.figure.legend(handles=handles, loc="center", bbox_to_anchor=place, ncols=5, frameon=False, fontsize=8)


def _shown(word: str) -> str:
    return printable(word if len(word) <= LONGEST_WORD else f"{word[: LONGEST_WORD - 1]}…")
