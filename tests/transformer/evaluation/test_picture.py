"""What pictures share: a font for every character that any has, and a note on what nobody could read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib.font_manager
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.evaluation import picture
from transformer.evaluation.picture import Drawn, Sheet, drawing, find_fonts, text_width, wrapped

Fonts = Callable[..., None]


@pytest.fixture
def fonts(monkeypatch: pytest.MonkeyPatch) -> Fonts:
    """Say which fonts the machine has: files, and the characters of each."""
    dejavu = matplotlib.font_manager.findfont("DejaVu Sans")

    def install(*, sans: dict[str, str] | None = None, others: dict[str, str] | None = None) -> None:
        characters = {name: frozenset(map(ord, text)) for name, text in ((sans or {}) | (others or {})).items()}
        monkeypatch.setattr(picture, "_installed", lambda: (list(sans or {}), list(others or {})))
        monkeypatch.setattr(picture, "_characters", lambda path: characters.get(path, frozenset(map(ord, "abc."))))
        monkeypatch.setattr(picture, "_make_known", lambda path: path)

    assert Path(dejavu).is_file()
    return install


def test_a_text_that_the_first_font_has_needs_no_other(fonts: Fonts) -> None:
    fonts(sans={"Unwanted": "abc你"})
    assert find_fonts("a b\nc.") == (["DejaVu Sans"], [])


def test_fonts_are_taken_until_all_characters_are_there_and_the_others_named(fonts: Fonts) -> None:
    fonts(sans={"Thai": "ที", "Chinese": "你好吗", "Less": "你好"}, others={"Everything": "你好吗ทีक"})
    assert find_fonts("a 你好吗 ที कα") == (["DejaVu Sans", "Chinese", "Thai", "Everything"], ["α"])


def test_spaces_joiners_marks_of_direction_and_variants_need_no_font(fonts: Fonts) -> None:
    fonts()
    assert find_fonts("a\u200c\u200f \u2066b\u2069\ufe0f\u00ad\ufeff\u3000c")[1] == []


@settings(deadline=None)  # the first example reads all fonts
@given(text=st.text(max_size=30))
def test_real_fonts_have_all_that_is_not_named_as_missing(text: str) -> None:
    families, missing = find_fonts(text)
    files = [matplotlib.font_manager.findfont(family) for family in families]
    covered = set().union(*(picture._characters(file) for file in files))
    for character in picture.printable(text):
        assert ord(character) in covered or character in missing or picture._is_invisible(character)


def test_no_warning_of_matplotlibs_gets_through(fonts: Fonts, recwarn: pytest.WarningsRecorder, tmp_path: Path) -> None:
    fonts()
    with drawing("\N{CUNEIFORM SIGN A}") as drawn:
        sheet = Sheet(tmp_path / "a.png", 2, 1)
        sheet.write(1, 0.5, "\N{CUNEIFORM SIGN A}")
        assert text_width("\N{CUNEIFORM SIGN A}") > 0
        assert sheet.save(drawn).missing == ["\N{CUNEIFORM SIGN A}"]
    assert [warning for warning in recwarn if "Glyph" in str(warning.message)] == []


def test_a_png_that_nobody_could_read_is_noted_and_an_svg_is_not(tmp_path: Path) -> None:
    with drawing("") as drawn:
        [note] = Sheet(tmp_path / "a.png", 0.1, picture.MAX_PIXELS / 50).save(drawn).notes
        assert "50 dots per inch" in note
        assert Sheet(tmp_path / "a.svg", 0.1, picture.MAX_PIXELS / 50).save(Drawn()).notes == []


@settings(deadline=None)
@given(text=st.text(st.sampled_from("ab你好 "), min_size=1, max_size=80), width=st.floats(1, 4))
def test_a_title_is_wrapped_to_its_width_in_any_script(text: str, width: float) -> None:
    with drawing(text):
        lines = wrapped(text, width)
        assert "".join("".join(lines).split()) == "".join(text.split())
        assert len(lines) <= 1 or text_width(text, 10) > width
