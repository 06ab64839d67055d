"""Pairs arrive whole, in order and unshifted, from every form of input, or not at all."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from data.corpora import (
    Columns,
    FileSource,
    HubSource,
    RecordsSource,
    Source,
    find_problems,
    fingerprint,
    read_pairs,
    size_of,
)
from data.errors import DataError

PAIRS = [(f"sentence, {i} \u2028 ä", f"Satz <{i}> \x85 日本") for i in range(2500)]


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def files(folder: Path, src: bytes, tgt: bytes) -> FileSource:
    return FileSource(write(folder / "text.src", src), write(folder / "text.tgt", tgt))


def records(path: Path, content: bytes, form: str | None = None, columns: Columns | None = None) -> RecordsSource:
    return RecordsSource(write(path, content), "en", "de", form=form, columns=columns or Columns())


def texts(source: Source) -> list[tuple[str, str]]:
    return [(pair.src, pair.tgt) for pair in read_pairs(source)]


@pytest.fixture
def no_cache_outside(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The library `datasets` keeps lock files; not in the home of whoever runs the tests."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))


def plain(pairs: list[tuple[str, str]]) -> tuple[bytes, bytes]:
    src, tgt = ("".join(f"{pair[side]}\n" for pair in pairs).encode() for side in (0, 1))
    return src, tgt


def two_texts(folder: Path) -> Iterator[Source]:
    src, tgt = plain(PAIRS)
    yield files(folder / "plain", src, tgt)
    yield files(folder / "crlf", src.replace(b"\n", b"\r\n"), tgt.removesuffix(b"\n"))
    yield files(folder / "mark", src.decode().encode("utf-16"), b"\xef\xbb\xbf" + tgt)
    packers: list[Callable[[bytes], bytes]] = [gzip.compress, bz2.compress, lzma.compress, zstandard.compress]
    for number, pack in enumerate(packers):
        yield files(folder / f"packed{number}", pack(src), pack(tgt[:999]) + pack(tgt[999:]))
    named = files(folder / "named", src.decode().encode("utf-16-le"), tgt.decode().encode("utf-16-le"))
    yield FileSource(named.src, named.tgt, encoding="utf-16-le")
    escaped = [[text.replace("&", "&amp;").replace("<", "&lt;") for text in pair] for pair in PAIRS]
    yield files(
        folder / "sgm",
        *(
            f'<{kind}set setid="a" srclang="en">\n<doc docid="d">\n'.encode()
            + "".join(f'<seg id="{number}">{pair[side]}</seg>\n' for number, pair in enumerate(escaped, 1)).encode()
            + f"</doc>\n</{kind}set>\n".encode()
            for side, kind in enumerate(("src", "ref"))
        ),
    )


def one_file(folder: Path) -> Iterator[Source]:
    tsv = "".join(f"{src}\t{tgt}\n" for src, tgt in PAIRS).encode()
    yield records(folder / "a.tsv", tsv)
    yield records(folder / "tsv-without-a-name", b"de\ten\n" + b"".join(f"{t}\t{s}\n".encode() for s, t in PAIRS))
    yield records(folder / "a.tsv.zst", zstandard.compress(tsv), columns=Columns(1, 2))
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([("id", "en", "de"), *((number, *pair) for number, pair in enumerate(PAIRS))])
    yield records(folder / "a.csv", stream.getvalue().encode())
    flat = [{"en": src, "de": tgt} for src, tgt in PAIRS]
    yield records(folder / "a", "".join(f"{json.dumps(record)}\n" for record in flat).encode("utf-16"))
    nested = [{"translation": record} for record in flat]
    yield records(folder / "b", "".join(f"{json.dumps(record, ensure_ascii=False)}\n\n" for record in nested).encode())
    for number, columns in enumerate(({"translation": flat}, {"en": PAIRS_EN, "de": PAIRS_DE})):
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"{number}.parquet", row_group_size=700)
        yield RecordsSource(folder / f"{number}.parquet", "en", "de")
    yield records(folder / "c", gzip.compress((folder / "1.parquet").read_bytes()))


PAIRS_EN, PAIRS_DE = ([pair[side] for pair in PAIRS] for side in (0, 1))


def archives(folder: Path) -> Iterator[Source]:
    src, tgt = plain(PAIRS)
    contents = {"README": b"about\n", "x/a.en-de.de": tgt, "x/a.en-de.en.gz": gzip.compress(src)}
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    with zipfile.ZipFile(folder / "b.zip", "w") as archive:
        archive.write(folder / "1.parquet", "train.parquet")
    with tarfile.open(folder / "a.tar.bz2", "w:bz2") as tar:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    for name in ("a.zip", "b.zip", "a.tar.bz2"):
        yield RecordsSource(folder / name, "en", "de")


def hub_folders(folder: Path) -> Iterator[Source]:
    for number, columns in enumerate(((None, None), ("en", "de"))):
        (folder / f"hub{number}").mkdir()
        (folder / f"hub{number}/train.parquet").symlink_to(folder / f"{number}.parquet")
        yield HubSource(str(folder / f"hub{number}"), None, "train", "en", "de", *columns)


@pytest.mark.usefixtures("no_cache_outside")
def test_all_input_forms_give_the_same_pairs(tmp_path: Path) -> None:
    for forms in (two_texts, one_file, archives, hub_folders):
        for source in forms(tmp_path):
            steps: list[int] = []
            assert find_problems(source) == []
            found = list(read_pairs(source, steps.append))
            assert [pair[:2] for pair in found] == PAIRS, source
            assert all(one.place < other.place for one, other in pairwise(found)), source
            total, unit = size_of(source)
            assert sum(steps) == total, (source, unit)
            assert str(tmp_path) in str(source)


def test_d1_only_line_feeds_end_lines(tmp_path: Path) -> None:
    src = b"alpha one\nbeta\xe2\x80\xa8two\ngamma\xe2\x80\xa9three\ndelta\xc2\x85four\nepsilon\x0cfive\nzeta\x1csix\n"
    assert len(src) == 69
    pairs = texts(files(tmp_path, src, b"eins\nzwei\ndrei\nvier\nfuenf\nsechs\n"))
    assert len(pairs) == 6
    assert "five" in pairs[4][0]
    assert pairs[4][1] == "fuenf"


def test_d3_different_line_counts_are_refused_with_files_and_counts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"text\.src has 3 lines but .*text\.tgt has 2"):
        texts(files(tmp_path, b"a\nb\nc\n", b"A\nB\n"))
    with pytest.raises(DataError, match=r"text\.src has 2 lines but .*text\.tgt has 7"):
        texts(files(tmp_path, b"a\nb", b"A\nB\n\n\n\n\nG"))


def test_d3b_a_missing_final_newline_is_no_missing_line(tmp_path: Path) -> None:
    assert texts(files(tmp_path, b"a\nb\nc", b"A\nB\nC\n")) == [("a", "A"), ("b", "B"), ("c", "C")]


def test_d6_tabs_are_text_in_two_files_and_fields_in_one(tmp_path: Path) -> None:
    source = files(tmp_path, b"far end\tof the sofa\tI will wait\nplain line\n", b"ende\nschlicht\n")
    assert texts(source) == [("far end\tof the sofa\tI will wait", "ende"), ("plain line", "schlicht")]
    with pytest.raises(DataError, match=r"d6\.tsv, line 1: 3 fields"):
        texts(records(tmp_path / "d6.tsv", b"a\tb\tc\nd\te\n"))


def test_problems_are_found_before_anything_is_read(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "missing.src", tmp_path)
    problems = find_problems(source)
    assert len(problems) == 2
    assert "missing.src" in problems[0]
    assert "directory" in problems[1]
    for wrong in (RecordsSource(tmp_path / "missing", "en", "de"), RecordsSource(tmp_path, "en", "de")):
        assert "cannot be read" in find_problems(wrong)[0]
        for ask in (size_of, texts, find_problems):
            if ask is not find_problems:
                with pytest.raises(DataError, match="cannot be read"):
                    ask(wrong)


def test_what_is_wrong_at_the_start_is_a_problem_found_early(tmp_path: Path) -> None:
    for source, words in [
        (files(tmp_path / "1", b"caf\xe9\n", b"a\n"), "text.src, line 1: not UTF-8"),
        (records(tmp_path / "2", b"one\ntwo\n"), "no pairs are seen in it"),
        (records(tmp_path / "3", b'<srcset setid="a">\n'), "SGM holds one side only"),
        (records(tmp_path / "4", b"one\teins\n", form="tsw"), "there is no such form. Choose one of tsv, csv"),
        (records(tmp_path / "5", b"one\teins\n", columns=Columns("en", "de")), "no column en"),
        (records(tmp_path / "6", b'<tmx version="1.4">', columns=Columns(1, 2)), "tmx: columns mean nothing"),
        (RecordsSource(tmp_path / "5", "en", "de", form="tsv", members="*"), "members mean nothing"),
    ]:
        [problem] = find_problems(source)
        assert words in problem


def test_a_form_that_is_stated_is_not_guessed(tmp_path: Path) -> None:
    content = b'{"a":\t1}\n{"b":\t2}\n'
    assert texts(records(tmp_path / "a.jsonl", content, form="tsv")) == [('{"a":', "1}"), ('{"b":', "2}")]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.jsonl", content)
    assert len(texts(RecordsSource(tmp_path / "a.zip", "en", "de", form="tsv"))) == 2


def test_nothing_at_all_is_no_pairs(tmp_path: Path) -> None:
    assert texts(files(tmp_path, b"", gzip.compress(b""))) == []
    assert texts(records(tmp_path / "a", b"")) == texts(records(tmp_path / "b.csv", b"", form="csv")) == []


def test_pipes_are_read_and_not_touched_before(tmp_path: Path) -> None:
    contents = {"src": b"one\ntwo\n", "tgt": gzip.compress(b"eins\nzwei\n"), "both": b"one\teins\ntwo\tzwei\n"}
    for name in contents:
        os.mkfifo(tmp_path / name)
    sources = [FileSource(tmp_path / "src", tmp_path / "tgt"), RecordsSource(tmp_path / "both", "en", "de", form="tsv")]
    for source in sources:
        assert find_problems(source) == []
        assert size_of(source) == (0, "B")
    writers = [
        threading.Thread(target=(tmp_path / name).write_bytes, args=(content,), daemon=True)
        for name, content in contents.items()
    ]
    for writer in writers:
        writer.start()
    for source in sources:
        assert texts(source) == [("one", "eins"), ("two", "zwei")]


def test_a_fingerprint_changes_with_the_file_and_the_settings(tmp_path: Path) -> None:
    source = files(tmp_path, b"a\n", b"A\n")
    table = records(tmp_path / "a", b"one\teins\n")
    before = fingerprint(source)
    assert fingerprint(source) == before == json.loads(json.dumps(before))
    source.tgt.write_bytes(b"AB\n")
    chosen = records(tmp_path / "a", b"one\teins\n", columns=Columns(2, 1))
    assert fingerprint(source) != before
    assert len({json.dumps(fingerprint(each)["columns"]) for each in (table, chosen)}) == 2
    source.tgt.unlink()
    with pytest.raises(DataError, match=r"text\.tgt: cannot be read"):
        fingerprint(source)


begun = st.sampled_from([b"", b"PK\x03\x04", b"PAR1", b"\x1f\x8b\x08", b'{"en":', b"a\tb\n", b"<tmx>", b'msgid "a"\n'])


@given(begun, st.binary())
def test_any_bytes_are_pairs_or_a_message(tmp_path_factory: pytest.TempPathFactory, head: bytes, tail: bytes) -> None:
    source = records(tmp_path_factory.mktemp("any") / "a", head + tail)
    assert len(find_problems(source)) <= 1
    try:
        assert not any("\n" in text for pair in read_pairs(source) for text in pair[:2])
    except DataError as error:
        assert str(source.file) in str(error)


def test_a_collected_cut_file_is_no_shorter_corpus(corpora: Path) -> None:
    with pytest.raises(DataError, match=r"truncated\.en\.gz: gzip data damaged or cut short"):
        texts(FileSource(corpora / "nasty/truncated.en.gz", corpora / "nasty/val.de.gz"))


def test_collected_pairs_that_do_not_match_are_refused(corpora: Path) -> None:
    for folder, stem, n_src, n_tgt in [
        ("nasty", "count-mismatch.{}", 200, 197),
        ("nasty", "extra-trailing-empty.{}", 102, 100),
        ("wmt/mismatched", "newstest2021.en-de.{}.gz", 14938, 3612),
    ]:
        source = FileSource(*(corpora / folder / stem.format(language) for language in ("en", "de")))
        with pytest.raises(DataError, match=f"has {n_src} lines but .* has {n_tgt}"):
            texts(source)


NASTY: dict[str, int | str] = {  # pairs by the README of the corpora, or words of the refusal
    "crlf.{}": 200,
    "mixed-eol.{}": 200,
    "bom.{}": 200,
    "utf16le-bom.{}": 50,
    "unicode-linebreaks.{}": 100,
    "no-final-newline.{}": 100,
    "latin1.{}": r"latin1\.de, line 1: not UTF-8: 0xE4 .*encoding: latin-1",
    "bad-utf8.{}": r"bad-utf8\.de, line 11: not UTF-8: 0xFF",
    "empty-lines.{}": 100,
    "long-lines.{}": 50,
    "nul-and-control.{}": 50,
    "tabs-spaces.{}": 50,
    "unicode-zoo.{}": 20,
    "leak-train.{}": 350,
    "val.{}.gz": 1014,
    "val.{}.bz2": 1014,
    "val.{}.xz": 1014,
    "val.{}.zst": 1014,
    "pair.tgz": 1014,
    "pairs.tsv": 100,
    "pairs.csv": 100,
    "flat.jsonl": 100,
    "flat.parquet": 1015,
    "hf-translation.parquet": 1014,
    "quotes.tsv": "line 10: 3 fields",
    "hf.jsonl": "line 61: broken JSON",
    "one-line-no-newline.en": "no pairs are seen in it",
    "old-mac-cr.en": "no pairs are seen in it",
}


@pytest.mark.parametrize("name", NASTY)
def test_collected_nasty_files_are_read_right_or_refused(corpora: Path, name: str) -> None:
    nasty = corpora / "nasty"
    source: Source = RecordsSource(nasty / name, "en", "de")
    if "{}" in name:
        source = FileSource(nasty / name.format("en"), nasty / name.format("de"))
    words = NASTY[name]
    if isinstance(words, int):
        assert len(texts(source)) == words
    else:
        with pytest.raises(DataError, match=words):
            texts(source)
