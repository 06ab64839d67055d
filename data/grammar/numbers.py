"""Cardinal numbers and clock times, in words, in both languages; German puts units before tens (einundzwanzig)."""

from __future__ import annotations

from data.grammar.words import Phrase

# fmt: off
_EN_SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]
_EN_TENS = ["", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_DE_SMALL = [
    "null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf",
    "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn",
]
_DE_TENS = ["", "zehn", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
# fmt: on


def _check(number: int) -> None:
    if not 0 <= number <= 999_999:
        raise ValueError(f"numbers in words go from 0 to 999,999, not {number}")


def english_cardinal(number: int) -> str:
    """A number from 0 to 999,999 in British English words ("three hundred and twenty-one").

    Raises:
        ValueError: for any other number.
    """
    _check(number)
    if number < 20:
        return _EN_SMALL[number]
    if number < 100:
        tens, unit = divmod(number, 10)
        return _EN_TENS[tens] + (f"-{_EN_SMALL[unit]}" if unit else "")
    name, size = ("thousand", 1000) if number >= 1000 else ("hundred", 100)
    count, rest = divmod(number, size)
    words = f"{english_cardinal(count)} {name}"
    if not rest:
        return words
    return f"{words} {'and ' if rest < 100 else ''}{english_cardinal(rest)}"


def german_cardinal(number: int) -> str:
    """A number from 0 to 999,999 in German, as it is counted ("dreihunderteinundzwanzig", "eins").

    Raises:
        ValueError: for any other number.
    """
    _check(number)
    if number < 20:
        return _DE_SMALL[number]
    if number < 100:
        tens, unit = divmod(number, 10)
        return (f"{_before_more(unit)}und" if unit else "") + _DE_TENS[tens]
    name, size = ("tausend", 1000) if number >= 1000 else ("hundert", 100)
    count, rest = divmod(number, size)
    return _before_more(count) + name + (german_cardinal(rest) if rest else "")


def _before_more(number: int) -> str:
    """The number as the beginning of a longer word, where eins becomes ein."""
    return german_cardinal(number).removesuffix("s") if number % 100 == 1 else german_cardinal(number)


def in_words(number: int) -> Phrase:
    """A number in words."""
    return Phrase(english_cardinal(number), german_cardinal(number))


def in_digits(number: int) -> Phrase:
    """A number in digits; thousands are set off by a comma in English, by a full stop in German."""
    return Phrase(f"{number:,}", f"{number:,}".replace(",", "."))


def clock_time(hour: int, minute: int) -> Phrase:
    """The time of day as it is spoken, for an hour from 1 to 12 and a minute divisible by 5.

    German counts from and towards the half hour: 3.25 is "fünf vor halb vier", 3.30 is "halb vier".

    Raises:
        ValueError: for any other hour or minute.
    """
    if not 1 <= hour <= 12 or minute not in range(0, 60, 5):
        raise ValueError(f"clock times have an hour from 1 to 12 and minutes in fives, not {hour}:{minute:02}")
    following = hour % 12 + 1
    if minute == 0:
        return Phrase(f"{english_cardinal(hour)} o'clock", f"{_before_more(hour)} Uhr")
    en_minute, de_minute = _minutes(min(minute, 60 - minute))
    en = (
        f"{en_minute} past {english_cardinal(hour)}"
        if minute <= 30
        else f"{en_minute} to {english_cardinal(following)}"
    )
    if minute in (5, 10, 15, 20):
        return Phrase(en, f"{de_minute} nach {german_cardinal(hour)}")
    if minute in (40, 45, 50, 55):
        return Phrase(en, f"{de_minute} vor {german_cardinal(following)}")
    relation = {25: "fünf vor ", 30: "", 35: "fünf nach "}[minute]
    return Phrase(en, f"{relation}halb {german_cardinal(following)}")


def _minutes(minutes: int) -> tuple[str, str]:
    named = {15: ("quarter", "Viertel"), 30: ("half", "halb")}
    return named.get(minutes, (english_cardinal(minutes), german_cardinal(minutes)))
