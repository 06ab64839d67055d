"""Every setting that stock classes of transformers have, exported to them: they do what our network does."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from data.vocabulary import BOS_ID, EOS_ID, Vocabulary
from tests.transformer.inference.imports.conftest import ENGLISH, GERMAN, ODD, MakeMarian, make_marian, models
from transformer.config import ModelSettings
from transformer.config_translate import TranslateSettings
from transformer.errors import RunError
from transformer.inference.export.description import ExportDescription, write_description
from transformer.inference.export.gate import TOLERANCE, Gate
from transformer.inference.export.gate_lines import GateLines
from transformer.inference.export.huggingface import TARGET, Opened, next_step, open_export, search_config, usage, write
from transformer.inference.export.obstacles import LONGEST_SOURCE, fit_search, obstacles
from transformer.inference.imports.marian import import_marian
from transformer.model_directory import Model

__all__ = ["make_marian", "models"]  # fixtures

pytest.importorskip("transformers")
MakeModel = Callable[..., Model]

CHOICES: dict[str, list[Any]] = {
    "norm_position": ["post", "pre"],
    "norm_epsilon": [1e-6, 1e-5, 1e-3],
    "activation": ["relu", "gelu", "silu"],
    "attention_bias": [False, True],
    "projection_bias": [False, True],
    "scaling": ["embedding", "projection", "none"],
    "tie_embeddings": ["three_way", "target", "source_target", "none"],
    "n_encoder_layers": [1, 2],
    "n_decoder_layers": [1, 3],
    "d_model": [32, 40],
    "n_heads": [4, 1],
}
BEYOND: dict[str, Any] = {
    "norm": "rms_norm",
    "activation": "swiglu",
    "positions": "rotary",
    "embedding_norm": True,
    "d_head": 4,
    "d_value": 4,
}


def combinations_of_pairs() -> Iterator[dict[str, Any]]:
    """Networks without obstacles among which any two values of two settings occur together, if they can."""
    draw = random.Random(1)
    left = {
        frozenset([(one, a), (other, b)])
        for one, other in itertools.combinations(CHOICES, 2)
        for a in CHOICES[one]
        for b in CHOICES[other]
        if not obstacles("huggingface", ModelSettings.model_validate({one: a, other: b}))
    }
    while left:
        drawn = [{name: draw.choice(values) for name, values in CHOICES.items()} for _ in range(99)]
        possible = [row for row in drawn if not obstacles("huggingface", ModelSettings.model_validate(row))]
        best = max(possible, key=lambda network: len(left & pairs_of(network)))
        left -= pairs_of(best)
        yield best


def pairs_of(network: dict[str, Any]) -> set[frozenset[tuple[str, Any]]]:
    return set(map(frozenset, itertools.combinations(network.items(), 2)))


def exported(model: Model, folder: Path) -> Opened:
    folder.mkdir()
    write(model, folder, None)
    write_description(folder, description_of(model))
    return open_export(folder)


def description_of(model: Model) -> ExportDescription:
    return ExportDescription("huggingface", None, "en", "de", fit_search("huggingface", model.translate)[0], {}, {})


@pytest.mark.parametrize("network", list(combinations_of_pairs()), ids=lambda network: network["activation"])
def test_any_two_settings_together_are_exported(
    make_model: MakeModel, few_lines: GateLines, tmp_path: Path, network: dict[str, Any]
) -> None:
    """Exactly, but for the first norm of each side (see the module), which counts where ε is larger than usual."""
    epsilon = network["norm_epsilon"]
    model = make_model(
        **network | {"norm_epsilon": min(epsilon, 1e-5) if network["norm_position"] == "post" else epsilon}
    )
    parity = Gate(model, few_lines, TARGET.impossible).check(exported(model, tmp_path / "export"))
    assert parity.beam_identical == parity.n_lines == len(few_lines.lines)


def test_case_e1_beam_1_and_4_and_forced_decoding_are_those_of_the_model(make_model: MakeModel, tmp_path: Path) -> None:
    lines = [f"the cat number {i} sat w{i} on the mat" for i in range(47)]
    search = TranslateSettings(length_penalty="average", alpha=1.0, max_length_ratio=0.001, max_extra_length=8)
    longest = "the cat sat " * (LONGEST_SOURCE // 3)
    for tie in ("three_way", "none"):
        model = make_model(search, tie_embeddings=tie)
        assert len(model.src_vocabulary.encode([longest])[0]) == LONGEST_SOURCE
        given = GateLines([*lines, "", "cat", longest], [], "case E1")
        done: list[int] = []
        gate = Gate(model, given, TARGET.impossible, done.append)
        n_before = len(done)
        parity = gate.check(exported(model, tmp_path / tie))
        assert sum(done) == 4 * 50 and max(done[n_before:]) < 50  # which moves the bar
        assert parity.greedy_identical == parity.n_lines == 50
        assert parity.beam_identical >= 49
        assert parity.largest_difference <= TOLERANCE


def test_the_decoder_begins_with_the_symbol_of_training_and_loses_no_piece(
    make_model: MakeModel, tmp_path: Path
) -> None:
    """[a, b, eos] is read as [<s>, a, b]: also by the shift of labels that training there makes."""
    model = make_model()
    opened = exported(model, tmp_path / "export")
    labels = torch.tensor([[50, 60, EOS_ID]])
    batch = opened.tokenizer("the cat", return_tensors="pt")
    with torch.no_grad():
        theirs = opened.model(**batch, labels=labels).logits
        ours = model.network(batch["input_ids"], torch.tensor([[BOS_ID, 50, 60]]))
    assert_close(theirs[..., EOS_ID:], ours[..., EOS_ID:], atol=1e-4, rtol=0)


@pytest.mark.parametrize("tie", ["three_way", "target", "source_target", "none"])
def test_what_is_exported_can_be_imported_again_to_the_bit(make_model: MakeModel, tmp_path: Path, tie: str) -> None:
    model = make_model(norm_epsilon=1e-5, attention_bias=True, tie_embeddings=tie)
    exported(model, tmp_path / "export")
    again = import_marian(tmp_path / "export")
    assert again.settings == model.settings
    assert (again.translate.beam_size, again.translate.alpha, again.translate.stop) == (4, 1.0, "first_n")
    assert_close(again.network.state_dict(), model.network.state_dict(), rtol=0, atol=0)
    for ours, theirs in (
        (model.src_vocabulary, again.src_vocabulary),
        (model.tgt_vocabulary, again.tgt_vocabulary),
    ):
        assert theirs.all_pieces() == ours.all_pieces()
        assert theirs.encode(["the cat sass auf w7", "é ü"]) == ours.encode(["the cat sass auf w7", "é ü"])
    assert (again.src_vocabulary.hash == again.tgt_vocabulary.hash) == (tie in ("three_way", "source_target"))


def test_an_imported_model_can_be_exported_again(make_marian: MakeMarian, tmp_path: Path) -> None:
    """Its vocabularies hold pieces that their text is never cut into."""
    model = import_marian(make_marian())
    lines = [*ENGLISH, *GERMAN, *(line for line in ODD if line.strip()), "KH Katz"]
    parity = Gate(model, GateLines(lines, [], "lines"), TARGET.impossible).check(exported(model, tmp_path / "export"))
    assert parity.beam_identical == len(lines)


def test_what_was_saved_again_by_transformers_is_the_same_model(make_model: MakeModel, tmp_path: Path) -> None:
    """It leaves out Marian's positions, as they can be computed."""
    for position in ("post", "pre"):
        model = make_model(norm_position=position)
        opened = exported(model, tmp_path / position)
        again = tmp_path / f"{position} again"
        opened.model.save_pretrained(again)
        opened.tokenizer.save_pretrained(again)
        write_description(again, description_of(model))
        lines = ["the cat sat on the mat", "w7 cat"]
        targets = [[20, 30, EOS_ID], [40, EOS_ID]]
        assert open_export(again).log_probs(lines, targets) == opened.log_probs(lines, targets)
        assert open_export(again).translate(lines, 4, [9, 9]) == opened.translate(lines, 4, [9, 9])


