"""Terms in running text: whole words, the longest, whatever the script."""

from __future__ import annotations

import re
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from transformer.inference.glossary import Glossary

LETTERS = "abABéß1"


def found(glossary: Glossary, text: str) -> list[str]:
    return [term.src for term in glossary.find(text)]


def brute_force(terms: list[str], text: str) -> list[str]:
    """Every term at every place, by the definition, in scripts with spaces."""

    def is_letter(character: str) -> bool:
        return unicodedata.category(character)[0] in "LMN"

    def matches(term: str, at: int) -> bool:
        there, before, after = text[at : at + len(term)], text[:at][-1:], text[at + len(term) :][:1]
        alike = there == term or (term == term.lower() and there.lower() == term)
        return alike and not any(neighbour and is_letter(neighbour) for neighbour in (before, after))

    at, result = 0, []
    while at < len(text):
        here = [term for term in terms if matches(term, at)]
        best = max(here, key=lambda term: (len(term), text.startswith(term, at)), default="")
        result += [best] if best else []
        at += len(best) or 1
    return result


terms = st.text(st.sampled_from(LETTERS + " -."), min_size=1, max_size=5).filter(lambda t: t == " ".join(t.split()))
lines = st.text(st.sampled_from(LETTERS + "  -.")).map(lambda text: " ".join(text.split()))


@given(st.lists(terms, unique=True), lines)
def test_the_terms_found_are_those_of_brute_force(terms: list[str], text: str) -> None:
    glossary = Glossary({term: f"<{term}>" for term in terms})
    assert found(glossary, text) == brute_force(terms, text)
    assert len(glossary) == len(terms)


@given(terms, lines, lines)
def test_a_term_between_spaces_is_found(term: str, before: str, after: str) -> None:
    glossary = Glossary({term: "x"})
    assert found(glossary, f"{before} {term} {after}")  # perhaps further left and across, but not nowhere


@pytest.mark.parametrize(
    ("terms", "text", "expected"),
    [
        (["cat"], "The cat's cats: concat, cat-like (cat).", ["cat", "cat", "cat"]),
        (
            ["New York", "New York Times", "York"],
            "The New York Times of New York, York",
            ["New York Times", "New York", "York"],
        ),
        (["US", "us"], "US or us, not Us", ["US", "us", "us"]),
        (["US"], "us, Us", []),
        (["machine translation"], "Machine Translation and MACHINE  TRANSLATION", ["machine translation"] * 2),
        (["polish", "Polish"], "Polish polish", ["Polish", "polish"]),
        (["C++"], "C++, C++11, (C++)", ["C++", "C++"]),
        ([".NET"], "ASP.NET .NET", [".NET"]),
        (["Straße"], "Straße STRASSE", ["Straße"]),
        (["οδος"], "ΟΔΟΣ.α οδος", ["οδος", "οδος"]),
        (["istanbul"], "İstanbul istanbul", ["istanbul"]),
        (["cafe\u0301"], "caf\u00e9", ["cafe\u0301"]),
        (["fine"], "ﬁne ｆｉｎｅ", ["fine", "fine"]),
        (["机器翻译", "翻译"], "用机器翻译来翻译", ["机器翻译", "翻译"]),
        (["テスト"], "コンテストのテストは", ["テスト"]),
        (["GPU"], "这个GPU很快", ["GPU"]),
        (["ลัง"], "กำลัง", ["ลัง"]),
        (["ลั"], "กำลั\u0e48ง", []),  # a mark follows
        (["भाषा"], "भाषाएँ भाषा", ["भाषा"]),
        (["a\u00a0b"], "a  b", ["a\u00a0b"]),
    ],
)
def test_terms_are_found_as_a_translator_means_them(terms: list[str], text: str, expected: list[str]) -> None:
    assert found(Glossary(dict.fromkeys(terms, "x")), text) == expected


def load(tmp_path: Path, content: str) -> Glossary:
    path = tmp_path / "terms.tsv"
    path.write_text(content, encoding="utf-8")
    return Glossary.load(path)


def test_a_file_has_a_term_a_line(tmp_path: Path) -> None:
    glossary = load(tmp_path, "# English\u2028German\n\ncat\tKatze\n#tag\t#Marke\n dog \t Hund \ncat\tKatze\n")
    assert [(term.src, term.tgt, term.line) for term in glossary] == [
        ("cat", "Katze", 3),
        ("#tag", "#Marke", 4),
        ("dog", "Hund", 5),
    ]
    assert [term.tgt for term in glossary.find("A cat, a #tag and a dog")] == ["Katze", "#Marke", "Hund"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("cat", "1 fields, not 2"),
        ("cat\tKatze\tn.", "3 fields, not 2"),
        ("\tKatze", "the source term is blank"),
        ("cat\t ", "the target term is blank"),
        ("dog\tKatze", "'dog' is 'Katze' here and 'Hund' in line 1"),
        ("dog\u00a0\tKatze", "'Hund' in line 1"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(DataError, match=f"terms.tsv, line 3: .*{re.escape(words)}"):
        load(tmp_path, f"dog\tHund\n# a comment\n{line}\n")


def test_terms_from_python_may_not_contradict_either() -> None:
    with pytest.raises(DataError, match="the glossary: 'a  b' is 'y' here and 'x' before"):
        Glossary({"a b": "x", "a  b": "y"})
    assert len(Glossary({"a b": "x", "a  b": "x"})) == 1


def test_all_wrong_lines_are_named_up_to_ten(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load(tmp_path, "x\n" * 25)
    lines = str(caught.value).split("\n")
    assert len(lines) == 11
    assert lines[9].startswith(f"{tmp_path / 'terms.tsv'}, line 10: ")
    assert lines[10] == "… and 15 more"


def test_many_terms_cost_a_line_nothing() -> None:
    text = "the name17 name18 of word3 word4 word5 is not name99999 in this sentence"
    seconds = []
    for n in (100, 100_000):
        glossary = Glossary({f"name{i} name{i + 1} x": "y" for i in range(n)} | {"sentence": "Satz"})
        begin = time.perf_counter()
        for _ in range(1000):
            assert found(glossary, text) == ["sentence"]
        seconds.append(time.perf_counter() - begin)
    assert seconds[1] < 5 * seconds[0] + 0.1
