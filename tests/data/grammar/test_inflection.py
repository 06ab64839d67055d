"""Declension and conjugation against hand-written paradigms of German (and the spelling of English)."""

from __future__ import annotations

import pytest

from data.grammar import english, german
from data.grammar.lexicon import ADJECTIVES, COLOURS, NOUNS
from data.grammar.trees import NounPhrase
from data.grammar.verbs import ASKING, BE, LIE, PUT, SAYING, TRYING, VERBS
from data.grammar.words import (
    ACC,
    BARE,
    DAT,
    MANY,
    ME,
    NO,
    NOM,
    THE,
    THIS,
    WE,
    YOU_ALL,
    A,
    Case,
    Determiner,
    Preposition,
    possessive,
)

WORD_OF = {noun.en: noun for noun in NOUNS}
OLD = tuple(adjective for adjective in ADJECTIVES if adjective.en == "old")
MY, YOUR_ALL, OUR = possessive(ME), possessive(YOU_ALL), possessive(WE)

# Nominative, accusative, dative, genitive.
PARADIGMS: list[tuple[str, Determiner, bool, list[str]]] = [
    ("man", THE, False, ["der alte Mann", "den alten Mann", "dem alten Mann", "des alten Mannes"]),
    ("woman", THE, False, ["die alte Frau", "die alte Frau", "der alten Frau", "der alten Frau"]),
    ("house", THE, False, ["das alte Haus", "das alte Haus", "dem alten Haus", "des alten Hauses"]),
    ("child", THE, True, ["die alten Kinder", "die alten Kinder", "den alten Kindern", "der alten Kinder"]),
    ("man", A, False, ["ein alter Mann", "einen alten Mann", "einem alten Mann", "eines alten Mannes"]),
    ("woman", A, False, ["eine alte Frau", "eine alte Frau", "einer alten Frau", "einer alten Frau"]),
    ("house", A, False, ["ein altes Haus", "ein altes Haus", "einem alten Haus", "eines alten Hauses"]),
    ("child", NO, True, ["keine alten Kinder", "keine alten Kinder", "keinen alten Kindern", "keiner alten Kinder"]),
    ("wine", BARE, False, ["alter Wein", "alten Wein", "altem Wein", "alten Weines"]),
    ("milk", BARE, False, ["alte Milch", "alte Milch", "alter Milch", "alter Milch"]),
    ("bread", BARE, False, ["altes Brot", "altes Brot", "altem Brot", "alten Brotes"]),
    ("car", BARE, True, ["alte Autos", "alte Autos", "alten Autos", "alter Autos"]),
    ("apple", MANY, True, ["viele alte Äpfel", "viele alte Äpfel", "vielen alten Äpfeln", "vieler alter Äpfel"]),
    ("boy", THE, False, ["der alte Junge", "den alten Jungen", "dem alten Jungen", "des alten Jungen"]),
    (
        "student",
        A,
        False,
        ["ein alter Student", "einen alten Studenten", "einem alten Studenten", "eines alten Studenten"],
    ),
    (
        "neighbour",
        THIS,
        False,
        ["dieser alte Nachbar", "diesen alten Nachbarn", "diesem alten Nachbarn", "dieses alten Nachbarn"],
    ),
    (
        "sister",
        MY,
        True,
        ["meine alten Schwestern", "meine alten Schwestern", "meinen alten Schwestern", "meiner alten Schwestern"],
    ),
    ("doctor", YOUR_ALL, False, ["euer alter Arzt", "euren alten Arzt", "eurem alten Arzt", "eures alten Arztes"]),
    (
        "daughter",
        OUR,
        False,
        ["unsere alte Tochter", "unsere alte Tochter", "unserer alten Tochter", "unserer alten Tochter"],
    ),
]


@pytest.mark.parametrize(("word", "determiner", "plural", "forms"), PARADIGMS)
def test_determiner_adjective_and_noun_agree_in_all_four_cases(
    word: str, determiner: Determiner, plural: bool, forms: list[str]
) -> None:
    np = NounPhrase(WORD_OF[word], determiner, plural, OLD)
    assert [german.noun_phrase(np, case) for case in Case] == forms


@pytest.mark.parametrize(
    ("word", "genitive"),
    [
        ("teacher", "Lehrers"),
        ("friend", "Freundes"),
        ("fox", "Fuchses"),
        ("frog", "Frosches"),
        ("king", "Königs"),
        ("lake", "Sees"),
        ("girl", "Mädchens"),
        ("lion", "Löwen"),
        ("mother", "Mutter"),
    ],
)
def test_the_genitive_singular_takes_the_ending_of_its_class(word: str, genitive: str) -> None:
    assert german.noun(WORD_OF[word], False, Case.GEN) == genitive


