"""What is written is whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.atomic import whole_directory, whole_file
from data.errors import DataError


def test_a_file_that_fails_half_way_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), whole_file(path) as stream:
        stream.write(b"new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_appears_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with whole_file(path) as stream:
        stream.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"


def test_a_device_is_written_to_and_not_replaced() -> None:
    with whole_file(Path("/dev/null")) as stream:
        stream.write(b"text")
    assert Path("/dev/null").is_char_device()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target.txt").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "link.txt").symlink_to("target.txt")
    with whole_directory(tmp_path / "link") as directory:
        (directory / "a").write_bytes(b"a")
    with whole_file(tmp_path / "link.txt") as stream:
        stream.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target" / "a").read_bytes() == b"a"
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "target.txt").read_bytes() == b"new"


def test_a_directory_replaces_the_old_one_at_once(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for content in ("first", "second"):
        with whole_directory(path) as directory:
            (directory / content).write_text(content)
            assert not (path / content).exists()
        assert [file.name for file in path.iterdir()] == [content]
        assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.mkdir()
    (path / "old").touch()
    with pytest.raises(RuntimeError), whole_directory(path) as directory:
        (directory / "new").touch()
        raise RuntimeError
    assert [file.name for file in path.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [path]


def test_leftovers_of_killed_runs_are_removed(tmp_path: Path) -> None:
    for state in ("partial", "old"):
        (tmp_path / f".data.{state}").mkdir()
        (tmp_path / f".data.{state}" / "junk").touch()
    with whole_directory(tmp_path / "data") as directory:
        assert list(directory.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / ".data.old").mkdir()
    (tmp_path / ".data.old" / "valid").touch()
    with pytest.raises(RuntimeError), whole_directory(tmp_path / "data"):
        raise RuntimeError
    assert (tmp_path / "data" / "valid").exists()


def test_two_processes_do_not_write_the_same_directory(tmp_path: Path) -> None:
    with whole_directory(tmp_path / "data") as directory:
        (directory / "mine").touch()
        with pytest.raises(DataError, match="another process"), whole_directory(tmp_path / "data"):
            pass
        assert (directory / "mine").exists()
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["mine"]


def test_an_interruption_between_the_two_renames_brings_the_old_directory_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with whole_directory(tmp_path / "d") as directory:
        (directory / "file").write_text("old")
    rename = Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        if self.suffix == ".partial":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), whole_directory(tmp_path / "d") as directory:
        (directory / "file").write_text("new")
    assert (tmp_path / "d" / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
