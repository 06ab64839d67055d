"""Every layer and head of one kind of attention at a glance, as small multiples: layers down, heads across.

Shades grow with the square root of a share: in one picture, a head that looks at one piece and a head that looks
everywhere are both seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm

from transformer.evaluation.attention_plot import SLANT, draw_scale, part_words
from transformer.evaluation.attention_reading import AttentionReading, Kind
from transformer.evaluation.picture import (
    FAINT,
    LINE,
    Drawn,
    Sheet,
    check_suffix,
    drawing,
    text_width,
    wrapped,
)
from transformer.evaluation.piece_labels import labels

CELL = 0.105  # inches: the height of a small label
SMALL = 6.0  # points, of those labels
SMALLEST, LARGEST = 1.1, 3.0  # inches: the longer side of a panel
GAP = 0.09


def draw_every_head(path: Path, reading: AttentionReading, kind: Kind) -> Drawn:
    """Draw all heads of all layers, the lowest layer at the top; pieces are named along the outer edges.

    In long sentences cells shrink, and every second, third … piece is named.

    Args:
        path: ends in .png, .svg or .pdf; appears complete or not at all.

    Raises:
        ConfigError: the suffix is another one.
    """
    check_suffix(path)
    shares = reading.shares(kind)
    names = labels(shares.keys), labels(shares.queries)
    with drawing("".join([reading.title, *names[0], *names[1]])) as drawn:
        return _draw(path, reading, kind, *names).save(drawn)


def _draw(path: Path, reading: AttentionReading, kind: Kind, keys: Sequence[str], queries: Sequence[str]) -> Sheet:
    shares = reading.shares(kind)
    n_layers, n_heads, longest = len(shares.weights), shares.weights[0].size(1), max(len(keys), len(queries))
    cell = min(max(longest * CELL, SMALLEST), LARGEST) / longest
    stride = math.ceil(CELL / cell - 1e-9)
    columns, rows = len(keys) * cell, len(queries) * cell
    beside = max(text_width(text, SMALL) for text in queries) + 0.4
    above = max(text_width(text, SMALL) for text in keys) * math.sin(math.radians(SLANT)) + 0.3
    width = max(beside + n_heads * (columns + GAP) + 0.1, 4.8)
    lines = wrapped(reading.title, width)
    top = 0.45 + LINE * len(lines)
    height = top + above + n_layers * (rows + GAP) + 0.75
    sheet = Sheet(path, width, height)
    for layer, heads in enumerate(shares.weights):
        for head, weights in enumerate(heads[0]):
            left, down = beside + head * (columns + GAP), top + above + layer * (rows + GAP)
            axes = sheet.place(left, down, columns, rows)
            colours = sheet.show_weights(axes, weights, PowerNorm(0.5, 0, 1))
            part_words(axes, shares.keys, shares.queries, linewidth=4 * cell)
            _name(axes, keys if layer == 0 else (), queries if head == 0 else (), stride)
            if layer == 0:
                sheet.write(left + columns / 2, top + 0.1, f"head {head + 1}", ha="center", color=FAINT)
            if head == 0:
                sheet.write(0.05, down + rows / 2, f"layer {layer + 1}", va="center", rotation=90, color=FAINT)
    draw_scale(sheet.figure, colours, sheet.place((width - 4) / 2, height - 0.45, 4, 0.1))
    kinds = {
        "cross": "encoder-decoder attention: source along the top, target down the side",
        "encoder": "self-attention of the encoder",
        "decoder": "self-attention of the decoder: what has been read along the top, what is written down the side",
    }
    thinned = f"; one piece in {stride} is named" if stride > 1 else ""
    sheet.write(width / 2, 0.1, "\n".join(lines), ha="center", va="top", fontsize=10)
    sheet.write(width / 2, top - 0.15, kinds[kind] + thinned, ha="center", va="bottom", fontsize=8, color=FAINT)
    return sheet


def _name(axes: Axes, keys: Sequence[str], queries: Sequence[str], stride: int) -> None:
    axes.xaxis.tick_top()
    axes.set_xticks(range(0, len(keys), stride), keys[::stride], rotation=SLANT, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(0, len(queries), stride), queries[::stride])
    axes.tick_params(length=0, pad=1.5, labelsize=SMALL)
    for spine in axes.spines.values():
        spine.set_linewidth(0.5)
