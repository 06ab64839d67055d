"""Every setting of the network, exported to CTranslate2: it does what our network does, or is found out."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from data.vocabulary import BOS_ID, EOS_ID
from transformer.config import ModelSettings
from transformer.errors import RunError
from transformer.inference.ctranslate2_translator import CTranslate2Translator
from transformer.inference.export.ctranslate2 import TARGET, Opened, open_export, usage, write
from transformer.inference.export.description import ExportDescription, checksums, write_description
from transformer.inference.export.gate import TOLERANCE, Gate, Parity
from transformer.inference.export.gate_lines import GateLines
from transformer.inference.export.obstacles import LONGEST_SOURCE, fit_search, obstacles
from transformer.inference.search.beam_search import IMPOSSIBLE, log_distribution
from transformer.model_directory import Model

MakeModel = Callable[..., Model]

CHOICES: dict[str, list[Any]] = {
    "norm_position": ["post", "pre"],
    "norm": ["layer_norm", "rms_norm"],
    "norm_epsilon": [1e-6, 1e-2],
    "activation": ["relu", "gelu", "silu", "swiglu"],
    "positions": ["sinusoidal", "rotary"],
    "attention_bias": [False, True],
    "projection_bias": [False, True],
    "embedding_norm": [False, True],
    "scaling": ["embedding", "projection", "none"],
    "tie_embeddings": ["three_way", "target", "source_target", "none"],
    "d_head": [None, 4, 10],
    "d_value": [None, 4, 12],
    "n_encoder_layers": [1, 2],
    "n_decoder_layers": [1, 3],
    "d_model": [32, 40],
    "n_heads": [4, 1],
}
"""Of every setting of the network that counts outside training, its values, or some that differ in kind."""

NOT_EXPORTED = {"dropout", "attention_dropout", "feed_forward_dropout", "layer_drop", "d_ff"}  # d_ff: of any network


def combinations_of_pairs() -> Iterator[dict[str, Any]]:
    """Networks among which any two values of two settings occur together."""
    draw = random.Random(1)
    left = {
        frozenset([(one, a), (other, b)])
        for one, other in itertools.combinations(CHOICES, 2)
        for a in CHOICES[one]
        for b in CHOICES[other]
    }
    while left:
        drawn = [{name: draw.choice(values) for name, values in CHOICES.items()} for _ in range(60)]
        best = max(drawn, key=lambda network: len(left & pairs_of(network)))
        left -= pairs_of(best)
        yield best


def pairs_of(network: dict[str, Any]) -> set[frozenset[tuple[str, Any]]]:
    return set(map(frozenset, itertools.combinations(network.items(), 2)))


def exported(model: Model, folder: Path, quantization: str | None = None) -> Opened:
    folder.mkdir()
    write(model, folder, quantization)
    return Opened(CTranslate2Translator(folder, fit_search("ctranslate2", model.translate)[0], "cpu"))


def test_the_choices_are_all_that_the_network_has() -> None:
    assert set(CHOICES) | NOT_EXPORTED == set(ModelSettings.model_fields)


@pytest.mark.parametrize("network", list(combinations_of_pairs()), ids=lambda network: network["activation"])
def test_any_two_settings_together_are_exported_exactly(
    make_model: MakeModel,
    few_lines: GateLines,
    tmp_path: Path,
    network: dict[str, Any],
) -> None:
    model = make_model(**network)
    assert obstacles("ctranslate2", model.settings) == []
    parity = Gate(model, few_lines, TARGET.impossible).check(exported(model, tmp_path / "export"))
    assert parity.beam_identical == parity.n_lines == len(few_lines.lines)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_the_longest_source_is_read_to_its_end(make_model: MakeModel, tmp_path: Path, positions: str) -> None:
    model = make_model(positions=positions)
    longest = [5 + i % 300 for i in range(LONGEST_SOURCE)]
    opened = exported(model, tmp_path / "export")
    targets = [[7, 8, 9, EOS_ID]]
    [theirs] = opened.translator.log_probs([longest], targets)
    with torch.inference_mode():
        logits = model.network(torch.tensor([[*longest, EOS_ID]]), torch.tensor([[BOS_ID, 7, 8, 9]]))
    ours = log_distribution(logits, IMPOSSIBLE)[0].gather(1, torch.tensor(targets).T)[:, 0]
    assert (ours - torch.tensor(theirs)).abs().max() <= TOLERANCE
    [shorter] = opened.translator.log_probs([longest[:-1]], targets)
    assert shorter != theirs


def test_the_decoder_begins_with_the_symbol_of_training_and_loses_no_piece(
    make_model: MakeModel, tmp_path: Path
) -> None:
    """[a, b, eos] is read as [<s>, a, b]."""
    model = make_model()
    source, target = [20, 30, 40], [50, 60, EOS_ID]
    [theirs] = exported(model, tmp_path / "export").translator.log_probs([source], [target])
    with torch.inference_mode():
        logits = model.network(torch.tensor([[*source, EOS_ID]]), torch.tensor([[BOS_ID, 50, 60]]))
    log_probs = log_distribution(logits, IMPOSSIBLE)[0]
    assert theirs == pytest.approx([float(log_probs[t, piece]) for t, piece in enumerate(target)], abs=TOLERANCE)


def test_an_export_is_compared_on_the_cpu_with_as_many_threads_as_its_origin(
    make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(make_model(), tmp_path / "export")
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: 1)
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    description = ExportDescription("ctranslate2", None, "en", "de", make_model().translate, {}, {})
    write_description(tmp_path / "export", replace(description, sha256=checksums(tmp_path / "export")))
    translator = open_export(tmp_path / "export").translator
    assert (translator._translator.device, translator.n_workers) == ("cpu", 3)


def test_every_batch_that_is_done_is_told(make_model: MakeModel, few_lines: GateLines, tmp_path: Path) -> None:
    done: list[int] = []
    n_lines = len(few_lines.lines)
    exported(make_model(), tmp_path / "export").translate(few_lines.lines, 5, [9] * n_lines, done.append)
    assert sum(done) == n_lines > max(done)


def test_pad_and_the_start_symbol_are_no_outcomes(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model()
    opened = exported(model, tmp_path / "export")
    log_probs = opened.translator.log_probs([[20]] * 2, [[i, EOS_ID] for i in IMPOSSIBLE])
    assert all(row[0] < -1000 for row in log_probs)


DAMAGED = ("encoder.layers.0.feed_forward.outer.bias", "decoder.layers.0.cross_attention.in_projection.weight")


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_tensor_is_found_out(make_model: MakeModel, few_lines: GateLines, tmp_path: Path, name: str) -> None:
    """Eight numbers of a file are not what they were."""
    model = make_model()
    exported(model, tmp_path / "export")
    file = tmp_path / "export" / "model.bin"
    numbers = model.network.state_dict()[name].flatten()[:8]
    content, there = file.read_bytes(), numbers.numpy().tobytes()
    assert content.count(there) == 1
    file.write_bytes(content.replace(there, (numbers + 0.3).numpy().tobytes()))
    opened = Opened(CTranslate2Translator(tmp_path / "export", model.translate, "cpu"))
    with pytest.raises(RunError, match=r"the export does not do what the model does[\s\S]*log P of a piece differs"):
        Gate(model, few_lines).check(opened)


@pytest.mark.parametrize("quantization", TARGET.quantizations)
def test_rounded_weights_lose_little(
    make_model: MakeModel, few_lines: GateLines, tmp_path: Path, quantization: str
) -> None:
    model = make_model(n_decoder_layers=2)
    whole = exported(model, tmp_path / "whole")
    gate = Gate(model, few_lines)
    parity, _ = gate.compare(exported(model, tmp_path / "rounded", quantization))
    assert whole.translator.log_probs([[20]], [[30]]) is not None
    assert TOLERANCE / 100 < parity.largest_difference < 1.5
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("whole", "rounded")]
    assert sizes[1] < 0.8 * sizes[0]


def test_what_the_card_tells_to_do_works(make_model: MakeModel, few_lines: GateLines, tmp_path: Path) -> None:
    for number, network in enumerate(({}, {"tie_embeddings": "none"})):
        model = make_model(**network)
        folder = tmp_path / f"a folder {number}"
        exported(model, folder)
        description = ExportDescription("ctranslate2", None, "en", "de", model.translate, {}, {})
        [snippet] = re.findall(r"```python\n(.*?)```", usage(model, description), re.DOTALL)
        lines = [line for line in few_lines.lines if line]
        program = f"{snippet}\nprint(*translate({lines!r}), sep='\\n')"
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=folder, capture_output=True, encoding="utf-8", check=False
        )
        assert done.returncode == 0, done.stderr
        wide = model.translate.model_copy(update={"max_length_ratio": 0.0, "max_extra_length": 134})
        ours = CTranslate2Translator(folder, wide, "cpu")
        assert done.stdout.splitlines() == [translation.text for translation in ours.translations(lines)]


def test_a_report_says_how_both_compare() -> None:
    parity = Parity("lines", 10, 10, 9, 1e-6, "references", 30.0, 30.05, 20.0, 10.0)
    assert parity.speed_up == 2
    assert parity.bleu_difference == pytest.approx(-0.05)
    assert "10 greedy translations and 9 of beam 5 are the same" in parity.describe()
