"""Test sets are read from what sacrebleu has downloaded, and asked for in one sentence where it cannot."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest
from sacrebleu.dataset import DATASETS

from data.corpora import TestSetSource, find_problems, fingerprint, read_pairs, size_of


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that $SACREBLEU names; what is not in it cannot be downloaded."""

    def no_network(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(tmp_path))
    for name in ("wmt14/full", "wmt21"):
        monkeypatch.setattr(DATASETS[name], "_outdir", str(tmp_path / name))
        monkeypatch.setattr(DATASETS[name], "_rawdir", str(tmp_path / name / "raw"))
    return tmp_path


def test_a_downloaded_test_set_is_read(cache: Path) -> None:
    folder = cache / "wmt14/full"
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
def test_without_a_network_one_sentence_says_what_to_do(cache: Path, name: str) -> None:
    [problem] = find_problems(TestSetSource(name, "en", "de"))
    assert f"testset: {name}: cannot be downloaded: no route to host" in problem
    assert f"copy {cache}/{name}" in problem
    assert "\n" not in problem


def test_names_and_directions_that_are_not_there_are_refused_with_those_that_are(cache: Path) -> None:
    [problem] = find_problems(TestSetSource("wmt14/ful", "en", "de"))
    assert "sacrebleu has none of that name. Near: wmt14/full" in problem
    [problem] = find_problems(TestSetSource("wmt14/full", "en", "ja"))
    assert "not for en-ja; there: cs-en, en-cs" in problem


def test_a_fingerprint_needs_no_network(cache: Path) -> None:
    one, other = (fingerprint(TestSetSource("wmt14/full", "en", language)) for language in ("de", "fr"))
    assert one != other
