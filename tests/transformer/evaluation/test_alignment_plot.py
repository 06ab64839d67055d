"""Pictures of alignments: each link from its word to its word, right, wrong and missed ones apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from transformer.errors import ConfigError
from transformer.evaluation.alignment_plot import GOLD, GOOD, MAX_WORDS, WRONG, AlignedWords, draw_alignment
from transformer.evaluation.gold_alignments import Gold, Link

SRC, TGT = ["the", "small", "house"], ["la", "maison", "petite"]
LINKS: list[Link] = [(0, 0), (2, 1), (0, 2)]
GOLD_LINKS = Gold(frozenset({(0, 0), (1, 2)}), frozenset({(0, 0), (1, 2), (2, 1)}))

Draw = Callable[[AlignedWords], Figure]


@pytest.fixture
def draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Draw:
    """The figure that is drawn."""
    figures: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *args, **options: (figures.append(self), save(self, *args, **options))
    )

    def call(words: AlignedWords) -> Figure:
        draw_alignment(tmp_path / "alignment.png", words)
        return figures[-1]

    return call


def words(gold: Gold | None = None, src: list[str] = SRC, tgt: list[str] = TGT) -> AlignedWords:
    return AlignedWords(src, tgt, torch.full((len(tgt), len(src)), 1 / len(src)), LINKS, gold)


def lines(figure: Figure) -> dict[Link, str]:
    """The colour of each line, by the words above which and below which it ends."""
    axes: Axes = next(axes for axes in figure.axes if not axes.axison)
    width = axes.get_xlim()[1]
    found = {}
    for line in axes.lines:
        xs = [x / width for x in line.get_xdata()]
        ends = [min(of_row, key=lambda text: abs(text[0] - x))[1] for of_row, x in zip(rows(figure), xs, strict=True)]
        found[SRC.index(ends[0]), TGT.index(ends[1])] = to_hex(line.get_color())
    return found


def rows(figure: Figure) -> list[list[tuple[float, str]]]:
    placed = [(text.get_position(), text.get_text()) for text in figure.texts if text.get_text()]
    heights = sorted({y for (_, y), _ in placed}, reverse=True)
    return [[(x, text) for (x, y), text in placed if y == height] for height in heights]


def test_every_link_is_a_line_between_its_words_and_a_dot_in_the_matrix(draw: Draw) -> None:
    figure = draw(words())
    assert lines(figure) == dict.fromkeys(LINKS, GOOD)
    [matrix] = [axes for axes in figure.axes if axes.yaxis_inverted()]
    assert {(int(line.get_xdata()[0]), int(line.get_ydata()[0])) for line in matrix.lines} == set(LINKS)


def test_links_are_right_where_they_are_possible_and_missed_where_they_are_sure(draw: Draw) -> None:
    figure = draw(words(GOLD_LINKS))
    assert lines(figure) == {(0, 0): GOOD, (2, 1): GOOD, (0, 2): WRONG, (1, 2): GOLD}
    [matrix] = [axes for axes in figure.axes if axes.yaxis_inverted()]
    frames = {
        (round(min(line.get_xdata()) + 0.43), round(min(line.get_ydata()) + 0.43)): line.get_linestyle()
        for line in matrix.lines
        if len(line.get_xdata()) == 5
    }
    assert frames == {(0, 0): "-", (1, 2): "-", (2, 1): ":"}


def test_a_row_in_a_script_from_right_to_left_begins_at_the_right(draw: Draw) -> None:
    hebrew = ["הבית", "הקטן", "."]
    order = [[text for _, text in sorted(row)] for row in rows(draw(words(tgt=hebrew)))]
    assert order == [SRC, hebrew[::-1]]


@pytest.mark.parametrize(
    ("src", "tgt", "message"),
    [([], TGT, "without words"), (SRC, [], "without words"), (["a"] * (MAX_WORDS + 1), TGT, f"at most {MAX_WORDS}")],
)
def test_no_words_and_too_many_are_refused(tmp_path: Path, src: list[str], tgt: list[str], message: str) -> None:
    aligned = AlignedWords(src, tgt, torch.ones(len(tgt), len(src)), [])
    with pytest.raises(ConfigError, match=message):
        draw_alignment(tmp_path / "a.png", aligned)
    assert list(tmp_path.iterdir()) == []


def test_any_word_can_be_drawn(tmp_path: Path) -> None:
    odd = ["$x$", "\x01\x1b", "w" * 3000, "<b>&", "مرحبا", "\u200c"]
    for suffix in ("png", "svg", "pdf"):
        path = tmp_path / f"a.{suffix}"
        draw_alignment(
            path, AlignedWords(odd, odd, torch.eye(len(odd)), [(5, 0)], Gold(frozenset(), frozenset({(2, 2)})))
        )
        assert 1000 < path.stat().st_size < 400_000
