"""Lines of several files that belong together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from data.errors import DataError
from transformer.inference.command.inputs import Inputs
from transformer.inference.glossary import Glossary
from transformer.inference.requests import Request, Wishes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "in": "a b\n\nc\n",
        "two": "x\ny\n",
        "three": "x\n\ny z\n",
        "four": "1\n2\n3\n4\n",
        "in.jsonl": '{"text": "a", "prefix": "p", "required": ["r"]}\n\n{"text": "b"}\n',
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_lines_without_wishes_are_their_own_requests(folder: Path) -> None:
    lines = list(Inputs(Path("in")).lines())
    assert [line.request for line in lines] == ["a b", "", "c"]
    assert [line.pair.src for line in lines] == ["a b", "", "c"]


def test_wishes_and_json_lines_make_requests_beside_their_text(folder: Path) -> None:
    wishes = Wishes(prefix=Path("three"), avoided_everywhere=("q",), glossary=Glossary({"c": "cc"}))
    assert [line.request for line in Inputs(Path("in"), wishes=wishes).lines()] == [
        Request("a b", "x", (), ("q",)),
        Request("", "", (), ("q",)),
        Request("c", "y z", ("cc",), ("q",)),
    ]
    lines = list(Inputs(Path("in.jsonl"), json_lines=True).lines())
    assert [line.request for line in lines] == [Request("a", "p", ("r",)), Request(""), Request("b")]
    assert [line.pair.src for line in lines] == ["a", "", "b"]


def test_references_stand_beside_their_lines(folder: Path) -> None:
    lines = list(Inputs(Path("in"), scored=Path("three")).lines())
    assert [line.pair[:2] for line in lines] == [("a b", "x"), ("", ""), ("c", "y z")]


@pytest.mark.parametrize(("name", "n_lines"), [("two", 2), ("four", 4)])
def test_files_of_another_length_are_refused_with_both_counts(folder: Path, name: str, n_lines: int) -> None:
    path = Path(name)
    for inputs in (Inputs(Path("in"), scored=path), Inputs(Path("in"), wishes=Wishes(required=path))):
        with pytest.raises(DataError, match=rf"in has 3 lines, {name} has {n_lines}"):
            list(inputs.lines())


def test_bytes_that_are_not_utf8_are_refused_or_replaced_and_told(folder: Path) -> None:
    Path("in").write_bytes(b"a\n\xe9\nb \xff\xff\n")
    with pytest.raises(DataError, match="in, line 2"):
        list(Inputs(Path("in")).lines())
    told: list[int] = []
    assert [line.request for line in Inputs(Path("in"), replace_invalid=True).lines(told.append)] == [
        "a",
        "\ufffd",
        "b \ufffd\ufffd",
    ]
    assert told == [2, 3]


def test_what_is_described_changes_with_every_file_and_way_of_reading(folder: Path) -> None:
    glossary = Wishes(glossary=Glossary({"c": "cc"}))
    variants = [
        Inputs(Path("in")),
        Inputs(Path("two")),
        Inputs(Path("in"), json_lines=True),
        Inputs(Path("in"), replace_invalid=True),
        Inputs(Path("in"), scored=Path("three")),
        Inputs(Path("in"), wishes=Wishes(prefix=Path("three"))),
        Inputs(Path("in"), wishes=Wishes(required=Path("three"))),
        Inputs(Path("in"), wishes=Wishes(avoided=Path("three"))),
        Inputs(Path("in"), wishes=Wishes(avoided_everywhere=("q",))),
        Inputs(Path("in"), wishes=glossary, glossary=Path("two")),
        Inputs(Path("in"), wishes=glossary, glossary=Path("three")),
    ]
    described = [inputs.described() for inputs in variants]
    assert all(described.count(one) == 1 for one in described)
    before = variants[5].described()
    Path("three").write_text("x\n\ny  z\n")
    assert variants[5].described() != before
    Path("three").write_text("x\n\ny z\n")
    assert variants[5].described() == before


def test_a_pipe_among_the_files_can_be_read_only_once(folder: Path) -> None:
    os.mkfifo("pipe")
    assert Inputs(Path("in"), scored=Path("three")).is_lasting
    assert not Inputs().is_lasting
    assert not Inputs(Path("pipe")).is_lasting
    assert not Inputs(Path("in"), wishes=Wishes(prefix=Path("pipe"))).is_lasting
