"""Links and leftovers: nothing is half there at any moment."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from transformer.files import point_to, remove_directory, sweep


def test_a_link_points_where_it_is_told_now_and_again(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        point_to(tmp_path / "last", name)
        assert (tmp_path / "last").resolve() == tmp_path / name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last", "one", "two"]


def test_a_link_that_a_killed_writer_left_half_made_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / ".last.partial").symlink_to("nowhere")
    point_to(tmp_path / "last", "one")
    assert (tmp_path / "last").resolve() == tmp_path / "one"


def test_a_removed_directory_is_gone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    remove_directory(tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_a_removal_that_is_stopped_leaves_nothing_under_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(path: Path) -> None:
        raise KeyboardInterrupt

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    monkeypatch.setattr(shutil, "rmtree", stop)
    with pytest.raises(KeyboardInterrupt):
        remove_directory(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    monkeypatch.undo()
    sweep(tmp_path)
    assert not list(tmp_path.iterdir())


def test_sweeping_removes_leftovers_and_nothing_else(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "x.partial").write_text("x")
    (tmp_path / ".directory.partial").mkdir()
    (tmp_path / ".directory.partial" / "file").write_text("x")
    (tmp_path / ".file.partial").write_text("x")
    (tmp_path / ".link.partial").symlink_to("kept")
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "kept", "x.partial"]
    assert (kept / "file").exists()  # links are removed, not followed
