"""Each filter drops what it is for, and lets sound pairs pass, whatever comes beside them."""

from __future__ import annotations

import random
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.errors import DataError
from data.filters import FACTORIES, Filter, make_filter
from data.filters.language import unknown_to_py3langid
from data.pairs import Texts
from transformer.config_filters import DEFAULT_FILTERS, DuplicatesFilter

SOUND = [
    ("The house is bigger than the garden.", "Das Haus ist größer als der Garten."),
    ("Yesterday we went to the market to buy some apples.", "Gestern gingen wir auf den Markt, um Äpfel zu kaufen."),
    ("OK", "Einverstanden"),
    ("LibreOffice", "LibreOffice"),
    ("--no-pager", "--no-pager"),
    ("nsenter(1)", "nsenter(1)"),
    ("1.5 km", "1,5 km"),
    ("It costs 1,234.50 euros in 2024.", "Es kostet 2024 1.234,50 Euro."),
    ("Ha ha ha ha!", "Ha ha ha ha!"),
    ("a\u2028b\u0085c \u00a0 soft\u00adhyphen 😀", "a\u2028b\u0085c \u00a0 weiches\u00adTrennzeichen 😀"),
    ("Open the « MENÜ » of the “CAFÉ”.", "Öffnen Sie das »MENÜ« des „CAFÉ“."),
]


def dropped(filter_: Filter, *pairs: tuple[str, str]) -> list[bool]:
    src, tgt = zip(*pairs, strict=True)
    return (~filter_(Texts(list(src), list(tgt)))).tolist()


@pytest.mark.parametrize("name", [entry.filter for entry in DEFAULT_FILTERS if entry.filter != "duplicates"])
def test_sound_pairs_pass_every_default_filter(name: str) -> None:
    assert not any(dropped(make_filter(name, {}, "en", "de"), *SOUND))


# Names of filters, and pairs from English to German that they drop.
BAD = [
    ("length", "word " * 251, "Wort"),
    ("length", "x" * 2001, "y"),
    ("ratio", "Short.", "Dieser Satz ist viel zu lang, um eine Übersetzung von einem Wort zu sein, nicht wahr?"),
    ("garbage", "A sentence of words as it should be", "&yz%1a=&0 &#05 9/()? 1=/%?=&?=5&)99"),
    ("garbage", "NUL \x00 inside", "NUL innen"),
    ("garbage", "An escape \x1b[31m in red", "Rot"),
    ("garbage", "A lost \ufffd character", "Ein verlorenes Zeichen"),
    ("mojibake", "for you", "fÃ¼r dich"),
    ("mojibake", "I donâ€™t know", "Ich weiß nicht"),
    ("mojibake", "hello", "Ð¿Ñ€Ð¸Ð²ÐµÑ‚"),
    ("script", "The house is big.", "Дом очень большой."),
    ("language", "The house is bigger than the garden.", "La maison est plus grande que le jardin."),
    ("language", "La casa es más grande que el jardín.", "Das Haus ist größer als der Garten."),
    ("language", "Das Haus ist größer als der Garten.", "The house is bigger than the garden."),
    ("language", "The house is bigger than the garden.", "The house is larger than the garden is."),
    ("copied", "The house is bigger than the garden.", "The house is bigger than the garden."),
    ("copied", "The house is bigger than the garden.", "the House is bigger than the garden"),
    ("concatenated", "Open the file. " * 12, "Öffne die Datei. " * 12),
    ("repeats", "He has the keys.", "Er hat die Schlüssel. " * 4),
    ("repeats", "no no no no no", "nein"),
    ("numbers", "It was in 1984.", "Es war 1985."),
    ("markup", "<b>bold</b> and <i>italic</i>", "fett und kursiv"),
]


@pytest.mark.parametrize(("name", "src", "tgt"), BAD, ids=[f"{name}: {src[:20]}" for name, src, _ in BAD])
def test_what_a_filter_is_for_is_dropped_among_sound_pairs(name: str, src: str, tgt: str) -> None:
    pairs = [*SOUND[:2], (src, tgt), *SOUND[:1]]
    assert dropped(make_filter(name, {}, "en", "de"), *pairs) == [False, False, True, False]


@pytest.mark.parametrize("name", [name for name in FACTORIES if name != "score"])
def test_a_pair_is_judged_the_same_in_any_company(name: str) -> None:
    filter_ = make_filter(name, {}, "en", "de")
    pairs = SOUND + [(src, tgt) for _, src, tgt in BAD]
    random.Random(1).shuffle(pairs)
    assert dropped(filter_, *pairs) == [dropped(filter_, pair)[0] for pair in pairs]


