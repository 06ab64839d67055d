"""Pairs arrive whole, in order and unshifted, from every form of input, or not at all."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.corpora import FileSource, HubSource, Source, find_problems, fingerprint, read_pairs, size_of
from data.errors import DataError
from data.lines import decode_lines

PAIRS = [(f"sentence {i}", f"Satz {i}") for i in range(2500)]


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def files(folder: Path, src: bytes, tgt: bytes) -> FileSource:
    return FileSource(write(folder / "text.src", src), write(folder / "text.tgt", tgt))


corpus_bytes = st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\xff"])).map(b"".join)


@given(corpus_bytes | st.binary(), corpus_bytes)
def test_pairs_are_never_lost_or_shifted(tmp_path_factory: pytest.TempPathFactory, src: bytes, tgt: bytes) -> None:
    source = files(tmp_path_factory.mktemp("pairs"), src, tgt)
    try:
        src_lines, tgt_lines = (list(decode_lines(io.BytesIO(content), "")) for content in (src, tgt))
        assert len(src_lines) == len(tgt_lines)
    except (DataError, AssertionError):
        with pytest.raises(DataError):
            list(read_pairs(source))
    else:
        assert list(read_pairs(source)) == list(zip(src_lines, tgt_lines, strict=True))


def test_d1_only_line_feeds_end_lines(tmp_path: Path) -> None:
    src = b"alpha one\nbeta\xe2\x80\xa8two\ngamma\xe2\x80\xa9three\ndelta\xc2\x85four\nepsilon\x0cfive\nzeta\x1csix\n"
    assert len(src) == 69
    pairs = list(read_pairs(files(tmp_path, src, b"eins\nzwei\ndrei\nvier\nfuenf\nsechs\n")))
    assert len(pairs) == 6
    assert "five" in pairs[4][0]
    assert pairs[4][1] == "fuenf"


def test_d3_different_line_counts_are_refused_with_files_and_counts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"text\.src has 3 lines but .*text\.tgt has 2"):
        list(read_pairs(files(tmp_path, b"a\nb\nc\n", b"A\nB\n")))
    with pytest.raises(DataError, match=r"text\.src has 2 lines but .*text\.tgt has 7"):
        list(read_pairs(files(tmp_path, b"a\nb", b"A\nB\n\n\n\n\nG")))


def test_d3b_a_missing_final_newline_is_no_missing_line(tmp_path: Path) -> None:
    pairs = list(read_pairs(files(tmp_path, b"a\nb\nc", b"A\nB\nC\n")))
    assert pairs == [("a", "A"), ("b", "B"), ("c", "C")]


def test_d6_tabs_inside_sentences_are_text(tmp_path: Path) -> None:
    source = files(tmp_path, b"far end\tof the sofa\tI will wait\nplain line\n", b"ende\nschlicht\n")
    assert list(read_pairs(source)) == [("far end\tof the sofa\tI will wait", "ende"), ("plain line", "schlicht")]


def test_problems_are_found_before_anything_is_read(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "missing.src", tmp_path)
    problems = find_problems(source)
    assert len(problems) == 2
    assert "missing.src" in problems[0]
    assert "directory" in problems[1]


def test_a_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    source = files(tmp_path, b"a\n", b"A\n")
    before = fingerprint(source)
    assert fingerprint(source) == before
    source.tgt.write_bytes(b"AB\n")
    assert fingerprint(source) != before
    source.tgt.unlink()
    with pytest.raises(DataError, match=r"text\.tgt: cannot be read"):
        fingerprint(source)


# --- data sets of the hub, from local folders ---


def write_table(path: Path, columns: dict[str, Sequence[Any]]) -> None:
    """A parquet file of several row groups."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=700)


@pytest.fixture(autouse=True)
def no_cache_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The library `datasets` keeps lock files; not in the home of whoever runs the tests."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def nested(pairs: Sequence[tuple[str | None, str | None]]) -> dict[str, Sequence[Any]]:
    return {"translation": [{"en": src, "de": tgt} for src, tgt in pairs]}


def flat(pairs: Sequence[tuple[str | None, str | None]]) -> dict[str, Sequence[Any]]:
    return {"score": [0.5] * len(pairs), "en": [src for src, _ in pairs], "de": [tgt for _, tgt in pairs]}


def hub(folder: Path, split: str = "train", config: str | None = None, columns: bool = False) -> HubSource:
    return HubSource(str(folder), config, split, "en", "de", *(("en", "de") if columns else (None, None)))


def test_all_input_forms_give_the_same_pairs(tmp_path: Path) -> None:
    src, tgt = ("".join(f"{line}\n" for line in side).encode() for side in zip(*PAIRS, strict=True))
    write_table(tmp_path / "nested/de-en/train-00000-of-00001.parquet", nested(PAIRS))
    write_table(tmp_path / "flat/train.parquet", flat(PAIRS))
    sources: list[Source] = [
        files(tmp_path / "plain", src, tgt),
        files(tmp_path / "crlf", src.replace(b"\n", b"\r\n"), tgt),
        FileSource(write(tmp_path / "a.en.gz", gzip.compress(src)), write(tmp_path / "a.de.gz", gzip.compress(tgt))),
        hub(tmp_path / "nested", config="de-en"),
        hub(tmp_path / "flat", columns=True),
    ]
    for source in sources:
        steps: list[int] = []
        assert list(read_pairs(source, steps.append)) == PAIRS, source
        assert find_problems(source) == []
        total, unit = size_of(source)
        assert sum(steps) == total, (source, unit)


