"""Rules for questions."""

from __future__ import annotations

from dataclasses import replace

from data.grammar import english, german
from data.grammar.clauses import clause, description
from data.grammar.speaker import Speaker, nouns_of
from data.grammar.statements import said
from data.grammar.trees import NP, Clause, NounPhrase, Pair, Tense
from data.grammar.verbs import VERBS
from data.grammar.words import DAT, HOW_MANY, WHAT, WHICH, WHO, Kind, Phrase, Preposition, Verb

_HUMAN = tuple(verb for verb in VERBS if verb.subjects & Kind.PERSON)
_TRANSITIVE = tuple(verb for verb in VERBS if verb.objects and not verb.recipients)


def yes_no_question(speaker: Speaker) -> Pair:
    """Does the dog sleep?"""
    if speaker.chance(0.25):
        part = description(speaker, subject=speaker.subject(Kind.LIVING | Kind.GOODS, specific=True))
        part = replace(part, negated=False, short=False, frequency=None)
    else:
        part = clause(speaker, question=True)
    return english.question(part), german.verb_first(part)


def who_question(speaker: Speaker) -> Pair:
    """Who is sleeping?"""
    part = clause(speaker, subject=WHO, verbs=_HUMAN)
    return said(part)


def object_question(speaker: Speaker) -> Pair:
    """What does Anna buy, whom do you see, which dog do they feed, how many apples has he eaten?"""
    part = clause(speaker, question=True, verbs=_TRANSITIVE)
    verb = part.verb
    asked = _asked(speaker, verb)
    asked_de = (
        german.prepositional(Preposition("", verb.linker_de, verb.case), asked)
        if verb.linker_de
        else german.noun_phrase(asked, verb.case)
    )
    rest = replace(part, object=None)
    return english.question(rest, english.noun_phrase(asked)), german.main(rest, asked_de)


def _asked(speaker: Speaker, verb: Verb) -> NP:
    kinds = verb.objects
    if speaker.chance(0.5):
        noun = speaker.pick([noun for noun in nouns_of(kinds) if not noun.mass] or nouns_of(kinds))
        if noun.mass:
            return NounPhrase(noun, WHICH)
        determiner, plural = speaker.weighted([(0.4, (WHICH, False)), (0.2, (WHICH, True)), (0.4, (HOW_MANY, True))])
        return NounPhrase(noun, determiner, plural, speaker.adjectives(noun, 0.2))
    # With a preposition, German asks for things by another word (worauf), which is left out.
    return WHO if kinds & Kind.PERSON or verb.linker_de or verb.case is DAT else WHAT


def adverb_question(speaker: Speaker) -> Pair:
    """Where, where to, when, why?"""
    part = clause(speaker, question=True)
    asked, part = without(speaker, part)
    return english.question(part, asked.en), german.main(part, asked.de)


def without(speaker: Speaker, part: Clause) -> tuple[Phrase, Clause]:
    """A question word, and the clause without what it asks for."""
    if part.place and speaker.chance(0.7):
        to = part.verb.place in ("to!", "far!")
        return Phrase("where", "wohin" if to else "wo"), replace(part, place=None)
    if speaker.chance(0.6) and part.tense in (Tense.PAST, Tense.FUTURE):
        return Phrase("when", "wann"), replace(part, time=None, frequency=None)
    return Phrase("why", "warum"), part