@pytest.mark.parametrize("name", list(FACTORIES))
def test_no_pairs_are_no_verdicts(name: str) -> None:
    options = {"at_least": 0.5} if name == "score" else {}
    kept = make_filter(name, options, "en", "de")(Texts([], []))
    assert kept.shape == (0,)
    assert kept.dtype == np.bool_


any_text = st.text(max_size=30) | st.text("aA Ã¼é.1<&;-\x00\u0300한\ud800", max_size=30)
FILTERS = {name: make_filter(name, {"at_least": 0.5} if name == "score" else {}, "en", "de") for name in FACTORIES}


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(any_text, any_text), max_size=5))
def test_any_text_gets_a_verdict(pairs: list[tuple[str, str]]) -> None:
    texts = Texts([src for src, _ in pairs], [tgt for _, tgt in pairs])
    for filter_ in FILTERS.values():
        kept = filter_(texts)
        assert kept.shape == (len(pairs),)
        assert kept.dtype == np.bool_


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1), st.floats(1, 5))
def test_the_ratio_is_that_of_the_characters_and_fifteen(sizes: list[tuple[int, int]], limit: float) -> None:
    filter_ = make_filter("ratio", {"max_ratio": limit}, "en", "de")
    expected = [max(a + 15, b + 15) > limit * min(a + 15, b + 15) for a, b in sizes]
    assert dropped(filter_, *(("x" * a, "y" * b) for a, b in sizes)) == expected


def test_a_chinese_character_counts_as_three() -> None:
    zh, en = make_filter("ratio", {"max_ratio": 1.0}, "en", "zh"), make_filter("ratio", {"max_ratio": 1.0}, "en", "de")
    assert dropped(zh, ("abcdefghi", "甲乙丙"), ("abc", "甲乙丙")) == [False, True]
    assert dropped(en, ("abc", "甲乙丙")) == [False]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text("ab ", max_size=30), min_size=1), st.integers(1, 8), st.integers(1, 20), st.integers(1, 8))
def test_lengths_are_those_of_words_and_characters(texts: list[str], words: int, characters: int, word: int) -> None:
    limits = {"max_words": words, "max_characters": characters, "max_word_characters": word}
    expected = [
        len(text.split()) > words or len(text) > characters or any(len(part) > word for part in text.split())
        for text in texts
    ]
    assert dropped(make_filter("length", limits, "en", "de"), *((text, "a") for text in texts)) == expected
    assert dropped(make_filter("length", limits, "en", "de"), *(("a", text) for text in texts)) == expected


def test_numbers_are_compared_without_the_separators_of_languages() -> None:
    filter_ = make_filter("numbers", {}, "en", "de")
    same = [("1,234.50", "1.234,50"), ("1 000 000", "1.000.000"), ("2 dogs", "zwei Hunde"), ("5/12/2020", "12.5.2020")]
    assert not any(dropped(filter_, *same))
    assert all(dropped(filter_, ("10 dogs", "Hunde"), ("Dogs", "10 Hunde"), ("page 17", "Seite 18")))


def test_mixed_scripts_pass_while_their_own_is_there() -> None:
    russian = make_filter("script", {}, "en", "ru")
    assert dropped(
        russian, ("Windows works", "Windows работает"), ("Windows", "Windows"), ("It works", "它可以工作了")
    ) == [
        False,
        False,
        True,
    ]
    japanese = make_filter("script", {}, "en", "ja")
    assert dropped(japanese, ("It works", "動作します"), ("It works", "Это работает")) == [False, True]


def test_vowel_signs_and_accents_are_letters() -> None:
    hindi = "यह किताब बहुत अच्छी है और मैं इसे पढ़ना चाहता हूँ।"
    filter_ = make_filter("garbage", {}, "en", "hi")
    assert dropped(filter_, ("This book is very good and I want to read it.", hindi)) == [False]


def test_codes_with_a_country_or_script_mean_the_language() -> None:
    wrong = ("The house is bigger than the garden.", "La maison est plus grande que le jardin.")
    assert dropped(make_filter("language", {}, "en-GB", "de_AT"), wrong) == [True]
    assert unknown_to_py3langid("en_US", "zh-Hans") == []


