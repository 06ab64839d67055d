"""What an evaluation leaves on disk: read back it is the same, and damage is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.errors import RunError
from transformer.evaluation.results import (
    FORMAT,
    Bucket,
    Evaluation,
    Figure,
    Sentence,
    find_evaluations,
    load_evaluation,
    load_sentences,
    save_evaluation,
)

EVALUATION = Evaluation(
    test_set="news/2014",
    src_lang="en",
    tgt_lang="de",
    n_lines=2,
    tokenizer="13a",
    translate={"beam_size": 4, "sampling": None},
    metrics={"bleu": Figure(12.5, (11.0, 14.0), "nrefs:1"), "chrf++": Figure(40.0, None, "nrefs:1")},
    literature=None,
    length_ratio=None,
    note="",
    breakdown={"source length": [Bucket("10–19", 2, 12.5, 40.0)]},
    shares={"empty": [], "looping": [2]},
)
SENTENCES = [
    Sentence("a b", ["c", "d"], "e", 0.0, 1.5, -0.25),
    Sentence(None, [""], "\u2028 ½ <b> \U0001f917 \x85\x0c \r", 100.0, 100.0, None),
]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    text, figures, rows = save_evaluation(tmp_path / "new", EVALUATION, SENTENCES)
    assert [path.name for path in (text, figures, rows)] == [
        f"news%2F2014.{suffix}" for suffix in ("de", "json", "jsonl")
    ]
    assert find_evaluations(tmp_path / "new") == ["news/2014"]
    assert load_evaluation(tmp_path / "new", "news/2014") == EVALUATION
    assert load_sentences(tmp_path / "new", EVALUATION) == SENTENCES
    assert text.read_bytes().decode() == "".join(f"{sentence.hypothesis}\n" for sentence in SENTENCES)
    assert json.loads(figures.read_text(encoding="utf-8"))["format"] == FORMAT


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")), min_size=4, max_size=4))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    folder = tmp_path_factory.mktemp("results")
    rows = [Sentence(texts[0], [texts[1]], texts[2], 0, 0), Sentence(None, [texts[3]], texts[0], 0, 0)]
    save_evaluation(folder, EVALUATION, rows)
    assert load_sentences(folder, EVALUATION) == rows


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
@pytest.mark.parametrize("damage", ["missing", "cut", "not utf-8", "empty", "other"])
def test_damage_is_an_error_with_the_name_of_the_file(tmp_path: Path, suffix: str, damage: str) -> None:
    save_evaluation(tmp_path, EVALUATION, SENTENCES)
    path = tmp_path / f"news%2F2014.{suffix}"
    content = path.read_bytes()
    damaged = {"cut": content[:-30], "not utf-8": b"\xff" + content, "empty": b"", "other": b'{"a": [1]}\n'}
    path.unlink() if damage == "missing" else path.write_bytes(damaged[damage])
    with pytest.raises(RunError, match=rf"news%2F2014\.{suffix}: .*run evaluate\.py again"):
        load_sentences(tmp_path, load_evaluation(tmp_path, "news/2014"))


def test_a_newer_format_asks_for_an_update(tmp_path: Path) -> None:
    _, path, _ = save_evaluation(tmp_path, EVALUATION, SENTENCES)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"format": FORMAT + 1}))
    with pytest.raises(RunError, match="update the program"):
        load_evaluation(tmp_path, "news/2014")


def test_figures_never_stand_beside_the_sentences_of_another_evaluation(tmp_path: Path) -> None:
    """A writer that is stopped on its way leaves no figures."""
    save_evaluation(tmp_path, EVALUATION, SENTENCES)
    broken = [*SENTENCES[:1], Sentence("a", ["b"], "a line\nend", 0, 0)]
    with pytest.raises(AssertionError):
        save_evaluation(tmp_path, EVALUATION, broken)
    assert find_evaluations(tmp_path) == []
