"""The corpus as a whole: laws that every sentence keeps, and what the demo relies on."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from data.grammar import english, generate_pairs, write_corpus
from data.grammar.__main__ import main
from data.grammar.clauses import clause
from data.grammar.english import ing_form, third_person
from data.grammar.lexicon import ADJECTIVES, COLOURS, NOUNS
from data.grammar.sentences import sentence
from data.grammar.speaker import Speaker
from data.grammar.trees import Tense
from data.grammar.verbs import ASKING, SAYING, TRYING, VERBS

Corpus = dict[str, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The corpus of the demo, at its full size, as read from its files."""
    folder = tmp_path_factory.mktemp("demo")
    write_corpus(folder, n_train=40_000, n_valid=500, n_test=500, seed=1)
    return {name: read(folder, name) for name in ("train", "valid", "test")}


def read(folder: Path, name: str) -> list[tuple[str, str]]:
    sides = [(folder / f"{name}.{language}").read_text(encoding="utf-8").split("\n") for language in ("en", "de")]
    assert all(side.pop() == "" for side in sides)
    return list(zip(*sides, strict=True))


# --- What the demo relies on -----------------------------------------------------------------------------------------


def test_no_sentence_of_valid_or_test_occurs_anywhere_else_in_either_language(corpus: Corpus) -> None:
    assert {name: len(pairs) for name, pairs in corpus.items()} == {"train": 40_000, "valid": 500, "test": 500}
    for side in (0, 1):
        everything = Counter(pair[side] for pairs in corpus.values() for pair in pairs)
        assert max(everything.values()) == 1


def test_every_english_sentence_has_one_german_translation() -> None:
    speaker = Speaker(seed=7)
    translations: dict[str, set[str]] = {}
    for _ in range(15_000):
        en, de = sentence(speaker)
        translations.setdefault(en, set()).add(de)
    assert len(translations) < 15_000, "nothing was drawn twice, so nothing was tested"
    assert [en for en, des in translations.items() if len(des) > 1] == []


def test_present_and_past_never_look_alike_in_english() -> None:
    """As "they read" would, which is two German sentences."""
    speaker = Speaker(seed=8)
    for plain in (True, False):
        for _ in range(3_000):
            part = clause(speaker, Tense.PRESENT, plain=plain)
            if part.modal is None:
                assert english.statement(part) != english.statement(replace(part, tense=Tense.PAST))


def test_the_vocabulary_has_at_least_250_lemmas() -> None:
    nouns = {("noun", noun.en, noun.de) for noun in NOUNS}
    verbs = {("verb", verb.en, verb.particle, verb.prefix, verb.de) for verb in (*VERBS, *SAYING, *ASKING, *TRYING)}
    adjectives = {("adjective", adjective.en, adjective.de) for adjective in (*ADJECTIVES, *COLOURS)}
    assert len(nouns) + len(verbs) + len(adjectives) >= 250


def _lemmas() -> dict[str, set[str]]:
    """The English word forms of each lemma of the open classes."""
    forms = {f"noun {noun.en}": {noun.en, noun.en_plural} for noun in NOUNS}
    forms |= {f"adjective {adjective.en}": {adjective.en} for adjective in (*ADJECTIVES, *COLOURS)}
    for verb in (*VERBS, *SAYING, *ASKING, *TRYING):
        forms[f"verb {verb.base}"] = {*verb.en.split(), third_person(verb.base), ing_form(verb.base)}
    return forms


def test_every_lemma_of_the_test_set_occurs_20_times_in_training(corpus: Corpus) -> None:
    def sentences_with(pairs: list[tuple[str, str]]) -> Counter[str]:
        return Counter(word for en, _ in pairs for word in set(re.findall(r"\w+", en.lower())))

    train, test = sentences_with(corpus["train"]), sentences_with(corpus["test"])
    for lemma, forms in _lemmas().items():
        if any(test[form] for form in forms):
            assert sum(train[form] for form in forms) >= 20, lemma


def test_sentences_are_of_moderate_length(corpus: Corpus) -> None:
    lengths = [len(side.split()) for pairs in corpus.values() for pair in pairs for side in pair]
    assert max(lengths) <= 20
    assert 7 <= sum(lengths) / len(lengths) <= 10


# --- The same everywhere ---------------------------------------------------------------------------------------------


def test_a_longer_list_begins_with_the_shorter_one_and_another_seed_differs() -> None:
    long = generate_pairs(300, seed=5)
    assert generate_pairs(100, seed=5) == long[:100]
    assert generate_pairs(100, seed=6) != long[:100]


def test_the_corpus_does_not_depend_on_the_order_of_hashing() -> None:
    program = "from data.grammar import generate_pairs; print(repr(generate_pairs(500, 3)))"
    digests = set()
    for hash_seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        digests.add(hashlib.sha256(run.stdout).hexdigest())
    assert len(digests) == 1


