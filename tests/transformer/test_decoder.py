"""The decoder: equal to PyTorch's own with the same weights, causal, and the same read at once or in parts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from transformer.attention import Form
from transformer.config import ModelSettings
from transformer.decoder import Decoder, DecoderCache, DecoderLayer
from transformer.masks import padding_mask, subsequent_mask

# Our prefixes ← those of nn.TransformerDecoderLayer; torch counts norms in the order of the sub-layers.
PREFIXES_IN_TORCH = {
    "self_attention.in_projection.": "self_attn.in_proj_",
    "self_attention.out_projection.": "self_attn.out_proj.",
    "self_attention_residual.norm.": "norm1.",
    "cross_attention.in_projection.": "multihead_attn.in_proj_",
    "cross_attention.out_projection.": "multihead_attn.out_proj.",
    "cross_attention_residual.norm.": "norm2.",
    "feed_forward.inner.": "linear1.",
    "feed_forward.outer.": "linear2.",
    "feed_forward_residual.norm.": "norm3.",
}
NAMES_IN_TORCH = {own + kind: theirs + kind for own, theirs in PREFIXES_IN_TORCH.items() for kind in ("weight", "bias")}
VARIANTS = {
    "paper": {},
    "pre-norm": {"norm_position": "pre"},
    "rotary": {"positions": "rotary"},
    "other widths": {"d_head": 6, "d_value": 3},
}
SRC = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]])
TGT = torch.tensor([[2, 8, 9, 4, 5, 6], [2, 7, 7, 9, 0, 0]])


def settings(**changes: object) -> ModelSettings:
    defaults = {"n_decoder_layers": 2, "d_model": 16, "d_ff": 24, "n_heads": 4, "dropout": 0.0}
    return ModelSettings(**(defaults | changes))


def randomised(module: nn.Module) -> nn.Module:
    """Nothing at the 0 or 1 it starts from, so that a forgotten bias or gain is noticed."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def torch_layer(layer: DecoderLayer, chosen: ModelSettings) -> nn.TransformerDecoderLayer:
    twin = nn.TransformerDecoderLayer(
        chosen.d_model,
        chosen.n_heads,
        chosen.d_ff,
        dropout=0.0,
        activation=chosen.activation,
        layer_norm_eps=chosen.norm_epsilon,
        batch_first=True,
        norm_first=chosen.norm_position == "pre",
    )
    twin.load_state_dict({NAMES_IN_TORCH[name]: tensor for name, tensor in layer.state_dict().items()})
    return twin


TORCH_CASES = [(position, activation) for position in ("post", "pre") for activation in ("relu", "gelu")]


@pytest.mark.parametrize(("position", "activation"), TORCH_CASES)
def test_a_layer_equals_torchs_decoder_layer(position: str, activation: str) -> None:
    chosen = settings(norm_position=position, activation=activation, attention_bias=True)
    layer = randomised(DecoderLayer(chosen)).double()
    assert isinstance(layer, DecoderLayer)
    twin = torch_layer(layer, chosen).double()
    x, memory = (torch.randn(2, n, 16, dtype=torch.float64, requires_grad=True) for n in (5, 4))
    src_mask = padding_mask(SRC, 0)
    keys_values = layer.cross_attention.keys_values(memory)
    ours, _ = layer(x, subsequent_mask(5), None, keys_values, src_mask, None)
    theirs = twin(x, memory, tgt_mask=~subsequent_mask(5), memory_key_padding_mask=~src_mask[:, 0, 0])
    assert_close(ours, theirs)

    upstream = torch.randn_like(ours)
    own = [x, memory, *(layer.get_parameter(name) for name in NAMES_IN_TORCH)]
    torchs = [x, memory, *(twin.get_parameter(name) for name in NAMES_IN_TORCH.values())]
    assert_close(torch.autograd.grad(ours, own, upstream), torch.autograd.grad(theirs, torchs, upstream))


@pytest.mark.parametrize("position", ["post", "pre"])
def test_the_stack_equals_torchs_decoder_with_a_final_norm_in_pre_norm_only(position: str) -> None:
    chosen = settings(norm_position=position, attention_bias=True, n_decoder_layers=3)
    decoder = randomised(Decoder(11, chosen))
    twin = nn.TransformerDecoder(torch_layer(DecoderLayer(chosen), chosen), 3)
    for layer, own in zip(twin.layers, decoder.layers, strict=True):
        layer.load_state_dict(torch_layer(own, chosen).state_dict())
    if position == "pre":
        assert isinstance(decoder.final_norm, nn.LayerNorm)
        twin.norm = decoder.final_norm
    else:
        assert not list(decoder.final_norm.parameters())
    memory, src_mask = torch.randn(2, 4, 16), padding_mask(SRC, 0)
    theirs = twin(decoder.embedding(TGT), memory, ~subsequent_mask(6), memory_key_padding_mask=SRC == 0)
    assert_close(decoder(TGT, decoder.start(memory), src_mask)[0], theirs, atol=1e-5, rtol=1e-5)


# --- causality, §3.2.3: "prevent leftward information flow" ---


