"""The model directory: all that is needed to translate, and the contract between training, translating and exporting.

    model.safetensors                      weights, tied matrices stored once
    model.json                             format number, languages, network and search settings, checksums
    vocabulary.model                       joint vocabulary (sentencepiece), or src.model and tgt.model
    README.md                              the model's card

Nothing in it is a pickle; loading it executes nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from data.atomic import whole_file
from data.errors import DataError
from data.vocabulary import Vocabulary
from transformer.config import ModelSettings
from transformer.config_translate import TranslateSettings
from transformer.errors import RunError
from transformer.files import sha256_of
from transformer.model import Transformer
from transformer.model_card import Licence, ModelFacts, RunFacts, model_card, read_run, stated_licence

FORMAT = 1  # raised whenever an older program could misread what a newer one writes
WEIGHTS, DESCRIPTION, CARD = "model.safetensors", "model.json", "README.md"
_FILES = ({WEIGHTS, "vocabulary.model"}, {WEIGHTS, "src.model", "tgt.model"})


@dataclass(frozen=True)
class Model:
    """A network with everything it needs to turn text into text."""

    network: Transformer
    settings: ModelSettings
    translate: TranslateSettings
    src_vocabulary: Vocabulary
    tgt_vocabulary: Vocabulary
    src_lang: str
    tgt_lang: str

    def with_network(self, network: Transformer) -> Model:
        """The same model with other weights."""
        return replace(self, network=network)


def new_network(settings: ModelSettings, src_vocabulary: Vocabulary, tgt_vocabulary: Vocabulary) -> Transformer:
    """Build the network that fits these vocabularies, freshly initialised."""
    return Transformer(settings, len(src_vocabulary), len(tgt_vocabulary))


def find_model(path: str | Path) -> Path:
    """The model directory meant by `path`: itself, or in a run directory the finished model, else the best checkpoint.

    Raises:
        RunError: there is none.
    """
    path = Path(path)
    candidates = [path, path / "model", path / "checkpoints" / "best", path / "checkpoints" / "last"]
    for candidate in candidates:
        if (candidate / DESCRIPTION).is_file():
            return candidate
    if not path.exists():
        raise RunError(f"{path}: no such directory; --model takes runs/NAME or a model directory, train.py makes one")
    raise RunError(
        f"{path}: holds no model: neither {DESCRIPTION} nor model/, checkpoints/best or checkpoints/last; "
        "has train.py saved a checkpoint yet?"
    )


def save_model(directory: Path, model: Model, weights: Mapping[str, Tensor] | None = None) -> None:
    """Fill an existing directory; see `data.atomic.whole_directory` for doing so atomically.

    `weights` replaces the network's own, under the names of `distinct`; the network, which may be training, is then not
    looked at.
    """
    weights = distinct(model.network, model.network.state_dict()) if weights is None else weights
    save_tensors(directory / WEIGHTS, weights)
    checked = [WEIGHTS, *save_vocabularies(directory, model)]
    description = {
        "format": FORMAT,
        "src_lang": model.src_lang,
        "tgt_lang": model.tgt_lang,
        "model": model.settings.model_dump(),
        "translate": model.translate.model_dump(),
        "sha256": {name: sha256_of(directory / name) for name in checked},
    }
    write_json(directory / DESCRIPTION, description)
    write_card(directory)


def write_card(directory: Path, run: Path | None = None, licence: Licence | None = None) -> None:
    """Write the README.md of a model directory, with all that its run is known to have; the licence in it stays.

    Args:
        licence: in place of the one in it.

    Raises:
        RunError: the model is damaged.
    """
    description = _read_description(directory)
    try:
        with safe_open(directory / WEIGHTS, "pt") as weights:
            shapes = {name: weights.get_slice(name).get_shape() for name in weights.keys()}  # noqa: SIM118
        settings = ModelSettings.model_validate(description["model"])
        translate = TranslateSettings.model_validate(description["translate"])
    except ValidationError as error:
        raise _not_settings(directory, error) from error
    except (SafetensorError, OSError) as error:
        raise RunError(f"{directory / WEIGHTS}: missing, truncated or damaged ({error})") from error
    src_table = shapes["encoder.embedding.table.weight"]
    tgt_table = shapes.get("decoder.embedding.table.weight", src_table)  # stored once where it is the source's
    facts = ModelFacts(
        description["src_lang"],
        description["tgt_lang"],
        settings,
        translate,
        n_parameters=sum(map(math.prod, shapes.values())),
        n_src_pieces=src_table[0],
        n_tgt_pieces=tgt_table[0],
    )
    card = directory / CARD
    text = model_card(facts, read_run(run) if run else RunFacts(), licence or stated_licence(card))
    with whole_file(card) as stream:
        stream.write(text.encode(errors="replace"))  # JSON may hold what is no character


def save_vocabularies(directory: Path, model: Model) -> list[str]:
    """Write vocabulary.model, or src.model and tgt.model; returns the names."""
    vocabularies = {"src.model": model.src_vocabulary, "tgt.model": model.tgt_vocabulary}
    if model.src_vocabulary.hash == model.tgt_vocabulary.hash:
        vocabularies = {"vocabulary.model": model.src_vocabulary}
    for name, vocabulary in vocabularies.items():
        vocabulary.save(directory / name)
    return list(vocabularies)


def load_model(path: str | Path) -> Model:
    """Load a model directory, or the model of a run (see `find_model`), on the CPU, ready to translate.

    Raises:
        RunError: a file is missing, damaged, or of a newer format; the message names it.
    """
    directory = find_model(path)
    description = check_model_directory(directory)
    joint = "vocabulary.model" in description["sha256"]
    try:
        src_vocabulary = Vocabulary.load(directory / ("vocabulary.model" if joint else "src.model"))
        tgt_vocabulary = src_vocabulary if joint else Vocabulary.load(directory / "tgt.model")
        settings = ModelSettings.model_validate(description["model"])
        translate = TranslateSettings.model_validate(description["translate"])
        with torch.device("meta"):  # no time spent on initial values that are overwritten below
            network = new_network(settings, src_vocabulary, tgt_vocabulary)
    except DataError as error:
        raise RunError(str(error)) from error
    except ValidationError as error:
        raise _not_settings(directory, error) from error
    except RuntimeError as error:  # sizes beyond all bounds
        raise RunError(f"{directory / DESCRIPTION}: not the settings of a network ({error})") from error
    load_weights(network, load_tensors(directory / WEIGHTS), directory / WEIGHTS)
    return Model(
        network.eval(),
        settings,
        translate,
        src_vocabulary,
        tgt_vocabulary,
        description["src_lang"],
        description["tgt_lang"],
    )


def stored_translate_settings(path: str | Path) -> TranslateSettings:
    """How a model or run translates unless told otherwise, without reading its weights.

    Raises:
        RunError: there is no model, or its description is damaged.
    """
    directory = find_model(path)
    try:
        return TranslateSettings.model_validate(_read_description(directory)["translate"])
    except ValidationError as error:
        raise _not_settings(directory, error) from error


def stored_languages(path: str | Path) -> tuple[str, str]:
    """The source and target language of a model or run, without reading its weights. Raises RunError as above."""
    description = _read_description(find_model(path))
    return description["src_lang"], description["tgt_lang"]


def _not_settings(directory: Path, error: ValidationError) -> RunError:
    problems = "; ".join(f"{'.'.join(map(str, e['loc']))!r}: {e['msg']}" for e in error.errors())
    return RunError(f"{directory / DESCRIPTION}: not the settings of a model ({problems})")


def checksums(path: str | Path) -> dict[str, str]:
    """SHA-256 of each file of a model or run, as its description has them."""
    sums: dict[str, str] = _read_description(find_model(path))["sha256"]
    return sums


def vocabulary_hashes(directory: Path) -> tuple[str, str]:
    """The hashes (`Vocabulary.hash`) of the source and of the target vocabulary of a model directory."""
    sums = _read_description(directory)["sha256"]
    joint = sums.get("vocabulary.model")
    return (joint, joint) if joint else (sums["src.model"], sums["tgt.model"])


def distinct(network: Transformer, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Only the first name of each tied parameter, as safetensors demands."""
    return {name: weights[name] for name, _ in network.named_parameters()}


