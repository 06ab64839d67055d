"""Every setting of the network, exported to ONNX: ONNX Runtime does what our network does, or is found out."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, Vocabulary
from tests.transformer.inference.export.test_ctranslate2 import combinations_of_pairs
from transformer.config_translate import TranslateSettings
from transformer.errors import RunError
from transformer.inference.export.description import ExportDescription, write_description
from transformer.inference.export.gate import Gate
from transformer.inference.export.gate_lines import GateLines
from transformer.inference.export.obstacles import fit_search, obstacles
from transformer.inference.export.onnx import INPUTS, TARGET, Opened, open_export, usage, write
from transformer.inference.search.beam_search import IMPOSSIBLE, log_distribution
from transformer.model_directory import Model

MakeModel = Callable[..., Model]

PAIRS = list(combinations_of_pairs())
FEW = 1  # networks that the fast tests export, as tracing one takes seconds


def exported(model: Model, folder: Path) -> Opened:
    folder.mkdir()
    write(model, folder, None)
    write_description(folder, description_of(model))
    return open_export(folder)


def description_of(model: Model) -> ExportDescription:
    return ExportDescription("onnx", None, "en", "de", fit_search("onnx", model.translate)[0], {}, {})


SLOWLY = [pytest.param(network, marks=pytest.mark.slow) for network in PAIRS[FEW:]]


@pytest.mark.parametrize("network", [*PAIRS[:FEW], *SLOWLY], ids=lambda network: network["activation"])
def test_any_two_settings_together_are_exported_exactly(
    make_model: MakeModel, few_lines: GateLines, tmp_path: Path, network: dict[str, Any]
) -> None:
    model = make_model(**network)
    assert obstacles("onnx", model.settings) == []
    parity = Gate(model, few_lines, TARGET.impossible).check(exported(model, tmp_path / "an export"))
    assert parity.greedy_identical == parity.beam_identical == parity.n_lines == len(few_lines.lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exports") / "a folder"


@pytest.fixture
def model(make_model: MakeModel) -> Model:
    return make_model(n_decoder_layers=2)


@pytest.fixture
def opened(model: Model, folder: Path) -> Opened:
    return open_export(folder) if folder.exists() else exported(model, folder)


def test_case_e1_blank_lines_words_and_the_longest_are_translated_as_here(model: Model, opened: Opened) -> None:
    lines = [f"the cat number {i} sat w{i} on the mat" for i in range(46)]
    given = GateLines([*lines, "", "  ", "cat", "the cat sat " * 100], [], "case E1")
    done: list[int] = []
    gate = Gate(model, given, TARGET.impossible, done.append)
    n_before = len(done)
    parity = gate.check(opened)
    assert sum(done) == 4 * 50 and max(done[n_before:]) < 50  # which moves the bar
    assert parity.greedy_identical == parity.beam_identical == parity.n_lines == 50


def test_pieces_may_be_read_at_once_or_one_by_one(model: Model, opened: Opened) -> None:
    """Some behind others, too, and beside shorter ones: P is 0, then 1, then 2; B is 2."""
    source, target = [[20, 30, 40], [50]], np.array([[BOS_ID, 60, 70, 80]] * 2)
    start = opened.read(source)
    whole, *kept = opened.decoder.run(None, {"tokens": target, **start})
    parts, inputs = [], start
    for tokens in (target[:, :1], target[:, 1:2], target[:, 2:]):
        log_probs, keys, values = opened.decoder.run(None, {"tokens": tokens, **inputs})
        inputs = inputs | {"past_keys": keys, "past_values": values}
        parts.append(log_probs)
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=1e-5)
    np.testing.assert_allclose(keys, kept[0], atol=1e-5)
    src = torch.tensor([[20, 30, 40, EOS_ID], [50, EOS_ID, PAD_ID, PAD_ID]])
    with torch.inference_mode():
        ours = log_distribution(model.network(src, torch.from_numpy(target)), IMPOSSIBLE)
    np.testing.assert_allclose(whole, ours.numpy(), atol=1e-4)
    assert np.isneginf(whole[:, :, IMPOSSIBLE]).all()


def test_the_graphs_declare_what_they_take_and_hold_each_weight_once(
    model: Model, opened: Opened, folder: Path
) -> None:
    graphs = {name: onnx.load(folder / f"{name}.onnx") for name in ("encoder", "decoder")}
    for graph in graphs.values():
        onnx.checker.check_model(graph, full_check=True)
        assert [(each.domain, each.version) for each in graph.opset_import if not each.domain] == [("", 18)]
    assert [each.name for each in graphs["encoder"].graph.input] == ["src"]
    assert [each.name for each in graphs["encoder"].graph.output] == ["memory_keys", "memory_values"]
    assert [each.name for each in graphs["decoder"].graph.output] == ["log_probs", "keys", "values"]
    for given in graphs["decoder"].graph.input:
        sizes = {i: size.dim_param for i, size in enumerate(given.type.tensor_type.shape.dim) if size.dim_param}
        assert sizes == INPUTS[given.name]
    stored = sum(np.prod(each.dims) for graph in graphs.values() for each in graph.graph.initializer)
    n_parameters = sum(each.numel() for each in model.network.parameters())
    assert stored < 1.1 * n_parameters + 3 * len(model.tgt_vocabulary) * model.settings.d_model


def test_weights_too_large_for_one_file_stand_beside_it_and_move_with_it(
    model: Model, few_lines: GateLines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer.inference.export.onnx.LARGEST_FILE", 0)
    exported(model, tmp_path / "before")
    moved = (tmp_path / "before").rename(tmp_path / "after")
    assert {path.name for path in moved.glob("*.data")} == {"encoder.onnx.data", "decoder.onnx.data"}
    parity = Gate(model, few_lines, TARGET.impossible).check(open_export(moved))
    assert parity.greedy_identical == parity.n_lines


@pytest.mark.parametrize("name", ["encoder.onnx", "decoder.onnx"])
def test_a_damaged_tensor_is_found_out(
    model: Model, opened: Opened, few_lines: GateLines, folder: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(folder, tmp_path / "export")
    graph = onnx.load(tmp_path / "export" / name)
    matrices = [each for each in graph.graph.initializer if len(each.dims) == 2 and each.name.startswith("val_")]
    damaged = max(matrices, key=lambda each: math.prod(each.dims))
    numbers = numpy_helper.to_array(damaged).copy()
    numbers[:8] += 0.3
    damaged.CopyFrom(numpy_helper.from_array(numbers, damaged.name))
    onnx.save(graph, tmp_path / "export" / name)
    with pytest.raises(RunError, match="the export does not do what the model does"):
        Gate(model, few_lines, TARGET.impossible).check(open_export(tmp_path / "export"))


def test_tags_stand_before_the_line(tmp_path: Path, make_model: MakeModel) -> None:
    lines = [f"the cat number {i} sat on the mat" for i in range(99)]
    vocabulary = Vocabulary.learn(lines, size=60, byte_fallback=False, tags=["<bt>"])
    plain = make_model()
    network = type(plain.network)(plain.settings, len(vocabulary), len(vocabulary)).eval()
    search = TranslateSettings(beam_size=2, length_penalty="average", alpha=1.0, tag="<bt>", max_extra_length=5)
    model = Model(network, plain.settings, search, vocabulary, vocabulary, "en", "de")
    opened = exported(model, tmp_path / "export")
    Gate(model, GateLines([*lines[:5], " leading space"], [], "lines"), TARGET.impossible).check(opened)
    assert opened.read([[30]])["src"].tolist() == [[vocabulary.tag_id("<bt>"), 30, EOS_ID]]
    assert "source.piece_to_id('<bt>')" in usage(model, description_of(model))


def test_what_the_card_tells_to_do_works(
    model: Model, opened: Opened, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [snippet] = re.findall(r"```python\n(.*?)```", usage(model, description_of(model)), re.DOTALL)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(snippet, names)
    lines = ["the cat", "w7 on the mat"]
    limit = int(0.5 * opened.read(model.src_vocabulary.encode(lines))["src"].shape[1]) + 6
    assert names["translate"](lines) == opened.translate(lines, 1, [limit] * 2)
