"""What is wanted of each line's translation: read beside the input, and never a line out of step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from transformer.inference.glossary import Glossary
from transformer.inference.requests import Request, Wishes, contradictions, parse_request, read_requests

texts = st.text(st.characters(codec="utf-8", exclude_characters="\n"))
phrases = st.lists(texts.map(str.strip).filter(bool), unique=True).map(tuple)


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


@given(texts, texts.filter(lambda text: bool(text.strip())), phrases, phrases)
def test_a_request_survives_json(text: str, prefix: str, required: tuple[str, ...], avoided: tuple[str, ...]) -> None:
    record = {"text": text, "prefix": prefix, "required": required, "avoided": avoided}
    for ascii_only in (True, False):
        line = json.dumps(record, ensure_ascii=ascii_only)
        assert parse_request(line, "x") == Request(text, prefix, required, avoided)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=4).map(json.dumps))
def test_any_line_is_a_request_or_refused_with_its_place(line: str) -> None:
    try:
        request = parse_request(line, "in.jsonl, line 7")
    except DataError as error:
        assert all(part.startswith("in.jsonl, line 7: ") for part in str(error).split("\n"))
    else:
        assert request == Request("")
        assert not line.strip()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{'text': 'a'}", "broken JSON"),
        ('{"text": "a", "text": "b"}', "text stands there twice"),
        ('["a"]', "is no object"),
        ('"a"', "is no object"),
        ("{}", "no text"),
        ('{"text": null}', "text is null, not text"),
        ('{"text": 1}', "text is 1, not text"),
        ('{"text": "a", "require": ["b"]}', "require: no such key; did you mean required?"),
        ('{"text": "a", "x": 1}', "x: no such key; there are text, prefix, required, avoided"),
        ('{"text": "a", "required": "b"}', 'required is "b", not a list of texts'),
        ('{"text": "a", "avoided": ["b", 1]}', 'avoided is ["b", 1], not a list of texts'),
        ('{"text": "a", "prefix": ["b"]}', 'prefix is ["b"], not text'),
        ('{"text": "\\ud800"}', "text: \\ud800 is half of a character"),
        ("[" * 100_000, "broken JSON"),
    ],
)
def test_what_is_wrong_with_a_json_line_is_said(line: str, words: str) -> None:
    with pytest.raises(DataError) as caught:
        parse_request(line, "in.jsonl, line 3")
    assert words in str(caught.value)
    assert str(caught.value).startswith("in.jsonl, line 3: ")


def test_all_mistakes_of_a_json_line_are_said_at_once() -> None:
    with pytest.raises(DataError) as caught:
        parse_request('{"txt": "a", "prefix": 1, "required": 2}', "f, line 1")
    assert str(caught.value).count("f, line 1: ") == 4


def test_line_ends_inside_json_texts_shift_nothing() -> None:
    assert parse_request('{"text": "a\\nb", "required": ["c\\nd"]}', "x") == Request("a b", required=("c d",))


def test_wishes_come_from_the_same_line_of_each_file(tmp_path: Path) -> None:
    wishes = Wishes(
        prefix=write(tmp_path / "prefix", "Das Haus ", "", " "),
        required=write(tmp_path / "required", "", "Katze\t schwarze Katze \t\tKatze", "Hund"),
        avoided=write(tmp_path / "avoided", "Gebäude", "", "Köter"),
        avoided_everywhere=("Mist",),
        glossary=Glossary({"dog": "Hund", "old dog": "alter Hund", "tail": "Schwanz"}),
    )
    lines = ["the house", "the black cat", "the old dog's tail"]
    assert list(read_requests(lines, "in", wishes)) == [
        Request("the house", "Das Haus ", (), ("Gebäude", "Mist")),
        Request("the black cat", "", ("Katze", "schwarze Katze"), ("Mist",)),
        Request("the old dog's tail", "", ("Hund", "alter Hund", "Schwanz"), ("Köter", "Mist")),
    ]


def test_without_wishes_a_request_is_the_line() -> None:
    lines = ["a", "", " ", '{"text": "b"}']
    assert list(read_requests(lines, "in")) == [Request(line) for line in lines]
    assert [request.text for request in read_requests(["", lines[3]], "in", json_lines=True)] == ["", "b"]


def test_wishes_in_the_line_and_in_files_add_up(tmp_path: Path) -> None:
    line = '{"text": "the cat", "required": ["Katze"], "avoided": ["a"]}'
    wishes = Wishes(write(tmp_path / "p", "Die"), write(tmp_path / "r", "schwarze"), write(tmp_path / "a", "b"), ("c",))
    [request] = read_requests([line], "in", wishes, json_lines=True)
    assert request == Request("the cat", "Die", ("Katze", "schwarze"), ("a", "b", "c"))
    with pytest.raises(DataError, match=r"in, line 1: a prefix in the line, and another one in .*p"):
        list(read_requests(['{"text": "the cat", "prefix": "Der"}'], "in", wishes, json_lines=True))


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_files_of_other_lengths_are_refused_with_all_counts(
    tmp_path_factory: pytest.TempPathFactory, n_input: int, n_prefix: int, n_required: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    wishes = Wishes(write(folder / "p", *["x"] * n_prefix), write(folder / "r", *["y"] * n_required))
    found: list[Request] = []

    def read() -> None:
        found.extend(read_requests(iter(["a"] * n_input), "in.txt", wishes))

    if n_input == n_prefix == n_required:
        read()
        assert found == [Request("a", "x", ("y",))] * n_input
    else:
        counts = f"in.txt has {n_input} lines, .*p has {n_prefix} lines, .*r has {n_required} lines: line N"
        with pytest.raises(DataError, match=counts):
            read()


def test_an_endless_input_is_read_as_it_comes(tmp_path: Path) -> None:
    read = count()

    def lines() -> Iterator[str]:
        while True:
            yield f"line {next(read)}"

    wishes = Wishes(prefix=write(tmp_path / "p", *map(str, range(1000))))
    found = list(islice(read_requests(lines(), "in", wishes), 100))
    assert [request.prefix for request in found] == [str(i) for i in range(100)]
    assert next(read) == 100  # not a line more than asked for


@pytest.mark.parametrize(
    ("request_", "n"),
    [
        (Request("x", required=("das Haus",), avoided=("das Haus",)), 1),
        (Request("x", required=("das Haus am See", "Haus"), avoided=("Haus",)), 2),
        (Request("x", required=("Haus",), avoided=("das Haus",)), 0),
        (Request("x", required=("Berlin",), avoided=("in",)), 0),
        (Request("x", prefix="Das Haus ist", avoided=("Haus",)), 1),
        (Request("x", prefix="Das Haustier", avoided=("Haus",)), 0),
        (Request("x", prefix="Das Haus", required=("Haus",)), 0),
    ],
)
def test_what_contradicts_itself_is_known(request_: Request, n: int) -> None:
    assert len(contradictions(request_)) == n


def test_a_contradiction_is_refused_with_its_line(tmp_path: Path) -> None:
    wishes = Wishes(required=write(tmp_path / "r", "", "das Haus"), avoided=write(tmp_path / "a", "Haus", "Haus\tMaus"))
    requests = read_requests(["a", "b"], "in.txt", wishes)
    assert next(requests) == Request("a", avoided=("Haus",))
    with pytest.raises(DataError, match=r"in\.txt, line 2: 'das Haus' is required, but 'Haus' is avoided"):
        next(requests)


def test_a_glossary_and_what_is_avoided_everywhere_are_compared_at_once(tmp_path: Path) -> None:
    glossary = Glossary.load(write(tmp_path / "g.tsv", "cat\tKatze", "house cat\tdie Katze im Haus"))
    wishes = Wishes(avoided_everywhere=("im Haus",), glossary=glossary)

    def never() -> Iterator[str]:
        raise AssertionError("the input was read first")
        yield ""

    with pytest.raises(DataError, match=r"g\.tsv, line 2: 'die Katze im Haus' is required where 'house cat' is"):
        next(read_requests(never(), "in", wishes))


def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(b"gut\ncaf\xe9\n")
    with pytest.raises(DataError, match="p, line 2: not UTF-8"):
        list(read_requests(["a", "b"], "in", Wishes(prefix=path)))
    with pytest.raises(DataError, match="missing"):
        list(read_requests(["a"], "in", Wishes(prefix=tmp_path / "missing")))


def test_requests_are_equal_by_value_and_can_be_kept_in_sets() -> None:
    values: Any = {Request("a"), Request("a"), Request("a", "b")}
    assert len(values) == 2
