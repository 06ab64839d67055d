from __future__ import annotations

import unicodedata

import lxml.html
from hypothesis import given
from hypothesis import strategies as st

from data.report.visible import plain, shown

ANY_TEXT = st.text(st.characters(codec=None) | st.sampled_from("\u202e\u2066\x1b\x00\n<>&\"'\ud800\u200b"), max_size=60)


@given(ANY_TEXT)
def test_text_of_any_kind_leaves_nothing_that_acts(text: str) -> None:
    for made in (plain(text), str(shown(text, limit=1000))):
        made.encode()  # no half characters
        assert all(unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp") for character in made)
        assert not set(made) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")


@given(st.text(st.sampled_from("ab<>&\"'é好🎃 ;#x"), max_size=40))
def test_visible_text_is_shown_as_it_is(text: str) -> None:
    element = lxml.html.fromstring(str(shown(text, limit=1000)))
    found = element.text_content()
    assert element.tag == "bdi" and not element.xpath(".//*[not(self::span)]")
    assert found == text if text.strip() else found.startswith(text)


def test_what_cannot_be_seen_is_named() -> None:
    assert plain("a\u202eb\tc\x1b[31m") == "a‹U+202E›b‹TAB›c‹ESC›[31m"
    mark = lxml.html.fromstring(str(shown("a\u202eb"))).find("span")
    assert (mark.text, mark.get("title")) == ("U+202E", "right-to-left override")


def test_joiners_of_persian_and_emoji_stay() -> None:
    assert plain("می\u200cخواهم 👩\u200d💻") == "می\u200cخواهم 👩\u200d💻"


def test_long_and_empty_text_say_so() -> None:
    assert "1,000 characters in all" in shown("x" * 1000) and "x" * 241 not in shown("x" * 1000)
    assert "empty" in shown("") and "blank" in shown("  ")
