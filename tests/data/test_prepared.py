"""What is written to prepared/NAME is read back, from memory maps, or refused when damaged."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import DataError
from data.prepared import (
    FORMAT,
    MANIFEST,
    IdWriter,
    ParallelText,
    Prepared,
    load_prepared,
    save_manifest,
    save_text,
    save_vocabularies,
)
from data.vocabulary import Vocabulary

LINES = [f"the cat number {i} sat on the mat" for i in range(50)]
TEXT: ParallelText = (["\ufeffa\r", "", "b\u2028"], ["A", "B\x85", " "])
SENTENCES = [[4, 5, 6], [], [7], [8, 8]]


def make(directory: Path, joint: bool = True, sentences: list[list[int]] = SENTENCES) -> Path:
    directory.mkdir()
    src = Vocabulary.learn(LINES, size=290)
    tgt = src if joint else Vocabulary.learn(LINES, size=291)
    for split in ("train", "valid"):
        for side, offset in (("src", 0), ("tgt", 1)):
            with IdWriter(directory, f"{split}.{side}", 290) as writer:
                writer.append([[i + offset for i in sentence] for sentence in sentences])
    save_text(directory, TEXT)
    save_text(directory, TEXT, test="../a b/é")
    save_vocabularies(directory, src, tgt)
    hashes = {"src": src.hash, "tgt": tgt.hash}
    save_manifest(directory, {"counts": {"test": {"../a b/é": 3}}, "vocabulary_hash": hashes})
    return directory


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    return make(tmp_path / "prepared")


def sides(found: Prepared) -> list[list[list[int]]]:
    return [[side[i].tolist() for i in range(len(side))] for side in (found.train.src, found.train.tgt)]


def test_everything_comes_back_as_it_was_written(prepared: Path) -> None:
    found = load_prepared(prepared)
    assert sides(found) == [SENTENCES, [[i + 1 for i in sentence] for sentence in SENTENCES]]
    assert found.valid_text == TEXT
    assert found.test_text == {"../a b/é": TEXT}
    assert found.tgt_vocabulary is found.src_vocabulary
    assert found.train.src_lengths.tolist() == found.train.tgt_lengths.tolist() == [3, 0, 1, 2]
    assert found.train.src_lengths.dtype == np.int32
    assert len(found.train) == len(found.valid) == 4


def test_two_vocabularies_come_back_as_two(tmp_path: Path) -> None:
    found = load_prepared(make(tmp_path / "prepared", joint=False))
    assert (len(found.src_vocabulary), len(found.tgt_vocabulary)) == (290, 291)


def test_ids_stay_on_disk(prepared: Path) -> None:
    train = load_prepared(prepared).train
    assert all(isinstance(array, np.memmap) for side in (train.src, train.tgt) for array in (side.ids, side.offsets))


def test_no_test_set_leaves_the_directory(prepared: Path) -> None:
    assert [path.name for path in prepared.parent.iterdir()] == ["prepared"]
    assert all(path.is_file() for path in prepared.iterdir())


batches = st.lists(st.lists(st.lists(st.integers(0, 65_534))))


@given(batches, st.sampled_from([100, 65_535, 65_536, 10**6]))
def test_ids_written_in_any_portions_are_one_array(
    tmp_path_factory: pytest.TempPathFactory, portions: list[list[list[int]]], vocab_size: int
) -> None:
    directory = tmp_path_factory.mktemp("ids")
    with IdWriter(directory, "x", vocab_size) as writer:
        for sentences in portions:
            writer.append(sentences)
    ids, offsets = (np.load(directory / f"x.{part}.npy", "r") for part in ("ids", "offsets"))  # numpy's own reader
    sentences = [sentence for portion in portions for sentence in portion]
    assert ids.tolist() == [i for sentence in sentences for i in sentence]
    assert [ids[start:end].tolist() for start, end in itertools.pairwise(offsets)] == sentences
    assert ids.dtype == (np.uint16 if vocab_size <= 65_535 else np.uint32)
    assert offsets.dtype == np.int64
    assert writer.n_tokens == len(ids)


def test_binarised_data_take_two_bytes_a_token(tmp_path: Path) -> None:
    with IdWriter(tmp_path, "x", 65_535) as writer:
        writer.append([[1] * 10] * 1000)
    assert (tmp_path / "x.ids.npy").stat().st_size <= 10_000 * 2 + 128
    assert (tmp_path / "x.offsets.npy").stat().st_size <= 1001 * 8 + 128


def test_any_cut_or_missing_file_is_named(prepared: Path) -> None:
    for path in sorted(prepared.iterdir()):
        whole = path.read_bytes()
        path.write_bytes(whole[: random.randrange(len(whole))])
        with pytest.raises(DataError, match=r"run preprocess\.py") as refusal:
            load_prepared(prepared)
        assert path.name in str(refusal.value)
        path.unlink()
        with pytest.raises(DataError, match=r"run preprocess\.py"):
            load_prepared(prepared)
        path.write_bytes(whole)
    load_prepared(prepared)


def edit_manifest(directory: Path, **changes: Any) -> None:
    path = directory / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_newer_format_is_refused_with_both_numbers(prepared: Path) -> None:
    edit_manifest(prepared, format=FORMAT + 1)
    with pytest.raises(DataError, match=f"format {FORMAT + 1}, but this version reads up to {FORMAT}"):
        load_prepared(prepared)


@pytest.mark.parametrize("manifest", ["", "{", "[]", "{}", "null", '{"format": "x"}', '{"format": 2, "files": 3}'])
def test_a_manifest_that_is_none_is_refused(prepared: Path, manifest: str) -> None:
    (prepared / MANIFEST).write_text(manifest)
    with pytest.raises(DataError, match=r"manifest\.json: damaged"):
        load_prepared(prepared)


def test_a_missing_directory_says_which_command_makes_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"run preprocess\.py with the same config first"):
        load_prepared(tmp_path / "none")


def test_ids_of_another_vocabulary_are_refused(prepared: Path) -> None:
    edit_manifest(prepared, vocabulary_hash={"src": "0", "tgt": "0"})
    with pytest.raises(DataError, match="vocabulary is not the one"):
        load_prepared(prepared)


def test_sides_of_different_length_are_refused(prepared: Path) -> None:
    with IdWriter(prepared, "train.tgt", 290) as writer:
        writer.append([[i] * n for i, n in enumerate([3, 2, 1])])
    edit_manifest(prepared, files={})
    with pytest.raises(DataError, match="train disagree"):
        load_prepared(prepared)


def test_nothing_in_it_is_a_pickle(prepared: Path) -> None:
    np.save(prepared / "train.src.ids.npy", np.array([{}], dtype=object), allow_pickle=True)
    edit_manifest(prepared, files={})
    with pytest.raises(DataError, match="ids of train are damaged"):
        load_prepared(prepared)
