"""Rules for prices, ages, quantities, sums and times of day."""

from __future__ import annotations

from dataclasses import replace

from data.grammar import english, german
from data.grammar.clauses import IT_ITSELF
from data.grammar.english import join
from data.grammar.numbers import in_digits, in_words
from data.grammar.speaker import Speaker, nouns_of, numeral
from data.grammar.statements import said, told
from data.grammar.trees import Clause, NounPhrase, Pair, Tense
from data.grammar.verbs import ARRIVE, BE, COST, LEAVE
from data.grammar.words import ACC, BARE, MANY, NO, A, Determiner, Kind, Phrase


def price(speaker: Speaker) -> Pair:
    """This coat costs three hundred and twenty-two euros."""
    number = speaker.big_number()
    subject = speaker.subject(COST.subjects, specific=True)
    part = Clause(subject, COST, complement=Phrase(f"{number.en} euros", f"{number.de} Euro"))
    return said(part)


def age(speaker: Speaker) -> Pair:
    """My aunt is eighty-four years old."""
    number = in_words(speaker.number(2, 99))
    subject = speaker.subject(Kind.LIVING | Kind.BUILDING | Kind.FURNITURE, specific=True)
    tense = speaker.weighted([(0.8, Tense.PRESENT), (0.2, Tense.PAST)])
    part = Clause(subject, BE, tense, complement=Phrase(f"{number.en} years old", f"{number.de} Jahre alt"))
    return said(part)


def existence(speaker: Speaker) -> Pair:
    """There are three hundred books in the library: "in der Bibliothek gibt es dreihundert Bücher"."""
    noun = speaker.pick(nouns_of(Kind.LIVING | Kind.OBJECT))
    plural = speaker.chance(0.6)
    determiner: Determiner = (
        speaker.weighted([(0.55, numeral(speaker.big_number())), (0.2, MANY), (0.15, BARE), (0.1, NO)])
        if plural
        else speaker.weighted([(0.8, A), (0.2, NO)])
    )
    np = NounPhrase(noun, determiner, plural, speaker.adjectives(noun))
    place = speaker.location()
    past = speaker.chance(0.25)
    be = ("were" if past else "are") if plural else ("was" if past else "is")
    return (
        join("there", be, english.noun_phrase(np), english.adverbial(place)),
        join(german.adverbial(place), "gab" if past else "gibt", "es", german.noun_phrase(np, ACC)),
    )


def arithmetic(speaker: Speaker) -> Pair:
    """Twenty-one plus four is twenty-five."""
    say = speaker.weighted([(0.8, in_words), (0.2, in_digits)])
    high = speaker.weighted([(0.7, 50), (0.2, 500), (0.1, 4_999)])
    first, second = speaker.number(1, high), speaker.number(1, high)
    if speaker.chance(0.5):
        sign, result = Phrase("plus", "plus"), first + second
    else:
        first, second = max(first, second), min(first, second)
        sign, result = Phrase("minus", "minus"), first - second
    a, b, c = say(first), say(second), say(result)
    return f"{a.en} {sign.en} {b.en} is {c.en}", f"{a.de} {sign.de} {b.de} ist {c.de}"


def time_of_day(speaker: Speaker) -> Pair:
    """It is half past three."""
    now = speaker.clock()
    tense = speaker.weighted([(0.7, Tense.PRESENT), (0.3, Tense.PAST)])
    part = Clause(IT_ITSELF, BE, tense, complement=now)
    if speaker.chance(0.3):
        part = replace(part, frequency=Phrase("already", "schon"))
    return said(part)


def timetable(speaker: Speaker) -> Pair:
    """The train leaves at quarter to nine."""
    tense = speaker.weighted([(0.5, Tense.PRESENT), (0.25, Tense.PAST), (0.25, Tense.FUTURE)])
    clock = speaker.clock()
    time = Phrase(f"at {clock.en}", f"um {clock.de}")
    place = speaker.location() if speaker.chance(0.4) else None
    verb = speaker.pick((LEAVE, ARRIVE))
    subject = speaker.subject(speaker.pick((Kind.TRANSPORT, Kind.PERSON)), specific=True)
    return told(speaker, Clause(subject, verb, tense, time=time, place=place if verb is ARRIVE else None))


def measure_question(speaker: Speaker) -> Pair:
    """How much does the coat cost, how old is your aunt?"""
    if speaker.chance(0.5):
        part = Clause(speaker.subject(COST.subjects, specific=True), COST)
        return english.question(part, "how much"), german.main(part, "wie viel")
    tense = speaker.weighted([(0.8, Tense.PRESENT), (0.2, Tense.PAST)])
    part = Clause(speaker.subject(Kind.LIVING | Kind.OBJECT, specific=True), BE, tense)
    return english.question(part, "how old"), german.main(part, "wie alt")
