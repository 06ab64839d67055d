"""Pictures for pages: the right share in the right place, safe beside any text, right on any background."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch

from transformer.errors import ConfigError
from transformer.evaluation.attention_reading import MAX_PIECES, read_attention
from transformer.evaluation.attention_svg import CELL, cross_attention_svg, matrix_svg
from transformer.inference.translator import Translator

SVG = "{http://www.w3.org/2000/svg}"
SENTENCE = "w7 the cat sat"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_each_share_is_an_opacity_in_the_row_of_its_target_and_the_column_of_its_source() -> None:
    torch.manual_seed(0)
    weights = torch.rand(3, 4) + 0.1
    root = ElementTree.fromstring(matrix_svg(weights, ["▁a", "b", "▁c", "</s>"], ["▁x", "▁y", "</s>"], ""))
    cells = list(root.iter(f"{SVG}rect"))
    corner = min((float(cell.get("x", "")), float(cell.get("y", ""))) for cell in cells)
    drawn = torch.zeros(3, 4)
    for cell in cells:
        column, row = (round((float(cell.get(axis, "")) - corner[i]) / CELL) for i, axis in enumerate("xy"))
        drawn[row, column] = float(cell.get("fill-opacity", ""))
    torch.testing.assert_close(drawn, weights / weights.max(), atol=0.006, rtol=0)


def test_it_is_the_mean_of_all_layers_and_heads_between_the_pieces(translator: Translator) -> None:
    svg = cross_attention_svg(translator, SENTENCE)
    reading = read_attention(translator, SENTENCE, translator.translate([SENTENCE])[0])
    mean = sum(layer[0, head] for layer in reading.weights.cross for head in range(4)) / 12
    assert svg == matrix_svg(mean, reading.src_pieces, reading.written, f"{SENTENCE} → {reading.translation}")
    assert len(texts(svg)) == sum(mean.shape)


def test_a_given_translation_is_drawn_instead(translator: Translator) -> None:
    assert {"mat", "⟨end⟩"} < set(texts(cross_attention_svg(translator, SENTENCE, "the mat")))


def test_any_text_is_only_text_and_two_pictures_share_no_name(translator: Translator) -> None:
    svg = cross_attention_svg(translator, 'w1 </svg><script>alert("&")</script> \x01\u2028 你好', "<b> & 'co' \x07")
    root = ElementTree.fromstring(svg)
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags == {"svg", "g", "path", "rect", "text", "title"}
    assert not any(name in element.attrib for element in root.iter() for name in ("id", "class", "style"))


def test_its_ink_is_that_of_the_page(translator: Translator) -> None:
    root = ElementTree.fromstring(cross_attention_svg(translator, SENTENCE))
    assert {element.get("fill") for element in root.iter(f"{SVG}text")} == {"currentColor"}
    assert {element.get("stroke") for element in root.iter(f"{SVG}path")} == {"currentColor"}
    assert not any(element.get("width") == root.get("width") for element in root.iter(f"{SVG}rect"))  # no background


@pytest.mark.parametrize(
    ("sentence", "translation", "words"),
    [
        (" \u200b", None, "the sentence is blank"),
        (SENTENCE, " ", "the translation is blank"),
        ("cat " * (MAX_PIECES + 1), None, f"at most {MAX_PIECES}"),
        (SENTENCE, "cat " * (MAX_PIECES + 1), f"the translation has {MAX_PIECES + 1} pieces"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    translator: Translator, sentence: str, translation: str | None, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        cross_attention_svg(translator, sentence, translation)
