"""German: declension, conjugation, noun phrases and clauses, built from the trees.

The order of the middle field (after Helbig and Buscha, Deutsche Grammatik, in outline): pronouns, definite objects,
time, indefinite objects, nicht, company, manner, place, prepositional object or complement.
"""

from __future__ import annotations

import re

from data.grammar.english import join
from data.grammar.trees import NP, Adverbial, Both, Clause, NounPhrase, PrepositionalPhrase, Relative, Tense, person
from data.grammar.words import (
    DAT,
    GEN,
    NO,
    NOM,
    NOT_ANY,
    YOU,
    YOU_ALL,
    Case,
    Determiner,
    Inflection,
    Name,
    Noun,
    Phrase,
    Preposition,
    Pronoun,
    Verb,
)

# --- Declension: a row per gender, a column per case (nominative, accusative, dative, genitive); "-" is no ending ----

_ARTICLE = {"m": "der den dem des", "f": "die die der der", "n": "das das dem des", "pl": "die die den der"}
_DER_WORD = {"m": "er en em es", "f": "e e er er", "n": "es es em es", "pl": "e e en er"}
_EIN_WORD = {"m": "- en em es", "f": "e e er er", "n": "- - em es", "pl": "e e en er"}
_WEAK = {"m": "e en en en", "f": "e e en en", "n": "e e en en", "pl": "en en en en"}
_MIXED = {"m": "er en en en", "f": "e e en en", "n": "es es en en", "pl": "en en en en"}
_STRONG = {"m": "er en em en", "f": "e e er er", "n": "es es em en", "pl": "e e en er"}
_AFTER = {
    Inflection.ARTICLE: _WEAK,
    Inflection.DER_WORD: _WEAK,
    Inflection.EIN_WORD: _MIXED,
    Inflection.QUANTIFIER: _STRONG,
    Inflection.NONE: _STRONG,
}
_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("von", "dem"): "vom",
    ("bei", "dem"): "beim",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}


def _cell(table: dict[str, str], gender: str, case: Case) -> str:
    return table[gender].split()[case].replace("-", "")


def determiner(word: Determiner, gender: str, case: Case) -> str:
    """A determiner agreeing with a noun; `gender` is m, f, n or pl."""
    if word.inflection is Inflection.NONE:
        return word.de
    if word.inflection is Inflection.ARTICLE:
        return _cell(_ARTICLE, gender, case)
    ending = _cell(_EIN_WORD if word.inflection is Inflection.EIN_WORD else _DER_WORD, gender, case)
    stem = "eur" if word.de == "euer" and ending else word.de  # euer, but eure, eurem
    return stem + ending


def noun(word: Noun, plural: bool, case: Case) -> str:
    """A noun in number and case."""
    if plural:
        takes_n = case is DAT and not word.de_plural.endswith(("n", "s"))
        return word.de_plural + ("n" if takes_n else "")
    if word.weak:
        return word.de if case is NOM else word.de_plural  # den Jungen, des Jungen: always like the plural here
    if case is GEN and word.gender != "f":
        return word.de + _genitive_ending(word.de)
    return word.de


def _genitive_ending(word: str) -> str:
    one_syllable = len(re.findall("[aeiouäöü]+", word.lower())) == 1
    if word.endswith(("s", "ß", "x", "z", "sch")) or (one_syllable and word[-1] not in "aeiouh"):
        return "es"
    return "s"


def noun_phrase(np: NP, case: Case) -> str:
    """A noun phrase in a case."""
    match np:
        case Pronoun():
            return np.de.split()[case]
        case Name():
            return np.de if case is NOM else np.oblique
        case Both():
            return join(noun_phrase(np.first, case), "und", noun_phrase(np.second, case))
        case NounPhrase():
            return _nominal(np, case)


def _nominal(np: NounPhrase, case: Case) -> str:
    ending = _cell(_AFTER[np.determiner.inflection], np.gender, case)
    return join(
        determiner(np.determiner, np.gender, case),
        *(adjective.stem + ending for adjective in np.adjectives),
        noun(np.noun, np.plural, case),
        noun_phrase(np.owner, GEN) if np.owner else "",
        _relative(np.relative) if np.relative else "",
    )


