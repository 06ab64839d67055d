"""On which lines an export is compared: where they come from, and that none is longer than an export can read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from data.errors import DataError
from transformer.inference.export.gate_lines import gate_lines, length_limits
from transformer.inference.export.obstacles import LONGEST_SOURCE
from transformer.model_directory import Model

MakeModel = Callable[..., Model]


@pytest.mark.parametrize("long", ["the cat sat " * 900, "x" * 5000], ids=["words", "a word"])
def test_lines_too_long_for_an_export_are_left_out_and_counted(
    make_model: MakeModel, tmp_path: Path, long: str
) -> None:
    lines = ["the cat", long, "w7 on the mat", long]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "out").write_text("a\nb\nc\nd\n")
    given = gate_lines(make_model(), tmp_path, tmp_path / "in", tmp_path / "out")
    assert given.references == ["a", "c"]
    assert given.lines[:4] == ["the cat", "w7 on the mat", "", "the"]
    assert "but 2, which have over 2,046 pieces" in given.origin


@pytest.mark.parametrize(("ratio", "extra"), [(0.0, 10**6), (3.0, 50), (0.5, 2046), (1.0, 50)])
def test_no_translation_may_be_longer_than_an_export_can_write(
    make_model: MakeModel, tmp_path: Path, ratio: float, extra: int
) -> None:
    model = make_model()
    search = model.translate.model_copy(update={"max_length_ratio": ratio, "max_extra_length": extra})
    model = Model(**vars(model) | {"translate": search})
    (tmp_path / "in").write_text("".join(f"{'the cat sat ' * n}\n" for n in (1, 200, 300, 600, 660)))
    given = gate_lines(model, tmp_path, tmp_path / "in", None)
    sources = model.src_vocabulary.encode(given.lines)
    assert max(map(len, sources)) <= LONGEST_SOURCE
    assert max(length_limits(search, sources)) <= LONGEST_SOURCE
    assert len(given.lines) >= 4


def test_lines_that_are_all_too_long_are_an_error(make_model: MakeModel, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("the cat sat " * 900 + "\n")
    with pytest.raises(DataError, match="none is left; give --input FILE"):
        gate_lines(make_model(), tmp_path, tmp_path / "in", None)


@pytest.mark.parametrize("place", ["", "model", "checkpoints/best"])
def test_a_run_and_what_is_in_it_are_compared_on_the_validation_lines(
    make_model: MakeModel, tmp_path: Path, place: str
) -> None:
    path = tmp_path / "runs" / "mine" / place
    path.mkdir(parents=True)
    assert gate_lines(make_model(), path, None, None).origin == "made up from the vocabulary"
    prepared = tmp_path / "prepared" / "mine"
    prepared.mkdir(parents=True)  # no more than what preprocess.py leaves when it is stopped
    (prepared / "valid.src.txt").write_text("the cat\nthe mat\n")
    assert gate_lines(make_model(), path, None, None).origin == "made up from the vocabulary"
    (prepared / "valid.tgt.txt").write_text("die katze\ndie matte\n")
    given = gate_lines(make_model(), path, None, None)
    assert (given.origin, given.references) == ("validation lines of mine", ["die katze", "die matte"])
