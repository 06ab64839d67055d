"""Rules for single statements and requests."""

from __future__ import annotations

from dataclasses import replace

from data.grammar import english, german, lexicon
from data.grammar.clauses import clause, description, negated, nominal_predicate, weather, whereabouts
from data.grammar.english import join
from data.grammar.speaker import Speaker, adjectives_of
from data.grammar.trees import Clause, Pair, Tense
from data.grammar.verbs import ACTIONS, BE, DIRECT, LIE, PUT, VERBS
from data.grammar.words import ACC, BARE, DAT, NOM, THIS, Kind, Phrase

# fmt: off
_PASTIMES = frozenset({
    "read", "write", "eat", "drink", "cook", "bake", "buy", "draw", "paint", "sleep", "work", "dance", "sing", "play",
    "hike", "swim", "travel",
})
# fmt: on
_LIKED = tuple(verb for verb in VERBS if verb.base in _PASTIMES and not (verb.particle or verb.linker))


def said(part: Clause) -> Pair:
    """A clause as a main clause in the plain order."""
    return english.statement(part), german.main(part)


def statement(speaker: Speaker) -> Pair:
    """A main clause, sometimes with its time or place in front: "yesterday the dog slept"."""
    return told(speaker, clause(speaker))


def told(speaker: Speaker, part: Clause, front: float = 0.4) -> Pair:
    """A clause as a main clause, sometimes with its time or place in front."""
    if part.time and speaker.chance(front):
        rest = replace(part, time=None)
        return join(part.time.en, english.statement(rest)), german.main(rest, part.time.de)
    if part.place and part.verb.place == "at" and speaker.chance(0.3):
        rest = replace(part, place=None)
        en, de = english.adverbial(part.place), german.adverbial(part.place)
        return join(en, english.statement(rest)), german.main(rest, de)
    return said(part)


def object_first(speaker: Speaker) -> Pair:
    """The object in front: "this book Anna has read"."""
    verb = speaker.pick(DIRECT)
    part = replace(clause(speaker, subject=speaker.somebody(), verbs=(verb,), plain=True), object=None)
    topic = speaker.thing(verb.objects, THIS)
    return (
        join(english.noun_phrase(topic), english.statement(part)),
        german.main(part, german.noun_phrase(topic, verb.case)),
    )


def described(speaker: Speaker) -> Pair:
    """Somebody is old, a good cook, or somewhere."""
    draw = speaker.weighted([(0.6, description), (0.15, nominal_predicate), (0.25, whereabouts)])
    return told(speaker, draw(speaker))


def compared(speaker: Speaker) -> Pair:
    """Older than, or as old as, somebody else."""
    kinds = speaker.pick((Kind.PERSON, Kind.ANIMAL, Kind.CLOTHES, Kind.FURNITURE, Kind.VEHICLE, Kind.TEXT, Kind.THING))
    subject = speaker.subject(kinds, specific=True)
    other = speaker.object(kinds, subject, specific=True)
    adjective = speaker.pick([adjective for adjective in adjectives_of(kinds) if adjective.more])
    assert adjective.more is not None
    en, de = english.noun_phrase(other), german.noun_phrase(other, NOM)
    complement = speaker.weighted(
        [
            (0.6, Phrase(f"{adjective.more.en} than {en}", f"{adjective.more.de} als {de}")),
            (0.4, Phrase(f"as {adjective.en} as {en}", f"so {adjective.de} wie {de}")),
        ]
    )
    part = Clause(subject, BE, speaker.weighted([(0.8, Tense.PRESENT), (0.2, Tense.PAST)]), complement=complement)
    return said(negated(speaker, part) if speaker.chance(0.2) else part)


def liked(speaker: Speaker) -> Pair:
    """English "likes to read novels", German "liest gern Romane"."""
    part = clause(speaker, Tense.PAST, verbs=_LIKED, plain=True, question=True)
    part = replace(part, tense=Tense.PRESENT, gladly=True)
    if part.object:
        thing = speaker.thing(part.verb.objects, BARE)
        part = replace(part, object=replace(thing, plural=not thing.noun.mass))
    elif part.verb.place == "at" and speaker.chance(0.4):
        part = replace(part, place=speaker.location())
    return said(negated(speaker, part) if speaker.chance(0.2) else part)


def laid(speaker: Speaker) -> Pair:
    """Something lies somewhere (dative), or somebody puts it there (accusative)."""
    tense = speaker.weighted([(0.5, Tense.PROGRESSIVE), (0.3, Tense.PAST), (0.2, Tense.PERFECT)])
    if speaker.chance(0.5):
        tense = Tense.PAST if tense is Tense.PERFECT else tense
        subject = speaker.subject(LIE.subjects)
        return told(speaker, Clause(subject, LIE, tense, place=speaker.spot(DAT)))
    subject = speaker.subject(Kind.PERSON, specific=True)
    thing = speaker.object(PUT.objects, subject)
    part = Clause(subject, PUT, tense, object=thing, complement=speaker.spot(ACC))
    if speaker.chance(0.3) and tense is not Tense.PERFECT:
        part = replace(part, time=speaker.time(tense))
    return told(speaker, part)


def weather_report(speaker: Speaker) -> Pair:
    """It is raining in Berlin today."""
    part = weather(speaker)
    if part.tense is not Tense.PERFECT and speaker.chance(0.8):
        now = Tense.PROGRESSIVE if part.tense is Tense.PRESENT else part.tense
        part = replace(part, time=speaker.time(now))
    if part.verb is not BE and speaker.chance(0.6):
        part = replace(part, place=speaker.pick(lexicon.FAR_LOCATIONS))
    return told(speaker, part, front=1 if part.verb is BE else 0.4)


def request(speaker: Speaker) -> Pair:
    """Please open the door."""
    part = clause(speaker, Tense.PRESENT, subject=speaker.you, verbs=ACTIONS, plain=True)
    if speaker.chance(0.2):
        thing = speaker.object(part.verb.objects, speaker.you, specific=True) if part.object else None
        part = negated(speaker, replace(part, object=thing))
    return english.request(part), german.request(part, speaker.you)
