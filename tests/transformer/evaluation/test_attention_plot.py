"""Pictures of attention: the right weights at the right place, any script, and a file that is whole or not there."""

from __future__ import annotations

import xml.etree.ElementTree
from pathlib import Path
from typing import BinaryIO

import matplotlib.image
import numpy
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor

from transformer.config import ModelSettings
from transformer.errors import ConfigError
from transformer.evaluation.attention_plot import draw_attention, draw_matrices, panels_of
from transformer.evaluation.attention_reading import MAX_PIECES, Kind, read_attention
from transformer.inference.translator import Translator
from transformer.model import Transformer

SRC = ["▁the", "▁hou", "se", ".", "</s>"]
TGT = ["▁das", "▁Haus", "</s>"]


def uniform(n_rows: int = len(TGT), n_columns: int = len(SRC)) -> Tensor:
    return torch.full((n_rows, n_columns), 1 / n_columns)


def test_the_default_panel_is_the_mean_over_layers_and_heads() -> None:
    torch.manual_seed(0)
    settings = ModelSettings(n_encoder_layers=1, n_decoder_layers=3, d_model=8, n_heads=2, d_ff=8)
    weights = Transformer(settings, 11, 11).eval().attention_weights(torch.tensor([[4, 5, 3]]), torch.tensor([[2, 7]]))
    [(title, panel)] = panels_of(weights.cross).items()
    assert title == "mean of 3 layers × 2 heads"
    torch.testing.assert_close(panel, sum(layer[0, head] for layer in weights.cross for head in (0, 1)) / 6)
    torch.testing.assert_close(panel.sum(dim=-1), torch.ones(2))


def test_a_chosen_layer_shows_its_mean_and_each_head() -> None:
    cross = list(torch.rand(3, 1, 2, len(TGT), len(SRC)).softmax(dim=-1))
    panels = panels_of(cross, layer=2)
    assert list(panels) == ["layer 2, mean of 2 heads", "head 1", "head 2"]
    torch.testing.assert_close(panels["head 2"], cross[1][0, 1])
    torch.testing.assert_close(panels["layer 2, mean of 2 heads"], cross[1][0].mean(dim=0))


@pytest.mark.parametrize("layer", [-1, 0, 4])
def test_a_layer_that_does_not_exist_is_refused_with_those_that_do(layer: int) -> None:
    with pytest.raises(ConfigError, match=f"layer {layer}.*1 .*to 3"):
        panels_of(list(torch.rand(3, 1, 2, 4, 4)), layer)


def test_every_piece_stands_on_its_axis_once_per_panel(tmp_path: Path) -> None:
    path = tmp_path / "new" / "picture.svg"
    assert draw_matrices(path, {"one": uniform(), "two": uniform()}, SRC, TGT, "the house.\ndas Haus").notes == []
    text = path.read_text()  # matplotlib writes each text as a comment beside its outlines
    for label, count in {"the": 2, "hou": 2, "-se": 2, ".": 2, "das": 2, "Haus": 2, "⟨end⟩": 4}.items():
        assert text.count(f"<!-- {label} -->") == count
    for line in ("one", "two", "the house.", "das Haus"):
        assert f"<!-- {line} -->" in text


@pytest.mark.parametrize(("row", "column"), [(0, 4), (2, 0), (2, 4), (0, 0)])
def test_a_weight_is_drawn_in_the_row_of_its_target_and_the_column_of_its_source(
    tmp_path: Path, row: int, column: int
) -> None:
    weights = torch.zeros(len(TGT), len(SRC))
    weights[row, column] = 1
    positions = {}
    for name, panel in (("dark", weights), ("frame", torch.ones_like(weights))):
        draw_matrices(tmp_path / f"{name}.png", {"": panel}, SRC, TGT)
        pixels = matplotlib.image.imread(tmp_path / f"{name}.png")[:, :, :3]
        pixels = pixels[: int(len(pixels) * 0.7)]  # the colour bar below is dark too
        rows, columns = numpy.nonzero(numpy.abs(pixels - numpy.array([7, 29, 73]) / 255).max(axis=-1) < 0.01)
        positions[name] = rows.min(), rows.max(), columns.min(), columns.max()
    top, bottom, left, right = positions["frame"]
    cell = numpy.array([bottom - top, right - left]) / weights.shape
    centre = (positions["dark"][0] + positions["dark"][1]) / 2, (positions["dark"][2] + positions["dark"][3]) / 2
    expected = numpy.array([top, left]) + (numpy.array([row, column]) + 0.5) * cell
    assert numpy.abs(centre - expected).max() < cell.min() / 4


