"""What all pictures of sentences share: ink, fonts for any script, sizes in inches, and a file that is whole or absent.

DejaVu Sans, which comes with matplotlib, has Latin, Greek, Cyrillic, Hebrew and Arabic. For other characters the fonts
that the machine has are searched. From version 3.11 on, matplotlib joins Arabic letters and sets Hebrew and Arabic
from right to left.
"""

from __future__ import annotations

import textwrap
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ft2font import FT2Font
from matplotlib.textpath import text_to_path
from torch import Tensor

from data.atomic import whole_file
from transformer.errors import ConfigError
from transformer.evaluation.piece_labels import printable

SUFFIXES = (".png", ".svg", ".pdf")
DPI = 160
MAX_PIXELS = 12_000  # along the longer side: more than viewers open
LEGIBLE_DPI = 70  # below, nobody can read a label
FONT_SIZE = 9.0  # points
LINE = 0.17  # inches: the height of a line of a title, of 10 points
INK, FAINT, EDGE, PAPER = "#1b2a41", "#5b6b80", "#c3ccd8", "#ffffff"
COLOURS = LinearSegmentedColormap.from_list("attention", [PAPER, "#d3e3f3", "#7fb2dd", "#2f79bd", "#0f3f7f", "#071d49"])
FONT = "DejaVu Sans"


@dataclass
class Drawn:
    """What there is to say about a picture that was written.

    Attributes:
        missing: characters that no installed font has, shown as boxes.
        dpi: dots per inch of a PNG; less than `LEGIBLE_DPI` where all of it would not fit otherwise.
    """

    missing: list[str] = field(default_factory=list)
    dpi: float = DPI

    @property
    def notes(self) -> list[str]:
        """Sentences for the user, usually none."""
        notes = []
        if self.missing:
            shown = " ".join(self.missing[:20]) + (" …" if len(self.missing) > 20 else "")
            notes.append(f"No font here has {shown}: drawn as boxes. Install one that does, such as Noto Sans.")
        if self.dpi < LEGIBLE_DPI:
            notes.append(
                f"The picture is so large that a PNG of it has {self.dpi:.0f} dots per inch, too few to read the "
                "labels: write .svg or .pdf instead, or draw less."
            )
        return notes


def check_suffix(path: Path) -> None:
    """Raises ConfigError when the name is not that of a picture."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: a picture's name ends in one of {', '.join(SUFFIXES)}.")


@contextmanager
def drawing(text: str) -> Iterator[Drawn]:
    """The style of all pictures, with fonts for `text`: everything that will be written into the picture."""
    families, missing = find_fonts(text)
    style: dict[Any, Any] = {
        "font.family": families,
        "font.size": FONT_SIZE,
        "text.color": INK,
        "text.parse_math": False,  # a piece may be "$": two of them would be read as a formula
        "axes.edgecolor": EDGE,
        "xtick.color": INK,
        "ytick.color": INK,
        "svg.hashsalt": "attention",  # the same picture gives the same bytes
    }
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # said in `missing`
        yield Drawn(missing)


def find_fonts(text: str) -> tuple[list[str], list[str]]:
    """Font families that together have the characters of a text, and the characters that none has."""
    wanted = {ord(printable(character)) for character in set(text) if not _is_invisible(character)}
    wanted -= _characters(font_manager.findfont(FONT))
    families = [FONT]
    # Fonts like the first one before all others: Unifont, which has everything, is nobody's wish.
    for fonts in _installed() if wanted else ():
        for font in sorted(fonts, key=lambda font: -len(wanted & _characters(font))):
            if found := wanted & _characters(font):
                families.append(_make_known(font))
                wanted -= found
    return families, sorted(map(chr, wanted))


def _is_invisible(character: str) -> bool:
    """Spaces, joiners, marks of direction and selectors of variants need no glyph."""
    return (
        character.isspace()
        or unicodedata.category(character) == "Cf"
        or unicodedata.name(character, "").startswith("VARIATION SELECTOR")
    )


@cache
def _installed() -> tuple[list[str], list[str]]:
    """Files of upright fonts of normal weight: first those without serifs, then others, each in order of name."""
    sans: list[str] = []
    others: list[str] = []
    for path in sorted(font_manager.findSystemFonts()):  # as they are now: matplotlib's own list may be years old
        try:
            font = FT2Font(path)
        except (OSError, RuntimeError):
            continue  # damaged, or of a kind that matplotlib cannot draw
        if not font.style_flags and font.style_name == "Regular" and not font.family_name.startswith("Last Resort"):
            (sans if "Sans" in font.family_name and "Mono" not in font.family_name else others).append(path)
    return sans, others


@cache
def _characters(path: str) -> frozenset[int]:
    """The code points that a font has."""
    return frozenset(FT2Font(path).get_charmap())


def _make_known(path: str) -> str:
    """The family of a font file, which matplotlib knows from now on."""
    manager = font_manager.fontManager
    if all(entry.fname != path for entry in manager.ttflist):
        manager.addfont(path)
    return FT2Font(path).family_name


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """Inches that a text takes."""
    width: float = text_to_path.get_text_width_height_descent(printable(text), FontProperties(size=size), False)[0]
    return width / 72


def wrapped(text: str, width: float) -> list[str]:
    """The lines, `LINE` high, of a title that is `width` inches wide, each line of the text wrapped for itself."""
    lines = []
    for part in filter(None, map(printable, text.split("\n"))):
        n_characters = (
            int(len(part) * 0.95 * width / text_width(part, 10)) if text_width(part, 10) > width else len(part)
        )
        lines += textwrap.wrap(part, max(n_characters, 1))
    return lines


class Sheet:
    """A figure whose lengths are inches, measured from its left and from its top; its path's suffix names its form."""

    def __init__(self, path: Path, width: float, height: float) -> None:
        self.path, self.width, self.height = path, width, height
        self.form = path.suffix.lower().removeprefix(".")
        self.figure = Figure(figsize=(width, height), facecolor=PAPER)

    def place(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes that fill this box."""
        bottom = self.height - top - height
        box = (left / self.width, bottom / self.height, width / self.width, height / self.height)
        return self.figure.add_axes(box)

    def write(self, left: float, top: float, text: str, **style: Any) -> None:
        """Text at this place."""
        self.figure.text(left / self.width, 1 - top / self.height, text, **style)

    def show_weights(self, axes: Axes, weights: Tensor, norm: Normalize) -> ScalarMappable:
        """Draw a matrix, the first row at the top, as cells that fill the axes; returns what a colour bar needs."""
        shares, (n_rows, n_columns) = weights.float().cpu().numpy(), weights.shape
        if self.form == "png":  # an image would be made of gigabytes of numbers, where the picture is large
            edges = (np.arange(n + 1) - 0.5 for n in (n_columns, n_rows))
            mesh = axes.pcolormesh(*edges, shares, cmap=COLOURS, norm=norm)
            axes.invert_yaxis()
            return mesh
        # A mesh would be a path for each cell.
        return axes.imshow(shares, COLOURS, norm, aspect="auto", interpolation="none", origin="upper")

    def save(self, drawn: Drawn) -> Drawn:
        """Write the picture, whole or not at all. Raises OSError."""
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(self.form)
        dpi = min(DPI, MAX_PIXELS / max(self.width, self.height))
        if self.form == "png":
            drawn.dpi = dpi
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self.path) as stream:
            self.figure.savefig(
                stream, format=self.form, dpi=dpi, bbox_inches="tight", pad_inches=0.15, metadata=undated
            )
        return drawn
