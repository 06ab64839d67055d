"""The picture of the training benchmark shows every row of its page."""

from __future__ import annotations

from pathlib import Path

from benchmarks.training_plot import Bar, draw, read_bars

PAGE = """\
# Training

## tiny: 4 + 4 layers

| | target tokens/s | least–most | of the peak |
|---|---|---|---|
| this project, bf16 | 10,600 | 10,200–10,900 | 40.0% |
| eole † | 3,661 | 3,000–4,000 | 30.0% |

- our fastest / the fastest of the others: **2.5** (a / b)

## base: 6 + 6 layers

| fairseq | 495 | 490–500 | 76.0% |
"""


def test_every_row_is_read_with_its_numbers() -> None:
    assert read_bars(PAGE) == {
        "tiny": [Bar("this project, bf16", 10_600, 10_200, 10_900), Bar("eole †", 3_661, 3_000, 4_000)],
        "base": [Bar("fairseq", 495, 490, 500)],
    }
    assert read_bars("# nothing") == {}


def test_the_longest_bar_is_the_fastest_and_named(tmp_path: Path) -> None:
    figure = draw(read_bars(PAGE))
    tiny, base = figure.axes
    assert [bar.get_width() for bar in tiny.patches] == [3_661, 10_600]
    assert [label.get_text() for label in tiny.get_yticklabels()] == ["eole †", "this project, bf16"]
    assert [text.get_text() for text in base.texts] == ["495"]
    figure.savefig(tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").stat().st_size > 1000
