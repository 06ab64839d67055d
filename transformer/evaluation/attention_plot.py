"""Pictures of encoder-decoder attention: for each target piece, where in the source the network looked.

Source pieces run along the top, target pieces down the side, as in Bahdanau et al. 2015, figure 3. Thin white lines
part words, so that the pieces of one word are seen to belong together.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.textpath import TextPath
from torch import Tensor

from data.atomic import whole_file
from data.vocabulary import BOS_ID, EOS_ID
from transformer.errors import ConfigError
from transformer.inference.translator import Translator

SUFFIXES = (".png", ".svg", ".pdf")
MAX_PIECES = 250  # nobody could read more
MAX_PIXELS = 12_000  # along the longer side, or a PNG would take gigabytes while it is drawn
CELL = 0.30  # inches: the height of a 9-point label with air around it
SLANT = 55  # degrees, of the labels along the top
INK, FAINT, PAPER = "#1b2a41", "#5b6b80", "#ffffff"
COLOURS = LinearSegmentedColormap.from_list("attention", [PAPER, "#d3e3f3", "#7fb2dd", "#2f79bd", "#0f3f7f", "#071d49"])
# The first has Latin, Greek, Cyrillic, Hebrew, Arabic; the others are what Linux, macOS and Windows have for the rest.
FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Noto Sans JP",
    "Noto Sans KR",
    "Noto Sans Thai",
    "Noto Sans Devanagari",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Arial Unicode MS",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
)


@dataclass(frozen=True)
class Drawing:
    """What `draw_translation` did besides the picture."""

    translation: str
    missing: list[str]  # characters that no installed font has, shown as boxes


def draw_translation(translator: Translator, sentence: str, path: Path, layer: int | None = None) -> Drawing:
    """Translate a sentence and draw its encoder-decoder attention, as `cross_attention_panels` describes.

    The translation's text is split into pieces anew, which can differ from the pieces the search chose.

    Raises:
        ConfigError: the sentence is blank, or too long to draw; no such layer; the suffix is no picture's.
    """
    source, target = translator.src_vocabulary, translator.tgt_vocabulary
    src = [*source.encode([sentence])[0], EOS_ID]
    translation = translator.translate([sentence])[0]
    tgt = [*target.encode([translation])[0], EOS_ID]
    if len(src) == 1:
        raise ConfigError("the sentence is blank: there is nothing to draw.")
    _check(path, len(src), len(tgt))
    # Fed shifted right, the decoder writes tgt[t] in row t of the weights.
    fed = torch.tensor([[BOS_ID, *tgt[:-1]]], device=translator.device)
    weights = translator.network.eval().attention_weights(torch.tensor([src], device=translator.device), fed)
    panels = cross_attention_panels(weights.cross, layer)
    title = f"{sentence}\n{translation}"
    return Drawing(translation, draw_cross_attention(path, panels, source.pieces(src), target.pieces(tgt), title))


def cross_attention_panels(cross: Sequence[Tensor], layer: int | None = None) -> dict[str, Tensor]:
    """What to draw of the weights of one sentence pair, as titles and matrices (T, S).

    Args:
        cross: per decoder layer (1, H, T, S), as in `AttentionWeights.cross`.
        layer: None for the mean over layers and heads in one panel; else that layer (1 is the lowest), a panel per
            head after the mean of its heads.

    Raises:
        ConfigError: there is no such layer.
    """
    if layer is None:
        mean = torch.stack([weights[0].mean(dim=0) for weights in cross]).mean(dim=0)
        return {f"mean of {len(cross)} layers × {cross[0].size(1)} heads": mean}
    if not 1 <= layer <= len(cross):
        raise ConfigError(f"layer {layer}: the decoder has layers 1 (the lowest) to {len(cross)}.")
    heads = cross[layer - 1][0]
    panels = {f"layer {layer}, mean of {len(heads)} heads": heads.mean(dim=0)}
    if len(heads) > 1:
        panels |= {f"head {number}": head for number, head in enumerate(heads, 1)}
    return panels


def draw_cross_attention(
    path: Path, panels: Mapping[str, Tensor], src_pieces: Sequence[str], tgt_pieces: Sequence[str], title: str = ""
) -> list[str]:
    """Draw matrices of weights with the pieces on both axes, and write a picture whose format the suffix names.

    Args:
        path: ends in .png, .svg or .pdf; appears complete or not at all.
        panels: title → (T, S); row t is the distribution over the source while target piece t is written.
        src_pieces: S pieces, "▁" at the start of a word.
        tgt_pieces: T pieces likewise.
        title: above everything; its lines are wrapped to the picture's width.

    Returns:
        Characters that no installed font can draw, shown as boxes; usually none.

    Raises:
        ConfigError: the suffix is another one, or the sentence too long to draw.
    """
    _check(path, len(src_pieces), len(tgt_pieces))
    with matplotlib.rc_context(_style()), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = _draw(panels, src_pieces, tgt_pieces, title)
        _save(figure, path)
    return sorted(set(filter(None, map(_missing_character, map(str, (warning.message for warning in caught))))))


def _check(path: Path, n_src: int, n_tgt: int) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: a picture's name ends in one of {', '.join(SUFFIXES)}.")
    if max(n_src, n_tgt) > MAX_PIECES:
        raise ConfigError(
            f"{n_src} source and {n_tgt} target pieces: at most {MAX_PIECES} can be drawn legibly; "
            "give a shorter sentence."
        )


def _style() -> dict[Any, Any]:
    installed = set(font_manager.get_font_names())
    return {
        "font.family": [font for font in FONTS if font in installed] or ["sans-serif"],
        "font.size": 9,
        "text.color": INK,
        "text.parse_math": False,  # a piece may be "$": two of them would be read as a formula
        "axes.edgecolor": "#c3ccd8",
        "xtick.color": INK,
        "ytick.color": INK,
        "svg.hashsalt": "attention",  # the same picture gives the same bytes
    }


def _draw(panels: Mapping[str, Tensor], src_pieces: Sequence[str], tgt_pieces: Sequence[str], title: str) -> Figure:
    """The figure. All lengths are inches: cells keep their size, and the figure grows around them."""
    n_columns = math.ceil(math.sqrt(len(panels)))
    n_rows = math.ceil(len(panels) / n_columns)
    above = max(map(_text_width, src_pieces)) * math.sin(math.radians(SLANT)) + 0.45  # slanted labels, panel title
    beside = max(map(_text_width, tgt_pieces)) + 0.25
    columns, rows = len(src_pieces) * CELL, len(tgt_pieces) * CELL
    width = max((beside + columns + 0.3) * n_columns, 4.8)
    lines = [line for text in title.split("\n") for line in textwrap.wrap(_printable(text), round(width * 12))]
    top = 0.1 + 0.2 * len(lines)
    height = top + (above + rows + 0.1) * n_rows + 0.6
    figure = Figure(figsize=(width, height), facecolor=PAPER)

    def place(left: float, from_top: float, box_width: float, box_height: float) -> Axes:
        bottom = height - from_top - box_height
        return figure.add_axes((left / width, bottom / height, box_width / width, box_height / height))

    # One scale for all panels, or a vague head would look as sure as a sharp one.
    largest = max(float(weights.max()) for weights in panels.values())
    pitch = width / n_columns
    for index, (panel_title, weights) in enumerate(panels.items()):
        row, column = divmod(index, n_columns)
        left = column * pitch + beside + (pitch - beside - columns - 0.3) / 2
        axes = place(left, top + row * (above + rows + 0.1) + above, columns, rows)
        image = axes.imshow(weights.float().cpu().numpy(), cmap=COLOURS, vmin=0, vmax=largest)
        axes.set_title(panel_title, fontsize=9, color=FAINT, pad=6)
        _label(axes, src_pieces, tgt_pieces)
    _colour_bar(figure, image, place((width - 4) / 2, height - 0.5, 4, 0.1))
    figure.text(0.5, 1 - 0.1 / height, "\n".join(lines), ha="center", va="top", fontsize=10)
    return figure


def _text_width(piece: str) -> float:
    """Inches that a piece's label takes."""
    extent: float = TextPath((0, 0), _shown(piece), size=9).get_extents().width
    return extent / 72


