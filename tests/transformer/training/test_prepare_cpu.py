"""Room for compiled products: more only where all of an epoch's fit."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from data.prepared import IdSequences, ParallelIds
from transformer.config import TrainSettings
from transformer.training.setup import prepare_cpu

CAPACITY = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


def corpus_of(n_tokens: int) -> ParallelIds:
    side = IdSequences(np.zeros(n_tokens, np.uint16), np.array([0, n_tokens]))
    return ParallelIds(side, side)


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPACITY, "")  # so that what was there comes back
    monkeypatch.delenv(CAPACITY)


@pytest.mark.parametrize(
    ("n_tokens", "max_tokens", "expected"),
    [(400_000, "auto", "16384"), (400_000, 1000, None), (40_000_000, "auto", None), (40_000_000, 4096, None)],
)
def test_many_are_kept_where_an_epoch_has_few_batches(
    n_tokens: int, max_tokens: int | str, expected: str | None
) -> None:
    settings = TrainSettings.model_validate({"batch_tokens": 4096, "max_tokens": max_tokens})
    prepare_cpu(settings, corpus_of(n_tokens))
    assert os.environ.get(CAPACITY) == expected


def test_what_the_user_says_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPACITY, "7")
    n_threads = torch.get_num_threads()
    prepare_cpu(TrainSettings(threads=n_threads), corpus_of(10))
    assert (os.environ[CAPACITY], torch.get_num_threads()) == ("7", n_threads)
