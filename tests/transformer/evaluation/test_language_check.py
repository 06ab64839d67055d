"""A text in another language than expected, and tokenised text, are noticed; sound text is not."""

from __future__ import annotations

import pytest

from transformer.evaluation.language_check import doubts_about, seeming_language

TEXTS = {
    "en": ["The old man crossed the street.", "It was raining all day long.", "OK", "Nobody knew where the dog was."],
    "de": [
        "Der alte Mann ging über die Straße.",
        "Es regnete den ganzen Tag.",
        "OK",
        "Niemand wusste, wo der Hund war.",
    ],
    "fr": ["Le vieil homme traversa la rue.", "Il pleuvait toute la journée.", "OK", "Personne ne savait où il était."],
    "ru": ["Старик перешёл улицу.", "Весь день шёл дождь.", "OK", "Никто не знал, где собака."],
    "zh": ["老人过了马路。", "下了一整天的雨。", "OK", "没有人知道狗在哪里。"],
}


@pytest.mark.parametrize("expected", TEXTS)
@pytest.mark.parametrize("real", TEXTS)
def test_the_language_of_a_text_is_seen(real: str, expected: str) -> None:
    assert seeming_language(TEXTS[real] * 3, expected, "en") == (None if real == expected else real)


def test_where_nothing_can_be_told_nothing_is() -> None:
    assert seeming_language(TEXTS["fr"], "any", "en") is None
    assert seeming_language([], "de", "en") is None
    assert seeming_language(["", "...", "12 + 7"], "de", "en") is None
    assert seeming_language(TEXTS["de"], "de-AT", "en") is None
    assert seeming_language([f"w{i} w{i * i}" for i in range(100)], "en", "de") is None


def test_the_language_of_the_other_side_is_known_though_it_is_a_small_one() -> None:
    czech = ["Starý muž přešel ulici.", "Celý den pršelo.", "Nikdo nevěděl, kde je pes."]
    assert seeming_language(czech, "en", "cs") == "cs"


def test_tokenised_lines_are_seen_by_their_full_stops() -> None:
    tokenised = [line.replace(".", " .") for line in TEXTS["en"]]
    assert doubts_about("the lines", TEXTS["en"], "en", "de") == []
    [doubt] = doubts_about("the lines", tokenised, "en", "de")
    assert "tokenised" in doubt
