"""Pairs come whole and in order from data sets of the hub, and from folders in its layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from data.corpora import FileSource, HubSource, find_problems, fingerprint, read_pairs, size_of
from data.errors import DataError
from data.pairs import Pair

PAIRS = [(f"sentence {i}", f"Satz {i}") for i in range(2500)]


def texts(pairs: Iterable[Pair]) -> list[tuple[str, str]]:
    return [(pair.src, pair.tgt) for pair in pairs]


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


def test_both_schemas_of_a_folder_give_the_same_pairs(tmp_path: Path) -> None:
    write_table(tmp_path / "nested/de-en/train-00000-of-00001.parquet", nested(PAIRS))
    write_table(tmp_path / "flat/train.parquet", flat(PAIRS))
    for source in (hub(tmp_path / "nested", config="de-en"), hub(tmp_path / "flat", columns=True)):
        steps: list[int] = []
        assert texts(read_pairs(source, steps.append)) == PAIRS, source
        assert find_problems(source) == []
        assert (sum(steps), "pairs") == size_of(source)


def test_line_ends_inside_a_cell_become_spaces_and_null_becomes_nothing(tmp_path: Path) -> None:
    write_table(tmp_path / "train.parquet", nested([("a\nb", "A\u2028B"), (None, "B"), ("c", "C\r\nD")]))
    assert texts(read_pairs(hub(tmp_path))) == [("a b", "A\u2028B"), ("", "B"), ("c", "C\r D")]


@pytest.mark.parametrize(
    "name", ["valid.parquet", "data/valid-00000-of-00001.parquet", "valid/0000.parquet", "default/valid/0000.parquet"]
)
def test_the_split_is_found_where_a_snapshot_of_the_hub_has_it(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name, nested(PAIRS[:5]))
    write_table(tmp_path / name.replace("valid", "train"), nested(PAIRS[5:7]))
    write_table(tmp_path / name.replace("valid", "valid_2"), nested(PAIRS[7:8]))
    assert texts(read_pairs(hub(tmp_path, "valid"))) == PAIRS[:5]


def test_parts_of_a_split_are_read_in_order(tmp_path: Path) -> None:
    for part in (2, 0, 1):
        write_table(tmp_path / f"train-{part:05}-of-00003.parquet", nested(PAIRS[part * 10 : part * 10 + 10]))
    assert texts(read_pairs(hub(tmp_path))) == PAIRS[:30]


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
            texts(read_pairs(source))
        assert len(find_problems(source)) == 1


def test_a_column_of_numbers_is_refused_with_its_row(tmp_path: Path) -> None:
    write_table(tmp_path / "train.parquet", flat(PAIRS[:3]))
    source = HubSource(str(tmp_path), None, "train", "en", "de", "en", "score")
    with pytest.raises(DataError, match=r"row 1: 0\.5 is not text"):
        texts(read_pairs(source))


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
        assert options == {"split": "validation", "revision": None, "streaming": True}
        features = datasets.Features({"translation": datasets.Translation(["de", "en"])})
        return datasets.IterableDataset.from_generator(rows, features=features)

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    source = HubSource("wmt/wmt14", "de-en", "validation", "en", "de")
    assert find_problems(source) == []
    assert size_of(source) == (None, "pairs")
    assert texts(read_pairs(source)) == PAIRS
    assert "no language cs" in find_problems(HubSource("wmt/wmt14", "de-en", "validation", "en", "cs"))[0]


def test_without_streaming_a_data_set_is_downloaded_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(*_: object, **options: object) -> datasets.Dataset:
        assert options == {"split": "validation", "revision": "refs/pr/7", "streaming": False}
        return datasets.Dataset.from_dict(dict(nested(PAIRS)))

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    source = HubSource("some/corpus", None, "validation", "en", "de", revision="refs/pr/7", streaming=False)
    assert find_problems(source) == []
    assert texts(read_pairs(source)) == PAIRS


def test_the_way_of_reading_does_not_change_the_fingerprint() -> None:
    ways = (HubSource("some/corpus", None, "train", "en", "de", streaming=way) for way in (True, False))
    assert len({str(fingerprint(way)) for way in ways}) == 1


def test_another_revision_is_another_text(tmp_path: Path) -> None:
    sources = [HubSource("some/corpus", None, "train", "en", "de", revision=revision) for revision in (None, "v1")]
    assert fingerprint(sources[0]) != fingerprint(sources[1])
    folder = HubSource(str(tmp_path), None, "train", "en", "de", revision="v1")
    assert "leave revision out" in find_problems(folder)[0]


def test_an_unknown_name_says_what_to_check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach 'wmt1' on the Hub\nwith details")

    monkeypatch.setattr("datasets.load_dataset", unreachable)
    [problem] = find_problems(HubSource("wmt1", "de-en", "train", "en", "de"))
    assert "wmt1/de-en/train: there is no folder wmt1" in problem
    assert "Couldn't reach" in problem
    assert "details" not in problem


def test_collected_parquet_files_hold_the_pairs_of_the_text_files(corpora: Path, tmp_path: Path) -> None:
    nasty = corpora / "nasty"
    text = texts(read_pairs(FileSource(nasty / "val.en.gz", nasty / "val.de.gz")))
    (tmp_path / "validation.parquet").symlink_to(nasty / "hf-translation.parquet")
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "train.parquet").symlink_to(nasty / "flat.parquet")
    assert texts(read_pairs(hub(tmp_path, "validation"))) == text
    flat_pairs = texts(read_pairs(hub(tmp_path / "flat", columns=True)))
    assert flat_pairs[-1][0] == ""  # null in the file
    assert flat_pairs[:-1] == text[: len(flat_pairs) - 1]
