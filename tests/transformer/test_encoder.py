"""The encoder: equal to PyTorch's own with the same weights, and blind to padding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from transformer.config import ModelSettings
from transformer.encoder import Encoder, EncoderLayer
from transformer.layers import layer_drop
from transformer.masks import padding_mask

# Our names ← those of nn.TransformerEncoderLayer; torch counts norms in the order of the sub-layers.
NAMES_IN_TORCH = {
    "self_attention.in_projection.weight": "self_attn.in_proj_weight",
    "self_attention.in_projection.bias": "self_attn.in_proj_bias",
    "self_attention.out_projection.weight": "self_attn.out_proj.weight",
    "self_attention.out_projection.bias": "self_attn.out_proj.bias",
    "self_attention_residual.norm.weight": "norm1.weight",
    "self_attention_residual.norm.bias": "norm1.bias",
    "feed_forward.inner.weight": "linear1.weight",
    "feed_forward.inner.bias": "linear1.bias",
    "feed_forward.outer.weight": "linear2.weight",
    "feed_forward.outer.bias": "linear2.bias",
    "feed_forward_residual.norm.weight": "norm2.weight",
    "feed_forward_residual.norm.bias": "norm2.bias",
}
TORCH_CASES = [(position, activation) for position in ("post", "pre") for activation in ("relu", "gelu")]


def settings(**changes: object) -> ModelSettings:
    defaults = {"n_encoder_layers": 2, "d_model": 16, "d_ff": 24, "n_heads": 4, "dropout": 0.0}
    return ModelSettings(**(defaults | changes))


def randomised(module: nn.Module) -> nn.Module:
    """Nothing at the 0 or 1 it starts from, so that a forgotten bias or gain is noticed."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def torch_layer(layer: EncoderLayer, chosen: ModelSettings) -> nn.TransformerEncoderLayer:
    twin = nn.TransformerEncoderLayer(
        chosen.d_model,
        chosen.n_heads,
        chosen.d_ff,
        dropout=0.0,
        activation=chosen.activation,
        layer_norm_eps=chosen.norm_epsilon,
        batch_first=True,
        norm_first=chosen.norm_position == "pre",
    )
    weights = layer.state_dict()
    twin.load_state_dict({NAMES_IN_TORCH[name]: tensor for name, tensor in weights.items()})
    return twin


@pytest.mark.parametrize(("position", "activation"), TORCH_CASES)
def test_a_layer_equals_torchs_encoder_layer(position: str, activation: str) -> None:
    chosen = settings(norm_position=position, activation=activation, attention_bias=True)
    layer = randomised(EncoderLayer(chosen)).double()
    assert isinstance(layer, EncoderLayer)
    twin = torch_layer(layer, chosen).double()
    x = torch.randn(2, 5, 16, dtype=torch.float64, requires_grad=True)
    mask = padding_mask(torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]), 0)
    ours, theirs = layer(x, mask, None), twin(x, src_key_padding_mask=~mask[:, 0, 0])
    assert_close(ours, theirs)

    upstream = torch.randn_like(ours)
    own = [x, *(layer.get_parameter(name) for name in NAMES_IN_TORCH)]
    torchs = [x, *(twin.get_parameter(name) for name in NAMES_IN_TORCH.values())]
    assert_close(torch.autograd.grad(ours, own, upstream), torch.autograd.grad(theirs, torchs, upstream))


@pytest.mark.parametrize("position", ["post", "pre"])
def test_the_stack_equals_torchs_encoder_with_a_final_norm_in_pre_norm_only(position: str) -> None:
    chosen = settings(norm_position=position, attention_bias=True, n_encoder_layers=3)
    encoder = randomised(Encoder(11, chosen)).eval()
    twin = nn.TransformerEncoder(torch_layer(EncoderLayer(chosen), chosen), 3, enable_nested_tensor=False).eval()
    for layer, own in zip(twin.layers, encoder.layers, strict=True):
        layer.load_state_dict(torch_layer(own, chosen).state_dict())
    if position == "pre":
        assert isinstance(encoder.final_norm, nn.LayerNorm)
        twin.norm = encoder.final_norm
    else:
        assert not list(encoder.final_norm.parameters())
    src = torch.tensor([[5, 6, 7, 3, 8], [5, 6, 3, 0, 0]])
    mask = padding_mask(src, 0)
    theirs = twin(encoder.embedding(src), src_key_padding_mask=src == 0)
    assert_close(encoder(src, mask)[src != 0], theirs[src != 0], atol=1e-5, rtol=1e-5)