def test_a_language_that_is_not_known_passes_and_the_other_side_is_still_judged() -> None:
    filter_ = make_filter("language", {}, "en", "liv")
    livonian = "Ma kuis um lēnd mō pǟl."
    pairs = [("The house is bigger than the garden.", livonian), ("Das Haus ist größer als der Garten.", livonian)]
    assert dropped(filter_, *pairs) == [False, True]
    assert unknown_to_py3langid("en", "liv") == ["liv"]
    assert not any(dropped(make_filter("language", {}, "tlh", "liv"), *pairs))


def test_copies_are_dropped_where_no_language_is_known_but_not_code() -> None:
    filter_ = make_filter("copied", {}, "tlh", "liv")
    assert dropped(filter_, ("nuqneH jIH", "nuqneH jIH"), ("some words", "some words"), ("--help", "--help")) == [
        False,
        True,
        False,
    ]


def test_scores_below_missing_or_no_numbers_are_dropped() -> None:
    filter_ = make_filter("score", {"at_least": 0.5}, "en", "de")
    meta = [{"score": value} for value in ("0.5", "0.49", "1", "nan", "high", "")] + [{}]
    kept = filter_(Texts(["a"] * 7, ["b"] * 7, meta))
    assert kept.tolist() == [True, False, True, False, False, False, False]
    assert not filter_(Texts(["a"], ["b"])).any()


def test_a_filter_that_is_none_is_named_with_those_there_are() -> None:
    with pytest.raises(DataError, match="langid: no filter; there are length, ratio"):
        make_filter("langid", {}, "en", "de")


def test_lingua_missing_is_told_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lingua", None)
    with pytest.raises(DataError, match="pip install lingua-language-detector"):
        make_filter("language", {"model": "lingua"}, "en", "de")


def test_lingua_judges_each_side_by_its_confidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lingua", fake_lingua())
    filter_ = make_filter("language", {"model": "lingua", "margin": 2.0, "min_letters": 1}, "en", "de")
    pairs = [("en 0.9", "de 0.9"), ("en 0.9", "fr 0.9"), ("fr 0.5", "de 0.9"), ("de 0.9", "de 0.9")]
    assert dropped(filter_, *pairs) == [False, True, False, True]
    with pytest.raises(DataError, match="lingua does not know tlh"):
        make_filter("language", {"model": "lingua"}, "en", "tlh")


def test_the_real_lingua_keeps_what_is_right_and_drops_what_is_not() -> None:
    pytest.importorskip("lingua")
    filter_ = make_filter("language", {"model": "lingua"}, "en", "de")
    english, german = "The house is bigger than the garden.", "Das Haus ist größer als der Garten."
    french, russian = "La maison est plus grande que le jardin.", "Дом больше, чем сад, и это хорошо."
    pairs = [(english, german), (english, french), (german, english), (russian, german), ("OK", "OK")]
    assert dropped(filter_, *pairs) == [False, True, True, True, False]


def fake_lingua() -> ModuleType:
    """lingua's interface, for texts that say their language and the confidence in it; the rest goes to the others."""
    codes = ("en", "ru", "de", "ja", "zh", "es", "fr", "it", "pt", "nl")
    languages = {code: SimpleNamespace(iso_code_639_1=SimpleNamespace(name=code.upper())) for code in codes}

    def confidences(texts: list[str]) -> list[list[SimpleNamespace]]:
        of_texts = []
        for text in texts:
            code, share = text.split()
            rest = (1 - float(share)) / (len(codes) - 1)
            of_texts.append(
                [SimpleNamespace(language=languages[c], value=float(share) if c == code else rest) for c in codes]
            )
        return of_texts

    module = ModuleType("lingua")
    detector = SimpleNamespace(compute_language_confidence_values_in_parallel=confidences)
    builder = SimpleNamespace(build=lambda: detector)
    module.Language = SimpleNamespace(all=lambda: list(languages.values()))  # type: ignore[attr-defined]
    module.LanguageDetectorBuilder = SimpleNamespace(from_languages=lambda *_: builder)  # type: ignore[attr-defined]
    return module


def test_the_default_set_ends_with_duplicates_and_every_other_entry_can_be_made_from_its_settings() -> None:
    assert isinstance(DEFAULT_FILTERS[-1], DuplicatesFilter)
    for entry in DEFAULT_FILTERS[:-1]:
        make_filter(entry.filter, entry.model_dump(exclude={"filter"}), "en", "de")
