"""What `benchmarks/export.py` refuses before it measures anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.export import main
from transformer.command_line import run_command


@pytest.mark.parametrize("option", ["--rounds", "--lines"])
@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_numbers_that_measure_nothing_are_refused(option: str, value: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--model", "a", "--source", "b", "--reference", "c", option, value])


@pytest.mark.parametrize(("src", "tgt"), [("", ""), ("a\nb\n", "a\n")], ids=["empty", "unequal"])
def test_texts_that_measure_nothing_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], src: str, tgt: str
) -> None:
    (tmp_path / "src").write_text(src)
    (tmp_path / "tgt").write_text(tgt)
    texts = ["--source", str(tmp_path / "src"), "--reference", str(tmp_path / "tgt")]
    assert run_command(lambda: main(["--model", str(tmp_path), *texts])) == 1
    assert "must have as many lines as each other, and at least one" in capsys.readouterr().err
