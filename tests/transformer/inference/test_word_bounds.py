"""Words of any script: where they begin and end."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.inference.word_bounds import KATAKANA, SIGN, SPACED, UNSPACED, is_unspaced, occurs, trim_signs, words

texts = st.text(
    st.sampled_from("aB1é_-.'( \t\u0301\u0e01\u0e31中文テスのー・が안\u200d😀") | st.characters(codec="utf-8")
)


def parts(text: str) -> list[str]:
    return [text[begin:end] for begin, end, _ in words(text)]


@given(texts)
def test_all_but_white_space_is_part_of_exactly_one_word(text: str) -> None:
    assert "".join(parts(text)) == "".join(text.split())


@given(texts)
def test_no_two_words_of_letters_touch(text: str) -> None:
    found = list(words(text))
    for (_, end, kind), (begin, _, following) in pairwise(found):
        assert end < begin or not (kind == following and kind in (SPACED, KATAKANA))


@given(texts)
def test_letters_digits_and_marks_are_words_and_nothing_else(text: str) -> None:
    for begin, end, kind in words(text):
        categories = {unicodedata.category(character)[0] for character in text[begin:end]}
        if kind in (SPACED, UNSPACED):
            assert categories <= set("LMN")
        elif kind == SIGN:
            assert end == begin + 1
            assert not categories & set("LN")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("C++11, isn't it?", ["C", "+", "+", "11", ",", "isn", "'", "t", "it", "?"]),
        ("snake_case", ["snake", "_", "case"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),  # vowel signs are marks
        ("e\u0301te\u0301", ["e\u0301te\u0301"]),
        ("機械翻訳モデルの", ["機", "械", "翻", "訳", "モデル", "の"]),
        ("コンピューター・テスト", ["コンピューター", "・", "テスト"]),
        ("กำลัง", ["กำ", "ลั", "ง"] if unicodedata.category("ำ") == "Mn" else ["ก", "ำ", "ลั", "ง"]),
        ("GPUは速い", ["GPU", "は", "速", "い"]),
        ("한국어 단어", ["한국어", "단어"]),
    ],
)
def test_each_script_has_its_own_words(text: str, expected: list[str]) -> None:
    assert parts(text) == expected


@pytest.mark.parametrize(
    ("phrase", "text", "expected"),
    [
        ("in", "Berlin", False),
        ("in", "in Berlin", True),
        ("in", "Berlin, in Mitte", True),
        ("aa", "aaa aa", True),
        ("テスト", "コンテスト", False),
        ("テスト", "このテストは", True),
        ("机器", "用机器翻译", True),
        ("x", "", False),
    ],
)
def test_a_phrase_occurs_only_as_whole_words(phrase: str, text: str, expected: bool) -> None:
    assert occurs(phrase, text) is expected


@given(st.text(st.sampled_from("ab -é"), min_size=1, max_size=3), st.text(st.sampled_from("ab -é")))
def test_occurrences_are_those_of_brute_force(phrase: str, text: str) -> None:
    def is_letter(place: int) -> bool:
        return 0 <= place < len(text) and text[place].isalpha()

    found = any(
        text[place : place + len(phrase)] == phrase
        and not (is_letter(place - 1) and is_letter(place))
        and not (is_letter(place + len(phrase) - 1) and is_letter(place + len(phrase)))
        # neither end may be in the middle of white space, which belongs to no word
        and not phrase[0].isspace()
        and not phrase[-1].isspace()
        for place in range(len(text))
    )
    if phrase.strip() == phrase:
        assert occurs(phrase, text) is found


def test_signs_are_trimmed_from_the_ends_only() -> None:
    assert trim_signs("(O'Brien),") == "O'Brien"
    assert trim_signs("...") == "..."
    assert is_unspaced("見る")
    assert not is_unspaced("see 안녕")
