"""Rules for sentences of several clauses."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from data.grammar import english, german
from data.grammar.clauses import IT_ITSELF, any_tense, clause, description, negated, weather
from data.grammar.english import join
from data.grammar.questions import without
from data.grammar.speaker import Speaker
from data.grammar.statements import said
from data.grammar.trees import NP, Clause, NounPhrase, Pair, Relative, Tense, pronoun_for
from data.grammar.verbs import ACTIONS, ASKING, BE, DIRECT, KNOW, SAYING, TRYING, VERBS
from data.grammar.words import ME, THE, THIS, WE, Kind, Phrase, Pronoun, Verb

_DEEDS = tuple(verb for verb in ACTIONS if verb.objects)
_GOING = tuple(verb for verb in VERBS if verb.place == "to!")
_ABOUT_THINGS = tuple(verb for verb in DIRECT if verb.objects & Kind.GOODS and not verb.objects & Kind.PERSON)
# In the present, none of these has a closing verb that a relative clause would be in the way of.
_STATES = tuple(verb for verb in DIRECT if verb.stative and verb.subjects & Kind.PERSON)


@cache
def _with_object(kind: Kind) -> tuple[Verb, ...]:
    return tuple(verb for verb in DIRECT if verb.objects & kind)


@cache
def _with_subject(kind: Kind) -> tuple[Verb, ...]:
    return tuple(verb for verb in VERBS if verb.subjects & kind)


# Conjunction, tense of the main clause, tense of the subordinate clause.
_CONJUNCTIONS = (
    (0.2, (Phrase("because", "weil"), Tense.PRESENT, Tense.PRESENT)),
    (0.2, (Phrase("because", "weil"), Tense.PAST, Tense.PAST)),
    (0.1, (Phrase("although", "obwohl"), Tense.PRESENT, Tense.PRESENT)),
    (0.1, (Phrase("although", "obwohl"), Tense.PAST, Tense.PAST)),
    (0.2, (Phrase("if", "wenn"), Tense.FUTURE, Tense.PRESENT)),
    (0.2, (Phrase("when", "als"), Tense.PAST, Tense.PAST)),
    (0.1, (Phrase("while", "während"), Tense.PAST, Tense.PAST)),
    (0.1, (Phrase("before", "bevor"), Tense.PAST, Tense.PAST)),
)


def _short_clause(speaker: Speaker, tense: Tense) -> Clause:
    draw = speaker.weighted([(0.65, "clause"), (0.25, "description"), (0.1, "weather")])
    if draw == "weather":
        return weather(speaker, tense)
    if draw == "description":
        subject = speaker.subject(Kind.LIVING | Kind.GOODS, specific=True)
        return description(speaker, tense, subject=subject, plain=True)
    return clause(speaker, tense, plain=speaker.chance(0.5))


def subordinated(speaker: Speaker) -> Pair:
    """Because, although, if, when …: the subordinate clause after or before the main clause."""
    conjunction, main_tense, sub_tense = speaker.weighted(_CONJUNCTIONS)
    main = clause(speaker, main_tense, plain=True)
    of_time = conjunction.en in ("when", "while", "before")  # nobody sleeps before it does not rain
    sub = clause(speaker, sub_tense, plain=True) if of_time else _short_clause(speaker, sub_tense)
    return _joined(speaker, conjunction, main, sub)


def _joined(speaker: Speaker, conjunction: Phrase, main: Clause, sub: Clause, *, front: float = 0.4) -> Pair:
    en, de = f"{conjunction.en} {english.statement(sub)}", f"{conjunction.de} {german.subordinate(sub)}"
    if speaker.chance(front):
        return f"{en}, {english.statement(main)}", f"{de}, {german.verb_first(main)}"
    return f"{english.statement(main)} {en}", f"{german.main(main)}, {de}"


def taken_up(speaker: Speaker) -> Pair:
    """A pronoun takes up a noun, in German in the noun's gender: "the car is old, but it is beautiful"."""
    if speaker.chance(0.4):
        main = _about_a_thing(speaker)
        thing = main.object
    else:
        main = description(speaker, Tense.PRESENT, plain=True)
        thing = main.subject
    pronoun = pronoun_for(thing) if thing else None
    while thing is None or pronoun is None or isinstance(thing, Pronoun):
        main = description(speaker, Tense.PRESENT, plain=True)
        thing, pronoun = main.subject, pronoun_for(main.subject)
    kind = thing.noun.kind if isinstance(thing, NounPhrase) else Kind.PERSON
    tense = Tense.PAST if main.tense in (Tense.PAST, Tense.PERFECT) else Tense.PRESENT
    sub = description(speaker, tense, subject=pronoun, kind=kind, plain=True)
    if main.verb is BE or speaker.chance(0.3):
        return (
            f"{english.statement(main)}, but {english.statement(sub)}",
            f"{german.main(main)}, aber {german.main(sub)}",
        )
    return _joined(speaker, Phrase("because", "weil"), main, sub, front=0)


def _about_a_thing(speaker: Speaker) -> Clause:
    """I bought the coat: with a subject that "it" cannot mean."""
    verb = speaker.pick(_ABOUT_THINGS)
    thing = speaker.thing(verb.objects, speaker.pick((THE, THIS)))
    return Clause(speaker.pick((ME, WE, speaker.you)), verb, Tense.PAST, object=thing)


