"""Clauses drawn by a speaker: which verb, tense, objects and adverbials go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from data.grammar.lexicon import ALWAYS, DEGREES, FREQUENCIES, MANNERS, OFTEN
from data.grammar.speaker import Speaker, adjectives_of, nouns_of
from data.grammar.trees import NP, Clause, NounPhrase, PrepositionalPhrase, Tense, pronoun_for
from data.grammar.verbs import BE, RAIN, SNOW, VERBS
from data.grammar.words import (
    ACC,
    ALL_THE,
    CAN,
    DAT,
    EVERY,
    HAVE_TO,
    MANY,
    MAY,
    ME,
    MUST,
    MUST_NOT,
    NAMES,
    NO,
    NOT_ANY,
    SHE,
    SHOULD,
    SOME,
    WANT,
    WOULD_LIKE,
    A,
    Inflection,
    Kind,
    Modal,
    Phrase,
    Preposition,
    Pronoun,
    Verb,
    possessive,
)

_WITH = Preposition("with", "mit", DAT)
_WITHOUT = Preposition("without", "ohne", ACC)
_FOR = Preposition("for", "für", ACC)
_MADE_FOR_SOMEBODY = frozenset({"buy", "cook", "bake", "write", "build", "paint", "draw"})
_DONE_TOGETHER = frozenset({"work", "dance", "sing", "cook", "play", "pray", "hike", "swim", "live", "go", "travel"})
_MODALS = (CAN, WANT, HAVE_TO, SHOULD, WOULD_LIKE, MUST, MAY)
_ALREADY = Phrase("already", "schon")

IT_ITSELF = Pronoun("it it -", "es es -")  # stands for nothing: it is raining


# --- Tense, modal and negation --------------------------------------------------------------------------------------


def any_tense(speaker: Speaker) -> Tense:
    """A tense for a clause that stands alone."""
    return speaker.weighted([(0.4, Tense.PRESENT), (0.35, Tense.PAST), (0.1, Tense.PERFECT), (0.15, Tense.FUTURE)])


def negated(speaker: Speaker, part: Clause) -> Clause:
    """The same, negated, by "does not" or sometimes "doesn't"."""
    return replace(part, negated=True, short=speaker.chance(0.4))


def tense_of_now(verb: Verb, *, habit: bool = False) -> Tense:
    """The English present for a verb: simple for states and habits, else progressive."""
    simple = verb.stative or (habit and not verb.past_looks_present)
    return Tense.PRESENT if simple else Tense.PROGRESSIVE


def _modal(speaker: Speaker, tense: Tense, negated: bool) -> Modal:
    if tense is Tense.PAST:
        return speaker.pick((CAN, WANT, HAVE_TO))
    modals = (CAN, WANT, HAVE_TO, SHOULD, WOULD_LIKE, MUST_NOT) if negated else _MODALS
    return speaker.pick(modals)


# --- Clauses with a full verb ----------------------------------------------------------------------------------------


def clause(
    speaker: Speaker,
    tense: Tense | None = None,
    *,
    subject: NP | None = None,
    verbs: Sequence[Verb] = VERBS,
    plain: bool = False,
    question: bool = False,
) -> Clause:
    """A clause with a full verb.

    `plain` leaves out modals, negation and all adverbials but required ones; `question` leaves out negation and
    subjects that are hard to ask about (every dog, no child).
    """
    verb = speaker.pick(verbs)
    tense = tense or any_tense(speaker)
    if subject is None:
        subject = speaker.subject(verb.subjects, specific=question)
    if verb.stative and tense is Tense.PERFECT:
        tense = Tense.PAST
    result = Clause(subject, verb, tense)
    if not (plain or question or _quantified(subject)) and speaker.chance(0.22):
        result = negated(speaker, result)
    if not plain and tense in (Tense.PRESENT, Tense.PAST) and not verb.stative and speaker.chance(0.25):
        result = replace(result, modal=_modal(speaker, tense, result.negated))
    result = _with_objects(speaker, result)
    result = _with_place(speaker, result, plain)
    if not plain:
        result = _with_time(speaker, _with_manner_or_company(speaker, result))
    if question and result.frequency:
        result = replace(result, frequency=OFTEN)
    if result.tense is Tense.PRESENT and not result.modal:
        habit = bool(result.time or result.frequency) or (plain and speaker.chance(0.5))
        result = replace(result, tense=tense_of_now(verb, habit=habit))
    return result


def _quantified(np: NP | None) -> bool:
    """Whether negation would be ambiguous: "every child does not sleep"."""
    return isinstance(np, NounPhrase) and (
        np.determiner in (EVERY, NO, ALL_THE, MANY, SOME) or np.determiner.inflection is Inflection.NONE
    )


def _with_objects(speaker: Speaker, part: Clause) -> Clause:
    verb = part.verb
    if not verb.objects:
        return part
    thing = speaker.object(verb.objects, part.subject, negated=part.negated)
    if not verb.recipients:
        return replace(part, object=thing)
    recipient = speaker.object(verb.recipients, part.subject, specific=True)
    if not part.negated and speaker.chance(0.15):
        recipient = speaker.thing(verb.recipients, A)
    return replace(part, object=thing, recipient=recipient)


def _with_place(speaker: Speaker, part: Clause, plain: bool) -> Clause:
    match part.verb.place:
        case "at" if not plain and speaker.chance(0.3):
            return replace(part, place=speaker.location())
        case "at!":
            return replace(part, place=speaker.location())
        case "spot!":
            return replace(part, place=speaker.spot(DAT) if speaker.chance(0.5) else speaker.location())
        case "to!":
            return replace(part, place=speaker.goal())
        case "far!":
            return replace(part, place=speaker.goal(far=True))
    return part


def _with_manner_or_company(speaker: Speaker, part: Clause) -> Clause:
    verb = part.verb
    if verb.manner and speaker.chance(0.3):
        return replace(part, manner=speaker.pick(MANNERS[verb.manner]))
    if verb.base in _MADE_FOR_SOMEBODY and part.object and speaker.chance(0.15):
        preposition = _FOR
    elif verb.base in _DONE_TOGETHER and not part.object and speaker.chance(0.3):
        preposition = _WITH if part.negated or speaker.chance(0.75) else _WITHOUT
    else:
        return part
    somebody = speaker.object(Kind.PERSON, part.subject, specific=True)
    return replace(part, company=PrepositionalPhrase(preposition, somebody))


def _with_time(speaker: Speaker, part: Clause) -> Clause:
    """A time or a frequency, as they suit tense and negation (nothing happens "not every day")."""
    simple_present = part.tense is Tense.PRESENT and not part.modal
    if part.verb.stative and simple_present:
        return part
    may_repeat = not (part.negated or part.modal or part.tense is Tense.FUTURE or _quantified(part.object))
    if may_repeat and speaker.chance(0.15):
        frequency = _ALREADY if part.tense is Tense.PERFECT and speaker.chance(0.5) else speaker.pick(FREQUENCIES)
        if not (part.verb.past_looks_present and simple_present):
            return replace(part, frequency=frequency)
    if part.tense is Tense.PERFECT or not speaker.chance(0.5):
        return part
    if simple_present:
        habit = not part.negated and not part.verb.past_looks_present and speaker.chance(0.5)
        return replace(
            part,
            time=speaker.time(Tense.PRESENT if habit else Tense.PROGRESSIVE),
            tense=part.tense if habit else Tense.PROGRESSIVE,
        )
    return replace(part, time=speaker.time(Tense.FUTURE if part.modal and part.tense is Tense.PRESENT else part.tense))


# --- Clauses with "be" -----------------------------------------------------------------------------------------------


def description(
    speaker: Speaker,
    tense: Tense | None = None,
    *,
    subject: NP | None = None,
    kind: Kind | None = None,
    plain: bool = False,
) -> Clause:
    """Somebody or something is (not, very, often …) old; `kind` is the subject's kind if that is a pronoun."""
    tense = tense or speaker.weighted([(0.6, Tense.PRESENT), (0.3, Tense.PAST), (0.1, Tense.FUTURE)])
    if subject is None:
        subject = speaker.subject(Kind.GOODS | Kind.LIVING | Kind.SPACE | Kind.VEHICLE | Kind.EVENT)
    kind = kind or (subject.noun.kind if isinstance(subject, NounPhrase) else Kind.PERSON)
    adjective = speaker.pick(adjectives_of(kind))
    result = Clause(subject, BE, tense, complement=Phrase(adjective.en, adjective.de))
    if not _quantified(subject) and speaker.chance(0.25):
        return negated(speaker, result)
    if speaker.chance(0.3):
        degree = speaker.pick(DEGREES)
        return replace(result, complement=Phrase(f"{degree.en} {adjective.en}", f"{degree.de} {adjective.de}"))
    if not plain and tense is not Tense.FUTURE and speaker.chance(0.15):
        return replace(result, frequency=speaker.pick((ALWAYS, *FREQUENCIES)))
    return result


