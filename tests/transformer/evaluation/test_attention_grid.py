"""Small multiples: a panel for each layer and head, in its row and column, with the weights of that head."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from transformer.errors import ConfigError
from transformer.evaluation.attention_grid import draw_every_head
from transformer.evaluation.attention_reading import AttentionReading, Kind, read_attention
from transformer.inference.translator import Translator

N_LAYERS, N_HEADS = {"cross": 3, "encoder": 1, "decoder": 3}, 4


@pytest.fixture
def reading(translator: Translator) -> AttentionReading:
    return read_attention(translator, "w7 the cat", "sat on the mat")


@pytest.mark.parametrize("kind", ["cross", "encoder", "decoder"])
def test_each_panel_shows_the_weights_of_its_layer_and_head(
    reading: AttentionReading, tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *args, **options: (figures.append(self), save(self, *args, **options))
    )
    assert draw_every_head(tmp_path / "grid.png", reading, kind).notes == []
    panels = [axes for axes in figures[0].axes if axes.yaxis_inverted()]
    assert len(panels) == N_LAYERS[kind] * N_HEADS
    lefts = sorted({round(axes.get_position().x0, 6) for axes in panels})
    tops = sorted({round(-axes.get_position().y1, 6) for axes in panels})
    assert (len(tops), len(lefts)) == (N_LAYERS[kind], N_HEADS)
    for axes in panels:
        layer, head = tops.index(round(-axes.get_position().y1, 6)), lefts.index(round(axes.get_position().x0, 6))
        assert (axes.collections[0].get_array() == reading.shares(kind).weights[layer][0, head].numpy()).all()


def test_pieces_are_named_once_per_row_and_once_per_column(reading: AttentionReading, tmp_path: Path) -> None:
    draw_every_head(tmp_path / "grid.svg", reading, "cross")
    text = (tmp_path / "grid.svg").read_text(encoding="utf-8")
    assert text.count("<!-- cat -->") == N_HEADS  # a piece of the source alone: along the top
    assert text.count("<!-- mat -->") == N_LAYERS["cross"]  # of the target alone: down the side
    for title in ("head 1", "head 4", "layer 1", "layer 3"):
        assert text.count(f"<!-- {title} -->") == 1


def test_in_a_long_sentence_some_pieces_are_named_and_it_is_said(translator: Translator, tmp_path: Path) -> None:
    reading = read_attention(translator, " ".join(["cat"] * 70), "mat")
    draw_every_head(tmp_path / "grid.svg", reading, "cross")
    text = (tmp_path / "grid.svg").read_text(encoding="utf-8")
    stride = next(n for n in range(1, 9) if f"one piece in {n} is named" in text)
    assert 1 < stride < 5
    assert text.count("<!-- cat -->") == math.ceil(70 / stride) * N_HEADS


def test_another_suffix_is_refused(reading: AttentionReading, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.png, \.svg, \.pdf"):
        draw_every_head(tmp_path / "grid.gif", reading, "cross")
