"""Labels of pieces: one each, readable, whatever the pieces spell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.vocabulary import Vocabulary
from transformer.evaluation.piece_labels import labels


def test_words_continuations_signs_and_ends_look_different() -> None:
    pieces = ["<s>", "▁the", "▁hou", "se", ".", "▁", "▁猫", "猫", "</s>"]
    assert labels(pieces) == ["⟨start⟩", "the", "hou", "-se", ".", "␣", "猫", "猫", "⟨end⟩"]


def test_bytes_are_named_after_the_character_that_they_spell() -> None:
    pieces = [f"<0x{byte:02X}>" for byte in "ß<你".encode()]
    assert labels(["▁a", *pieces, "b"]) == ["a", "ß 1/2", "ß 2/2", "<", "你 1/3", "你 2/3", "你 3/3", "-b"]


def test_bytes_that_spell_nothing_are_numbers() -> None:
    assert labels(["<0xC3>", "x", "<0xFF>", "<0x41>", "<0x0A>"]) == ["0xC3", "-x", "0xFF", "A", "U+000A"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary.learn(["a small text", "of few letters"], size=280)


@given(text=st.text(max_size=20))
def test_every_piece_of_any_text_has_a_printable_label(vocabulary: Vocabulary, text: str) -> None:
    pieces = vocabulary.pieces(vocabulary.encode([text])[0])
    found = labels(pieces)
    assert len(found) == len(pieces)
    assert all(label and label.isprintable() for label in found)