def test_line_ends_inside_a_cell_become_spaces_and_null_becomes_nothing(tmp_path: Path) -> None:
    write_table(tmp_path / "train.parquet", nested([("a\nb", "A\u2028B"), (None, "B"), ("c", "C\r\nD")]))
    assert list(read_pairs(hub(tmp_path))) == [("a b", "A\u2028B"), ("", "B"), ("c", "C\r D")]


@pytest.mark.parametrize(
    "name", ["valid.parquet", "data/valid-00000-of-00001.parquet", "valid/0000.parquet", "default/valid/0000.parquet"]
)
def test_the_split_is_found_where_a_snapshot_of_the_hub_has_it(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name, nested(PAIRS[:5]))
    write_table(tmp_path / name.replace("valid", "train"), nested(PAIRS[5:7]))
    write_table(tmp_path / name.replace("valid", "valid_2"), nested(PAIRS[7:8]))
    assert list(read_pairs(hub(tmp_path, "valid"))) == PAIRS[:5]


def test_parts_of_a_split_are_read_in_order(tmp_path: Path) -> None:
    for part in (2, 0, 1):
        write_table(tmp_path / f"train-{part:05}-of-00003.parquet", nested(PAIRS[part * 10 : part * 10 + 10]))
    assert list(read_pairs(hub(tmp_path))) == PAIRS[:30]


def test_a_missing_part_of_a_split_is_no_shorter_corpus(tmp_path: Path) -> None:
    for part in (0, 2):
        write_table(tmp_path / f"train-{part:05}-of-00003.parquet", nested(PAIRS[:2]))
    assert "2 of 3 files" in find_problems(hub(tmp_path))[0]


def test_what_a_folder_lacks_is_said_with_what_it_has(tmp_path: Path) -> None:
    write_table(tmp_path / "de-en/train.parquet", nested(PAIRS[:2]))
    write_table(tmp_path / "fr-en/train.parquet", nested(PAIRS[:2]))
    for source, words in [
        (hub(tmp_path, "test"), "no parquet file of this split .* de-en/train.parquet"),
        (hub(tmp_path, config="cs-en"), "no parquet file of this split .* none"),
        (hub(tmp_path), "several folders: .*de-en.*fr-en"),
        (hub(tmp_path, config="de-en", columns=True), "no column en; there: translation"),
        (HubSource(str(tmp_path), "de-en", "train", "en", "cs"), "no language cs .* there: en, de"),
    ]:
        with pytest.raises(DataError, match=words):
            list(read_pairs(source))
        assert len(find_problems(source)) == 1


def test_a_column_of_numbers_is_refused_with_its_row(tmp_path: Path) -> None:
    write_table(tmp_path / "train.parquet", flat(PAIRS[:3]))
    source = HubSource(str(tmp_path), None, "train", "en", "de", "en", "score")
    with pytest.raises(DataError, match=r"row 1: 0\.5 is not text"):
        list(read_pairs(source))


def test_a_damaged_parquet_file_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    write_table(path, nested(PAIRS))
    path.write_bytes(path.read_bytes()[:-20])
    assert "cannot be read" in find_problems(hub(tmp_path))[0]
    assert "\n" not in find_problems(hub(tmp_path))[0]


def test_a_name_that_is_no_folder_is_asked_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield from ({"translation": {"de": tgt, "en": src}} for src, tgt in PAIRS)

    def load_dataset(*arguments: object, **options: object) -> datasets.IterableDataset:
        assert arguments == ("wmt/wmt14", "de-en")
        assert options == {"split": "validation", "streaming": True}
        features = datasets.Features({"translation": datasets.Translation(["de", "en"])})
        return datasets.IterableDataset.from_generator(rows, features=features)

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    source = HubSource("wmt/wmt14", "de-en", "validation", "en", "de")
    assert find_problems(source) == []
    assert size_of(source) == (None, "pairs")
    assert list(read_pairs(source)) == PAIRS
    assert "no language cs" in find_problems(HubSource("wmt/wmt14", "de-en", "validation", "en", "cs"))[0]


def test_an_unknown_name_says_what_to_check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach 'wmt1' on the Hub\nwith details")

    monkeypatch.setattr("datasets.load_dataset", unreachable)
    [problem] = find_problems(HubSource("wmt1", "de-en", "train", "en", "de"))
    assert "wmt1/de-en/train: there is no folder wmt1" in problem
    assert "Couldn't reach" in problem
    assert "details" not in problem


def test_collected_pairs_that_do_not_match_are_refused(corpora: Path) -> None:
    for folder, stem, n_src, n_tgt in [
        ("nasty", "count-mismatch.{}", 200, 197),
        ("nasty", "extra-trailing-empty.{}", 102, 100),
        ("wmt/mismatched", "newstest2021.en-de.{}.gz", 14938, 3612),
    ]:
        source = FileSource(*(corpora / folder / stem.format(language) for language in ("en", "de")))
        with pytest.raises(DataError, match=f"has {n_src} lines but .* has {n_tgt}"):
            list(read_pairs(source))


def test_collected_parquet_files_hold_the_pairs_of_the_text_files(corpora: Path, tmp_path: Path) -> None:
    nasty = corpora / "nasty"
    text = list(read_pairs(FileSource(nasty / "val.en.gz", nasty / "val.de.gz")))
    (tmp_path / "validation.parquet").symlink_to(nasty / "hf-translation.parquet")
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "train.parquet").symlink_to(nasty / "flat.parquet")
    assert list(read_pairs(hub(tmp_path, "validation"))) == text
    flat_pairs = list(read_pairs(hub(tmp_path / "flat", columns=True)))
    assert flat_pairs[-1][0] == ""  # null in the file
    assert flat_pairs[:-1] == text[: len(flat_pairs) - 1]
