"""The kinds of words there are, and the small closed classes: pronouns, determiners, prepositions, modals, names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, IntEnum, auto
from typing import Literal


class Case(IntEnum):
    """The four German cases, in the order of the declension tables."""

    NOM = 0
    ACC = 1
    DAT = 2
    GEN = 3


NOM, ACC, DAT, GEN = Case


class Kind(Flag):
    """What a noun names, and so which verbs and adjectives go with it; most of these are single, some are unions."""

    PERSON = auto()
    ANIMAL = auto()
    FOOD = auto()
    DISH = auto()  # food that is cooked
    BAKED = auto()
    DRINK = auto()
    TEXT = auto()
    CLOTHES = auto()
    THING = auto()  # small enough to carry about
    DEVICE = auto()  # can be switched on
    INSTRUMENT = auto()
    CAR = auto()  # a vehicle people own
    TRANSPORT = auto()  # a vehicle with a timetable
    FURNITURE = auto()
    OPENING = auto()  # can be opened and closed
    PLACE = auto()
    ROOM = auto()
    BUILDING = auto()
    EVENT = auto()

    LIVING = PERSON | ANIMAL
    EDIBLE = FOOD | DISH | BAKED
    VEHICLE = CAR | TRANSPORT
    OBJECT = TEXT | CLOTHES | THING | DEVICE | INSTRUMENT | CAR | FURNITURE
    GOODS = EDIBLE | DRINK | OBJECT
    SPACE = PLACE | ROOM | BUILDING
    NOTHING = 0


@dataclass(frozen=True)
class Phrase:
    """An expression without inner grammar, such as an adverb."""

    en: str
    de: str


@dataclass(frozen=True)
class Preposition:
    """A preposition and the case it governs in German."""

    en: str
    de: str
    case: Case


@dataclass(frozen=True)
class Noun:
    """A noun. `weak`: the n-declension (der Junge, den Jungen); `at`: English and German "in", of a place."""

    en: str
    en_plural: str
    gender: str  # m, f, n
    de: str
    de_plural: str
    kind: Kind
    weak: bool = False
    at: Preposition | None = None

    @property
    def mass(self) -> bool:
        """Whether the noun has no plural and no indefinite article, as milk."""
        return self.en_plural == "-"


@dataclass(frozen=True)
class Adjective:
    """An adjective; `stem` takes the German endings (dunkel, dunkle); `more` is the comparative, where it is used."""

    en: str
    de: str
    stem: str
    kinds: Kind
    more: Phrase | None = None


@dataclass(frozen=True)
class Verb:
    """A verb with its principal parts in both languages and the frame it stands in.

    `en`: infinitive, past, participle; `de`: infinitive, the form of "er", participle. English: `particle` is the "on"
    of "put on", `linker` the preposition before the object ("wait for"). German: `prefix` is the separable prefix,
    joined in the participle only; `linker_de` the preposition before the object; `case` the object's case.
    """

    en: str
    de: str
    subjects: Kind
    objects: Kind = Kind.NOTHING
    particle: str = ""
    linker: str = ""
    prefix: str = ""
    with_sein: bool = False
    case: Case = Case.ACC
    linker_de: str = ""
    reflexive: bool = False
    recipients: Kind = Kind.NOTHING  # somebody in the dative, besides the object
    recipient_last: bool = False  # English: explains the poem to the child
    stative: bool = False  # no English progressive, no request
    place: Literal["", "at", "at!", "spot!", "to!", "far!"] = ""  # whether the clause may or must (!) say where (to)
    manner: str = ""  # the set of adverbs that suit it

    @property
    def base(self) -> str:
        """The English infinitive."""
        return self.en.split()[0]

    @property
    def past_looks_present(self) -> bool:
        """Whether "they read" could be either tense: such a present is said in the progressive instead."""
        base, past, _ = self.en.split()
        return base == past


@dataclass(frozen=True)
class Modal:
    """A modal verb: English has the auxiliary `en` and `link` before the infinitive ("would", "like to").

    Without `auxiliary`, `en` is an ordinary verb, which forms questions and negations with "do" ("does not want to").
    """

    en: str
    en_past: str  # empty where English has none
    link: str
    de: str
    auxiliary: bool = True


# --- Pronouns and names ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pronoun:
    """A pronoun: forms "subject object possessive" in English, "nominative accusative dative" in German."""

    en: str
    de: str
    person: int = 3
    plural: bool = False
    possessive: str = ""  # the stem of the German possessive
    reflexive: str = "sich"


ME = Pronoun("I me my", "ich mich mir", 1, False, "mein", "mich")
YOU = Pronoun("you you your", "du dich dir", 2, False, "dein", "dich")
HE = Pronoun("he him his", "er ihn ihm", possessive="sein")
SHE = Pronoun("she her her", "sie sie ihr", possessive="ihr")
WE = Pronoun("we us our", "wir uns uns", 1, True, "unser", "uns")
YOU_ALL = Pronoun("you you your", "ihr euch euch", 2, True, "euer", "euch")
THEY = Pronoun("they them their", "sie sie ihnen", 3, True, "ihr")
YOU_POLITE = Pronoun("you you your", "Sie Sie Ihnen", 3, True, "Ihr")
IT = {
    "m": Pronoun("it it its", "er ihn ihm", possessive="sein"),
    "f": Pronoun("it it its", "sie sie ihr", possessive="ihr"),
    "n": Pronoun("it it its", "es es ihm", possessive="sein"),
}
WHO = Pronoun("who who whose", "wer wen wem")
WHAT = Pronoun("what what -", "was was -")


@dataclass(frozen=True)
class Name:
    """A person's name; `oblique` is the German form outside the nominative (Herr Weber, Herrn Weber)."""

    en: str
    de: str
    oblique: str
    pronoun: Pronoun