def load_weights(network: Transformer, weights: Mapping[str, Tensor], file: Path) -> None:
    """Give the network these weights; `file` is where they came from, for messages.

    Raises:
        RunError: they belong to another network.
    """
    parameters = dict(network.named_parameters())
    problems = [f"{name} is missing" for name in parameters.keys() - weights.keys()]
    problems += [f"{name} is not part of the network" for name in weights.keys() - parameters.keys()]
    problems += [
        f"{name} is {tuple(weights[name].shape)}, the network needs {tuple(parameter.shape)}"
        for name, parameter in parameters.items()
        if name in weights and weights[name].shape != parameter.shape
    ]
    problems += [f"{name} is {w.dtype}, not float32" for name, w in weights.items() if w.dtype != torch.float32]
    if problems:
        raise RunError(f"{file}: weights of another network: " + "; ".join(sorted(problems)[:5]))
    without_storage = any(parameter.is_meta for parameter in parameters.values())
    network.load_state_dict(dict(weights), strict=False, assign=without_storage)
    network.tie()


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors as safetensors, for whoever may read the folder.

    Raises:
        RunError: the disk is full or not writable.
    """
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path, metadata)
        path.chmod(path.parent.stat().st_mode & 0o666)  # safetensors makes files for their owner alone
    except (SafetensorError, OSError) as error:
        raise RunError(f"{path}: cannot be written ({error}); what was saved before is untouched") from error


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read safetensors.

    Raises:
        RunError: missing or damaged.
    """
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise RunError(f"{path}: missing, truncated or damaged ({error}); take another checkpoint") from error


def check_model_directory(directory: Path) -> dict[str, Any]:
    """Compare every file with the checksum noted when it was written; returns the description.

    Raises:
        RunError: a file is missing, truncated or altered, or the format is newer than this program.
    """
    description = _read_description(directory)
    for name, expected in description["sha256"].items():
        if sha256_of(directory / name) != expected:
            raise RunError(
                f"{directory / name}: truncated or altered since it was written (checksum differs); "
                f"restore it, or remove {directory} and use an older checkpoint"
            )
    return description


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people to read."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_description(directory: Path) -> dict[str, Any]:
    path = directory / DESCRIPTION
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        if description["format"] > FORMAT:
            raise RunError(
                f"{path}: format {description['format']}, this program reads up to {FORMAT}: update the program"
            )
        sums = description["sha256"]  # of these files and no others: a name is never a way out of the directory
        if not isinstance(sums, dict) or sums.keys() not in _FILES:
            raise KeyError("sha256")
        if not all(isinstance(description[key], str) for key in ("src_lang", "tgt_lang")):
            raise TypeError("the languages are no text")
        return {key: description[key] for key in ("src_lang", "tgt_lang", "model", "translate", "sha256")}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RunError(
            f"{path}: not the description of a model ({error!r}): restore it, or use another checkpoint or model"
        ) from error
