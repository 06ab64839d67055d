"""The decoder: equal to PyTorch's own with the same weights, causal, and the same read at once or in parts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from transformer.attention import Form
from transformer.config import ModelSettings
from transformer.decoder import Decoder, DecoderLayer
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
    ours = layer(x, subsequent_mask(5), None, keys_values, src_mask, None)
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
    assert_close(decoder(TGT, memory, src_mask), theirs, atol=1e-5, rtol=1e-5)


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
    before = decoder(TGT, memory, src_mask)
    for place in range(TGT.size(1)):
        changed = TGT.clone()
        changed[:, place] = 10
        after = decoder(changed, memory, src_mask)
        assert_close(after[:, :place], before[:, :place], atol=1e-6, rtol=0)
        differs = (after != before).any(-1).any(0)
        assert differs[place:].all()


@pytest.mark.parametrize("form", ["explicit", "fused"])
@pytest.mark.parametrize("name", VARIANTS)
def test_no_gradient_flows_to_later_target_tokens(name: str, form: Form, memory: Tensor) -> None:
    decoder, src_mask = variant(name, form), padding_mask(SRC, 0)
    embedded: list[Tensor] = []
    decoder.embedding.register_forward_hook(lambda module, inputs, output: embedded.append(output))
    hidden = decoder(TGT, memory, src_mask)
    upstream = torch.randn(2, 16)
    for place in range(TGT.size(1)):
        (gradient,) = torch.autograd.grad(hidden[:, place], embedded, upstream, retain_graph=True)
        reached = (gradient != 0).any(-1)  # (B, T)
        assert reached.tolist() == [[t <= place for t in range(TGT.size(1))]] * 2


def test_hidden_source_positions_change_nothing(memory: Tensor) -> None:
    decoder, src_mask = variant("paper"), padding_mask(SRC, 0)
    before = decoder(TGT, memory, src_mask)
    other = memory.masked_fill((SRC == 0)[:, :, None], 50.0)
    assert_close(decoder(TGT, other, src_mask), before, atol=1e-6, rtol=0)
    other = memory.masked_fill((SRC == 3)[:, :, None], 50.0)
    assert not torch.allclose(decoder(TGT, other, src_mask), before, atol=1e-3)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_the_order_of_earlier_target_tokens_matters(positions: str, memory: Tensor) -> None:
    """One layer without positions could not tell: attention sees a set."""
    decoder = Decoder(11, settings(positions=positions, n_decoder_layers=1))
    one, other = decoder(torch.tensor([[8, 9, 4], [9, 8, 4]]), memory[[0, 0]], padding_mask(SRC[[0, 0]], 0))
    assert not torch.allclose(one[-1], other[-1], atol=1e-3)


# --- cached decoding; what hypotheses share is the subject of test_cache.py ---


@pytest.mark.parametrize("form", ["explicit", "fused"])
@pytest.mark.parametrize("name", VARIANTS)
def test_reading_position_by_position_equals_reading_at_once(name: str, form: Form, memory: Tensor) -> None:
    decoder, src_mask = variant(name, form), padding_mask(SRC, 0)
    whole = decoder(TGT, memory, src_mask)
    cache = decoder.start(memory, src_mask)
    for place in range(TGT.size(1)):
        assert cache.n_past == place
        assert_close(decoder.step(TGT[:, [place]], cache)[:, 0], whole[:, place], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_weights_handed_out_are_those_of_every_layers_encoder_decoder_attention(name: str, memory: Tensor) -> None:
    decoder, src_mask = variant(name), padding_mask(SRC, 0)
    weights: list[Tensor] = []
    hidden = decoder(TGT, memory, src_mask, weights)
    assert_close(hidden, decoder(TGT, memory, src_mask))
    assert [w.shape for w in weights] == [(2, 4, 6, 4)] * 2
    assert_close(torch.stack(weights).sum(-1), torch.ones(2, 2, 4, 6))
    assert all((w.masked_select(~src_mask) == 0).all() for w in weights)
    cache = decoder.start(memory, src_mask)
    for place in range(TGT.size(1)):
        by_position: list[Tensor] = []
        decoder.step(TGT[:, [place]], cache, by_position)
        for one, whole in zip(by_position, weights, strict=True):
            assert_close(one[:, :, 0], whole[:, :, place], atol=1e-5, rtol=1e-5)


# --- layer drop (Fan et al. 2020) ---


def dropping(probability: float, n_layers: int = 4) -> Decoder:
    return Decoder(11, settings(n_decoder_layers=n_layers, layer_drop=probability))


def test_layer_drop_changes_nothing_at_probability_zero_or_in_evaluation(memory: Tensor) -> None:
    plain, src_mask = dropping(0.0), padding_mask(SRC, 0)
    expected = plain(TGT, memory, src_mask)
    decoder = dropping(0.9).eval()
    decoder.load_state_dict(plain.state_dict())
    assert torch.equal(decoder(TGT, memory, src_mask), expected)
    cache = decoder.start(memory, src_mask)
    by_position = [decoder.step(TGT[:, [place]], cache) for place in range(TGT.size(1))]
    assert_close(torch.cat(by_position, 1), expected, atol=1e-5, rtol=1e-5)


def test_a_layer_left_out_is_jumped_over_and_gets_no_gradient(memory: Tensor) -> None:
    decoder, src_mask = dropping(0.5), padding_mask(SRC, 0)
    output = decoder(TGT, memory, src_mask)
    output.sum().backward()
    kept = [layer for layer in decoder.layers if layer.feed_forward.outer.weight.grad is not None]
    assert 0 < len(kept) < 4
    for layer in decoder.layers:
        gradients = [parameter.grad for parameter in layer.parameters()]
        assert all(gradient is not None for gradient in gradients) is (layer in kept)
        assert all(gradient is None for gradient in gradients) is (layer not in kept)
    decoder.eval().layers = nn.ModuleList(kept)
    assert torch.equal(decoder(TGT, memory, src_mask), output)


def test_layers_of_the_decoder_are_left_out_as_often_as_asked(memory: Tensor) -> None:
    decoder, src_mask, n_times = dropping(0.3), padding_mask(SRC, 0), 500
    ran: list[nn.Module] = []
    for layer in decoder.layers:
        layer.register_forward_hook(lambda module, *_: ran.append(module))
    with torch.no_grad():
        for _ in range(n_times):
            decoder(TGT[:, :1], memory, src_mask)
    n_ran = len(ran)
    assert abs(n_ran / (4 * n_times) - 0.7) < 4 * (0.3 * 0.7 / (4 * n_times)) ** 0.5


def test_all_layers_may_be_left_out(memory: Tensor) -> None:
    decoder = dropping(0.99, n_layers=1)
    assert_close(decoder(TGT, memory, padding_mask(SRC, 0)), decoder.embedding(TGT))