def test_a_smaller_training_set_leaves_valid_and_test_alone(tmp_path: Path) -> None:
    write_corpus(tmp_path / "small", 10, 20, 30, seed=2)
    write_corpus(tmp_path / "large", 50, 20, 30, seed=2)
    for name in ("valid", "test"):
        assert read(tmp_path / "small", name) == read(tmp_path / "large", name)


# --- German laws, with tables of their own ---------------------------------------------------------------------------

# fmt: off
GENDERS = {
    "Hund": "m", "Mann": "m", "Tisch": "m", "Apfel": "m", "Zug": "m", "Garten": "m", "Brief": "m",
    "Katze": "f", "Tante": "f", "Lampe": "f", "Suppe": "f", "Stadt": "f", "Zeitung": "f", "Tür": "f",
    "Kind": "n", "Pferd": "n", "Haus": "n", "Buch": "n", "Auto": "n", "Bett": "n", "Brot": "n",
}
ARTICLES = {
    "m": {"der", "den", "dem", "ein", "einen", "einem", "kein", "keinen", "keinem", "dieser", "diesen", "diesem",
          "im", "am", "zum", "vom"},
    "f": {"die", "der", "eine", "einer", "keine", "keiner", "diese", "dieser", "zur"},
    "n": {"das", "dem", "ein", "einem", "kein", "keinem", "dieses", "diesem", "im", "ins", "am", "zum", "vom"},
}
ALL_ARTICLES = set().union(*ARTICLES.values())
FINITE = {
    "bin", "bist", "ist", "sind", "seid", "war", "warst", "waren", "wart", "habe", "hast", "hat", "haben", "habt",
    "hatte", "hattest", "hatten", "hattet", "konnte", "konntest", "konnten", "konntet", "musste", "musstest",
    "mussten", "musstet", "wollte", "wolltest", "wollten", "wolltet",
}
# fmt: on


def test_articles_have_the_gender_of_their_noun(corpus: Corpus) -> None:
    seen = Counter[str]()
    for _, de in corpus["train"]:
        # After a comma it is a relative pronoun: "der Mann, der Brot kauft".
        for article, noun in re.findall(r"(?<!, )\b(\w+)(?= (\w+))", de):
            if noun in GENDERS and article.lower() in ALL_ARTICLES:
                assert article.lower() in ARTICLES[GENDERS[noun]], de
                seen[noun] += 1
    assert set(seen) == set(GENDERS)


def test_the_verb_is_second_after_a_fronted_time(corpus: Corpus) -> None:
    fronted = [de for _, de in corpus["train"] if de.startswith(("Gestern ", "Vorgestern ")) and " Abend" not in de]
    assert len(fronted) > 50
    for de in fronted:
        assert de.split()[1] in FINITE, de


def test_the_verb_is_last_in_a_subordinate_clause_about_the_past(corpus: Corpus) -> None:
    clauses = [
        match.group(1)
        for _, de in corpus["train"]
        for match in re.finditer(r"(?:^Bevor|, bevor|^Während|, während) ([^,.]+)", de)
    ]
    assert len(clauses) > 200
    for said in clauses:
        assert said.split()[-1] in FINITE, said


def test_infinitives_of_purpose_end_in_zu_and_a_verb(corpus: Corpus) -> None:
    purposes = [de for en, de in corpus["train"] if "in order to" in en]
    assert len(purposes) > 200
    for de in purposes:
        last = de.removesuffix(".").split()[-2:]
        assert last[0] == "zu" or re.fullmatch(r"(an|auf|aus|ein|vor|ab|weg|zu|zurück)zu\w+n", last[1]), de


def test_sentences_are_written_properly(corpus: Corpus) -> None:
    for pairs in corpus.values():
        for en, de in pairs:
            for text in (en, de):
                assert re.fullmatch(r"[A-ZÄÖÜ0-9].*[^\s,.?][.?]", text), text
                assert not re.search(r"  | [,.?]|,,|,[^ \d]", text), text
            assert en[-1] == de[-1]
            assert en.count("?") == de.count("?") <= 1


# --- The program -----------------------------------------------------------------------------------------------------


def test_the_program_writes_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "demo"
    assert main(["--output", str(out), "--train", "30", "--valid", "5", "--test", "7", "--seed", "4"]) == 0
    assert [len(read(out, name)) for name in ("train", "valid", "test")] == [30, 5, 7]
    said = capsys.readouterr().out
    assert all(str(path) in said for path in out.iterdir())
    assert len(list(out.iterdir())) == 6


@pytest.mark.parametrize("arguments", [["--train", "-1"], ["--test", "many"], ["--out", "x"], []])
def test_wrong_arguments_are_refused_with_exit_code_2(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["--output", str(tmp_path)] if arguments and arguments[0] != "--out" else []
    with pytest.raises(SystemExit) as stopped:
        main([*output, *arguments])
    assert stopped.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_a_file_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "demo"
    taken.write_text("mine")
    assert main(["--output", str(taken), "--train", "1", "--valid", "1", "--test", "1"]) == 1
    message = capsys.readouterr().err
    assert str(taken) in message
    assert message.count("\n") == 1
    assert taken.read_text() == "mine"
