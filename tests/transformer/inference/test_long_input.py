"""Lines too long for the network: cut where it hurts least, and nothing lost."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.vocabulary import Vocabulary
from transformer.inference.long_input import first_words, join, split, truncate

FILLER = [f"the cat number {i} sat on the mat, und die katze sass da; er kam. Sie ging!" for i in range(200)]

CountPieces = Callable[[list[str]], list[int]]


@pytest.fixture(scope="module")
def count_pieces() -> CountPieces:
    vocabulary = Vocabulary.learn(FILLER, size=400)
    return lambda texts: [len(ids) for ids in vocabulary.encode(texts)]


def count_words(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def count_characters(texts: list[str]) -> list[int]:
    return [len("".join(text.split())) for text in texts]


def check_parts(text: str, parts: list[str], count: CountPieces, limit: int) -> None:
    """Between the parts there is white space at most, and none is blank or too long."""
    at = 0
    for part in parts:
        assert part.strip()
        found = text.index(part, at)
        assert not text[at:found].strip()
        at = found + len(part)
    assert not text[at:].strip()
    assert all(n <= limit or len(part) == 1 for part, n in zip(parts, count(parts), strict=True))


texts = st.text(st.sampled_from("ab A.,;!\"') 。、「」中の\u0301\u200d🙂\u2003\x01½")) | st.text(
    st.characters(codec="utf-8")
)


@given(texts, st.integers(1, 12))
def test_parts_are_the_text_up_to_spaces_at_the_cuts(count_pieces: CountPieces, text: str, limit: int) -> None:
    check_parts(text, split(text, count_pieces, limit), count_pieces, limit)


def reference_parts(words: list[str], limit: int) -> list[str]:
    """The rule in other words, for ASCII words that each count 1: the last of the best ends among those that fit."""
    parts = []
    while len(words) > limit:
        ends = range(1, limit + 1)
        sentences = [n for n in ends if kind_of_end(words[n - 1], words[n]) == "sentence"]
        clauses = [n for n in ends if kind_of_end(words[n - 1], words[n]) == "clause" and n > limit / 2]
        n_words = (sentences or clauses or ends)[-1]
        parts.append(" ".join(words[:n_words]))
        words = words[n_words:]
    return [*parts, " ".join(words)] if words else parts


def kind_of_end(word: str, following: str) -> str:
    before, marks = re.fullmatch(r"(.*?)([.!,;]*)'*", word).groups()  # type: ignore[union-attr]
    if not marks or (marks[-1] == "." and re.search(r"(?<![aAb])[aAb]$", before)):
        return "none"
    return "clause" if marks[-1] in ",;" or following[0].islower() else "sentence"


@given(st.lists(st.text(st.sampled_from("ab.,;!A'"), min_size=1, max_size=4)), st.integers(1, 8))
def test_every_cut_is_at_the_last_of_the_best_places_that_fit(words: list[str], limit: int) -> None:
    assert split(" ".join(words), count_words, limit) == reference_parts(words, limit)


def test_cuts_are_where_sentences_end_then_clauses_then_words_then_anywhere() -> None:
    text = "Er kam nach Hause. Sie ging, weil es spät war; dann schlief das Kind."
    assert split(text, count_words, 20) == [text]
    assert split(text, count_words, 11) == ["Er kam nach Hause.", "Sie ging, weil es spät war; dann schlief das Kind."]
    assert split(text, count_words, 6)[1:] == ["Sie ging, weil es spät war;", "dann schlief das Kind."]
    assert split("eins zwei drei vier fünf", count_words, 2) == ["eins zwei", "drei vier", "fünf"]
    assert split("abcdefgh", count_characters, 3) == ["abc", "def", "gh"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("我来了。他走了。", ["我来了。", "他走了。"]),
        ("「好！」他说了。走吧。", ["「好！」", "他说了。", "走吧。"]),
        ("Was? Ja!", ["Was?", "Ja!"]),
        ("„Geh.“ Sie ging.", ["„Geh.“", "Sie", "ging."]),
        ("da (da, „da“), da", ["da (da,", "„da“),", "da"]),
    ],
)
def test_quotes_stay_with_their_sentence(text: str, parts: list[str]) -> None:
    assert split(text, count_characters, 6)[: len(parts)] == parts


@pytest.mark.parametrize("text", ["ein 3.14 und 10:30 Uhr", "von J. S. Bach und so", "so z. B. Das da hier"])
def test_a_full_stop_inside_a_sentence_does_not_end_it(text: str) -> None:
    n_words = len(text.split())
    assert split(text, count_words, n_words - 1) == [text.rsplit(" ", 1)[0], text.rsplit(" ", 1)[1]]


def test_a_clause_mark_counts_from_the_middle_on() -> None:
    assert split("Ja, a b c d e f", count_words, 6) == ["Ja, a b c d e", "f"]
    assert split("Ja ja ja ja, a b c d", count_words, 6) == ["Ja ja ja ja,", "a b c d"]


@given(st.lists(st.sampled_from(["e", "e\u0301", "e\u0301\u0308", "👩\u200d🚀"])).map("".join), st.integers(4, 9))
def test_a_letter_keeps_its_marks(text: str, limit: int) -> None:
    assert all(part[0] in "e👩" for part in split(text, count_characters, limit))


def test_blank_lines_have_no_parts() -> None:
    assert split("", count_words, 3) == split(" \t\u3000 ", count_words, 3) == []


def test_a_character_of_more_pieces_than_the_limit_stands_alone(count_pieces: CountPieces) -> None:
    assert split("🙂🙂", count_pieces, 2) == ["🙂", "🙂"]


@pytest.mark.parametrize(
    ("unit", "n"),
    [
        ("the cat sat on the mat. ", 1500),
        ("thecatsatonthemat", 20_000),
        ("中", 200_000),
        ("!", 400_000),
        (". ", 100_000),
        (" ", 1_000_000),
        ("a" + " " * 1000, 1000),
        ("\u0301", 200_000),
    ],
)
def test_time_grows_with_the_length_only(count_pieces: CountPieces, unit: str, n: int) -> None:
    seconds = []
    for length in (n // 8, n):
        text, begin = unit * length, time.perf_counter()
        parts = split(text, count_pieces, 200)
        seconds.append(time.perf_counter() - begin)
        check_parts(text, parts, count_pieces, 200)
    assert seconds[1] < 8 * 4 * seconds[0] + 0.5  # squared, it would be 64 times


@pytest.mark.parametrize("unit", ["thecatsatonthemat", "中の", "the cat sat. "])
def test_parts_are_nearly_full(count_pieces: CountPieces, unit: str) -> None:
    parts = split(unit * 3000, count_pieces, 100)
    counts = count_pieces(parts)
    assert min(counts[:-1]) >= 85


@given(st.lists(st.text(st.sampled_from("aB. 中。"))))
def test_joined_translations_hold_all_parts_in_order(parts: list[str]) -> None:
    joined = join(parts)
    assert joined.split() == joined.strip().split()
    assert "".join(joined.split()) == "".join("".join(parts).split())
    assert joined == joined.strip()


def test_a_space_is_put_between_parts_where_the_script_has_one() -> None:
    assert join(["Er kam.", "", " Sie ging. "]) == "Er kam. Sie ging."
    assert join(["他来了。", "GPU很快。"]) == "他来了。GPU很快。"
    assert join(["他来了", "然后走了"]) == "他来了然后走了"
    assert join(["그는 왔다.", "갔다."]) == "그는 왔다. 갔다."
    assert join([]) == join([" "]) == ""


@given(texts, st.integers(1, 12))
def test_parts_know_which_word_they_begin_in(text: str, limit: int) -> None:
    parts = split(text, count_characters, limit)
    words = [place for place, word in enumerate(text.split()) for _ in word]  # of every character
    n_before = 0
    for part, word in zip(parts, first_words(parts, text), strict=True):
        assert words[n_before] == word
        n_before += len("".join(part.split()))


@given(st.lists(st.text(st.sampled_from("aB. 中。"))))
def test_translations_know_which_word_they_begin_in(parts: list[str]) -> None:
    joined = join(parts)
    for part, word in zip(parts, first_words(parts, joined), strict=True):
        assert not part.strip() or joined.split()[word].find(part.split()[0]) >= 0


def test_truncating_keeps_the_beginning() -> None:
    assert truncate([7, 8, 9], 2) == [7, 8]
    assert truncate([7, 8, 9], 5) == [7, 8, 9]
