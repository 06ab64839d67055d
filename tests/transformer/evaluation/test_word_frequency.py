"""The rarest word of a line is found by counting the training text, whatever pieces it is cut into."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from data.prepared import IdSequences
from data.vocabulary import Vocabulary
from transformer.evaluation import word_frequency
from transformer.evaluation.word_frequency import rarest_words

TRAIN = ["the cat sat", "The dog sat, too!", "a cat-like dog (sat)", "the unbelievable bird", "", "猫 sat"] * 3
TRAIN += ["a  cat 狗狗, (the)dog\u00a0sat x ⁇", "\N{CUNEIFORM SIGN A} cat\u00adfish", ""]
LINES = [
    "The cat sat.",
    "the bird",
    "An elephant sat",
    "",
    "... !",
    "unbelievable SAT",
    "猫",
    "狗猫",
    "catfish",
    "x",
    "\N{CUNEIFORM SIGN A}",
]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary.learn(TRAIN, size=300)


def encoded(vocabulary: Vocabulary, lines: list[str]) -> IdSequences:
    ids = vocabulary.encode(lines)
    offsets = np.cumsum([0, *map(len, ids)], dtype=np.int64)
    return IdSequences(np.array([i for line in ids for i in line], np.uint16), offsets)


@pytest.mark.parametrize("at_once", [1, 4, 1000])
def test_times_are_those_of_a_plain_count(
    vocabulary: Vocabulary, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_frequency, "_AT_ONCE", at_once)

    def words(line: str) -> list[str]:
        return (
            "".join(c if c.isalnum() else " " for c in line.lower().replace("\u00ad", ""))
            .replace("猫", " 猫 ")
            .replace("狗", " 狗 ")
            .split()
        )

    counts = Counter(word for line in TRAIN for word in words(line))
    expected = [min((counts[word] for word in words(line)), default=-1) for line in LINES]
    assert rarest_words(LINES, encoded(vocabulary, TRAIN), vocabulary).tolist() == expected
    assert expected[:5] == [7, 3, 0, -1, -1]


def test_every_line_counts_and_no_line_end_joins_words(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_frequency, "_AT_ONCE", 5)
    train = encoded(vocabulary, [f"cat{' dog' * (i % 3 == 0)}" for i in range(12)] + ["", ""])
    assert rarest_words(["cat", "dog", "catcat", "dogcat"], train, vocabulary).tolist() == [12, 4, 0, 0]


def test_no_training_text_and_no_lines_are_no_error(vocabulary: Vocabulary) -> None:
    assert rarest_words([], encoded(vocabulary, TRAIN), vocabulary).tolist() == []
    assert rarest_words(["cat", ""], encoded(vocabulary, []), vocabulary).tolist() == [0, -1]
