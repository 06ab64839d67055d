"""What every test may rely on: corpora where given, seeds, few threads; GPU and browser tests that skip themselves."""

from __future__ import annotations

import os
import random
import shutil
import signal
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from sacrebleu.dataset import DATASETS

# What lands must not hang on luck: the examples are the same each time there; on a desk they are new each time.
settings.register_profile("landing", derandomize=True, deadline=None)
if "CI" in os.environ:
    settings.load_profile("landing")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--corpora", type=Path, metavar="DIR", help="folder of real corpora; tests of them skip without")


def pytest_configure(config: pytest.Config) -> None:
    # Started in the background of a shell, Python ignores Ctrl-C, and so do the programs that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(2)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")  # most machines that run these tests have none
    if item.get_closest_marker("browser") and shutil.which("chromium") is None:
        pytest.skip("needs Chromium: apt-get install chromium")  # few servers have a browser


@pytest.fixture(scope="session")
def corpora(request: pytest.FixtureRequest) -> Path:
    """The folder given as --corpora."""
    folder: Path | None = request.config.getoption("--corpora")
    if folder is None:
        pytest.skip("needs --corpora DIR")  # real corpora are too large to be part of the repository
    if not folder.is_dir():
        pytest.fail(f"--corpora {folder} is no folder")
    return folder.resolve()


@pytest.fixture(autouse=True)
def seeds() -> None:
    """Every test draws the same random numbers, alone or in company."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)


@pytest.fixture
def sacrebleu_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sacrebleu keeps the test sets it has downloaded: nothing yet, and nothing can be downloaded."""

    def no_network(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(tmp_path))
    for name in ("wmt14/full", "wmt17", "wmt21"):
        monkeypatch.setattr(DATASETS[name], "_outdir", str(tmp_path / name))
        monkeypatch.setattr(DATASETS[name], "_rawdir", str(tmp_path / name / "raw"))
    return tmp_path
