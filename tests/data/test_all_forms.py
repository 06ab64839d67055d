"""The same pairs in every form give the same ids."""

from __future__ import annotations

import csv
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import polib
import pyarrow
import pyarrow.parquet
import pytest

from data.corpora import FileSource, HubSource, RecordsSource, Source, read_pairs
from data.pairs import Pair
from data.preparation import Corpora, Rules, TrainingCorpus, VocabularyOptions, prepare
from data.prepared import MANIFEST
from data.writers import Labels, write_wmt_sgm, write_wmt_xml

PAIRS = [
    Pair(f"the cat & dog <number {i}> “sat” on the mat", f"die Katze & der Hund <Nummer {i}> „saß“ auf der Matte")
    for i in range(60)
]
LABELS = Labels("en", "de")


def texts(folder: Path) -> tuple[bytes, bytes]:
    return tuple("".join(f"{line}\n" for line in side).encode() for side in list(zip(*PAIRS, strict=True))[:2])  # type: ignore[return-value]


def two_files(folder: Path) -> Source:
    for name, content in zip(("t.en", "t.de"), texts(folder), strict=True):
        (folder / name).write_bytes(content)
    return FileSource(folder / "t.en", folder / "t.de")


def utf16(folder: Path) -> Source:
    for name, content in zip(("t.en", "t.de"), texts(folder), strict=True):
        (folder / name).write_text(content.decode(), encoding="utf-16")
    return FileSource(folder / "t.en", folder / "t.de")


def latin1(folder: Path) -> Source:
    """Typographic quotes are in cp1252."""
    for name, content in zip(("t.en", "t.de"), texts(folder), strict=True):
        (folder / name).write_bytes(content.decode().encode("cp1252"))
    return FileSource(folder / "t.en", folder / "t.de", "cp1252")


def records(folder: Path, name: str, content: str | bytes) -> Source:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return RecordsSource(folder / name, "en", "de")


def tsv(folder: Path) -> Source:
    return records(folder, "t", "".join(f"{src}\t{tgt}\n" for src, tgt, *_ in PAIRS))


def comma_separated(folder: Path) -> Source:
    file = io.StringIO()
    csv.writer(file).writerows([("id", "de", "en"), *((i, pair.tgt, pair.src) for i, pair in enumerate(PAIRS))])
    return records(folder, "t.csv", file.getvalue())


def json_lines(folder: Path) -> Source:
    return records(folder, "t", "".join(json.dumps({"translation": {"de": t, "en": s}}) + "\n" for s, t, *_ in PAIRS))


def parquet(folder: Path) -> Source:
    pyarrow.parquet.write_table(
        pyarrow.table({"en": [p.src for p in PAIRS], "de": [p.tgt for p in PAIRS]}), folder / "t"
    )
    return RecordsSource(folder / "t", "en", "de")


def hub(folder: Path) -> Source:
    table = pyarrow.table({"translation": [{"en": p.src, "de": p.tgt} for p in PAIRS]})
    pyarrow.parquet.write_table(table, folder / "train.parquet")
    return HubSource(str(folder), None, "train", "en", "de")


def tmx(folder: Path) -> Source:
    units = "".join(
        f'<tu><tuv xml:lang="de-DE"><seg>{escape(p.tgt)}</seg></tuv>'
        f'<tuv xml:lang="EN"><seg>{escape(p.src)}</seg></tuv></tu>'
        for p in PAIRS
    )
    return records(folder, "t", f'<?xml version="1.0"?>\n<tmx version="1.4"><header/><body>{units}</body></tmx>')


def xliff(folder: Path) -> Source:
    units = "".join(
        f'<trans-unit id="{i}"><source>{escape(p.src)}</source><target>{escape(p.tgt)}</target></trans-unit>'
        for i, p in enumerate(PAIRS)
    )
    file = (
        f'<file source-language="en" target-language="de" datatype="plaintext" original="x"><body>{units}</body></file>'
    )
    return records(folder, "t", f'<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">{file}</xliff>')


def catalogue() -> polib.POFile:
    file = polib.POFile()
    file.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    file.extend(polib.POEntry(msgid=pair.src, msgstr=pair.tgt) for pair in PAIRS)
    return file


def po(folder: Path) -> Source:
    return records(folder, "t.po", str(catalogue()))


def mo(folder: Path) -> Source:
    catalogue().save_as_mofile(str(folder / "t"))
    return RecordsSource(folder / "t", "en", "de")


def sgm(folder: Path) -> Source:
    write_wmt_sgm(folder / "ref.sgm", PAIRS, LABELS)
    write_wmt_sgm(folder / "src.sgm", [pair._replace(tgt=pair.src) for pair in PAIRS], LABELS)
    return FileSource(folder / "src.sgm", folder / "ref.sgm")


def wmt_xml(folder: Path) -> Source:
    write_wmt_xml(folder / "t", PAIRS, Labels("en", "de", "me"))
    return RecordsSource(folder / "t", "en", "de", system="me")


def zipped(folder: Path) -> Source:
    with zipfile.ZipFile(folder / "t", "w") as archive:
        archive.writestr("README", "read me")
        for name, content in zip(("c.de-en.en", "c.de-en.de"), texts(folder), strict=True):
            archive.writestr(name, content)
    return RecordsSource(folder / "t", "en", "de")


def tarred(folder: Path) -> Source:
    with tarfile.open(folder / "t", "w:gz") as archive:
        for name, content in zip(("c/c.en", "c/c.de"), texts(folder), strict=True):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return RecordsSource(folder / "t", "en", "de")


FORMS: list[Callable[[Path], Source]] = [
    *(two_files, utf16, latin1, tsv, comma_separated, json_lines, parquet, hub),
    *(tmx, xliff, po, mo, sgm, wmt_xml, zipped, tarred),
]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("plain")
    return ids_of(folder, two_files(folder))


def ids_of(folder: Path, source: Source) -> dict[str, bytes]:
    corpora = Corpora("en", "de", [TrainingCorpus(source, "text")], [source], {"t": source})
    rules = Rules(filters=[("duplicates", {"of": "pair", "normalised": False})], drop_contamination=False)
    prepare(folder / "out", corpora, rules, VocabularyOptions(300), 1)
    return dict(files(folder / "out"))


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.iterdir():
        if path.name not in (MANIFEST, "report.html"):  # which name the source
            yield path.name, path.read_bytes()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_the_same_pairs_in_every_form_give_the_same_ids(
    form: Callable[[Path], Source], tmp_path: Path, expected: dict[str, bytes]
) -> None:
    source = form(tmp_path)
    assert sorted((pair.src, pair.tgt) for pair in read_pairs(source)) == sorted((p.src, p.tgt) for p in PAIRS)
    if form is not mo:  # compiled catalogues are sorted
        assert ids_of(tmp_path, source) == expected