def test_tags_stand_before_the_line(tmp_path: Path, make_model: MakeModel) -> None:
    lines = [f"the cat number {i} sat on the mat" for i in range(99)]
    vocabulary = Vocabulary.learn(lines, size=60, byte_fallback=False, tags=["<bt>"])
    plain = make_model()
    network = type(plain.network)(plain.settings, len(vocabulary), len(vocabulary)).eval()
    search = TranslateSettings(beam_size=2, length_penalty="average", alpha=1.0, tag="<bt>", max_extra_length=5)
    model = Model(network, plain.settings, search, vocabulary, vocabulary, "en", "de")
    opened = exported(model, tmp_path / "export")
    given = GateLines([*lines[:5], " leading space"], [], "lines")
    assert Gate(model, given, TARGET.impossible).check(opened).n_lines == 6
    assert opened.tokenizer("<bt>the cat")["input_ids"][0] == vocabulary.tag_id("<bt>")


def test_no_translation_is_longer_than_there_are_positions(make_model: MakeModel) -> None:
    search = TranslateSettings(length_penalty="none", max_source_length=LONGEST_SOURCE, max_length_ratio=2.0)
    config = search_config(make_model(search))
    assert (config["max_new_tokens"], config["length_penalty"]) == (LONGEST_SOURCE, 0.0)