def weather(speaker: Speaker, tense: Tense | None = None) -> Clause:
    """It is raining, it was cold."""
    tense = tense or any_tense(speaker)
    if speaker.chance(0.5):
        cold = speaker.pick(
            (Phrase("cold", "kalt"), Phrase("warm", "warm"), Phrase("hot", "heiß"), Phrase("dark", "dunkel"))
        )
        return Clause(IT_ITSELF, BE, Tense.PAST if tense is Tense.PERFECT else tense, complement=cold)
    verb = speaker.pick((RAIN, SNOW))
    return Clause(IT_ITSELF, verb, tense_of_now(verb) if tense is Tense.PRESENT else tense)


def whereabouts(speaker: Speaker) -> Clause:
    """Somebody is somewhere."""
    tense = speaker.weighted([(0.6, Tense.PRESENT), (0.3, Tense.PAST), (0.1, Tense.FUTURE)])
    part = Clause(speaker.subject(Kind.LIVING, specific=True), BE, tense, place=speaker.location())
    return negated(speaker, part) if speaker.chance(0.2) else part


def nominal_predicate(speaker: Speaker) -> Clause:
    """Somebody is (not) a good cook; the noun has the subject's gender, as German has Kellner and Kellnerin."""
    subject: NP = speaker.pick(NAMES)
    if speaker.chance(0.5):
        subject = speaker.thing(Kind.PERSON, possessive(ME))
    female = subject.noun.gender == "f" if isinstance(subject, NounPhrase) else pronoun_for(subject) == SHE
    noun = speaker.pick([noun for noun in nouns_of(Kind.PERSON) if noun.gender == ("f" if female else "m")])
    predicate = NounPhrase(noun, A, adjectives=(speaker.pick(adjectives_of(Kind.PERSON)),))
    part = Clause(subject, BE, speaker.weighted([(0.75, Tense.PRESENT), (0.25, Tense.PAST)]), complement=predicate)
    if speaker.chance(0.25):
        return negated(speaker, replace(part, complement=replace(predicate, determiner=NOT_ANY)))
    return part