def variant(name: str, form: Form | None = None) -> Decoder:
    decoder = Decoder(11, settings(**VARIANTS[name]))
    for layer in decoder.layers:
        layer.self_attention.form = layer.cross_attention.form = form
    return decoder


@pytest.fixture
def memory() -> Tensor:
    return torch.randn(2, 4, 16)


@pytest.mark.parametrize("form", ["explicit", "fused"])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_target_token_changes_nothing_before_itself(name: str, form: Form, memory: Tensor) -> None:
    decoder, src_mask = variant(name, form), padding_mask(SRC, 0)
    before = decoder(TGT, decoder.start(memory), src_mask)[0]
    for place in range(TGT.size(1)):
        changed = TGT.clone()
        changed[:, place] = 10
        after = decoder(changed, decoder.start(memory), src_mask)[0]
        assert_close(after[:, :place], before[:, :place], atol=1e-6, rtol=0)
        differs = (after != before).any(-1).any(0)
        assert differs[place:].all()


@pytest.mark.parametrize("form", ["explicit", "fused"])
@pytest.mark.parametrize("name", VARIANTS)
def test_no_gradient_flows_to_later_target_tokens(name: str, form: Form, memory: Tensor) -> None:
    decoder, src_mask = variant(name, form), padding_mask(SRC, 0)
    embedded: list[Tensor] = []
    decoder.embedding.register_forward_hook(lambda module, inputs, output: embedded.append(output))
    hidden = decoder(TGT, decoder.start(memory), src_mask)[0]
    upstream = torch.randn(2, 16)
    for place in range(TGT.size(1)):
        (gradient,) = torch.autograd.grad(hidden[:, place], embedded, upstream, retain_graph=True)
        reached = (gradient != 0).any(-1)  # (B, T)
        assert reached.tolist() == [[t <= place for t in range(TGT.size(1))]] * 2


def test_hidden_source_positions_change_nothing(memory: Tensor) -> None:
    decoder, src_mask = variant("paper"), padding_mask(SRC, 0)
    before = decoder(TGT, decoder.start(memory), src_mask)[0]
    other = memory.masked_fill((SRC == 0)[:, :, None], 50.0)
    assert_close(decoder(TGT, decoder.start(other), src_mask)[0], before, atol=1e-6, rtol=0)
    other = memory.masked_fill((SRC == 3)[:, :, None], 50.0)
    assert not torch.allclose(decoder(TGT, decoder.start(other), src_mask)[0], before, atol=1e-3)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_the_order_of_earlier_target_tokens_matters(positions: str, memory: Tensor) -> None:
    """One layer without positions could not tell: attention sees a set."""
    decoder = Decoder(11, settings(positions=positions, n_decoder_layers=1))
    one, other = decoder(
        torch.tensor([[8, 9, 4], [9, 8, 4]]), decoder.start(memory[[0, 0]]), padding_mask(SRC[[0, 0]], 0)
    )[0]
    assert not torch.allclose(one[-1], other[-1], atol=1e-3)


# --- cached decoding ---

CHUNKINGS = [[1] * 6, [6], [2, 4], [4, 2], [1, 3, 2], [3, 1, 1, 1]]


@pytest.mark.parametrize("form", ["explicit", "fused"])
@pytest.mark.parametrize("chunks", CHUNKINGS, ids=str)
@pytest.mark.parametrize("name", VARIANTS)
def test_reading_in_chunks_of_any_size_equals_reading_at_once(
    name: str, chunks: list[int], form: Form, memory: Tensor
) -> None:
    decoder, src_mask = variant(name, form), padding_mask(SRC, 0)
    whole, _ = decoder(TGT, decoder.start(memory), src_mask)
    cache, parts = decoder.start(memory), []
    for chunk in TGT.split(chunks, dim=1):
        assert cache.n_past == sum(part.size(1) for part in parts)
        hidden, cache = decoder(chunk, cache, src_mask)
        parts.append(hidden)
    assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("name", VARIANTS)
def test_the_beams_of_a_sentence_are_decoded_like_copies_of_the_sentence(name: str, width: int, memory: Tensor) -> None:
    decoder, src_mask = variant(name), padding_mask(SRC, 0)
    tgt = torch.randint(1, 11, (2 * width, 5))
    copies = decoder.start(memory.repeat_interleave(width, 0))
    expected, _ = decoder(tgt, copies, src_mask.repeat_interleave(width, 0))
    cache = decoder.start(memory)
    for place in range(5):
        hidden, cache = decoder(tgt[:, [place]], cache, src_mask)
        assert_close(hidden[:, 0], expected[:, place], atol=1e-5, rtol=1e-5)
    assert cache.past is not None
    assert [len(layer.keys) for layer in cache.memory] == [2, 2]  # a row per sentence, whatever the width
    assert [len(layer.keys) for layer in cache.past] == [2 * width] * 2