def relative_pronoun(np: NounPhrase) -> str:
    """The forms nominative, accusative, dative of the relative pronoun for a noun phrase."""
    nominative, accusative, dative, _ = _ARTICLE[np.gender].split()
    return join(nominative, accusative, "denen" if np.plural else dative)


def _relative(relative: Relative) -> str:
    clause = relative.clause
    pronoun = noun_phrase(relative.pronoun, clause.verb.case) if relative.of_object else ""
    return join(",", pronoun, subordinate(clause), ",")


def adverbial(phrase: Adverbial | None) -> str:
    """An adverb or prepositional phrase, or nothing; preposition and article contract (im, zur)."""
    match phrase:
        case None:
            return ""
        case Phrase():
            return phrase.de
        case PrepositionalPhrase():
            return prepositional(phrase.preposition, phrase.object)


def prepositional(preposition: Preposition, np: NP) -> str:
    """A preposition with its noun phrase; with an article right after it, it contracts."""
    article, _, rest = noun_phrase(np, preposition.case).partition(" ")
    contracted = _CONTRACTIONS.get((preposition.de, article))
    return join(contracted, rest) if contracted else join(preposition.de, article, rest)


# --- Conjugation: one column per person, singular then plural ---------------------------------------------------------

_PRESENT = {
    "sein": "bin bist ist sind seid sind",
    "haben": "habe hast hat haben habt haben",
    "werden": "werde wirst wird werden werdet werden",
    "wissen": "weiß weißt weiß wissen wisst wissen",
    "mögen": "mag magst mag mögen mögt mögen",
    "können": "kann kannst kann können könnt können",
    "müssen": "muss musst muss müssen müsst müssen",
    "dürfen": "darf darfst darf dürfen dürft dürfen",
    "wollen": "will willst will wollen wollt wollen",
    "sollen": "sollte solltest sollte sollten solltet sollten",  # for "should"
    "möchten": "möchte möchtest möchte möchten möchtet möchten",
}
# Spoken German says "war" and "hatte", but "hat gesehen".
_PAST = {
    "sein": "war warst war waren wart waren",
    "haben": "hatte hattest hatte hatten hattet hatten",
    "können": "konnte konntest konnte konnten konntet konnten",
    "müssen": "musste musstest musste mussten musstet mussten",
    "wollen": "wollte wolltest wollte wollten wolltet wollten",
}


def _agreeing(forms: str, subject: NP) -> str:
    number, plural = person(subject)
    return forms.split()[number - 1 + 3 * plural]


def present(verb: Verb) -> str:
    """The six present forms of a verb, without its separable prefix, from the infinitive and the form of "er"."""
    infinitive, er, _ = verb.de.split()
    if infinitive in _PRESENT:
        return _PRESENT[infinitive]
    stem = infinitive.removesuffix("n").removesuffix("e")
    ich = stem[:-2] + "le" if infinitive.endswith("eln") else stem + "e"  # ich lächle
    du = er[:-1] + ("t" if er[:-1].endswith(("s", "ß", "x", "z")) else "st")  # du liest, du fährst
    ihr = er if er.startswith(stem) else stem + ("et" if stem.endswith(("d", "t")) else "t")  # ihr lest, ihr ladet
    return join(ich, du, er, infinitive, ihr, infinitive)


def _imperative(verb: Verb, you: Pronoun) -> str:
    ich, _, er, infinitive, ihr, _ = present(verb).split()
    if you == YOU_ALL:
        return ihr
    if you != YOU:
        return f"{infinitive} Sie"
    if infinitive == "kommen":
        return "komm"
    vowel_changes_to_i = not er.startswith(ich[:-1]) and not set(er) & set("äöü")
    return er[:-1] if vowel_changes_to_i else ich  # lies, nimm; but fahre


