"""Sentences built from trees against German written by hand, at least one for each construction of the grammar."""

from __future__ import annotations

from dataclasses import replace

import pytest

from data.grammar import english, german
from data.grammar.clauses import IT_ITSELF
from data.grammar.lexicon import ADJECTIVES, COLOURS, NOUNS
from data.grammar.numbers import in_words
from data.grammar.speaker import numeral
from data.grammar.trees import (
    NP,
    Both,
    Clause,
    NounPhrase,
    Pair,
    PrepositionalPhrase,
    Relative,
    Tense,
    pronoun_for,
)
from data.grammar.verbs import BE, KNOW, LIE, PUT, RAIN, TRYING, VERBS
from data.grammar.words import (
    ACC,
    BARE,
    CAN,
    DAT,
    EVERY,
    HAVE_TO,
    HE,
    IT,
    MANY,
    ME,
    MUST_NOT,
    NAMES,
    NOT_ANY,
    SHE,
    SHOULD,
    THE,
    THEY,
    THIS,
    WE,
    WHAT,
    WHO,
    WOULD_LIKE,
    YOU,
    YOU_ALL,
    YOU_POLITE,
    A,
    Case,
    Determiner,
    Phrase,
    Preposition,
    Pronoun,
    Verb,
    owned_by,
    possessive,
)

_NOUN = {noun.en: noun for noun in NOUNS}
_ADJECTIVE = {adjective.en: adjective for adjective in (*ADJECTIVES, *COLOURS)}
_NAME = {name.en: name for name in NAMES}
ANNA, MR_WEBER = _NAME["Anna"], _NAME["Mr. Weber"]

PRESENT, PROGRESSIVE, PAST, PERFECT, FUTURE = Tense
YESTERDAY, TODAY = Phrase("yesterday", "gestern"), Phrase("today", "heute")
EVERY_DAY, OFTEN = Phrase("every day", "jeden Tag"), Phrase("often", "oft")
HALF_PAST_THREE = Phrase("at half past three", "um halb vier")
IN_BERLIN, TO_BERLIN = Phrase("in Berlin", "in Berlin"), Phrase("to Berlin", "nach Berlin")
BY_TRAIN = Phrase("by train", "mit dem Zug")


def np(words: str, determiner: Determiner = THE, *, plural: bool = False) -> NounPhrase:
    """A noun phrase "old dog"."""
    *adjectives, noun = words.split()
    return NounPhrase(_NOUN[noun], determiner, plural, tuple(_ADJECTIVE[word] for word in adjectives))


def verb(words: str, *, objects: bool = True) -> Verb:
    """A verb by its infinitive and particle, with or without objects."""
    return next(
        each for each in VERBS if f"{each.base} {each.particle}".strip() == words and bool(each.objects) == objects
    )


def at(preposition: tuple[str, str], noun: str, case: Case = DAT) -> PrepositionalPhrase:
    return PrepositionalPhrase(Preposition(*preposition, case), np(noun))


def said(clause: Clause) -> Pair:
    return english.statement(clause), german.main(clause)


def fronted(front: Phrase, clause: Clause) -> Pair:
    return f"{front.en} {english.statement(clause)}", german.main(clause, front.de)


def asked(clause: Clause, front: Phrase | None = None) -> Pair:
    if front is None:
        return english.question(clause), german.verb_first(clause)
    return english.question(clause, front.en), german.main(clause, front.de)


def joined(main: Clause, conjunction: Phrase, sub: Clause) -> Pair:
    return (
        f"{english.statement(main)} {conjunction.en} {english.statement(sub)}",
        f"{german.main(main)}, {conjunction.de} {german.subordinate(sub)}",
    )


def sub_first(conjunction: Phrase, sub: Clause, main: Clause) -> Pair:
    return (
        f"{conjunction.en} {english.statement(sub)}, {english.statement(main)}",
        f"{conjunction.de} {german.subordinate(sub)}, {german.verb_first(main)}",
    )


def with_infinitive(main: Clause, deed: Clause) -> Pair:
    return f"{english.statement(main)} {english.infinitive(deed)}", f"{german.main(main)}, {german.infinitive(deed)}"


def requested(clause: Clause, you: Pronoun) -> Pair:
    return english.request(clause), german.request(clause, you)


def be(subject: NP, complement: Phrase | NounPhrase, tense: Tense = PRESENT, *, negated: bool = False) -> Clause:
    return Clause(subject, BE, tense, complement=complement, negated=negated)


def predicate(adjective: str) -> Phrase:
    return Phrase(adjective, _ADJECTIVE[adjective].de)


