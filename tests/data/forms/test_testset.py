"""Test sets are read from what sacrebleu has downloaded, and asked for in one sentence where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from sacrebleu.dataset import DATASETS

from data.corpora import TestSetSource, find_problems, fingerprint, read_pairs, size_of


def test_a_downloaded_test_set_is_read(sacrebleu_cache: Path) -> None:
    folder = sacrebleu_cache / "wmt14/full"
    folder.mkdir(parents=True)
    for field in DATASETS["wmt14/full"].fieldnames("en-de"):
        (folder / f"wmt14_full.en-de.{field}").write_text("\n\n")
    (folder / "wmt14_full.en-de.src").write_text("one\u2028one\ntwo\n")
    (folder / "wmt14_full.en-de.ref").write_text("eins\nzwei\n")
    source = TestSetSource("wmt14/full", "en", "de")
    steps: list[int] = []
    assert [pair[:2] for pair in read_pairs(source, steps.append)] == [("one\u2028one", "eins"), ("two", "zwei")]
    assert (sum(steps), "B") == size_of(source)
    assert find_problems(source) == []
    assert str(source) == "wmt14/full en-de"


@pytest.mark.parametrize("name", ["wmt14/full", "wmt21"])
def test_without_a_network_one_sentence_says_what_to_do(sacrebleu_cache: Path, name: str) -> None:
    [problem] = find_problems(TestSetSource(name, "en", "de"))
    assert f"testset: {name}: cannot be downloaded: no route to host" in problem
    assert f"copy {sacrebleu_cache}/{name}" in problem
    assert "\n" not in problem


def test_names_and_directions_that_are_not_there_are_refused_with_those_that_are(sacrebleu_cache: Path) -> None:
    [problem] = find_problems(TestSetSource("wmt14/ful", "en", "de"))
    assert "sacrebleu has none of that name. Near: wmt14/full" in problem
    [problem] = find_problems(TestSetSource("wmt14/full", "en", "ja"))
    assert "not for en-ja; there: cs-en, en-cs" in problem


def test_a_fingerprint_needs_no_network(sacrebleu_cache: Path) -> None:
    one, other = (fingerprint(TestSetSource("wmt14/full", "en", language)) for language in ("de", "fr"))
    assert one != other
