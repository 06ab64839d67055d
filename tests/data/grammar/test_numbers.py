"""Numbers and clock times against hand-written examples and readers that know nothing of how they were made."""

from __future__ import annotations

import re

import pytest

from data.grammar.numbers import clock_time, english_cardinal, german_cardinal, in_digits

CARDINALS = [
    (0, "zero", "null"),
    (1, "one", "eins"),
    (7, "seven", "sieben"),
    (12, "twelve", "zwölf"),
    (16, "sixteen", "sechzehn"),
    (17, "seventeen", "siebzehn"),
    (21, "twenty-one", "einundzwanzig"),
    (30, "thirty", "dreißig"),
    (66, "sixty-six", "sechsundsechzig"),
    (77, "seventy-seven", "siebenundsiebzig"),
    (100, "one hundred", "einhundert"),
    (101, "one hundred and one", "einhunderteins"),
    (116, "one hundred and sixteen", "einhundertsechzehn"),
    (321, "three hundred and twenty-one", "dreihunderteinundzwanzig"),
    (1000, "one thousand", "eintausend"),
    (1001, "one thousand and one", "eintausendeins"),
    (1987, "one thousand nine hundred and eighty-seven", "eintausendneunhundertsiebenundachtzig"),
    (6030, "six thousand and thirty", "sechstausenddreißig"),
    (9999, "nine thousand nine hundred and ninety-nine", "neuntausendneunhundertneunundneunzig"),
    (21_000, "twenty-one thousand", "einundzwanzigtausend"),
    (101_000, "one hundred and one thousand", "einhunderteintausend"),
]

# fmt: off
_ENGLISH = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}
_GERMAN_UNITS = {
    "ein": 1, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "sechs": 6, "sieben": 7, "acht": 8, "neun": 9,
}
_GERMAN_TEENS = {
    "zehn": 10, "elf": 11, "zwölf": 12, "dreizehn": 13, "vierzehn": 14, "fünfzehn": 15, "sechzehn": 16,
    "siebzehn": 17, "achtzehn": 18, "neunzehn": 19,
}
_GERMAN_TENS = {
    "zwanzig": 20, "dreißig": 30, "vierzig": 40, "fünfzig": 50, "sechzig": 60, "siebzig": 70, "achtzig": 80,
    "neunzig": 90,
}
# fmt: on


def english_value(words: str) -> int:
    total = 0
    for word in re.split("[ -]", words):
        if word == "thousand":
            total *= 1000
        elif word == "hundred":
            total += 99 * (total % 100)
        elif word != "and":
            total += _ENGLISH[word]
    return total


def german_value(word: str) -> int:
    if word == "null":
        return 0
    for name, size in (("tausend", 1000), ("hundert", 100)):
        if name in word:
            count, _, rest = word.partition(name)
            return german_value(count) * size + (german_value(rest) if rest else 0)
    if word == "eins":
        return 1
    small = _GERMAN_UNITS | _GERMAN_TEENS | _GERMAN_TENS
    if word in small:
        return small[word]
    unit, tens = word.split("und", 1)
    return _GERMAN_UNITS[unit] + _GERMAN_TENS[tens]


@pytest.mark.parametrize(("number", "english", "german"), CARDINALS)
def test_numbers_in_words_are_what_people_say(number: int, english: str, german: str) -> None:
    assert (english_cardinal(number), german_cardinal(number)) == (english, german)


def test_every_number_in_words_is_read_back_as_itself() -> None:
    for number in range(10_000):
        assert english_value(english_cardinal(number)) == number
        assert german_value(german_cardinal(number)) == number


@pytest.mark.parametrize("number", [-1, 1_000_000])
def test_numbers_without_words_are_refused_with_the_number(number: int) -> None:
    for cardinal in (english_cardinal, german_cardinal):
        with pytest.raises(ValueError, match=str(number)):
            cardinal(number)


@pytest.mark.parametrize(
    ("number", "english", "german"), [(7, "7", "7"), (999, "999", "999"), (1234, "1,234", "1.234")]
)
def test_digits_are_grouped_by_a_comma_in_english_and_a_full_stop_in_german(
    number: int, english: str, german: str
) -> None:
    assert (in_digits(number).en, in_digits(number).de) == (english, german)


CLOCK_TIMES = [
    (1, 0, "one o'clock", "ein Uhr"),
    (3, 0, "three o'clock", "drei Uhr"),
    (3, 5, "five past three", "fünf nach drei"),
    (1, 10, "ten past one", "zehn nach eins"),
    (4, 15, "quarter past four", "Viertel nach vier"),
    (4, 20, "twenty past four", "zwanzig nach vier"),
    (6, 25, "twenty-five past six", "fünf vor halb sieben"),
    (3, 30, "half past three", "halb vier"),
    (12, 30, "half past twelve", "halb eins"),
    (6, 35, "twenty-five to seven", "fünf nach halb sieben"),
    (7, 40, "twenty to eight", "zwanzig vor acht"),
    (8, 45, "quarter to nine", "Viertel vor neun"),
    (12, 45, "quarter to one", "Viertel vor eins"),
    (11, 50, "ten to twelve", "zehn vor zwölf"),
    (9, 55, "five to ten", "fünf vor zehn"),
]


@pytest.mark.parametrize(("hour", "minute", "english", "german"), CLOCK_TIMES)
def test_clock_times_are_what_people_say(hour: int, minute: int, english: str, german: str) -> None:
    time = clock_time(hour, minute)
    assert (time.en, time.de) == (english, german)


def test_no_two_clock_times_sound_alike() -> None:
    times = [clock_time(hour, minute) for hour in range(1, 13) for minute in range(0, 60, 5)]
    assert len({time.en for time in times}) == len({time.de for time in times}) == 144


@pytest.mark.parametrize(("hour", "minute"), [(0, 0), (13, 0), (3, 7), (3, 60)])
def test_clock_times_that_nobody_says_so_are_refused(hour: int, minute: int) -> None:
    with pytest.raises(ValueError, match=f"{hour}:{minute:02}"):
        clock_time(hour, minute)
