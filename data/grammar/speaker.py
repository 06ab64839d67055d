"""A speaker: the source of chance, who decides which people, things, places and times a sentence has."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from data.grammar import lexicon
from data.grammar.lexicon import ADJECTIVES, COLOURS, NOUNS
from data.grammar.numbers import clock_time, in_digits, in_words
from data.grammar.trees import NP, Adverbial, Both, NounPhrase, PrepositionalPhrase, Tense, person, pronoun_for
from data.grammar.words import (
    ACC,
    ALL_THE,
    BARE,
    DAT,
    EVERY,
    HE,
    MANY,
    ME,
    NAMES,
    NO,
    NOT_ANY,
    SHE,
    SOME,
    THE,
    THEY,
    THIS,
    WE,
    YOU,
    A,
    Adjective,
    Case,
    Determiner,
    Inflection,
    Kind,
    Noun,
    Phrase,
    Preposition,
    owned_by,
    possessive,
)

T = TypeVar("T")

_SPOTS = (("on", "auf"), ("under", "unter"), ("behind", "hinter"), ("next to", "neben"), ("in front of", "vor"))
_FIRST_NAMES = NAMES[:6]


@cache
def nouns_of(kinds: Kind) -> tuple[Noun, ...]:
    """The nouns of any of these kinds."""
    return tuple(noun for noun in NOUNS if noun.kind & kinds)


@cache
def adjectives_of(kinds: Kind) -> tuple[Adjective, ...]:
    """The adjectives that suit a noun of these kinds."""
    return tuple(adjective for adjective in (*ADJECTIVES, *COLOURS) if adjective.kinds & kinds)


def numeral(number: Phrase) -> Determiner:
    """A number above one, as a determiner of plural nouns."""
    return Determiner(number.en, number.en, number.de, Inflection.NONE)


class Speaker:
    """Chance, and whom the sentence is addressed to: `you` is the pronoun that "you" means in German."""

    def __init__(self, seed: int) -> None:
        # Only random() promises the same numbers in every Python version; everything else is derived from it here.
        self._random = random.Random(seed).random
        self.you = YOU

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self._random() * (high - low + 1))

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[int(self._random() * len(options))]

    def weighted(self, options: Sequence[tuple[float, T]]) -> T:
        """One of the options (weight, option)."""
        point = self._random() * sum(weight for weight, _ in options)
        for weight, option in options:
            point -= weight
            if point < 0:
                return option
        return options[-1][1]

    # --- People and things ---

    def subject(self, kinds: Kind, *, specific: bool = False) -> NP:
        """Somebody or something that does something; `specific` leaves out every, many, no …"""
        if Kind.PERSON & kinds:
            if self.chance(0.4):
                return self.pick((ME, self.you, HE, SHE, WE, THEY))
            if self.chance(0.2):
                return self.pick(NAMES)
            if self.chance(0.05):
                relative = NounPhrase(self.pick(nouns_of(Kind.PERSON)), self._possessive(None))
                return Both(self.pick(_FIRST_NAMES), relative)
        noun, plural = self._noun(kinds)
        options = [(0.5, THE), (0.2, self._possessive(None)), (0.08, THIS)]
        if not specific and not noun.mass:
            options += (
                [(0.15, BARE), (0.04, MANY), (0.04, SOME), (0.03, ALL_THE), (0.04, self._small_numeral())]
                if plural
                else [(0.15, A), (0.03, EVERY), (0.02, NO), (0.03, owned_by(self.pick(NAMES)))]
            )
        return self._noun_phrase(noun, plural, self.weighted(options))

    def object(self, kinds: Kind, subject: NP, *, negated: bool = False, specific: bool = False) -> NP:
        """Somebody or something to which the subject does something; `specific` leaves out "a", "some", "every" …"""
        if Kind.PERSON & kinds and self.chance(0.3):
            return self.other_person(subject)
        noun, plural = self._noun(kinds)
        while isinstance(subject, NounPhrase) and subject.noun == noun:
            noun, plural = self._noun(kinds)
        options = [(0.4, THE), (0.2, self._possessive(subject)), (0.07, THIS)]
        if not specific and negated:
            options.append((0.4, NOT_ANY))
        elif not specific and noun.mass:
            options.append((1.0, BARE))
        elif not specific and plural:
            options += [(0.25, BARE), (0.1, self._small_numeral()), (0.05, MANY), (0.05, SOME), (0.03, ALL_THE)]
        elif not specific:
            options += [(0.3, A), (0.03, EVERY), (0.03, owned_by(self.pick(NAMES)))]
        return self._noun_phrase(noun, plural, self.weighted(options))

    def somebody(self) -> NP:
        """A personal pronoun or a name."""
        options: list[NP] = [ME, self.you, HE, SHE, WE, THEY, *NAMES]
        return self.pick(options)

    def other_person(self, subject: NP) -> NP:
        """A name or pronoun for somebody who is not the subject."""
        if self.chance(0.3):
            return self.pick([name for name in NAMES if name != subject])
        taken = {1: (ME, WE), 2: (self.you,), 3: (subject,)}[person(subject)[0]]
        return self.pick([other for other in (ME, self.you, HE, SHE, WE, THEY) if other not in taken])

    def thing(self, kinds: Kind, determiner: Determiner = THE) -> NounPhrase:
        """A noun phrase in the singular with this determiner."""
        return self._noun_phrase(self.pick(nouns_of(kinds)), False, determiner)

    def adjectives(self, noun: Noun, probability: float = 0.36) -> tuple[Adjective, ...]:
        """None, one or sometimes two adjectives that suit a noun; colours come last."""
        if not self.chance(probability):
            return ()
        first = self.pick(adjectives_of(noun.kind))
        if noun.kind & COLOURS[0].kinds and first not in COLOURS and self.chance(0.2):
            return first, self.pick(COLOURS)
        return (first,)

    def _noun(self, kinds: Kind) -> tuple[Noun, bool]:
        noun = self.pick(nouns_of(kinds))
        return noun, not noun.mass and self.chance(0.3)

    def _noun_phrase(self, noun: Noun, plural: bool, determiner: Determiner) -> NounPhrase:
        owner = None
        if determiner == THE and self.chance(0.08):
            owning = self.pick(nouns_of(Kind.PERSON))
            owner = NounPhrase(owning, THE, adjectives=self.adjectives(owning))
        return NounPhrase(noun, determiner, plural, self.adjectives(noun), owner)

    def _possessive(self, subject: NP | None) -> Determiner:
        """The subject's own or anybody's."""
        own = pronoun_for(subject) if subject else None
        if own and own.possessive and self.chance(0.65):
            return possessive(own)
        return possessive(self.pick((ME, self.you, HE, SHE, WE, THEY)))

    def _small_numeral(self) -> Determiner:
        return numeral(in_words(self.number(2, 12)))

    # --- Places ---

    def location(self) -> Adverbial:
        """Where something happens."""
        if self.chance(0.25):
            return self.pick(lexicon.LOCATIONS)
        noun = self.pick(nouns_of(Kind.PLACE))
        assert noun.at is not None
        return PrepositionalPhrase(noun.at, self._place(noun))

    def goal(self, *, far: bool = False) -> Adverbial:
        """Where somebody goes; `far` is another town or country."""
        if far:
            return self.pick(lexicon.FAR_GOALS)
        if self.chance(0.25):
            return self.pick((*lexicon.FAR_GOALS, lexicon.HOMEWARD))
        noun = self.pick(nouns_of(Kind.PLACE))
        assert noun.at is not None
        de, case = ("zu", DAT) if noun.at.de == "an" else (noun.at.de, ACC)
        return PrepositionalPhrase(Preposition("to", de, case), self._place(noun))

    def spot(self, case: Case) -> Adverbial:
        """On, under, behind … a piece of furniture: dative where something is, accusative where it is put."""
        return PrepositionalPhrase(Preposition(*self.pick(_SPOTS), case), self.thing(Kind.FURNITURE))

    def _place(self, noun: Noun) -> NounPhrase:
        determiner = self.weighted([(0.85, THE), (0.15, self._possessive(None))])
        return NounPhrase(noun, determiner, adjectives=self.adjectives(noun, 0.2))

    # --- Times ---

    def time(self, tense: Tense) -> Phrase:
        """When something happened, happens or will happen."""
        match tense:
            case Tense.PROGRESSIVE:
                return self.pick(lexicon.PRESENT_TIMES)
            case Tense.PRESENT:
                return self.weighted([(0.7, self.pick(lexicon.HABITS)), (0.3, self._on_the_clock())])
            case Tense.FUTURE:
                unit = self.pick(lexicon.UNITS)
                count = in_words(self.number(2, 12))
                distance = Phrase(f"in {count.en} {unit.en}", f"in {count.de} {unit.de}")
                relative, special = lexicon.FUTURE_TIMES, distance
            case _:
                unit = self.pick(lexicon.UNITS)
                count = in_words(self.number(2, 12))
                ago = Phrase(f"{count.en} {unit.en} ago", f"vor {count.de} {unit.de}")
                year = self.number(1900, 2030)
                relative = lexicon.PAST_TIMES
                special = self.weighted([(0.6, ago), (0.4, Phrase(f"in {year}", f"im Jahr {year}"))])
        return self.weighted(
            [
                (0.4, self.pick(relative)),
                (0.15, self.pick(lexicon.DAYS)),
                (0.1, self.pick(lexicon.MONTHS)),
                (0.15, special),
                (0.2, self._on_the_clock()),
            ]
        )

    def clock(self) -> Phrase:
        """A time of day, mostly as it is spoken."""
        if self.chance(0.2):
            digital = f"{self.number(1, 23)}:{self.number(0, 59):02}"
            return Phrase(digital, f"{digital} Uhr")
        return clock_time(self.number(1, 12), 5 * self.number(0, 11))

    def _on_the_clock(self) -> Phrase:
        clock = self.clock()
        day = self.pick(lexicon.DAYS) if self.chance(0.2) else Phrase("", "")
        return Phrase(f"{day.en} at {clock.en}".strip(), f"{day.de} um {clock.de}".strip())

    # --- Numbers ---

    def big_number(self) -> Phrase:
        """A number from 2 to 9,999 that may stand before a plural noun (not 101, 201, …), in words or digits."""
        high = self.weighted([(0.5, 99), (0.25, 999), (0.25, 9_999)])
        number = self.number(2, high)
        while number % 100 == 1:
            number = self.number(2, high)
        return self.weighted([(0.6, in_words(number)), (0.4, in_digits(number))])