@pytest.mark.parametrize("setting", BEYOND)
def test_what_no_stock_class_has_is_named(setting: str) -> None:
    [sentence] = obstacles("huggingface", ModelSettings.model_validate({"d_head": 64, setting: BEYOND[setting]}))[:1]
    assert sentence.startswith(f"model.{setting}: ")


def test_every_setting_of_the_network_is_exported_or_named() -> None:
    training = {"dropout", "attention_dropout", "feed_forward_dropout", "layer_drop", "d_ff"}
    assert set(CHOICES) | set(BEYOND) | training == set(ModelSettings.model_fields)
    assert "three_way" in obstacles("huggingface", ModelSettings(norm_position="pre", tie_embeddings="none"))[0]


@pytest.mark.parametrize("name", ["model.encoder.layers.0.fc2.bias", "final_logits_bias", "model.shared.weight"])
def test_a_damaged_tensor_is_found_out(make_model: MakeModel, few_lines: GateLines, tmp_path: Path, name: str) -> None:
    model = make_model()
    exported(model, tmp_path / "export")
    file = tmp_path / "export" / "model.safetensors"
    weights = load_file(file)
    weights[name][..., 8:24] += 0.5
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(RunError, match="the export does not do what the model does"):
        Gate(model, few_lines, TARGET.impossible).check(open_export(tmp_path / "export"))


def test_what_the_card_tells_to_do_works(
    make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    opened = exported(model, tmp_path / "a folder")
    [snippet] = re.findall(r"```python\n(.*?)```", usage(model, description_of(model)), re.DOTALL)
    monkeypatch.chdir(tmp_path / "a folder")
    names: dict[str, Any] = {}
    exec(snippet, names)
    limit = int(0.5 * 256) + 6
    assert names["translate"](["the cat", "w7 on"]) == opened.translate(["the cat", "w7 on"], 4, [limit] * 2)


@pytest.mark.slow
def test_the_command_to_try_works(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model()
    opened = exported(model, tmp_path / "a folder")
    command = next_step(tmp_path / "a folder", description_of(model))
    command = command.replace("python", sys.executable, 1).replace("…", "the cat")
    done = subprocess.run(command, shell=True, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.splitlines() == opened.translate(["the cat"], 4, [134])
