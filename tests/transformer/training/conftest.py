"""A very small machine to train: a prepared corpus, settings for it, a network, its state and its model."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from data.prepared import IdWriter, Prepared, load_prepared, save_manifest, save_text, save_vocabularies
from data.vocabulary import Vocabulary
from transformer.config import Settings
from transformer.model_directory import Model, new_network
from transformer.training import monitor
from transformer.training.averaging import moving_average_copy
from transformer.training.checkpoint import save_checkpoint, take_snapshot
from transformer.training.optimizer import make_optimizers
from transformer.training.progress import Progress
from transformer.training.state import TrainingState
from transformer.training.validation import Validation

MakeSettings = Callable[..., Settings]
MakeState = Callable[[Settings], tuple[TrainingState, Model]]
N_TRAIN, N_VALID = 60, 5


@pytest.fixture(autouse=True)
def ordinary_numbers() -> Iterator[None]:
    """Training lets the processor take very small numbers for zero; other tests need them as they are."""
    yield
    torch.set_flush_denormal(False)


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing it takes longer than training here; its own test brings it back."""
    monkeypatch.setattr(monitor, "_open_tensorboard", lambda run, step: None)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Sentences of one to nine words and their words in reverse order, under a joint vocabulary."""
    draw = random.Random(5)
    words = ["red", "green", "blue", "cat", "dog", "bird", "sees", "hears", "and", "or"]
    src = [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(N_TRAIN + N_VALID)]
    tgt = [" ".join(reversed(line.split())) for line in src]
    vocabulary = Vocabulary.learn([*src, *tgt], size=44, byte_fallback=False)

    directory = tmp_path_factory.mktemp("prepared")
    parts = {"train": slice(0, N_TRAIN), "valid": slice(N_TRAIN, None)}
    for part, lines in parts.items():
        for side, text in (("src", src), ("tgt", tgt)):
            with IdWriter(directory, f"{part}.{side}", len(vocabulary)) as writer:
                writer.append(vocabulary.encode(text[lines]))
    save_vocabularies(directory, vocabulary, vocabulary)
    save_text(directory, (src[parts["valid"]], tgt[parts["valid"]]))
    hashes = {"src": vocabulary.hash, "tgt": vocabulary.hash}
    manifest = {"src_lang": "en", "tgt_lang": "de", "vocabulary_hash": hashes, "counts": {"test": {}}}
    save_manifest(directory, manifest)
    return load_prepared(directory)


@pytest.fixture(scope="session")
def of_two_corpora(prepared: Prepared) -> Prepared:
    """The same, of which the first 45 pairs are of a corpus called large, and the others of one called small."""
    train = [{"name": "large", "kept": 45}, {"name": "small", "kept": N_TRAIN - 45}]
    return replace(prepared, manifest=prepared.manifest | {"counts": {"train": train, "test": {}}})


@pytest.fixture(scope="session")
def make_settings() -> MakeSettings:
    """Settings for `prepared`; `make_settings(train={"max_steps": 4})` changes one of them.

    An epoch is 7 updates of about 80 target tokens, most of them of several micro-batches.
    """

    def make(**sections: Any) -> Settings:
        model = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 32, "d_ff": 48, "n_heads": 2, "dropout": 0.1}
        train = {"device": "cpu", "precision": "fp32", "attention": "explicit", "batch_tokens": 80, "max_tokens": 60}
        train |= {"warmup_steps": 8, "lr": 3e-3, "max_steps": 6}
        train |= {"validate_every": 4, "save_every": 2, "log_every": 1, "average_checkpoints": 2}
        translate = {"max_extra_length": 2, "beam_size": 2}
        plain = {key: value for key, value in sections.items() if not isinstance(value, dict)}
        return Settings.model_validate(
            {
                "name": "tiny",
                **plain,
                "data": sections.get("data", {}),
                "model": model | sections.get("model", {}),
                "train": train | sections.get("train", {}),
                "translate": translate | sections.get("translate", {}),
            }
        )

    return make


@pytest.fixture(scope="session")
def make_state(prepared: Prepared) -> MakeState:
    """The state of training before the first update, and the model it belongs to."""

    def make(settings: Settings) -> tuple[TrainingState, Model]:
        vocabulary = prepared.src_vocabulary
        torch.manual_seed(settings.seed)
        network = new_network(settings.model, vocabulary, vocabulary)
        average = moving_average_copy(network) if settings.train.ema_decay is not None else None
        state = TrainingState(network, average, make_optimizers(network, settings.train), Progress())
        return state, Model(network, settings.model, settings.translate, vocabulary, vocabulary, "en", "de")

    return make


@pytest.fixture
def trained(make_settings: MakeSettings, make_trained: MakeState) -> tuple[TrainingState, Model]:
    """A state after an update, with a moving average."""
    return make_trained(make_settings(train={"ema_decay": 0.9}))


@pytest.fixture(scope="session")
def make_trained(make_state: MakeState) -> MakeState:
    """As `make_state`, but nothing is as it was at the start."""

    def make(settings: Settings) -> tuple[TrainingState, Model]:
        state, model = make_state(settings)
        for network in (state.network, state.evaluated):
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter += torch.randn_like(parameter)
        for parameter in state.network.parameters():
            parameter.grad = torch.randn_like(parameter)
        for optimizer in state.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        state.progress = Progress(4, 2, 1, 999, 0.1 + 0.2, [Validation(2, 3.25, 1 / 3), Validation(4, 3.5, 1e-300)])
        return state, model

    return make


@pytest.fixture
def save() -> Callable[..., Path]:
    """Save a checkpoint into a directory that may not be there yet."""

    def save(directory: Path, state: TrainingState, model: Model, keep: int = 2) -> Path:
        directory.mkdir(exist_ok=True)
        return save_checkpoint(directory, take_snapshot(state), model, best_by="bleu", keep=keep)

    return save


@pytest.fixture
def files_of() -> Callable[[Path], dict[str, bytes]]:
    """Every file below a directory by its relative name, links not followed, with its content."""

    def files(directory: Path) -> dict[str, bytes]:
        paths = [path for path in directory.rglob("*") if path.is_file() and not path.is_symlink()]
        return {str(path.relative_to(directory)): path.read_bytes() for path in paths}

    return files
