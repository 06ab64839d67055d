"""Sentences before either language says them: noun phrases, adverbials and clauses as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from data.grammar.words import (
    HE,
    IT,
    SHE,
    THE,
    THEY,
    Adjective,
    Determiner,
    Kind,
    Modal,
    Name,
    Noun,
    Phrase,
    Preposition,
    Pronoun,
    Verb,
)


@dataclass(frozen=True)
class NounPhrase:
    """A noun with what belongs to it: "the old dog of the neighbour that the cat sees"."""

    noun: Noun
    determiner: Determiner = THE
    plural: bool = False
    adjectives: tuple[Adjective, ...] = ()
    owner: NounPhrase | None = None  # English "the neighbour's dog", German "der Hund des Nachbarn"
    relative: Relative | None = None

    @property
    def gender(self) -> str:
        """The column of the declension tables: m, f, n, or pl."""
        return "pl" if self.plural else self.noun.gender


@dataclass(frozen=True)
class Both:
    """Two noun phrases joined by "and"."""

    first: NounPhrase | Name
    second: NounPhrase | Name


NP = Pronoun | Name | NounPhrase | Both


@dataclass(frozen=True)
class PrepositionalPhrase:
    """A preposition with its noun phrase."""

    preposition: Preposition
    object: NP


Adverbial = Phrase | PrepositionalPhrase
Pair = tuple[str, str]  # English, German


class Tense(Enum):
    """Tenses as English distinguishes them; German has one present, and one spoken past for PAST and PERFECT."""

    PRESENT = auto()
    PROGRESSIVE = auto()
    PAST = auto()
    PERFECT = auto()
    FUTURE = auto()


@dataclass(frozen=True)
class Clause:
    """One verb with all that depends on it. Which slots may be filled is decided where clauses are drawn."""

    subject: NP
    verb: Verb
    tense: Tense = Tense.PRESENT
    modal: Modal | None = None
    object: NP | None = None
    recipient: NP | None = None  # German dative
    complement: Adverbial | NounPhrase | None = None  # what somebody is, or where something is put
    negated: bool = False
    short: bool = False  # English "doesn't" for "does not"
    gladly: bool = False  # English "likes to swim", German "schwimmt gern"
    frequency: Phrase | None = None
    time: Phrase | None = None
    manner: Phrase | None = None
    place: Adverbial | None = None
    company: PrepositionalPhrase | None = None  # with, without or for somebody


@dataclass(frozen=True)
class Relative:
    """A relative clause whose pronoun is the clause's subject or, if `of_object`, its object (left out of `clause`)."""

    clause: Clause
    pronoun: Pronoun
    of_object: bool


def person(np: NP) -> tuple[int, bool]:
    """Person (1 to 3) and whether plural, as verbs agree with it; polite "Sie" is a plural, which suits "you", too."""
    match np:
        case Pronoun():
            return np.person, np.plural
        case NounPhrase():
            return 3, np.plural
        case Name():
            return 3, False
        case Both():
            return 3, True


def pronoun_for(np: NP) -> Pronoun | None:
    """The pronoun that takes up a noun phrase, or None where the two languages would not agree (girl: das Mädchen)."""
    match np:
        case Pronoun():
            return np
        case Name():
            return np.pronoun
        case Both():
            return THEY
        case NounPhrase(noun=noun):
            if np.plural:
                return THEY
            if noun.kind is not Kind.PERSON:
                return IT[noun.gender]
            return {"m": HE, "f": SHE, "n": None}[noun.gender]
