from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.words import Words, words_of

ALPHABET = "aAbß1_ -.,'\t\u00a0\u00ad\u200b\u2028\u0301éÉﬁＡ한カ日本ไทย้\ud800😀İ"
text = st.text(ALPHABET, max_size=12) | st.text(st.characters(exclude_characters="\n"), max_size=12)
lines = st.lists(text, max_size=6)

SMALL = ((0x0E00, 0x0F00), (0x1000, 0x10A0), (0x1780, 0x1800), (0x3040, 0x3100), (0x31F0, 0x3200), (0x3400, 0x4DC0))
SMALL += ((0x4E00, 0xA000), (0xF900, 0xFB00), (0x20000, 0x40000))


def words_one_by_one(line: str) -> list[str]:
    """The definition, a character at a time."""
    words, within = [], False
    for character in unicodedata.normalize("NFKC", line).casefold():
        category, code = unicodedata.category(character), ord(character)
        if category == "Cf" and code < 0x3FFFF:
            continue
        is_letter = category[0] in "LMN" and code < 0x3FFFF
        is_small = is_letter and any(first <= code < end for first, end in SMALL)
        if is_letter and within and not is_small:
            words[-1] += character
        elif is_letter:
            words.append(character)
        within = is_letter and not is_small
    return words


def keys_of_each_line(words: Words) -> list[list[int]]:
    return [line.tolist() for line in np.split(words.keys, words.starts[1:-1])] if len(words.starts) > 1 else []


@given(lines)
def test_words_have_the_same_key_exactly_if_they_are_the_same(lines: list[str]) -> None:
    words = [word for line in lines for word in words_one_by_one(line)]
    keys = words_of(lines).keys.tolist()
    assert len(keys) == len(words)
    assert len(set(zip(keys, words, strict=True))) == len(set(keys)) == len(set(words))


@given(lines)
def test_each_line_has_the_words_it_has_alone(lines: list[str]) -> None:
    assert keys_of_each_line(words_of(lines)) == [words_of([line]).keys.tolist() for line in lines]


@given(lines)
def test_lines_have_the_same_key_exactly_if_their_words_are_the_same(lines: list[str]) -> None:
    sequences = [tuple(words_one_by_one(line)) for line in lines]
    keys = words_of(lines).line_keys().tolist()
    assert len(set(zip(keys, sequences, strict=True))) == len(set(keys)) == len(set(sequences))
    assert [key == 0 for key in keys] == [not words for words in sequences]


@given(st.lists(st.text("ab ", max_size=15), max_size=5), st.integers(1, 4))
def test_ngrams_are_the_runs_of_words_within_lines(lines: list[str], n: int) -> None:
    expected = [
        (tuple(words[at : at + n]), number)
        for number, words in enumerate(map(str.split, lines))
        for at in range(len(words) - n + 1)
    ]
    keys, found = words_of(lines).ngrams(n)
    assert found.tolist() == [number for _, number in expected]
    assert len(set(keys.tolist())) == len({ngram for ngram, _ in expected})
    assert len(set(zip(keys.tolist(), (ngram for ngram, _ in expected), strict=True))) == len(set(keys.tolist()))


@given(lines, st.data())
def test_lines_can_be_taken_and_cut(lines: list[str], data: st.DataObject) -> None:
    words, each = words_of(lines), keys_of_each_line(words_of(lines))
    wanted = data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=5)) if lines else []
    taken = words.take(np.array(wanted, np.int64))
    assert keys_of_each_line(taken) == [each[number] for number in wanted]
    assert keys_of_each_line(words.cut(2)) == [line[:2] for line in each]


def test_keys_are_the_same_on_every_machine() -> None:
    """They are saved: other keys need another format number in data/word_translation.py."""
    base, word = 0x9E3779B97F4A7C15, "hä"

    def mix(key: int) -> int:
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            key = (key ^ key >> shift) * factor % 2**64
        return key

    values = [mix((ord(letter) + 1) * base % 2**64) for letter in word]
    assert words_of([word]).keys.tolist() == [mix((values[0] + values[1] * base) % 2**64)]


@pytest.mark.parametrize(
    ("line", "n_words"), [("Tom's dog.", 3), ("我是日本人", 2.5), ("iPhone 在哪里", 2.5), ("…", 0)]
)
def test_characters_of_scripts_without_spaces_count_half(line: str, n_words: float) -> None:
    assert words_of([line]).n_words.tolist() == [n_words]
