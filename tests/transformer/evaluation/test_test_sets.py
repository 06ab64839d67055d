"""Test sets from files, XML and sacrebleu's collection: whole, in order, with all their references."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from sacrebleu.dataset import DATASETS

from data.errors import DataError
from transformer.evaluation.test_sets import (
    TestSet,
    file_test,
    languages_of,
    name_by_file,
    named_test,
    read_side,
    with_domains,
)


@pytest.fixture
def cache(sacrebleu_cache: Path) -> Path:
    """With one test set in it."""
    (sacrebleu_cache / "wmt17").mkdir()
    for field in DATASETS["wmt17"].fieldnames("en-de"):
        (sacrebleu_cache / "wmt17" / f"wmt17.en-de.{field}").write_text(f"{field} 1\n{field} 2\n")
    return sacrebleu_cache


def test_a_test_set_of_sacrebleu_goes_by_name_and_languages(cache: Path) -> None:
    expected = TestSet("wmt17", ["src 1", "src 2"], [["ref 1", "ref 2"]])
    assert named_test("wmt17", "en", "de") == expected
    assert named_test("wmt17/en-de", "fr", "it") == expected
    assert languages_of("wmt17/en-de") == ("en", "de")
    assert languages_of("wmt14/full") is None


def test_all_references_of_a_test_set_are_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    references = [cache / "wmt17" / "wmt17.en-de.ref", cache / "wmt17" / "wmt17.en-de.src"]
    monkeypatch.setattr(DATASETS["wmt17"], "get_reference_files", lambda direction: list(map(str, references)))
    assert named_test("wmt17", "en", "de").references == [["ref 1", "ref 2"], ["src 1", "src 2"]]


def test_without_a_network_one_sentence_says_what_to_do(cache: Path) -> None:
    with pytest.raises(DataError, match="wmt14/full: cannot be downloaded: no route to host"):
        named_test("wmt14/full", "en", "de")
    with pytest.raises(DataError, match="not for en-ja; there: "):
        named_test("wmt17/en-ja", "en", "de")


def test_files_are_read_compressed_or_not_and_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "news.en.gz").write_bytes(gzip.compress("one\u2028line\n\nthree".encode()))
    (tmp_path / "a").write_bytes(b"eins\n\ndrei\n")
    (tmp_path / "b").write_bytes(b"EINS\r\nZWEI\r\nDREI\r\n")
    test, _ = file_test(tmp_path / "news.en.gz", [tmp_path / "a", tmp_path / "b"])
    assert (test.name, test.src, len(test)) == ("news", ["one\u2028line", "", "three"], 3)
    assert test.references == [["eins", "", "drei"], ["EINS", "ZWEI", "DREI"]]
    assert test.notes == [f"{tmp_path / 'b'}: lines end in CR LF; taken away, as it is no text"]
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(DataError) as caught:
        file_test(tmp_path / "none", [tmp_path / "empty", tmp_path / "a"])
    assert [line.split(": ")[0] for line in str(caught.value).split("\n")] == [
        str(tmp_path / n) for n in ("none", "empty")
    ]


def test_every_file_that_deviates_is_named_with_both_counts(tmp_path: Path) -> None:
    for n in (1, 2, 3):
        (tmp_path / str(n)).write_text("line\n" * n)
    with pytest.raises(DataError) as caught:
        file_test(tmp_path / "2", [tmp_path / "1", tmp_path / "3"])
    for n in (1, 3):
        assert f"{tmp_path / '2'} has 2 lines but {tmp_path / str(n)} has {n}" in str(caught.value)


def test_xml_is_asked_for_as_a_test_set(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text('<?xml version="1.0"?>\n<dataset id="x"><doc id="d"/></dataset>\n')
    (tmp_path / "text").write_text("a line\n")
    with pytest.raises(DataError, match=r"--test .*a\.xml"):
        read_side(tmp_path / "a.xml")
    with pytest.raises(DataError, match=r"not XML of WMT.*--src"):
        named_test(str(tmp_path / "text"), "en", "de")


def test_domains_are_a_line_each(tmp_path: Path) -> None:
    (tmp_path / "domains").write_text("news\tdoc 1\nspeech\n")
    test = TestSet("t", None, [["a", "b"]])
    assert with_domains(test, tmp_path / "domains").domains == ["news", "speech"]
    with pytest.raises(DataError, match="has 2 lines but the test set t has 1"):
        with_domains(TestSet("t", None, [["a"]]), tmp_path / "domains")


@pytest.mark.parametrize(
    ("path", "name"), [("x/news.en.gz", "news"), ("news.2014.de", "news.2014"), ("ref", "ref"), (".de", ".de")]
)
def test_a_test_set_of_files_has_a_name(path: str, name: str) -> None:
    assert name_by_file(Path(path)) == name


def test_real_files_of_wmt_are_read_with_all_whole_references(corpora: Path) -> None:
    test = named_test(str(corpora / "wmt/xml/newstest2021.ru-en.all.xml"), "ru", "en")
    assert (len(test), len(test.references)) == (1843, 1)
    assert any("reference B has only 1000 of 1843" in note for note in test.notes)
    test = named_test(str(corpora / "wmt/xml/wmttest2022.en-zh.all.xml"), "en", "zh")
    assert (len(test), len(test.references)) == (2037, 2)
    assert test.domains is not None
    assert set(test.domains) == {"conversation", "ecommerce", "news", "social"}