def encode(encoder: Encoder, src: Tensor) -> Tensor:
    return encoder(src, padding_mask(src, 0))


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
@pytest.mark.parametrize("position", ["post", "pre"])
def test_a_sentence_is_encoded_alike_alone_and_beside_a_longer_one(position: str, positions: str) -> None:
    encoder = Encoder(11, settings(norm_position=position, positions=positions))
    alone = torch.tensor([[5, 6, 7, 8, 3]])
    padded = torch.zeros(2, 50, dtype=torch.int64)
    padded[0, :5] = alone
    padded[1] = torch.randint(1, 11, (50,))
    assert_close(encode(encoder, padded)[:1, :5], encode(encoder, alone), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "src", [[[5, 6, 7, 3, 0, 0], [5, 6, 3, 0, 0, 0]], [[5, 0, 7, 3, 0, 0]]], ids=["at the end", "in the middle too"]
)
def test_columns_of_padding_are_kept_and_training_equals_evaluation_without_dropout(src: list[list[int]]) -> None:
    """Case M4: torch's own encoder returned fewer columns in evaluation."""
    encoder, ids = Encoder(11, settings()), torch.tensor(src)
    in_training = encode(encoder.train(), ids)
    with torch.no_grad():
        in_evaluation = encode(encoder.eval(), ids)
    assert in_training.shape == in_evaluation.shape == (len(src), 6, 16)
    assert_close(in_training[ids != 0], in_evaluation[ids != 0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize(
    "src", [[[5, 6, 7, 3, 0, 0], [5, 6, 3, 0, 0, 0]], [[5, 0, 7, 3, 0, 0]]], ids=["at the end", "in the middle too"]
)
def test_what_stands_at_a_padded_place_changes_nothing(src: list[list[int]], norm: str) -> None:
    encoder, ids = Encoder(11, settings(norm=norm, embedding_norm=True)), torch.tensor(src)
    before = encode(encoder, ids)
    with torch.no_grad():
        encoder.embedding.table.weight[0] = 100 * torch.randn(16)  # the vector of the pad id
    after = encode(encoder, ids)
    assert_close(after[ids != 0], before[ids != 0], atol=1e-6, rtol=0)
    assert not torch.allclose(after[ids == 0], before[ids == 0])
    (gradient,) = torch.autograd.grad(after[ids != 0].square().sum(), encoder.embedding.table.weight)
    assert (gradient[0] == 0).all()
    assert (gradient[5] != 0).any()


def test_rotary_positions_see_distances_so_a_sentence_may_begin_anywhere() -> None:
    src = torch.tensor([[5, 6, 7, 8, 3, 0, 0]])
    for positions, same in (("rotary", True), ("sinusoidal", False)):
        encoder = Encoder(11, settings(positions=positions))
        shifted = encode(encoder, src.roll(2, 1))[:, 2:]
        assert torch.allclose(shifted, encode(encoder, src)[:, :5], atol=1e-5) is same


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_the_order_of_words_matters(positions: str) -> None:
    encoder = Encoder(11, settings(positions=positions))
    one, other = encode(encoder, torch.tensor([[5, 6, 7], [6, 5, 7]]))
    assert not torch.allclose(one[2], other[2], atol=1e-3)


def test_one_layer_connects_any_two_positions() -> None:
    """§4, table 1: the path between two positions has length O(1), however far apart they are."""
    layer = EncoderLayer(settings())
    x = torch.randn(1, 30, 16, requires_grad=True)
    y = layer(x, torch.ones(1, 1, 1, 30, dtype=torch.bool), None)
    for place in (0, 13, 29):
        (gradient,) = torch.autograd.grad(y[0, place], x, torch.randn(16), retain_graph=True)
        assert (gradient != 0).any(-1).all()


def test_dropout_is_random_in_training_and_absent_in_evaluation() -> None:
    encoder, src = Encoder(11, settings(dropout=0.3)), torch.tensor([[5, 6, 7]])
    assert not torch.equal(encode(encoder, src), encode(encoder, src))
    encoder.eval()
    assert torch.equal(encode(encoder, src), encode(encoder, src))


# --- layer drop (Fan et al. 2020) ---

SRC = torch.tensor([[5, 6, 7, 3, 8], [5, 6, 3, 0, 0]])


@pytest.mark.parametrize("position", ["post", "pre"])
def test_layer_drop_changes_nothing_at_probability_zero_or_in_evaluation(position: str) -> None:
    plain = Encoder(11, settings(norm_position=position, n_encoder_layers=4, dropout=0.2))
    random_state = torch.get_rng_state()
    expected = encode(plain, SRC)
    for probability, training in ((0.0, True), (0.9, False)):
        chosen = settings(norm_position=position, n_encoder_layers=4, dropout=0.2, layer_drop=probability)
        encoder = Encoder(11, chosen).train(training)
        encoder.load_state_dict(plain.state_dict())
        torch.set_rng_state(random_state)
        assert torch.equal(encode(encoder, SRC), expected if training else encode(plain.eval(), SRC))


def test_each_layer_is_left_out_as_often_as_asked_and_independently_of_the_others() -> None:
    n_times, probability = 2000, 0.3
    ran = torch.zeros(n_times, 3)
    for row in ran:
        row[list(layer_drop(range(3), probability, training=True))] = 1
    deviation = (probability * (1 - probability) / n_times) ** 0.5
    assert ((ran.mean(0) - (1 - probability)).abs() < 4 * deviation).all()
    assert (torch.corrcoef(ran.T) - torch.eye(3)).abs().max() < 4 / n_times**0.5


def test_a_layer_left_out_is_jumped_over_and_gets_no_gradient() -> None:
    encoder = Encoder(11, settings(n_encoder_layers=4, layer_drop=0.5))
    output = encode(encoder, SRC)
    output.sum().backward()
    kept = [layer for layer in encoder.layers if layer.feed_forward.outer.weight.grad is not None]
    assert 0 < len(kept) < 4
    for layer in encoder.layers:
        gradients = [parameter.grad for parameter in layer.parameters()]
        assert all(gradient is not None for gradient in gradients) is (layer in kept)
        assert all(gradient is None for gradient in gradients) is (layer not in kept)
    encoder.eval().layers = nn.ModuleList(kept)
    assert torch.equal(encode(encoder, SRC), output)


def test_the_same_random_state_leaves_out_the_same_layers() -> None:
    encoder = Encoder(11, settings(n_encoder_layers=4, layer_drop=0.5))
    seen = []
    for seed in range(10):
        torch.manual_seed(seed)
        output = encode(encoder, SRC)
        torch.manual_seed(seed)
        assert torch.equal(encode(encoder, SRC), output)
        seen.append(output)
    assert any(not torch.equal(output, seen[0]) for output in seen)


def test_all_layers_may_be_left_out() -> None:
    encoder = Encoder(11, settings(n_encoder_layers=1, layer_drop=0.99))
    assert_close(encode(encoder, SRC), encoder.embedding(SRC))