_TITLED = ("Weber", "Fischer", "Wagner", "Becker")
NAMES = (
    *(Name(name, name, name, SHE) for name in ("Anna", "Julia", "Maria")),
    *(Name(name, name, name, HE) for name in ("Peter", "Martin", "Paul")),
    *(Name(f"Mrs. {name}", f"Frau {name}", f"Frau {name}", SHE) for name in _TITLED),
    *(Name(f"Mr. {name}", f"Herr {name}", f"Herrn {name}", HE) for name in _TITLED),
)

# Whoever is spoken to decides what "you" is in German; where nobody is named it is "du".
ADDRESSEES = (
    *((Phrase(name, name), YOU) for name in ("Lisa", "Max")),
    *((Phrase(en, de), YOU_ALL) for en, de in (("children", "Kinder"), ("my friends", "meine Freunde"))),
    *((Phrase(f"Mrs. {name}", f"Frau {name}"), YOU_POLITE) for name in ("Schneider", "Koch")),
    *((Phrase(f"Mr. {name}", f"Herr {name}"), YOU_POLITE) for name in ("Schneider", "Koch")),
    (Phrase("ladies and gentlemen", "meine Damen und Herren"), YOU_POLITE),
)


# --- Determiners -----------------------------------------------------------------------------------------------------


class Inflection(IntEnum):
    """How a determiner inflects, and so which endings an adjective takes after it."""

    ARTICLE = 0  # der, die, das; adjective weak
    DER_WORD = 1  # dieser, jeder, …; adjective weak
    EIN_WORD = 2  # ein, kein, mein, …; adjective mixed
    QUANTIFIER = 3  # viele, einige; adjective strong
    NONE = 4  # no determiner, or one that never changes; adjective strong


@dataclass(frozen=True)
class Determiner:
    """What stands before adjectives and noun. `definite` decides the place of the noun phrase in a German clause."""

    en: str
    en_plural: str
    de: str
    inflection: Inflection
    definite: bool = False


THE = Determiner("the", "the", "", Inflection.ARTICLE, True)
THIS = Determiner("this", "these", "dies", Inflection.DER_WORD, True)
EVERY = Determiner("every", "every", "jed", Inflection.DER_WORD, True)
ALL_THE = Determiner("all the", "all the", "all", Inflection.DER_WORD, True)
WHICH = Determiner("which", "which", "welch", Inflection.DER_WORD, True)
A = Determiner("a", "a", "ein", Inflection.EIN_WORD)
BARE = Determiner("", "", "", Inflection.NONE)
NO = Determiner("no", "no", "kein", Inflection.EIN_WORD)
NOT_ANY = Determiner("a", "any", "kein", Inflection.EIN_WORD)  # English negates the verb, German the noun
MANY = Determiner("many", "many", "viel", Inflection.QUANTIFIER)
SOME = Determiner("some", "some", "einig", Inflection.QUANTIFIER)
HOW_MANY = Determiner("how many", "how many", "wie viel", Inflection.QUANTIFIER)


def possessive(owner: Pronoun) -> Determiner:
    """The determiner "my", "your" … of a pronoun."""
    return Determiner(owner.en.split()[2], owner.en.split()[2], owner.possessive, Inflection.EIN_WORD, True)


def owned_by(name: Name) -> Determiner:
    """The determiner "Anna's"; the German genitive of a name stands before the noun, too."""
    return Determiner(f"{name.en}'s", f"{name.en}'s", f"{name.oblique}s", Inflection.NONE, True)


# --- Modals ----------------------------------------------------------------------------------------------------------

CAN = Modal("can", "could", "", "können")
MUST = Modal("must", "", "", "müssen")
MUST_NOT = Modal("must", "", "", "dürfen")  # only negated: "must not" forbids, as "nicht dürfen" does
MAY = Modal("may", "", "", "dürfen")
SHOULD = Modal("should", "", "", "sollen")
WOULD_LIKE = Modal("would", "", "like to", "möchten")
WANT = Modal("want", "wanted", "to", "wollen", auxiliary=False)
HAVE_TO = Modal("have", "had", "to", "müssen", auxiliary=False)
