"""Flawed lines are named, sound ones are not, and what the source or a reference does is excused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.evaluation.flaws import Translated, find_flaws, loops

SRC = [
    "The old man is walking his two dogs in the park.",
    "A woman is reading a long book about the history of music.",
    "Linux 2.6.18",
    "",
    "Ha ha ha ha ha ha!",
]
SOUND = [
    "Der alte Mann geht mit seinen zwei Hunden im Park spazieren.",
    "Eine Frau liest ein langes Buch über die Geschichte der Musik.",
    "Linux 2.6.18",
    "",
    "Ha ha ha ha ha ha!",
]


def flaws_of(hypotheses: list[str], **changes: object) -> dict[str, list[int]]:
    given = {"src": SRC, "references": [SOUND], "finished": None, "src_lang": "en", "tgt_lang": "de"} | changes
    return find_flaws(Translated(hypotheses=hypotheses, **given))  # type: ignore[arg-type]


def with_line(number: int, text: str) -> list[str]:
    return [text if i == number else line for i, line in enumerate(SOUND, 1)]


def test_sound_lines_have_no_flaw() -> None:
    found = flaws_of(SOUND)
    assert list(found) == ["empty", "copied", "looping", "truncated", "wrong language"]
    assert not any(found.values())


@pytest.mark.parametrize(
    ("line", "text", "kinds"),
    [
        (1, "", ["empty"]),
        (1, " \u00a0 ", ["empty"]),
        (1, SRC[0], ["copied", "wrong language"]),
        (1, SRC[0].upper().replace(".", " !"), ["copied", "wrong language"]),
        (1, "Der Mann mit dem Hund dem Hund dem Hund dem Hund dem Hund im Park", ["looping"]),
        (1, "Ein Kopfsteinsteinsteinsteinpflaster, auf dem Hunde sind.", ["looping"]),
        (1, "Der alte Mann geht.", ["truncated"]),
        (2, "The woman with the book has always been there with her music.", ["wrong language"]),
        (3, "Linux ist alt", []),
        (4, "Hallo", []),
        (5, "Ha!", []),
    ],
)
def test_a_flawed_line_is_named_by_its_number(line: int, text: str, kinds: list[str]) -> None:
    found = flaws_of(with_line(line, text))
    assert {kind: numbers for kind, numbers in found.items() if numbers} == {kind: [line] for kind in kinds}


def test_what_the_search_did_not_finish_is_truncated() -> None:
    assert flaws_of(SOUND, finished=[True, True, False, True, True])["truncated"] == [3]


def test_any_of_several_references_excuses() -> None:
    short = with_line(1, "Der alte Mann geht.")
    assert flaws_of(short, references=[SOUND, short])["truncated"] == []
    copied = with_line(1, SRC[0])
    assert flaws_of(copied, references=[SOUND, copied])["copied"] == []


def test_what_cannot_be_looked_for_is_left_out() -> None:
    assert list(flaws_of(SOUND, src=None)) == ["empty", "looping", "truncated", "wrong language"]
    assert "wrong language" not in flaws_of(SOUND, tgt_lang="tlh")
    assert "wrong language" not in flaws_of(SOUND, tgt_lang="en-GB")
    assert flaws_of(with_line(1, ""), src=None)["empty"] == [1]


def test_chinese_characters_count_double_where_length_is_looked_at() -> None:
    reference = "我今天和我的朋友一起去公园里散步，看到了很多漂亮的花。"
    found = find_flaws(Translated(["A long sentence."], ["我去公园。"], [[reference]], None, "en", "zh"))
    assert found["truncated"] == [1]


@given(st.text("abc, ", min_size=1, max_size=60), st.integers(1, 7))
def test_a_loop_is_what_stands_four_times_in_a_row(unit: str, times: int) -> None:
    if 2 <= len(unit.strip()) == len(unit) and any(map(str.isalpha, unit)):
        assert loops(f"¿{unit * times}?") or times < 4


@pytest.mark.parametrize(
    "text", ["....................", "1 000 000 000 000", "— — — — — —", "very very very good", "aaa"]
)
def test_dots_numbers_and_threefold_words_are_no_loops(text: str) -> None:
    assert not loops(text)


def test_long_lines_take_no_time() -> None:
    assert not loops(" ".join(str(i * i) + "xyzäöü"[i % 6] for i in range(20_000)))


def test_references_of_real_corpora_have_hardly_any(corpora: Path) -> None:
    def lines(path: Path) -> list[str]:
        return gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]

    for folder, name, pair in (("multi30k", "test_2016_flickr", ("en", "fr")), ("tatoeba", "dev.en-de", ("en", "de"))):
        src, tgt = (lines(corpora / folder / f"{name}.{language}.gz") for language in pair)
        other = [line + " (ja)" for line in tgt]  # a reference that excuses nothing but its length
        found = find_flaws(Translated(src, tgt, [other], None, *pair))
        assert sum(map(len, found.values())) <= 0.002 * len(src), found
