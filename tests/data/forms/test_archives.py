"""The right members of an archive are read, all of them, and nothing is written anywhere."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from data.corpora import Columns, FileSource, RecordsSource, find_problems, read_pairs, size_of
from data.errors import DataError

EN, DE = (b"".join(b"%s %d\n" % (word, number) for number in range(30_000)) for word in (b"sentence", b"Satz"))
PAIRS = [(f"sentence {number}", f"Satz {number}") for number in range(30_000)]
BESIDE = {
    "README": b"about\n",
    "LICENSE": b"free\n",
    "corpus.de-en.xml": b"<?xml version='1.0'?>\n<cesAlign/>",
    "corpus.de-en.ids": b"1\n",
    "__MACOSX/._corpus.de-en.en": b"\x00\x05",
    "._corpus.de-en.en": b"\x00\x05",
    "folder/.DS_Store": b"\x00",
}

packings = pytest.mark.parametrize("packing", ["zip", "tar", "tar.gz", "tar.xz"])


def pack(path: Path, members: dict[str, bytes], packing: str) -> Path:
    if packing == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.mkdir("folder") if hasattr(archive, "mkdir") else None
            for name, content in members.items():
                archive.writestr(name, content)
        return path
    with tarfile.open(path, f"w:{packing[4:]}", **({"preset": 0} if packing == "tar.xz" else {})) as tar:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("link.en")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return path


def texts(source: RecordsSource) -> list[tuple[str, str]]:
    return [(pair.src, pair.tgt) for pair in read_pairs(source)]


@packings
@pytest.mark.parametrize(
    "names",
    [
        ("corpus.de-en.en", "corpus.de-en.de"),
        ("EN.txt", "DE.txt"),
        ("folder/news_de_en.clean.en.txt", "folder/news_de_en.clean.de.txt"),
        ("en.dev", "de.dev"),
        ("train_en.txt", "train_de.txt"),
        ("../../en.txt", "/etc/de.txt"),
    ],
)
def test_both_sides_are_found_by_language(tmp_path: Path, packing: str, names: tuple[str, str]) -> None:
    members = {**BESIDE, names[1]: DE[:70], names[0]: EN[:110]}
    source = RecordsSource(pack(tmp_path / "a", members, packing), "en", "de")
    assert texts(source) == PAIRS[:10]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@packings
def test_progress_adds_up(tmp_path: Path, packing: str) -> None:
    source = RecordsSource(pack(tmp_path / "a", {"a.en": EN, "a.de": DE, **BESIDE}, packing), "en", "de")
    steps: list[int] = []
    assert [(pair.src, pair.tgt) for pair in read_pairs(source, steps.append)] == PAIRS
    assert (sum(steps), "B") == size_of(source)
    assert max(steps) < source.file.stat().st_size


@packings
def test_a_single_text_is_read_by_its_own_form(tmp_path: Path, packing: str) -> None:
    table = b"one\teins\ntwo\tzwei\n"
    for name, content, columns in [
        ("deu.txt", table, Columns()),
        ("deu.txt.gz", gzip.compress(table), Columns()),
        ("a.jsonl", b'{"x": "one", "y": "eins"}\n{"x": "two", "y": "zwei"}\n', Columns("x", "y")),
    ]:
        path = pack(tmp_path / "a", {"_about.txt": b"about\n", name: content}, packing)
        assert texts(RecordsSource(path, "en", "de", columns=columns)) == [("one", "eins"), ("two", "zwei")]
    path = pack(tmp_path / "a", {"deu.txt": b"one\teins\t0.5\n"}, packing)
    with pytest.raises(DataError, match=r"a: deu\.txt, line 1: 3 fields"):
        texts(RecordsSource(path, "en", "de"))


@packings
def test_what_is_ambiguous_is_refused_with_the_candidates_until_a_pattern_chooses(tmp_path: Path, packing: str) -> None:
    members = {f"c/{part}.{side}": text[:77] for part in ("dev", "train") for side, text in (("en", EN), ("de", DE))}
    members["c/train.en"], members["c/train.de"] = EN[:110], DE[:70]
    path = pack(tmp_path / "a", {**BESIDE, **members}, packing)
    [problem] = find_problems(RecordsSource(path, "en", "de"))
    for words in (": several members for en and de; there: ", *members, "Set members to a pattern"):
        assert words in problem
    assert texts(RecordsSource(path, "en", "de", members="*/train.*")) == PAIRS[:10]
    with pytest.raises(DataError, match=r"no members for en and de, .*nothing"):
        texts(RecordsSource(path, "en", "de", members="*/test.*"))
    with pytest.raises(DataError, match=r"no members for fr and de, .* there: .*c/dev\.en"):
        texts(RecordsSource(path, "fr", "de"))


@packings
def test_sides_of_different_length_are_named_with_their_archive(tmp_path: Path, packing: str) -> None:
    path = pack(tmp_path / "a", {"a.en": b"one\n", "a.de": b"eins\nzwei\n"}, packing)
    with pytest.raises(DataError, match=r"a: a\.en has 1 lines but .*a: a\.de has 2"):
        texts(RecordsSource(path, "en", "de"))


@packings
def test_a_cut_archive_is_an_error_and_no_short_corpus(tmp_path: Path, packing: str) -> None:
    path = pack(tmp_path / "a", {"a.en": EN[:60_000], "a.de": DE[:60_000]}, packing)
    content = path.read_bytes()
    for share in (0.05, 0.3, 0.6, 0.9):
        path.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(DataError):
            texts(RecordsSource(path, "en", "de"))


def test_damage_inside_a_zip_archive_is_an_error(tmp_path: Path) -> None:
    path = pack(tmp_path / "a", {"a.en": EN, "a.de": DE}, "zip")
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="the archive cannot be read"):
        texts(RecordsSource(path, "en", "de"))


def test_archives_within_archives_and_settings_without_use_are_refused(tmp_path: Path) -> None:
    inner = pack(tmp_path / "b", {"a.en": b"one\n", "a.de": b"eins\n"}, "zip").read_bytes()
    path = pack(tmp_path / "a", {"b.zip": inner}, "tar")
    with pytest.raises(DataError, match=r"a: b\.zip: an archive within an archive"):
        texts(RecordsSource(path, "en", "de"))
    with pytest.raises(DataError, match="two texts: columns mean nothing"):
        texts(RecordsSource(tmp_path / "b", "en", "de", columns=Columns(1, 2)))


def test_collected_archives(corpora: Path) -> None:
    other, nasty = corpora / "wmt/other", corpora / "nasty"
    files = [pair[:2] for pair in read_pairs(FileSource(nasty / "val.en.gz", nasty / "val.de.gz"))]
    assert texts(RecordsSource(nasty / "pair.tgz", "en", "de")) == files
    for name, languages, n_pairs in [
        ("moz.en-fr.txt.zip", ("en", "fr"), 98),
        ("moz.en-ru.txt.zip", ("ru", "en"), 4073),
        ("iwslt15.dev-2012-en-vi.tgz", ("en", "vi"), 1553),
    ]:
        assert len(texts(RecordsSource(other / name, *languages))) == n_pairs
    flores = other / "moz.flores101_dataset.tar.gz"
    assert "flores101_dataset/dev/eng.dev" in find_problems(RecordsSource(flores, "eng", "rus"))[0]
    assert len(texts(RecordsSource(flores, "eng", "rus", members="*/devtest/*"))) == 10
    tatoeba = read_pairs(RecordsSource(corpora / "tatoeba/raw/deu-eng.zip", "en", "de"))
    assert next(tatoeba)[:2] == ("Hi.", "Hallo!")
