"""From corpora to prepared data: counts add up, pairs stay pairs, and every way gives the same."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import data.preparation_steps
from data.corpora import FileSource, HubSource, RecordsSource, Source
from data.errors import DataError
from data.kept_text import EvenLines
from data.preparation import Corpora, Preparation, Rules, TrainingCorpus, VocabularyOptions, prepare
from data.prepared import MANIFEST, Prepared, load_prepared

FILLER = [(f"the cat number {i} sat on the mat", f"die katze nummer {i} sass auf der matte") for i in range(200)]

DUPLICATES = ("duplicates", {"of": "pair", "normalised": False})


def write_pairs(path: Path, pairs: list[tuple[str, str]]) -> FileSource:
    return write_bytes(path, *("".join(f"{line}\n" for line in side).encode() for side in zip(*pairs, strict=True)))


def write_bytes(path: Path, src: bytes, tgt: bytes) -> FileSource:
    source = FileSource(path.with_suffix(".src"), path.with_suffix(".tgt"))
    source.src.write_bytes(src)
    source.tgt.write_bytes(tgt)
    return source


@pytest.fixture
def filler(tmp_path: Path) -> FileSource:
    return write_pairs(tmp_path / "filler", FILLER)


def run(directory: Path, train: list[Source], *, valid: list[Source] | None = None, **changes: Any) -> Preparation:
    """Prepare with small defaults; the first training corpus also serves for validation."""
    named = [TrainingCorpus(source, f"corpus-{number}") for number, source in enumerate(train, 1)]
    corpora = Corpora("en", "de", named, train[:1] if valid is None else valid, changes.pop("test", {}))
    workers = changes.pop("workers", 1)
    asked = {name: changes.pop(name) for name in list(changes) if name in Rules.__dataclass_fields__}
    rules = Rules(**{"filters": [DUPLICATES], "drop_contamination": False, **asked})
    options = VocabularyOptions(**{"size": 300, **changes})
    return prepare(directory, corpora, rules, options, workers)


def train_text(prepared: Prepared) -> list[tuple[str, str]]:
    sides = ((prepared.src_vocabulary, prepared.train.src), (prepared.tgt_vocabulary, prepared.train.tgt))
    src, tgt = (vocabulary.decode([ids[i].tolist() for i in range(len(ids))]) for vocabulary, ids in sides)
    return list(zip(src, tgt, strict=True))


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def made_of(directory: Path) -> dict[str, bytes]:
    """All but what names the sources."""
    return {name: text for name, text in contents(directory).items() if name not in (MANIFEST, "report.html")}


def test_ids_decode_to_the_pairs_that_went_in(tmp_path: Path, filler: FileSource) -> None:
    made = run(tmp_path / "out", [filler])
    assert not made.unchanged
    prepared = load_prepared(tmp_path / "out")
    assert train_text(prepared) == FILLER
    assert prepared.valid_text == tuple(map(list, zip(*FILLER, strict=True)))
    assert len(prepared.src_vocabulary) == 300
    assert made.manifest["tokens"]["train"] == {
        "src": int(prepared.train.src_lengths.sum()),
        "tgt": int(prepared.train.tgt_lengths.sum()),
    }


# --- the collected cases ---


def test_d1_only_line_feeds_end_lines(tmp_path: Path, filler: FileSource) -> None:
    src = b"alpha one\nbeta\xe2\x80\xa8two\ngamma\xe2\x80\xa9three\ndelta\xc2\x85four\nepsilon\x0cfive\nzeta\x1csix\n"
    case = write_bytes(tmp_path / "d1", src, b"eins\nzwei\ndrei\nvier\nfuenf\nsechs\n")
    made = run(tmp_path / "out", [filler, case], valid=[case])
    assert made.manifest["counts"]["train"][1]["kept"] == 6
    prepared = load_prepared(tmp_path / "out")
    src_text, tgt_text = train_text(prepared)[204]
    assert "five" in src_text
    assert tgt_text == "fuenf"
    assert "".join(f"{line}\n" for line in prepared.valid_text[0]).encode() == src  # raw text is raw, byte for byte


def test_units_without_one_of_the_languages_are_counted_by_reason(tmp_path: Path, filler: FileSource) -> None:
    """Of a TMX file for several languages; in the archive and by itself, and where the parts are there already."""
    unit = "<tu><tuv xml:lang='en'><seg>cat {0}</seg></tuv><tuv xml:lang='{1}'><seg>Katze {0}</seg></tuv></tu>"
    units = "".join(unit.format(i, "de" if i % 3 else "fr") for i in range(9))
    text = f"<tmx version='1.4'><header/><body>{units}</body></tmx>"
    (tmp_path / "m.tmx").write_text(text)
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr("folder/m.tmx", text)
    for name in ("m.tmx", "m.zip"):
        source = RecordsSource(tmp_path / name, "en", "de")
        made = run(tmp_path / name.replace(".", "-"), [filler, source], valid=[filler])
        first, second = made.manifest["counts"]["train"]
        assert (first["left_out"], second["read"], second["left_out"]) == ({}, 6, {"no de": 3})


def test_d3_different_line_counts_leave_nothing_behind(tmp_path: Path, filler: FileSource) -> None:
    case = write_bytes(tmp_path / "d3", b"a\nb\nc\n", b"A\nB\n")
    for corpora in ({"train": [filler, case]}, {"train": [filler], "valid": [case]}):
        with pytest.raises(DataError, match=r"d3\.src has 3 lines but .*d3\.tgt has 2"):
            run(tmp_path / "prepared" / "out", **corpora)
    with pytest.raises(DataError, match=r"d3\.src has 3 lines"):
        run(tmp_path / "prepared" / "out", [filler], test={"flickr": case})
    assert list((tmp_path / "prepared").iterdir()) == []


def test_d3b_a_missing_final_newline_is_no_missing_line(tmp_path: Path, filler: FileSource) -> None:
    case = write_bytes(tmp_path / "d3b", b"a\nb\nc", b"A\nB\nC\n")
    run(tmp_path / "out", [filler, case])
    assert train_text(load_prepared(tmp_path / "out"))[-3:] == [("a", "A"), ("b", "B"), ("c", "C")]


def test_d4_a_latin1_byte_is_refused_with_file_and_line(tmp_path: Path, filler: FileSource) -> None:
    case = write_bytes(tmp_path / "d4", b"good line\ncaf\xe9 noir\nlast line\n", b"eins\nzwei\ndrei\n")
    with pytest.raises(DataError, match=r"d4\.src, line 2: not UTF-8"):
        run(tmp_path / "out", [filler, case])
    assert not (tmp_path / "out").exists()


def test_d5_lines_empty_on_either_side_are_dropped_on_both_and_counted(tmp_path: Path, filler: FileSource) -> None:
    case = write_bytes(tmp_path / "d5", b"one\n\nthree\nfour\n\n", b"eins\nzwei\n   \nvier\n\n")
    made = run(tmp_path / "out", [filler, case])
    counts = made.manifest["counts"]["train"]
    assert (counts[1]["read"], counts[1]["kept"], counts[1]["dropped"]["empty"]) == (5, 2, 3)
    prepared = load_prepared(tmp_path / "out")
    assert train_text(prepared)[-2:] == [("one", "eins"), ("four", "vier")]
    assert sum(count["kept"] for count in counts) == len(prepared.train.src) == len(prepared.train.tgt) == 202
    for count in counts:
        assert count["read"] == count["kept"] + sum(count["dropped"].values())


def test_d6_tabs_inside_sentences_are_spaces_and_shift_nothing(tmp_path: Path, filler: FileSource) -> None:
    case = write_bytes(tmp_path / "d6", b"far end\tof the sofa\tI will wait\nplain line\n", b"ende\nschlicht\n")
    run(tmp_path / "out", [filler, case])
    assert train_text(load_prepared(tmp_path / "out"))[-2:] == [
        ("far end of the sofa I will wait", "ende"),
        ("plain line", "schlicht"),
    ]


@pytest.mark.parametrize(("size", "words"), [(8000, r"8000 .* 102\b"), (10, r"10 .* 23\b")])
def test_v4_an_impossible_vocabulary_is_refused_and_leaves_nothing(tmp_path: Path, size: int, words: str) -> None:
    src, tgt = b"the cat sat\nthe dog sat\na bird sang\n", b"die katze sass\nder hund sass\nein vogel sang\n"
    case = write_bytes(tmp_path / "v4", src, tgt)
    with pytest.raises(DataError, match=words):
        run(tmp_path / "out", [case], size=size, byte_fallback=False)
    with pytest.raises(DataError, match=r"source vocabulary: .*" + {8000: r"8000 .* 53\b", 10: r"10 .* 18\b"}[size]):
        run(tmp_path / "out", [case], size=size, byte_fallback=False, joint=False)
    assert not (tmp_path / "out").exists()


def test_f3_everything_filtered_is_an_error_with_count_and_limit(tmp_path: Path) -> None:
    pairs = [(" ".join(f"{a}{b}" for b in range(20)), " ".join(f"{b}{a}" for b in range(20))) for a in "wxyz"]
    case = write_pairs(tmp_path / "f3", pairs)
    with pytest.raises(DataError, match=r"0 of 4 pairs .* 4 too long \(data\.max_length 5 pieces\)"):
        run(tmp_path / "out", [case], max_length=5, size=280)
    assert not (tmp_path / "out").exists()


# --- filters ---


def test_every_filter_counts_by_corpus(tmp_path: Path, filler: FileSource) -> None:
    other = [
        ("the cat", "die katze"),
        FILLER[0],
        ("mat " * 40, "matte"),
        ("the mat " * 90, "die matte " * 90),
        ("", "x"),
    ]
    made = run(tmp_path / "out", [filler, write_pairs(tmp_path / "other", other)], max_length=100, max_length_ratio=4.0)
    assert made.manifest["counts"]["train"][0]["dropped"] == dict.fromkeys(
        ("empty", "duplicate", "too_long", "length_ratio"), 0
    )
    assert made.manifest["counts"]["train"][1]["dropped"] == {
        "empty": 1,
        "duplicate": 1,
        "too_long": 1,
        "length_ratio": 1,
    }
    assert train_text(load_prepared(tmp_path / "out")) == [*FILLER, ("the cat", "die katze")]


def test_text_without_a_piece_counts_as_empty(tmp_path: Path, filler: FileSource) -> None:
    case = write_pairs(tmp_path / "case", [("\u200b\u200b", "x"), ("x", "\x01"), ("x", "x")])
    made = run(tmp_path / "out", [filler, case])
    assert made.manifest["counts"]["train"][1]["dropped"]["empty"] == 2


def test_validation_and_test_text_is_never_filtered(tmp_path: Path, filler: FileSource) -> None:
    pairs = [("a\r", ""), ("", "b"), ("\ufeffc", "\ufeffc"), ("a\r", ""), ("x " * 999, "y"), ("\u200b", "\x85")]
    case = write_pairs(tmp_path / "case", pairs)
    run(tmp_path / "out", [filler], valid=[case, case], test={"t": case}, max_length=100)
    prepared = load_prepared(tmp_path / "out")
    # One carriage return before a line end is part of the line end when a corpus is read, but never a second time.
    text = [(src.removesuffix("\r"), tgt) for src, tgt in pairs]
    assert list(zip(*prepared.test_text["t"], strict=True)) == text
    assert list(zip(*prepared.valid_text, strict=True)) == text * 2
    assert len(prepared.valid) == 12
    assert prepared.valid.src_lengths[5] == prepared.valid.tgt_lengths[0] == 0


def test_sentences_of_test_sets_leave_the_training_text_and_are_counted(tmp_path: Path, filler: FileSource) -> None:
    case = write_pairs(tmp_path / "case", [(FILLER[3][0], "x"), ("new", FILLER[0][1]), (FILLER[3][0], "y"), ("", "")])
    for drop in (True, False):
        made = run(tmp_path / "out", [filler], valid=[case], test={"t": case}, drop_contamination=drop)
        [counts] = made.manifest["counts"]["train"]
        assert counts["dropped"].get("contamination", 0) == 2 * drop
        assert counts["kept"] == 200 - 2 * drop
        for name in ("valid", "t"):
            found = made.manifest["contamination"][name]
            assert (found["lines"], found["exact"], found["pairs_dropped"]) == (3, 2, 2 * drop)
    text = train_text(load_prepared(tmp_path / "out"))
    assert text == FILLER


# --- one result, whatever the way ---


def test_all_input_forms_of_the_same_pairs_give_the_same_ids(tmp_path: Path, filler: FileSource) -> None:
    packed = FileSource(tmp_path / "f.src.gz", tmp_path / "f.tgt.gz")
    packed.src.write_bytes(gzip.compress(filler.src.read_bytes()))
    packed.tgt.write_bytes(gzip.compress(filler.tgt.read_bytes().replace(b"\n", b"\r\n")))
    rows = [{"en": src, "de": tgt} for src, tgt in FILLER]
    for name, columns in (
        ("nested", {"translation": rows}),
        ("flat", {key: [row[key] for row in rows] for key in rows[0]}),
    ):
        (tmp_path / name).mkdir()
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / name / "train.parquet")
    nested = HubSource(str(tmp_path / "nested"), None, "train", "en", "de")
    flat = HubSource(str(tmp_path / "flat"), None, "train", "en", "de", src_column="en", tgt_column="de")
    results = []
    for source in (filler, packed, nested, flat):
        run(tmp_path / "out", [source])
        results.append(made_of(tmp_path / "out"))
    assert results[0] == results[1] == results[2] == results[3]


@pytest.mark.parametrize("changes", [{}, {"joint": False, "type": "unigram", "size": 290}])
def test_the_number_of_workers_changes_no_byte(
    tmp_path: Path, filler: FileSource, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data.preparation_steps, "PAIRS_PER_PART", 64)
    run(tmp_path / "one", [filler, filler], workers=1, **changes)
    run(tmp_path / "three", [filler, filler], workers=3, **changes)
    assert contents(tmp_path / "one") == contents(tmp_path / "three")


def test_the_sample_for_the_vocabulary_is_even_and_of_the_size_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"{i}\n" for i in range(1000)))
    for n_wanted in (1, 2, 3, 7, 333, 999, 1000, 5000):
        numbers = [int(line) for line in EvenLines([path.read_text().splitlines()], 1000, n_wanted)]
        assert len(numbers) == min(n_wanted, 1000)
        gaps = np.diff([-1, *numbers])
        assert gaps.max() - gaps.min() <= 1 or n_wanted == 1


# --- collected files ---


@pytest.mark.parametrize(
    ("stem", "read", "empty"),
    [
        ("crlf.{}", 200, 0),
        ("mixed-eol.{}", 200, 0),
        ("bom.{}", 200, 0),
        ("unicode-linebreaks.{}", 100, 0),
        ("no-final-newline.{}", 100, 0),
        ("nul-and-control.{}", 50, 0),
        ("long-lines.{}", 50, 0),
        ("empty-lines.{}", 100, 9),  # 0 7 8 50, 30 99, 60, 61 of no-break space, 62 of zero-width space
    ],
)
def test_collected_nasty_text_is_prepared(corpora: Path, tmp_path: Path, stem: str, read: int, empty: int) -> None:
    source = FileSource(*(corpora / "nasty" / stem.format(language) for language in ("en", "de")))
    made = run(tmp_path / "out", [source], size=500, filters=[], max_length=10**6, max_length_ratio=1e9)
    [counts] = made.manifest["counts"]["train"]
    assert (counts["read"], counts["dropped"]["empty"], counts["kept"]) == (read, empty, read - empty)
    prepared = load_prepared(tmp_path / "out")
    assert len(prepared.valid) == len(prepared.valid_text[0]) == read


def test_line_ends_and_boms_change_no_id(corpora: Path, tmp_path: Path) -> None:
    nasty = corpora / "nasty"
    results = []
    for stem in ("crlf.{}", "bom.{}"):
        run(tmp_path / "out", [FileSource(*(nasty / stem.format(language) for language in ("en", "de")))], size=500)
        results.append(made_of(tmp_path / "out"))
    assert results[0] == results[1]


def test_leaked_test_sentences_of_collected_text_are_dropped(corpora: Path, tmp_path: Path) -> None:
    leak = FileSource(corpora / "nasty" / "leak-train.en", corpora / "nasty" / "leak-train.de")
    test = FileSource(*(corpora / "multi30k" / f"test_2016_flickr.{language}.gz" for language in ("en", "de")))
    other = write_pairs(tmp_path / "valid", FILLER)
    made = run(tmp_path / "out", [leak], valid=[other], size=500, test={"flickr": test}, drop_contamination=True)
    [counts] = made.manifest["counts"]["train"]
    assert (counts["dropped"]["duplicate"], counts["dropped"]["contamination"], counts["kept"]) == (100, 50, 200)
    assert made.manifest["contamination"]["flickr"]["lines"] == 50