def test_formulas_control_characters_and_scripts_without_a_font_are_drawn(tmp_path: Path) -> None:
    src = ["▁$\\frac$", "▁$", "\x01\x1b", "▁", "\U000f0001", "</s>"]
    tgt = ["▁你好", "▁שלום", "▁<b>&--", "</s>"]
    for suffix in ("svg", "png", "pdf"):
        path = tmp_path / f"picture.{suffix}"
        drawn = draw_matrices(path, {"$x$": uniform(4, 6)}, src, tgt, "\x07 $\\frac$ <i> 你好")
        assert path.stat().st_size > 1000
        assert "$" not in drawn.missing
    assert xml.etree.ElementTree.parse(tmp_path / "picture.svg").getroot().tag.endswith("svg")


@pytest.mark.parametrize("kind", ["cross", "encoder", "decoder"])
def test_each_kind_of_attention_stands_between_its_own_pieces(
    translator: Translator, tmp_path: Path, kind: Kind
) -> None:
    reading = read_attention(translator, "w7 the cat", "sat on")
    draw_attention(tmp_path / "drawn.svg", reading, kind, layer=1)
    columns, rows = {
        "cross": (reading.src_pieces, reading.written),
        "encoder": (reading.src_pieces, reading.src_pieces),
        "decoder": (["<s>", *reading.written[:-1]], reading.written),
    }[kind]
    weights = getattr(reading.weights, kind)
    assert weights[0].shape == (1, 4, len(rows), len(columns))
    title = "w7 the cat\nsat on"
    draw_matrices(tmp_path / "expected.svg", panels_of(weights, 1), columns, rows, title)
    assert (tmp_path / "drawn.svg").read_bytes() == (tmp_path / "expected.svg").read_bytes()


def test_the_same_weights_give_the_same_bytes(tmp_path: Path) -> None:
    for suffix in ("svg", "png", "pdf"):
        paths = [tmp_path / f"{name}.{suffix}" for name in "ab"]
        for path in paths:
            draw_matrices(path, {"": uniform()}, SRC, TGT, "title")
        assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("name", ["picture", "picture.gif", "picture.png.txt"])
def test_another_suffix_is_refused_and_the_possible_ones_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"\.png, \.svg, \.pdf"):
        draw_matrices(tmp_path / name, {"": uniform()}, SRC, TGT)
    assert list(tmp_path.iterdir()) == []


def test_a_sentence_too_long_to_read_is_refused_with_the_limit(tmp_path: Path) -> None:
    pieces = ["▁a"] * (MAX_PIECES + 1)
    with pytest.raises(ConfigError, match=str(MAX_PIECES)):
        draw_matrices(tmp_path / "a.png", {"": uniform(3, len(pieces))}, pieces, TGT)


def test_a_failed_write_leaves_the_old_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "picture.png"
    draw_matrices(path, {"": uniform()}, SRC, TGT)
    before = path.read_bytes()

    def disk_full(figure: Figure, stream: BinaryIO, **options: object) -> None:
        stream.write(before[:10])
        raise OSError("No space left on device")

    monkeypatch.setattr(Figure, "savefig", disk_full)
    with pytest.raises(OSError, match="No space"):
        draw_matrices(path, {"": uniform()}, SRC, TGT)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
