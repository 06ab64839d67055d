"""Where exported models run: on which device, with how many workers and threads."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from data.vocabulary import Vocabulary
from transformer.config_translate import TranslateSettings
from transformer.errors import RunError
from transformer.inference import ctranslate2_translator
from transformer.inference.ctranslate2_translator import CTranslate2Translator
from transformer.torchrun import Process

SECOND = Process(rank=5, local_rank=1, size=8)


@pytest.fixture
def folder(tmp_path: Path, vocabulary: Vocabulary) -> Path:
    vocabulary.save(tmp_path / "vocabulary.model")
    return tmp_path


def loaded(folder: Path, monkeypatch: pytest.MonkeyPatch, n_gpus: int, **arguments: Any) -> dict[str, Any]:
    """What CTranslate2 is told on a machine with so many GPUs, of which each test has its own idea."""
    stand_in = SimpleNamespace(
        get_cuda_device_count=lambda: n_gpus, Translator=lambda directory, **told: {"directory": directory, **told}
    )
    monkeypatch.setattr(ctranslate2_translator, "import_ctranslate2", lambda: stand_in)
    workers = arguments.pop("workers", "auto")
    translator = CTranslate2Translator(folder, TranslateSettings(workers=workers), **arguments)
    told: dict[str, Any] = translator._translator
    assert told["inter_threads"] == translator.n_workers
    return told


@pytest.mark.parametrize("n_gpus", [0, 1, 4])
def test_one_batch_at_a_time_is_on_a_gpu_and_one_per_thread_on_a_cpu(
    folder: Path, monkeypatch: pytest.MonkeyPatch, n_gpus: int
) -> None:
    told = loaded(folder, monkeypatch, n_gpus, threads=6)
    on_gpu = n_gpus > 0
    assert (told["device"], told["device_index"]) == ("cuda" if on_gpu else "cpu", 0)
    assert (told["inter_threads"], told["intra_threads"]) == ((1, 6) if on_gpu else (6, 1))
    assert loaded(folder, monkeypatch, n_gpus, workers=2, threads=6)["inter_threads"] == 2
    told = loaded(folder, monkeypatch, n_gpus, device="cpu", threads=6, process=SECOND)
    assert (told["device"], told["device_index"], told["inter_threads"]) == ("cpu", 0, 6)


def test_every_process_has_a_gpu_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaded(folder, monkeypatch, 2, process=SECOND)["device_index"] == 1
    with pytest.raises(RunError, match="process 2 of this machine has no GPU: there are 1"):
        loaded(folder, monkeypatch, 1, process=SECOND)


def test_threads_are_as_many_as_this_process_may_use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 7})
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert loaded(folder, monkeypatch, 0)["inter_threads"] == 3
    for stated, expected in (("2", 2), ("", 3), ("0", 3), ("4,2", 3)):
        monkeypatch.setenv("OMP_NUM_THREADS", stated)
        assert loaded(folder, monkeypatch, 0)["inter_threads"] == expected
