"""Scripts run as users run them, and what they took is remembered for each recipe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import scripts
from benchmarks.scripts import Work
from transformer.errors import RunError


def test_the_peak_of_a_recipe_is_its_own_and_that_of_the_start_that_did_the_work(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text("import sys; held = b'x' * (int(sys.argv[1]) * 2**20)\n")
    work = tmp_path / "work"
    starts = f"""
from pathlib import Path
from benchmarks import scripts
scripts.ROOT = Path({str(tmp_path)!r})
for recipe, mebibytes in (("large", 200), ("small", 1), ("large", 1)):
    scripts.Work(Path({str(work)!r}), recipe).run("train", [str(mebibytes)])
"""
    subprocess.run(
        [sys.executable, "-c", starts], cwd=scripts.ROOT, check=True
    )  # a child's peak is at least what its parent holds
    large, small = (Work(work, recipe).facts()["train_peak_memory_gib"] for recipe in ("large", "small"))
    assert large - small == pytest.approx(199 / 1024, abs=0.05)
    assert Work(work, "other").facts() == {}


def test_a_script_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "ROOT", tmp_path)
    (tmp_path / "train.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(RunError, match=r"train\.py ended with exit code 3"):
        Work(tmp_path, "x").run("train", [])
