"""The progress of a run: which validation was the best, what patience counts, and what survives a restart."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from typing import Any

import pytest
from pydantic import TypeAdapter

from transformer.training.progress import Progress, Skipped
from transformer.training.validation import Validation


def restarted(progress: Progress) -> Progress:
    """What a checkpoint gives back."""
    return TypeAdapter(Progress).validate_python(json.loads(json.dumps(asdict(progress))))


def validated(bleus: list[float], better: list[bool | None] | None = None) -> Progress:
    """After validations with these scores at steps 1, 2, …"""
    found = zip(bleus, better or [None] * len(bleus), strict=True)
    return Progress(validations=[Validation(step, 1.0, bleu, better=new) for step, (bleu, new) in enumerate(found, 1)])


def best_step(progress: Progress, best_by: str = "bleu", significant: bool = False) -> int | None:
    best = progress.best(best_by, significant)
    return best.step if best else None


# --- a restart ---


def test_a_restart_changes_nothing() -> None:
    progress = Progress(
        step=4,
        epoch=2,
        update=1,
        n_tokens=999,
        seconds=0.1 + 0.2,
        validations=[Validation(2, 3.25, 1 / 3, 2 / 3, better=False), Validation(4, 3.5, 1e-300)],
        skipped=[Skipped(first_part=1, first=7, end_part=2, end=9, step=30)],
        unlogged=[[1.5, 1 / 3, 0.1, 7, 9, 12]],
    )
    assert restarted(progress) == progress
    assert asdict(progress)["skipped"] == [{"first_part": 1, "first": 7, "end_part": 2, "end": 9, "step": 30}]


def test_a_run_that_an_older_version_began_goes_on() -> None:
    """It knew no chrF, no comparisons, and skipped nothing."""
    saved: dict[str, Any] = {"step": 4, "epoch": 2, "update": 1, "n_tokens": 999, "seconds": 1.5}
    saved["validations"] = [{"step": 2, "nll_per_token": 3.25, "bleu": 12.5}]
    progress = TypeAdapter(Progress).validate_python(saved)
    assert progress == Progress(4, 2, 1, 999, 1.5, [Validation(2, 3.25, 12.5, chrf=None, better=None)], [])
    progress.validations.append(Validation(4, 3.5, 11.0, chrf=30.0))
    assert [best_step(progress, best_by) for best_by in ("bleu", "nll", "chrf")] == [2, 2, 4]


@pytest.mark.parametrize("significant", [False, True])
def test_case_c2_best_and_patience_survive_a_restart(significant: bool) -> None:
    """BLEU 30, 25, 24, a restart, 26: the best is still that of 30, and 26 the third since that is not better."""
    progress = restarted(validated([30, 25, 24], [None, False, False] if significant else None))
    best = progress.best("bleu", significant)
    assert best is not None
    assert (best.step, best.bleu) == (1, 30)
    assert progress.validations_since_best("bleu", significant) == 2
    progress.validations.append(Validation(4, 1.0, 26, better=False if significant else None))
    assert best_step(progress, "bleu", significant) == 1
    assert progress.validations_since_best("bleu", significant) == 3


# --- the best, and patience ---


def test_before_the_first_validation_there_is_no_best() -> None:
    assert (Progress().best("bleu"), Progress().validations_since_best("bleu")) == (None, 0)


@pytest.mark.parametrize("scores", list(itertools.product([1.0, 2.0, 3.0], repeat=3)))
def test_the_best_is_the_first_of_the_highest_and_patience_counts_from_it(scores: tuple[float, ...]) -> None:
    progress = Progress(validations=[Validation(i, -score, score, score) for i, score in enumerate(scores, 1)])
    first_of_highest = scores.index(max(scores)) + 1
    for best_by in ("bleu", "chrf", "nll"):
        assert best_step(progress, best_by) == first_of_highest
        assert progress.validations_since_best(best_by) == len(scores) - first_of_highest


def test_each_figure_has_its_own_best() -> None:
    progress = Progress(
        validations=[Validation(1, 2.0, 30, 50), Validation(2, 1.0, 25, 51), Validation(3, 1.0, 30, 52)]
    )
    assert [best_step(progress, best_by) for best_by in ("bleu", "nll", "chrf")] == [1, 2, 3]


def test_with_significance_only_what_was_found_better_ends_the_waiting() -> None:
    """The plain best moves on at every step, the other at the third, which is compared with the first."""
    progress = validated([30.0, 30.1, 31.0, 31.1], [None, False, True, False])
    assert (best_step(progress), best_step(progress, significant=True)) == (4, 3)
    assert (progress.validations_since_best("bleu"), progress.validations_since_best("bleu", True)) == (0, 1)


def test_validations_that_were_not_compared_count_by_their_figure() -> None:
    """Where significance is asked for only later."""
    assert best_step(validated([30.0, 32.0, 31.0], [None, None, None]), significant=True) == 2
    assert best_step(validated([30.0, 32.0, 33.0], [None, None, False]), significant=True) == 2
    assert best_step(validated([30.0, 29.0, 31.0], [None, True, None]), significant=True) == 3
