"""Packed linear maps compute what they were made of, in any shape, and a packed network translates as before."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from data.vocabulary import Vocabulary
from transformer.attention import StackedLinear
from transformer.config_translate import TranslateSettings
from transformer.inference import prepacked
from transformer.inference.prepacked import PrepackedLinear, can_prepack, prepack
from transformer.inference.translator import Translator
from transformer.model import Transformer
from transformer.model_directory import Model, save_model

CPU = torch.device("cpu")
needs_packing = pytest.mark.skipif(not can_prepack(CPU), reason="this PyTorch or processor has no packed products")


@needs_packing
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("inner", "outer"), [(1, 1), (24, 17), (128, 1000)])
@pytest.mark.parametrize("rows", [(0,), (1,), (3, 5), (200,), (2, 1, 161)])
def test_a_packed_map_is_the_map(rows: tuple[int, ...], inner: int, outer: int, bias: bool) -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(inner, outer, bias=bias), torch.randn(*rows, inner)
    with torch.inference_mode():
        expected = linear(x)
        assert_close(PrepackedLinear(linear)(x), expected, atol=1e-5, rtol=1e-5)
        half = PrepackedLinear(linear, torch.bfloat16)(x)
        assert half.dtype == torch.float32
        assert_close(half, expected, atol=0.05, rtol=0.02)


@needs_packing
@pytest.mark.parametrize("bias", [False, True])
def test_parts_of_stacked_maps_are_those_rows(bias: bool) -> None:
    torch.manual_seed(0)
    stacked, x = StackedLinear(12, [8, 6, 10], bias=bias), torch.randn(4, 3, 12)
    with torch.inference_mode():
        whole = stacked(x)
        for first, last, columns in ((0, 1, slice(0, 8)), (1, 3, slice(8, 24)), (0, 3, slice(0, 24))):
            assert_close(stacked.part(x, first, last), whole[..., columns])
            assert_close(PrepackedLinear(stacked, ranges=[(first, last)]).part(x, first, last), whole[..., columns])


@needs_packing
def test_a_packed_network_has_no_other_linear_maps_and_gives_the_same_logits(network: Transformer) -> None:
    packed_network = copy.deepcopy(network)
    prepack(packed_network)
    prepack(packed_network)  # nothing is left to do
    assert not any(isinstance(module, nn.Linear) for module in packed_network.modules())
    src, tgt = torch.tensor([[5, 9, 3, 2], [7, 2, 0, 0]]), torch.tensor([[1, 8, 6], [1, 4, 4]])
    with torch.inference_mode():
        assert_close(packed_network(src, tgt), network(src, tgt), atol=1e-4, rtol=1e-4)


def stored(network: Transformer, vocabulary: Vocabulary, folder: Path) -> Path:
    folder.mkdir()
    save_model(folder, Model(network, network.settings, TranslateSettings(), vocabulary, vocabulary, "en", "de"))
    return folder


def test_a_loaded_model_translates_alike_packed_or_not(
    network: Transformer, vocabulary: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"w{i} sat on the mat number {i}" for i in range(40)]
    model = stored(network, vocabulary, tmp_path / "model")
    loaded = list(Translator.load(model, "cpu").translations(lines))
    monkeypatch.setattr(prepacked, "can_prepack", lambda _: False)
    plain_translator = Translator.load(model, "cpu")
    assert isinstance(plain_translator.network.projection, nn.Linear)
    plain = list(plain_translator.translations(lines))
    assert [translation.text for translation in loaded] == [translation.text for translation in plain]
    assert_close([t.score for t in loaded], [t.score for t in plain], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_loaded_model_translates_in_every_precision(
    precision: str, network: Transformer, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    model, lines = stored(network, vocabulary, tmp_path / "model"), [f"w{i} sat on the mat" for i in range(5)]
    half = list(
        Translator.load(model, "cpu", precision=precision, max_extra_length=5, max_length_ratio=1).scored(
            zip(lines, lines, strict=True)
        )
    )
    whole = list(
        Translator.load(model, "cpu", max_extra_length=5, max_length_ratio=1).scored(zip(lines, lines, strict=True))
    )
    assert_close([t.score for t in half], [t.score for t in whole], atol=0.3, rtol=0.05)
    assert [t.score for t in half] != [t.score for t in whole]
    assert all(Translator.load(model, "cpu", precision=precision).translate(lines))


def test_elsewhere_nothing_is_packed(network: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not can_prepack(torch.device("meta"))
    monkeypatch.setattr(prepacked.platform, "machine", lambda: "arm64")
    assert not can_prepack(CPU)
    prepack(network)
    assert isinstance(network.projection, nn.Linear)
