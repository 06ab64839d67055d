"""Test sets by the names that sacrebleu gives them, such as `wmt14/full`; downloaded once, kept in $SACREBLEU."""

from __future__ import annotations

import difflib
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.errors import DataError


@dataclass(frozen=True)
class TestSetSource:
    """A test set of sacrebleu; of several references, the first."""

    __test__ = False  # not a test, whatever pytest thinks of its name

    testset: str
    src_lang: str
    tgt_lang: str

    def __str__(self) -> str:
        return f"{self.testset} {self.src_lang}-{self.tgt_lang}"


def find_test_set(source: TestSetSource) -> tuple[Path, Path]:
    """The text files of source and first reference, downloaded unless they are there already. Raises as below."""
    src, references = find_whole_test_set(source)
    return src, references[0]


def find_whole_test_set(source: TestSetSource) -> tuple[Path, list[Path]]:
    """The text files of source and all references, downloaded unless they are there already.

    Raises DataError: no test set or direction of that name, no network.
    """
    from sacrebleu.dataset import DATASETS
    from sacrebleu.utils import SACREBLEU_DIR

    if source.testset not in DATASETS:
        near = difflib.get_close_matches(source.testset, DATASETS, 3)
        hint = f"Near: {', '.join(near)}. " if near else ""
        raise DataError(f"testset: {source.testset}: sacrebleu has none of that name. {hint}All: sacrebleu --list")
    dataset, direction = DATASETS[source.testset], f"{source.src_lang}-{source.tgt_lang}"
    if direction not in dataset.langpairs:
        there = ", ".join(dataset.langpairs)
        raise DataError(f"testset: {source.testset}: not for {direction}; there: {there}. Choose another test set")
    try:
        return _ask_sacrebleu(dataset, direction)
    except (Exception, SystemExit) as error:  # network, disk, archives: anything, and it ends the program for some
        reason = str(getattr(error, "reason", None) or error).strip().split("\n")[0] or type(error).__name__
        raise DataError(
            f"testset: {source.testset}: cannot be downloaded: {reason}. Check the network; or run once where there is "
            f"one and copy {SACREBLEU_DIR}/{source.testset} from there; or give text files as src and tgt"
        ) from error


def _ask_sacrebleu(dataset: Any, direction: str) -> tuple[Path, list[Path]]:
    from sacrebleu.utils import SACREBLEU_DIR

    logger = logging.getLogger("sacrebleu")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # what it has to say comes as an exception, too
    try:
        if not Path(SACREBLEU_DIR, dataset.name).is_dir():
            print(f"asking sacrebleu for {dataset.name} …", file=sys.stderr)
        return Path(dataset.get_source_file(direction)), list(map(Path, dataset.get_reference_files(direction)))
    finally:
        logger.setLevel(level)