def read(decoder: Decoder, tgt: Tensor, cache: DecoderCache, src_mask: Tensor) -> tuple[Tensor, DecoderCache]:
    """Position by position; returns what the last one is."""
    hidden = torch.empty(0)
    for place in range(tgt.size(1)):
        hidden, cache = decoder(tgt[:, [place]], cache, src_mask)
    return hidden, cache


@pytest.mark.parametrize("name", VARIANTS)
def test_hypotheses_change_places_and_sentences_leave(name: str, memory: Tensor) -> None:
    decoder, src_mask = variant(name), padding_mask(SRC, 0)
    tgt = torch.randint(1, 11, (4, 3))  # two beams of each of two sentences
    _, cache = read(decoder, tgt, decoder.start(memory), src_mask)

    rows = torch.tensor([1, 1, 3, 2])
    followed, _ = decoder(torch.tensor([[4], [5], [6], [7]]), cache.reorder(rows), src_mask)
    histories = torch.cat([tgt[rows], torch.tensor([[4], [5], [6], [7]])], 1)
    expected, _ = read(decoder, histories, decoder.start(memory), src_mask)
    assert_close(followed, expected, atol=1e-5, rtol=1e-5)

    second = torch.tensor([1])
    left = cache.select_sentences(second).reorder(torch.tensor([3, 2, 2]))  # sentence 1 stays, with three beams
    followed, _ = decoder(torch.tensor([[4], [5], [6]]), left, src_mask[second])
    histories = torch.cat([tgt[[3, 2, 2]], torch.tensor([[4], [5], [6]])], 1)
    expected, _ = read(decoder, histories, decoder.start(memory[second]), src_mask[second])
    assert_close(followed, expected, atol=1e-5, rtol=1e-5)


def test_a_fresh_cache_has_nothing_to_reorder(memory: Tensor) -> None:
    cache = variant("paper").start(memory)
    assert cache.n_past == 0
    assert cache.reorder(torch.tensor([1, 0])).past is None
    assert len(cache.select_sentences(torch.tensor([1])).memory[0].keys) == 1


def test_a_cache_is_a_value_from_which_two_continuations_may_start(memory: Tensor) -> None:
    decoder, src_mask = variant("paper"), padding_mask(SRC, 0)
    _, cache = read(decoder, TGT[:, :3], decoder.start(memory), src_mask)
    first, _ = decoder(TGT[:, 3:4], cache, src_mask)
    decoder(torch.full((2, 1), 10), cache, src_mask)
    again, _ = decoder(TGT[:, 3:4], cache, src_mask)
    assert cache.n_past == 3
    assert torch.equal(first, again)


# --- layer drop (Fan et al. 2020) ---


def dropping(probability: float, n_layers: int = 4) -> Decoder:
    return Decoder(11, settings(n_decoder_layers=n_layers, layer_drop=probability))


def test_layer_drop_changes_nothing_at_probability_zero_or_in_evaluation(memory: Tensor) -> None:
    plain, src_mask = dropping(0.0), padding_mask(SRC, 0)
    expected, _ = plain(TGT, plain.start(memory), src_mask)
    decoder = dropping(0.9).eval()
    decoder.load_state_dict(plain.state_dict())
    assert torch.equal(decoder(TGT, decoder.start(memory), src_mask)[0], expected)
    by_position, cache = read(decoder, TGT, decoder.start(memory), src_mask)
    assert cache.past is not None
    assert len(cache.past) == 4
    assert_close(by_position[:, 0], expected[:, -1], atol=1e-5, rtol=1e-5)


def test_a_layer_left_out_is_jumped_over_and_gets_no_gradient(memory: Tensor) -> None:
    decoder, src_mask = dropping(0.5), padding_mask(SRC, 0)
    output, _ = decoder(TGT, decoder.start(memory), src_mask)
    output.sum().backward()
    kept = [layer for layer in decoder.layers if layer.feed_forward.outer.weight.grad is not None]
    assert 0 < len(kept) < 4
    for layer in decoder.layers:
        gradients = [parameter.grad for parameter in layer.parameters()]
        assert all(gradient is not None for gradient in gradients) is (layer in kept)
        assert all(gradient is None for gradient in gradients) is (layer not in kept)
    decoder.eval().layers = nn.ModuleList(kept)
    assert torch.equal(decoder(TGT, decoder.start(memory), src_mask)[0], output)


def test_layers_of_the_decoder_are_left_out_as_often_as_asked(memory: Tensor) -> None:
    decoder, src_mask, n_times = dropping(0.3), padding_mask(SRC, 0), 500
    with torch.no_grad():
        caches = [decoder(TGT[:, :1], decoder.start(memory), src_mask)[1] for _ in range(n_times)]
    n_ran = sum(len(cache.past) for cache in caches if cache.past is not None)
    assert abs(n_ran / (4 * n_times) - 0.7) < 4 * (0.3 * 0.7 / (4 * n_times)) ** 0.5


def test_all_layers_may_be_left_out(memory: Tensor) -> None:
    decoder = dropping(0.99, n_layers=1)
    output, cache = decoder(TGT, decoder.start(memory), padding_mask(SRC, 0))
    assert_close(output, decoder.embedding(TGT))
    assert cache.n_past == 0