@pytest.mark.parametrize(
    ("adjective", "phrase"),
    [
        ("expensive", "der teure Lastwagen"),
        ("dark", "der dunkle Lastwagen"),
        ("tired", "der müde Lastwagen"),
        ("red", "der rote Lastwagen"),
    ],
)
def test_adjectives_lose_an_e_where_german_drops_it(adjective: str, phrase: str) -> None:
    word = next(each for each in (*ADJECTIVES, *COLOURS) if each.en == adjective)
    assert german.noun_phrase(NounPhrase(WORD_OF["truck"], adjectives=(word,)), NOM) == phrase


@pytest.mark.parametrize(
    ("preposition", "word", "phrase"),
    [
        (Preposition("in", "in", DAT), "garden", "im Garten"),
        (Preposition("in", "in", DAT), "kitchen", "in der Küche"),
        (Preposition("to", "in", ACC), "house", "ins Haus"),
        (Preposition("to", "in", ACC), "garden", "in den Garten"),
        (Preposition("at", "an", DAT), "station", "am Bahnhof"),
        (Preposition("to", "zu", DAT), "station", "zum Bahnhof"),
        (Preposition("to", "zu", DAT), "school", "zur Schule"),
        (Preposition("of", "von", DAT), "dog", "vom Hund"),
        (Preposition("on", "auf", DAT), "island", "auf der Insel"),
        (Preposition("for", "für", ACC), "child", "für das Kind"),
    ],
)
def test_prepositions_govern_their_case_and_contract_with_the_article(
    preposition: Preposition, word: str, phrase: str
) -> None:
    assert german.prepositional(preposition, NounPhrase(WORD_OF[word])) == phrase


VERB_OF = {
    f"{verb.base} {verb.particle}".strip(): verb for verb in (*TRYING, *ASKING, *SAYING, LIE, PUT, BE, *reversed(VERBS))
}


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("be", "bin bist ist sind seid sind"),
        ("have", "habe hast hat haben habt haben"),
        ("buy", "kaufe kaufst kauft kaufen kauft kaufen"),
        ("read", "lese liest liest lesen lest lesen"),
        ("eat", "esse isst isst essen esst essen"),
        ("see", "sehe siehst sieht sehen seht sehen"),
        ("help", "helfe hilfst hilft helfen helft helfen"),
        ("give", "gebe gibst gibt geben gebt geben"),
        ("sleep", "schlafe schläfst schläft schlafen schlaft schlafen"),
        ("wash", "wasche wäschst wäscht waschen wascht waschen"),
        ("invite", "lade lädst lädt laden ladet laden"),
        ("work", "arbeite arbeitest arbeitet arbeiten arbeitet arbeiten"),
        ("find", "finde findest findet finden findet finden"),
        ("draw", "zeichne zeichnest zeichnet zeichnen zeichnet zeichnen"),
        ("dance", "tanze tanzt tanzt tanzen tanzt tanzen"),
        ("greet", "grüße grüßt grüßt grüßen grüßt grüßen"),
        ("play", "spiele spielst spielt spielen spielt spielen"),
        ("smile", "lächle lächelst lächelt lächeln lächelt lächeln"),
        ("feed", "füttere fütterst füttert füttern füttert füttern"),
        ("like", "mag magst mag mögen mögt mögen"),
        ("forget", "vergesse vergisst vergisst vergessen vergesst vergessen"),
    ],
)
def test_verbs_are_conjugated_in_all_six_persons(verb: str, forms: str) -> None:
    assert german.present(VERB_OF[verb]) == forms


@pytest.mark.parametrize(
    ("base", "third", "ing"),
    [
        ("go", "goes", "going"),
        ("watch", "watches", "watching"),
        ("carry", "carries", "carrying"),
        ("play", "plays", "playing"),
        ("have", "has", "having"),
        ("lie", "lies", "lying"),
        ("swim", "swims", "swimming"),
        ("write", "writes", "writing"),
        ("describe", "describes", "describing"),
        ("plan", "plans", "planning"),
        ("see", "sees", "seeing"),
        ("feed", "feeds", "feeding"),
    ],
)
def test_english_verbs_are_spelt_right(base: str, third: str, ing: str) -> None:
    assert (english.third_person(base), english.ing_form(base)) == (third, ing)


def test_the_lexicon_gives_each_english_word_one_german_word() -> None:
    german_nouns = {(noun.en, noun.de) for noun in NOUNS}
    assert len(german_nouns) == len({english_word for english_word, _ in german_nouns}) == len(NOUNS)
    forms = [form for noun in NOUNS for form in (noun.en, noun.en_plural) if form != "-"]
    assert len(forms) == len(set(forms)), "a form that is singular and plural, or of two nouns, is ambiguous"


def test_german_plural_nouns_end_in_n_or_s_in_the_dative() -> None:
    for noun in NOUNS:
        if not noun.mass:
            assert german.noun(noun, True, DAT)[-1] in "ns"
            assert german.noun(noun, True, NOM) == german.noun(noun, True, ACC) == noun.de_plural