def _colour_bar(figure: Figure, image: AxesImage, axes: Axes) -> None:
    meaning = "share of a target piece's attention; each row adds up to 100%"
    bar = figure.colorbar(image, cax=axes, orientation="horizontal", format="{x:.0%}", label=meaning)
    axes.tick_params(length=0, labelsize=8)
    axes.xaxis.label.set(size=8, color=FAINT)
    bar.outline.set_visible(False)


def _label(axes: Axes, src_pieces: Sequence[str], tgt_pieces: Sequence[str]) -> None:
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(src_pieces)), map(_shown, src_pieces), rotation=SLANT, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(tgt_pieces)), map(_shown, tgt_pieces))
    axes.tick_params(length=0, pad=3)
    for position, piece in enumerate(src_pieces):
        if position and _starts_word(piece):
            axes.axvline(position - 0.5, color=PAPER, linewidth=1.5)
    for position, piece in enumerate(tgt_pieces):
        if position and _starts_word(piece):
            axes.axhline(position - 0.5, color=PAPER, linewidth=1.5)


def _starts_word(piece: str) -> bool:
    return piece.startswith("▁") or piece == "</s>"


def _shown(piece: str) -> str:
    """A piece as a reader knows it: "▁hou", "se", "." → "hou", "-se", "."; the end of the sentence as a sign."""
    if piece == "</s>":
        return "⟨end⟩"
    # Only scripts with capitals: Chinese and its kin do not part words, so a dash would mean nothing there.
    is_suffix = piece[:1].lower() != piece[:1].upper()
    return _printable(f"-{piece}" if is_suffix else piece.removeprefix("▁")) or "▁"


def _printable(text: str) -> str:
    """Without control characters: they would make an SVG file invalid."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _missing_character(message: str) -> str:
    """The character of matplotlib's warning "Glyph 29483 (…) missing from font(s) …"."""
    words = message.split()
    return chr(int(words[1])) if words[:1] == ["Glyph"] and words[1].isdigit() else ""


def _save(figure: Figure, path: Path) -> None:
    suffix = path.suffix.lower().removeprefix(".")
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix)
    dpi = min(160, MAX_PIXELS / max(figure.get_size_inches()))
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as stream:
        figure.savefig(stream, format=suffix, dpi=dpi, bbox_inches="tight", pad_inches=0.15, metadata=undated)
