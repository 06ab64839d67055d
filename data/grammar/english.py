"""English: inflection of nouns and verbs, noun phrases and clauses, built from the trees."""

from __future__ import annotations

from data.grammar.trees import NP, Adverbial, Both, Clause, NounPhrase, PrepositionalPhrase, Relative, Tense, person
from data.grammar.words import ME, NOT_ANY, Name, Phrase, Pronoun, Verb

_DOUBLING = frozenset({"run", "sit", "get", "put", "cut", "forget", "swim", "begin", "plan", "travel"})
_SHORT = {"cannot": "can't", "will not": "won't"}


def join(*parts: str) -> str:
    """Words separated by single spaces; empty parts leave no trace, and a comma stands close to the word before it."""
    return " ".join(part for part in parts if part).replace(" ,", ",")


# --- Noun phrases ----------------------------------------------------------------------------------------------------


def noun_phrase(np: NP, *, is_object: bool = False) -> str:
    """A noun phrase as subject or object."""
    match np:
        case Pronoun():
            return np.en.split()[1 if is_object else 0]
        case Name():
            return np.en
        case Both():
            return join(noun_phrase(np.first), "and", noun_phrase(np.second))
        case NounPhrase():
            return _nominal(np)


def _nominal(np: NounPhrase) -> str:
    any_milk = np.noun.mass and np.determiner is NOT_ANY
    determiner = np.determiner.en_plural if np.plural or any_milk else np.determiner.en
    if np.owner:
        determiner = f"{noun_phrase(np.owner)}'s"  # owners are singular
    words = join(*(adjective.en for adjective in np.adjectives), np.noun.en_plural if np.plural else np.noun.en)
    if determiner == "a":
        determiner = _indefinite_article(words)
    return join(determiner, words, _relative(np.relative) if np.relative else "")


def _indefinite_article(words: str) -> str:
    return "an" if words[0] in "aeiou" or words.startswith("honest") else "a"


def _relative(relative: Relative) -> str:
    if relative.of_object:
        return join(noun_phrase(relative.pronoun, is_object=True), statement(relative.clause))
    return statement(relative.clause)


def adverbial(phrase: Adverbial | None) -> str:
    """An adverb or prepositional phrase, or nothing."""
    match phrase:
        case None:
            return ""
        case Phrase():
            return phrase.en
        case PrepositionalPhrase():
            return join(phrase.preposition.en, noun_phrase(phrase.object, is_object=True))


# --- Verbs -----------------------------------------------------------------------------------------------------------


def third_person(base: str) -> str:
    """The present of he, she and it."""
    if base in ("be", "have"):
        return {"be": "is", "have": "has"}[base]
    if base.endswith(("s", "sh", "ch", "x", "z", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def ing_form(base: str) -> str:
    """The present participle."""
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith("ee") and base != "be":
        return base[:-1] + "ing"
    return base + (base[-1] if base in _DOUBLING else "") + "ing"


def _agreeing(subject: NP, first: str, third: str, other: str) -> str:
    number, plural = person(subject)
    if subject == ME:
        return first
    return third if number == 3 and not plural else other


def _be(subject: NP, past: bool) -> str:
    return _agreeing(subject, "was", "was", "were") if past else _agreeing(subject, "am", "is", "are")


def _present(subject: NP, base: str) -> str:
    return _agreeing(subject, base, third_person(base), base)


def _verbs(clause: Clause, *, needs_auxiliary: bool) -> tuple[str, str]:
    """The auxiliary, if there is one, and the rest of the verb group; a question or negation needs an auxiliary."""
    base, past, participle = clause.verb.en.split()
    subject, in_past = clause.subject, clause.tense is Tense.PAST
    modal = clause.modal
    if modal and modal.auxiliary:
        return modal.en_past if in_past else modal.en, join(modal.link, base)
    match clause.tense:
        case Tense.FUTURE:
            return "will", base
        case Tense.PERFECT:
            return _present(subject, "have"), participle
        case Tense.PROGRESSIVE:
            return _be(subject, past=False), ing_form(base)
    tail = ""
    if modal:
        base, past, tail = modal.en, modal.en_past, f"{modal.link} {base}"
    elif clause.gladly:
        base, past, tail = "like", "liked", f"to {base}"
    elif base == "be":
        return _be(subject, in_past), ""
    if needs_auxiliary:
        return "did" if in_past else _present(subject, "do"), join(base, tail)
    return "", join(past if in_past else _present(subject, base), tail)


def _not(clause: Clause, auxiliary: str) -> tuple[str, str]:
    """The auxiliary with its negation, long or short."""
    if auxiliary == "can":
        negated = "cannot"
        return (_SHORT[negated], "") if clause.short else (negated, "")
    negated = f"{auxiliary} not"
    if clause.short and auxiliary not in ("am", "may"):
        return _SHORT.get(negated, f"{auxiliary}n't"), ""
    return auxiliary, "not"


# --- Clauses ---------------------------------------------------------------------------------------------------------


def statement(clause: Clause) -> str:
    """A clause with its subject first; also the form of subordinate clauses and of questions for the subject."""
    auxiliary, rest = _verbs(clause, needs_auxiliary=clause.negated)
    auxiliary, negation = _not(clause, auxiliary) if clause.negated else (auxiliary, "")
    frequency = adverbial(clause.frequency)
    return join(noun_phrase(clause.subject), auxiliary, negation, frequency, rest, _after_verb(clause))


def question(clause: Clause, asked: str = "") -> str:
    """A yes/no question, or with `asked` (what, where, which dog …) in front a question for that."""
    auxiliary, rest = _verbs(clause, needs_auxiliary=True)
    frequency = adverbial(clause.frequency)
    return join(asked, auxiliary, noun_phrase(clause.subject), frequency, rest, _after_verb(clause))


def infinitive(clause: Clause) -> str:
    """The clause without subject: "to open the door"."""
    return join("to", clause.verb.base, _after_verb(clause))


def request(clause: Clause) -> str:
    """The imperative: "please do not open the door"."""
    negation = ("don't" if clause.short else "do not") if clause.negated else ""
    return join("please", negation, clause.verb.base, _after_verb(clause))


def _after_verb(clause: Clause) -> str:
    complement = clause.complement
    return join(
        _objects(clause),
        noun_phrase(complement) if isinstance(complement, NounPhrase) else adverbial(complement),
        adverbial(clause.manner),
        adverbial(clause.place),
        adverbial(clause.company),
        adverbial(clause.time),
    )


def _objects(clause: Clause) -> str:
    verb: Verb = clause.verb
    if clause.object is None:
        return join(verb.particle, verb.linker)
    thing = noun_phrase(clause.object, is_object=True)
    if clause.recipient:
        recipient = noun_phrase(clause.recipient, is_object=True)
        last = verb.recipient_last or isinstance(clause.object, Pronoun)
        return join(thing, "to", recipient) if last else join(recipient, thing)
    if isinstance(clause.object, Pronoun) and not verb.linker:
        return join(thing, verb.particle)  # "put it on", but "put on the coat"
    return join(verb.particle, verb.linker, thing)