def _verbs(clause: Clause) -> tuple[str, str, str]:
    """The finite verb, its separated prefix, and the participle or infinitive that closes the clause."""
    verb, subject, past = clause.verb, clause.subject, clause.tense in (Tense.PAST, Tense.PERFECT)
    infinitive, _, participle = verb.de.split()
    if clause.modal:
        forms = _PAST if past else _PRESENT
        return _agreeing(forms[clause.modal.de], subject), "", verb.prefix + infinitive
    if clause.tense is Tense.FUTURE:
        return _agreeing(_PRESENT["werden"], subject), "", verb.prefix + infinitive
    if past and infinitive in _PAST:
        return _agreeing(_PAST[infinitive], subject), "", ""
    if past:
        return _agreeing(_PRESENT["sein" if verb.with_sein else "haben"], subject), "", participle
    return _agreeing(present(verb), subject), verb.prefix, ""


# --- Clauses ---------------------------------------------------------------------------------------------------------


def main(clause: Clause, front: str = "") -> str:
    """A main clause: the finite verb is second, after `front` (left out of `clause`) or else the subject."""
    if front:
        return join(front, verb_first(clause))
    finite, prefix, closing = _verbs(clause)
    return join(noun_phrase(clause.subject, NOM), finite, *_middle(clause), closing, prefix)


def verb_first(clause: Clause) -> str:
    """A clause that begins with its finite verb: a yes/no question, or what follows the front of a main clause."""
    finite, prefix, closing = _verbs(clause)
    subject = noun_phrase(clause.subject, NOM)
    middle = _middle(clause)
    if clause.verb.reflexive and not isinstance(clause.subject, Pronoun):
        return join(finite, middle[0], subject, *middle[1:], closing, prefix)  # heute freut sich der Mann
    return join(finite, subject, *middle, closing, prefix)


def subordinate(clause: Clause) -> str:
    """A subordinate clause after its conjunction: the finite verb is last."""
    finite, prefix, closing = _verbs(clause)
    return join(noun_phrase(clause.subject, NOM), *_middle(clause), closing, prefix + finite)


def infinitive(clause: Clause) -> str:
    """The clause without subject, as an infinitive with zu, which goes inside a separable verb (aufzumachen)."""
    verb = clause.verb.de.split()[0]
    prefix = clause.verb.prefix
    return join(*_middle(clause), f"{prefix}zu{verb}" if prefix else f"zu {verb}")


def request(clause: Clause, you: Pronoun) -> str:
    """The imperative, for whoever `you` is: "bitte mache die Tür auf"."""
    return join("bitte", _imperative(clause.verb, you), *_middle(clause), clause.verb.prefix)


def _middle(clause: Clause) -> list[str]:
    """What stands between the finite verb and the closing verb, in order, without the subject."""
    verb = clause.verb
    objects = [(clause.recipient, DAT), (None if verb.linker_de else clause.object, verb.case)]
    present_objects = [(np, case) for np, case in objects if np]
    pronouns = [noun_phrase(np, case) for np, case in reversed(present_objects) if isinstance(np, Pronoun)]
    nominal = [(np, case) for np, case in present_objects if not isinstance(np, Pronoun)]
    complement = clause.complement
    negation = "nicht" if clause.negated and not _says_kein(clause) else ""
    return [
        _reflexive(clause.subject) if verb.reflexive else "",
        *pronouns,
        *(noun_phrase(np, case) for np, case in nominal if _definite(np)),
        adverbial(clause.time),
        adverbial(clause.frequency),
        join(negation, "gern") if clause.gladly else "",
        *(noun_phrase(np, case) for np, case in nominal if not _definite(np)),
        "" if clause.gladly else negation,
        adverbial(clause.company),
        adverbial(clause.manner),
        adverbial(clause.place),
        prepositional(Preposition("", verb.linker_de, verb.case), clause.object)
        if verb.linker_de and clause.object
        else "",
        noun_phrase(complement, NOM) if isinstance(complement, NounPhrase) else adverbial(complement),
    ]


def _definite(np: NP) -> bool:
    return np.determiner.definite if isinstance(np, NounPhrase) else True


def _says_kein(clause: Clause) -> bool:
    nouns = (np for np in (clause.object, clause.complement) if isinstance(np, NounPhrase))
    return any(np.determiner in (NO, NOT_ANY) for np in nouns)


def _reflexive(subject: NP) -> str:
    return subject.reflexive if isinstance(subject, Pronoun) else "sich"