def with_relative(noun: NounPhrase, clause: Clause, *, of_object: bool) -> NounPhrase:
    word = "who whom -" if noun.noun.en == "man" else "that that -"
    pronoun = Pronoun(word, german.relative_pronoun(noun), plural=noun.plural)
    clause = clause if of_object else replace(clause, subject=pronoun)
    return replace(noun, relative=Relative(clause, pronoun, of_object))


BECAUSE, THAT, WHETHER = Phrase("because", "weil"), Phrase("that", "dass"), Phrase("whether", "ob")
GIVE, OPEN, TURN_ON = verb("give"), verb("open"), verb("turn on")
READ, BUY, SEE, HELP = verb("read"), verb("buy"), verb("see"), verb("help")
SLEEP, GET_UP, RUN = verb("sleep", objects=False), verb("get up", objects=False), verb("run", objects=False)
BOOK, DOOR, COAT = np("book"), np("door"), np("coat")
MY_UNCLE, HER_BROTHER = np("uncle", possessive(ME)), np("brother", possessive(SHE))
TWENTY_ONE = numeral(in_words(21))
THIS_LETTER = Phrase("this letter", german.noun_phrase(np("letter", THIS), ACC))

# fmt: off
SENTENCES: list[tuple[Pair, str, str]] = [
    # Cases, articles, adjectives
    (said(Clause(np("old man"), SEE, object=np("small dog", A))),
     "the old man sees a small dog", "der alte Mann sieht einen kleinen Hund"),
    (said(Clause(np("boy"), GIVE, PAST, recipient=np("sick aunt", possessive(HE)), object=np("red flower", A))),
     "the boy gave his sick aunt a red flower", "der Junge hat seiner kranken Tante eine rote Blume gegeben"),
    (said(Clause(MY_UNCLE, verb("drink"), object=np("cold milk", BARE), time=EVERY_DAY)),
     "my uncle drinks cold milk every day", "mein Onkel trinkt jeden Tag kalte Milch"),
    (said(Clause(ME, HELP, PAST, object=np("neighbour", plural=True))),
     "I helped the neighbours", "ich habe den Nachbarn geholfen"),
    (said(Clause(WE, verb("feed"), PROGRESSIVE, object=np("old lion"))),
     "we are feeding the old lion", "wir füttern den alten Löwen"),
    (said(Clause(SHE, verb("love"), object=np("new car", owned_by(ANNA)))),
     "she loves Anna's new car", "sie liebt Annas neues Auto"),
    (said(Clause(SHE, SEE, object=replace(np("garden"), owner=np("rich king")))),
     "she sees the rich king's garden", "sie sieht den Garten des reichen Königs"),
    (said(Clause(np("child", EVERY), verb("like"), object=np("short story", MANY, plural=True))),
     "every child likes many short stories", "jedes Kind mag viele kurze Geschichten"),
    (said(Clause(Both(ANNA, HER_BROTHER), BUY, PAST, object=np("egg", TWENTY_ONE, plural=True))),
     "Anna and her brother bought twenty-one eggs", "Anna und ihr Bruder haben einundzwanzig Eier gekauft"),
    (said(Clause(HE, verb("know"), object=MR_WEBER)), "he knows Mr. Weber", "er kennt Herrn Weber"),
    # Word order in main clauses
    (fronted(YESTERDAY, Clause(np("dog"), SLEEP, PAST, place=at(("in", "in"), "garden"))),
     "yesterday the dog slept in the garden", "gestern hat der Hund im Garten geschlafen"),
    (said(Clause(ME, READ, PAST, object=BOOK, time=YESTERDAY)),
     "I read the book yesterday", "ich habe das Buch gestern gelesen"),
    (said(Clause(ME, READ, PAST, object=np("book", A), time=YESTERDAY)),
     "I read a book yesterday", "ich habe gestern ein Buch gelesen"),
    (said(Clause(SHE, GIVE, PAST, recipient=HE, object=IT["n"])), "she gave it to him", "sie hat es ihm gegeben"),
    (said(Clause(SHE, verb("explain"), PAST, recipient=np("child", A), object=np("poem"))),
     "she explained the poem to a child", "sie hat das Gedicht einem Kind erklärt"),
    (fronted(THIS_LETTER, Clause(ANNA, READ, PERFECT)),
     "this letter Anna has read", "diesen Brief hat Anna gelesen"),
    (said(Clause(THEY, verb("travel", objects=False), FUTURE, time=TODAY, manner=BY_TRAIN, place=TO_BERLIN)),
     "they will travel by train to Berlin today", "sie werden heute mit dem Zug nach Berlin reisen"),
    # Perfect with sein, separable verbs, modals, future
    (said(Clause(np("horse"), RUN, PAST, place=at(("to", "in"), "forest", ACC))),
     "the horse ran to the forest", "das Pferd ist in den Wald gerannt"),
    (said(Clause(ANNA, OPEN, PROGRESSIVE, object=DOOR)), "Anna is opening the door", "Anna macht die Tür auf"),
    (said(Clause(ANNA, OPEN, PAST, object=DOOR)), "Anna opened the door", "Anna hat die Tür aufgemacht"),
    (said(Clause(YOU, TURN_ON, modal=CAN, object=np("lamp"))),
     "you can turn on the lamp", "du kannst die Lampe einschalten"),
    (said(Clause(HE, verb("put on"), PROGRESSIVE, object=IT["m"])), "he is putting it on", "er zieht ihn an"),
    (said(Clause(HE, GET_UP, FUTURE, time=HALF_PAST_THREE)),
     "he will get up at half past three", "er wird um halb vier aufstehen"),
    (said(Clause(WE, BUY, PAST, modal=HAVE_TO, object=np("bread", BARE))),
     "we had to buy bread", "wir mussten Brot kaufen"),
    (said(Clause(YOU_ALL, READ, modal=SHOULD, object=BOOK)), "you should read the book", "ihr solltet das Buch lesen"),
    (said(Clause(YOU_POLITE, BUY, modal=WOULD_LIKE, object=COAT)),
     "you would like to buy the coat", "Sie möchten den Mantel kaufen"),
    # Negation
    (said(Clause(HE, BUY, negated=True, object=COAT)), "he does not buy the coat", "er kauft den Mantel nicht"),
    (said(Clause(HE, BUY, negated=True, short=True, object=np("coat", NOT_ANY))),
     "he doesn't buy a coat", "er kauft keinen Mantel"),
    (said(Clause(SHE, verb("eat"), PAST, negated=True, object=np("potato", NOT_ANY, plural=True))),
     "she did not eat any potatoes", "sie hat keine Kartoffeln gegessen"),
    (said(Clause(WE, verb("live", objects=False), negated=True, place=IN_BERLIN)),
     "we do not live in Berlin", "wir wohnen nicht in Berlin"),
    (said(Clause(YOU, OPEN, modal=MUST_NOT, negated=True, object=DOOR)),
     "you must not open the door", "du darfst die Tür nicht aufmachen"),
    (said(Clause(ME, SLEEP, modal=CAN, negated=True, short=True)), "I can't sleep", "ich kann nicht schlafen"),
    (said(Clause(ME, SLEEP, PERFECT, negated=True, short=True, time=TODAY)),
     "I haven't slept today", "ich habe heute nicht geschlafen"),
    # Predicates
    (said(be(ANNA, Phrase("very tired", "sehr müde"), PAST)), "Anna was very tired", "Anna war sehr müde"),
    (said(be(MY_UNCLE, np("good cook", NOT_ANY), negated=True)),
     "my uncle is not a good cook", "mein Onkel ist kein guter Koch"),
    (said(Clause(HE, SLEEP, gladly=True, negated=True, place=IN_BERLIN)),
     "he does not like to sleep in Berlin", "er schläft nicht gern in Berlin"),
    (said(Clause(SHE, READ, gladly=True, object=np("long novel", BARE, plural=True))),
     "she likes to read long novels", "sie liest gern lange Romane"),
    # Two-way prepositions
    (said(Clause(np("key"), LIE, PROGRESSIVE, place=at(("on", "auf"), "table"))),
     "the key is lying on the table", "der Schlüssel liegt auf dem Tisch"),
    (said(Clause(ME, PUT, PAST, object=np("key"), complement=at(("on", "auf"), "table", ACC))),
     "I put the key on the table", "ich habe den Schlüssel auf den Tisch gelegt"),
    # Verbs with dative, preposition, reflexive pronoun
    (said(Clause(np("car"), verb("belong"), object=ME)), "the car belongs to me", "das Auto gehört mir"),
    (said(Clause(WE, verb("wait"), PROGRESSIVE, object=np("bus"), place=at(("at", "an"), "station"))),
     "we are waiting for the bus at the station", "wir warten am Bahnhof auf den Bus"),
    (fronted(TODAY, Clause(np("girl"), verb("look forward"), PROGRESSIVE, object=np("concert"))),
     "today the girl is looking forward to the concert", "heute freut sich das Mädchen auf das Konzert"),
    (said(Clause(ME, verb("remember"), object=YOU)), "I remember you", "ich erinnere mich an dich"),
    # Questions
    (asked(Clause(YOU, READ, frequency=OFTEN, object=np("book", BARE, plural=True))),
     "do you often read books", "liest du oft Bücher"),
    (asked(Clause(YOU_POLITE, OPEN, modal=CAN, object=np("window"))),
     "can you open the window", "können Sie das Fenster aufmachen"),
    (said(Clause(WHO, OPEN, PAST, object=DOOR)), "who opened the door", "wer hat die Tür aufgemacht"),
    (asked(Clause(np("boy"), HELP, PROGRESSIVE), Phrase("who", german.noun_phrase(WHO, DAT))),
     "who is the boy helping", "wem hilft der Junge"),
    (asked(Clause(np("boy"), BUY, PAST), Phrase("what", german.noun_phrase(WHAT, ACC))),
     "what did the boy buy", "was hat der Junge gekauft"),
    (asked(Clause(np("train"), verb("leave", objects=False), FUTURE), Phrase("when", "wann")),
     "when will the train leave", "wann wird der Zug abfahren"),
    # Subordinate clauses
    (joined(Clause(HE, SLEEP, PROGRESSIVE), BECAUSE, be(HE, predicate("tired"))),
     "he is sleeping because he is tired", "er schläft, weil er müde ist"),
    (joined(Clause(ME, KNOW), THAT, Clause(ANNA, OPEN, object=DOOR)),
     "I know that Anna opens the door", "ich weiß, dass Anna die Tür aufmacht"),
    (joined(Clause(ME, KNOW, negated=True), WHETHER, Clause(SHE, verb("come back", objects=False), modal=CAN)),
     "I do not know whether she can come back", "ich weiß nicht, ob sie zurückkommen kann"),
    (sub_first(Phrase("if", "wenn"), Clause(IT_ITSELF, RAIN, PRESENT), Clause(WE, SLEEP, FUTURE)),
     "if it rains, we will sleep", "wenn es regnet, werden wir schlafen"),
    (sub_first(Phrase("when", "als"), Clause(HE, GET_UP, PAST), Clause(ME, SLEEP, PAST)),
     "when he got up, I slept", "als er aufgestanden ist, habe ich geschlafen"),
    (joined(Clause(ME, BUY, PAST, object=COAT), BECAUSE, be(pronoun_for(COAT) or ME, predicate("cheap"), PAST)),
     "I bought the coat because it was cheap", "ich habe den Mantel gekauft, weil er billig war"),
    # Infinitives and requests
    (with_infinitive(Clause(SHE, TRYING[0], PAST), Clause(SHE, OPEN, object=DOOR)),
     "she tried to open the door", "sie hat versucht, die Tür aufzumachen"),
    (with_infinitive(be(IT_ITSELF, predicate("important")), Clause(IT_ITSELF, READ, object=BOOK)),
     "it is important to read the book", "es ist wichtig, das Buch zu lesen"),
    (with_infinitive(Clause(ME, TRYING[1], PRESENT), Clause(ME, verb("take care"), object=np("cat"))),
     "I begin to take care of the cat", "ich fange an, mich um die Katze zu kümmern"),
    (requested(Clause(YOU, READ, object=BOOK), YOU), "please read the book", "bitte lies das Buch"),
    (requested(Clause(YOU_ALL, OPEN, object=DOOR), YOU_ALL), "please open the door", "bitte macht die Tür auf"),
    (requested(Clause(YOU_POLITE, HELP, object=ME), YOU_POLITE), "please help me", "bitte helfen Sie mir"),
    (requested(Clause(YOU, verb("wash"), object=np("car"), negated=True), YOU),
     "please do not wash the car", "bitte wasche das Auto nicht"),
    # Relative clauses
    (said(be(with_relative(np("man"), Clause(ME, READ, object=BOOK), of_object=False), predicate("rich"))),
     "the man who reads the book is rich", "der Mann, der das Buch liest, ist reich"),
    (said(Clause(ME, verb("know"), object=with_relative(np("dog"), Clause(ANNA, SEE), of_object=True))),
     "I know the dog that Anna sees", "ich kenne den Hund, den Anna sieht"),
    (said(be(with_relative(np("horse", plural=True), Clause(HE, HELP, PAST), of_object=True), predicate("old"))),
     "the horses that he helped are old", "die Pferde, denen er geholfen hat, sind alt"),
]
# fmt: on


@pytest.mark.parametrize(("pair", "expected_english", "expected_german"), SENTENCES, ids=[row[1] for row in SENTENCES])
def test_both_sides_are_what_people_say(pair: Pair, expected_english: str, expected_german: str) -> None:
    said_english, said_german = pair
    # The full stop of a finished sentence takes the place of the comma that closes a relative clause.
    assert (said_english, said_german.removesuffix(",")) == (expected_english, expected_german)