def coordinated(speaker: Speaker) -> Pair:
    """Two main clauses."""
    tense = any_tense(speaker)
    first, second = clause(speaker, tense, plain=True), _short_clause(speaker, tense)
    en, de = speaker.pick(((" and ", " und "), (", but ", ", aber ")))
    return english.statement(first) + en + english.statement(second), german.main(first) + de + german.main(second)


def reported(speaker: Speaker) -> Pair:
    """I believe that the dog is sleeping."""
    verb = speaker.pick(SAYING)
    frame = Clause(speaker.subject(Kind.PERSON, specific=True), verb)
    if verb.base in ("think", "believe") and speaker.chance(0.3):
        frame = negated(speaker, frame)
    content = _short_clause(speaker, any_tense(speaker))
    return (
        f"{english.statement(frame)} that {english.statement(content)}",
        f"{german.main(frame)}, dass {german.subordinate(content)}",
    )


def asked_indirectly(speaker: Speaker) -> Pair:
    """I do not know whether, where, when, why …"""
    verb = speaker.pick(ASKING)
    frame = Clause(speaker.subject(Kind.PERSON, specific=True), verb)
    if verb is KNOW:
        frame = negated(speaker, frame)
    elif verb.base == "forget":
        frame = replace(frame, tense=Tense.PERFECT)
    elif speaker.chance(0.4):
        frame = replace(frame, tense=Tense.PAST)
    content = clause(speaker, speaker.pick((Tense.PRESENT, Tense.PAST, Tense.FUTURE)), question=True)
    asked, content = (Phrase("whether", "ob"), content) if speaker.chance(0.4) else without(speaker, content)
    return (
        f"{english.statement(frame)} {asked.en} {english.statement(content)}",
        f"{german.main(frame)}, {asked.de} {german.subordinate(content)}",
    )


def infinitive(speaker: Speaker) -> Pair:
    """She tries to open the door; it is difficult to open the door."""
    if speaker.chance(0.3):
        adjective = speaker.pick(_JUDGEMENTS)
        frame = Clause(IT_ITSELF, BE, speaker.pick((Tense.PRESENT, Tense.PAST)), complement=adjective)
        subject: NP = IT_ITSELF
    else:
        verb = speaker.pick(TRYING)
        subject = speaker.subject(Kind.PERSON, specific=True)
        tense = speaker.pick((Tense.PRESENT, Tense.PAST, Tense.PERFECT))
        frame = Clause(subject, verb, tense)
    deed = clause(speaker, Tense.PAST, subject=subject, verbs=ACTIONS, plain=True)
    return _with_infinitive(frame, deed)


_JUDGEMENTS = (
    Phrase("important", "wichtig"),
    Phrase("difficult", "schwierig"),
    Phrase("dangerous", "gefährlich"),
    Phrase("easy", "einfach"),
    Phrase("boring", "langweilig"),
)


def _with_infinitive(frame: Clause, deed: Clause, en: str = "", de: str = "") -> Pair:
    return (
        join(english.statement(frame), en, english.infinitive(deed)),
        join(german.main(frame) + ",", de, german.infinitive(deed)),
    )


def purpose(speaker: Speaker) -> Pair:
    """He goes to the market in order to buy apples."""
    going = clause(speaker, subject=speaker.subject(Kind.PERSON), verbs=_GOING, plain=True)
    deed = clause(speaker, Tense.PAST, subject=going.subject, verbs=_DEEDS, plain=True)
    return _with_infinitive(going, deed, "in order", "um")


def relative_clause(speaker: Speaker) -> Pair:
    """The man who reads the book lives in the village; I know the man who reads the book."""
    if speaker.chance(0.5):
        verb = speaker.pick(_STATES)
        part = Clause(speaker.somebody(), verb, object=_with_relative(speaker, verb.objects))
    else:
        subject = _with_relative(speaker, Kind.LIVING)
        if speaker.chance(0.4):
            part = description(speaker, Tense.PRESENT, subject=subject, plain=True)
        else:
            verbs = _with_subject(subject.noun.kind)
            part = clause(speaker, Tense.PRESENT, subject=subject, verbs=verbs, plain=True)
    return said(part)


def _with_relative(speaker: Speaker, kinds: Kind) -> NounPhrase:
    np = speaker.thing(kinds)
    np = replace(np, owner=None, plural=not np.noun.mass and speaker.chance(0.3))
    words = "who whom" if np.noun.kind is Kind.PERSON else "that that"
    pronoun = Pronoun(f"{words} -", german.relative_pronoun(np), plural=np.plural)
    tense = speaker.pick((Tense.PRESENT, Tense.PAST))
    if not (np.noun.kind & Kind.PERSON) or speaker.chance(0.4):
        part = clause(speaker, tense, verbs=_with_object(np.noun.kind), plain=True)
        return replace(np, relative=Relative(replace(part, object=None), pronoun, of_object=True))
    part = clause(speaker, tense, subject=pronoun, verbs=_with_subject(np.noun.kind), plain=True)
    return replace(np, relative=Relative(part, pronoun, of_object=False))
