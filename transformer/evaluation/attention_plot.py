"""Pictures of attention as matrices: for each piece that is written or read, where the network looked.

Pieces that are looked at run along the top, those that look down the side, as in Bahdanau et al. 2015, figure 3. Thin
white lines part words, so that the pieces of one word are seen to belong together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from torch import Tensor

from transformer.errors import ConfigError
from transformer.evaluation.attention_reading import MAX_PIECES, AttentionReading, Kind, mean_of
from transformer.evaluation.picture import (
    FAINT,
    LINE,
    PAPER,
    Drawn,
    Sheet,
    check_suffix,
    drawing,
    text_width,
    wrapped,
)
from transformer.evaluation.piece_labels import labels, starts_word

CELL = 0.30  # inches: the height of a 9-point label with air around it
SLANT = 55  # degrees, of the labels along the top


def draw_attention(path: Path, reading: AttentionReading, kind: Kind = "cross", layer: int | None = None) -> Drawn:
    """Draw the mean of all layers and heads; or of one layer the mean, and every head.

    Raises:
        ConfigError: there is no such layer, or as `draw_matrices`.
    """
    shares = reading.shares(kind)
    return draw_matrices(path, panels_of(shares.weights, layer), shares.keys, shares.queries, reading.title)


def panels_of(weights: Sequence[Tensor], layer: int | None = None) -> dict[str, Tensor]:
    """What to draw of the weights of one sentence pair, as titles and matrices (T, S).

    Args:
        weights: per layer (1, H, T, S), as in `AttentionWeights`.
        layer: None for the mean over layers and heads in one panel; else that layer (1 is the lowest), a panel per
            head after the mean of its heads.

    Raises:
        ConfigError: there is no such layer.
    """
    if layer is None:
        return {f"mean of {len(weights)} layers × {weights[0].size(1)} heads": mean_of(weights)}
    if not 1 <= layer <= len(weights):
        raise ConfigError(f"layer {layer}: there are layers 1 (the lowest) to {len(weights)}.")
    heads = weights[layer - 1][0]
    panels = {f"layer {layer}, mean of {len(heads)} heads": heads.mean(dim=0)}
    if len(heads) > 1:
        panels |= {f"head {number}": head for number, head in enumerate(heads, 1)}
    return panels


def draw_matrices(
    path: Path, panels: Mapping[str, Tensor], keys: Sequence[str], queries: Sequence[str], title: str = ""
) -> Drawn:
    """Draw matrices of weights with the pieces on both axes, and write a picture whose format the suffix names.

    Args:
        path: ends in .png, .svg or .pdf; appears complete or not at all.
        panels: title → (T, S); row t is the distribution over the keys of query t.
        keys: S pieces that are looked at, "▁" at the start of a word.
        queries: T pieces that look.
        title: above everything; its lines are wrapped to the picture's width.

    Raises:
        ConfigError: the suffix is another one, or a sentence too long to draw.
    """
    check_suffix(path)
    if max(len(keys), len(queries)) > MAX_PIECES:
        raise ConfigError(
            f"{len(keys)} × {len(queries)} pieces: at most {MAX_PIECES} on a side can be drawn legibly; "
            "give a shorter sentence."
        )
    with drawing("".join([title, *panels, *labels(keys), *labels(queries)])) as drawn:
        return _draw(path, panels, keys, queries, title).save(drawn)


def _draw(path: Path, panels: Mapping[str, Tensor], keys: Sequence[str], queries: Sequence[str], title: str) -> Sheet:
    """All lengths are inches: cells keep their size, and the figure grows around them."""
    n_columns = math.ceil(math.sqrt(len(panels)))
    n_rows = math.ceil(len(panels) / n_columns)
    above = max(map(text_width, labels(keys))) * math.sin(math.radians(SLANT)) + 0.45  # slanted labels, panel title
    beside = max(map(text_width, labels(queries))) + 0.25
    columns, rows = len(keys) * CELL, len(queries) * CELL
    width = max((beside + columns + 0.3) * n_columns, 4.8)
    lines = wrapped(title, width)
    top = 0.12 + LINE * len(lines)
    height = top + (above + rows + 0.1) * n_rows + 0.6
    sheet = Sheet(path, width, height)
    # One scale for all panels, or a vague head would look as sure as a sharp one.
    scale = Normalize(0, max(float(weights.max()) for weights in panels.values()))
    pitch = width / n_columns
    for index, (panel_title, weights) in enumerate(panels.items()):
        row, column = divmod(index, n_columns)
        left = column * pitch + beside + (pitch - beside - columns - 0.3) / 2
        axes = sheet.place(left, top + row * (above + rows + 0.1) + above, columns, rows)
        colours = sheet.show_weights(axes, weights, scale)
        axes.set_title(panel_title, fontsize=9, color=FAINT, pad=6)
        label_axes(axes, keys, queries)
    draw_scale(sheet.figure, colours, sheet.place((width - 4) / 2, height - 0.4, 4, 0.1))
    sheet.write(width / 2, 0.1, "\n".join(lines), ha="center", va="top", fontsize=10)
    return sheet


def draw_scale(figure: Figure, colours: ScalarMappable, axes: Axes, what: str = "piece") -> None:
    """What the colours mean."""
    meaning = f"share of a {what}'s attention; each row adds up to 100%"
    bar = figure.colorbar(colours, cax=axes, orientation="horizontal", format="{x:.0%}", label=meaning)
    axes.tick_params(length=0, labelsize=8)
    axes.xaxis.label.set(size=8, color=FAINT)
    bar.outline.set_visible(False)


def label_axes(axes: Axes, keys: Sequence[str], queries: Sequence[str]) -> None:
    """Keys along the top, queries down the side, lines between words."""
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(keys)), labels(keys), rotation=SLANT, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(queries)), labels(queries))
    axes.tick_params(length=0, pad=3)
    part_words(axes, keys, queries, linewidth=1.5)


def part_words(axes: Axes, keys: Sequence[str], queries: Sequence[str], linewidth: float) -> None:
    """White lines where a word begins."""
    for pieces, draw_line in ((keys, axes.axvline), (queries, axes.axhline)):
        for position, piece in enumerate(pieces):
            if position and starts_word(piece):
                draw_line(position - 0.5, color=PAPER, linewidth=linewidth)
