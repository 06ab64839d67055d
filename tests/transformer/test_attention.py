"""Attention: both forms, a re-statement in numpy and PyTorch's own module compute the same, values and gradients."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from transformer.attention import (
    FASTEST_FORM,
    Form,
    KeyValues,
    MultiHeadAttention,
    fused_attention,
    scaled_dot_product_attention,
)
from transformer.config import ModelSettings
from transformer.embeddings import rotary_positions
from transformer.masks import additive, padding_mask, subsequent_mask

Array = npt.NDArray[np.float64]
FORMS: list[Form] = ["explicit", "fused"]
B, H, T, S, K, DV = 2, 3, 4, 4, 6, 5  # T = S, so that the causal mask fits
MASKS = {
    "none": None,
    "padding": padding_mask(torch.tensor([[5, 6, 7, 0], [5, 0, 0, 0]]), 0),
    "subsequent": subsequent_mask(T),
    "padding and subsequent": padding_mask(torch.tensor([[5, 6, 0, 8], [5, 6, 7, 0]]), 0) & subsequent_mask(T),
    "any": torch.rand(B, H, T, S, generator=torch.Generator().manual_seed(3)) < 0.5,
    "a blank sentence": padding_mask(torch.tensor([[5, 6, 7, 0], [0, 0, 0, 0]]), 0),
}
MASK_CASES = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())


def attention_by_hand(queries: Array, keys: Array, values: Array, mask: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Equation 1, one query at a time, over the keys it may attend to; nothing to attend to gives zeros."""
    weights = np.zeros((B, H, T, S))
    output = np.zeros((B, H, T, values.shape[-1]))
    for b, h, t in np.ndindex(B, H, T):
        allowed = np.flatnonzero(mask[b, h, t])
        if len(allowed):
            products = keys[b, h, allowed] @ queries[b, h, t] / np.sqrt(queries.shape[-1])
            exponentials = np.exp(products - products.max())
            weights[b, h, t, allowed] = exponentials / exponentials.sum()
            output[b, h, t] = weights[b, h, t] @ values[b, h]
    return output, weights


def random_heads(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    shapes = ((B, H, T, K), (B, H, S, K), (B, H, S, DV))
    queries, keys, values = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)
    return queries, keys, values


def attend(form: Form, *arguments: Tensor | None) -> Tensor:
    explicit = form == "explicit"
    return scaled_dot_product_attention(*arguments)[0] if explicit else fused_attention(*arguments)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["padding", "subsequent", "padding and subsequent"])
def test_a_mask_to_add_hides_what_a_boolean_one_hides(form: Form, name: str) -> None:
    inputs, mask = random_heads(), MASKS[name]
    assert mask is not None
    added, boolean = attend(form, *inputs, additive(mask, torch.float64)), attend(form, *inputs, mask)
    assert_close(added, boolean)
    for ours, theirs in zip(
        torch.autograd.grad(added.sum(), inputs), torch.autograd.grad(boolean.sum(), inputs), strict=True
    ):
        assert_close(ours, theirs)


def test_in_half_precision_a_mask_to_add_gives_no_nan() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        inputs = [1e3 * part.detach() for part in random_heads(dtype)]
        mask = subsequent_mask(T)
        output, weights = scaled_dot_product_attention(*inputs, additive(mask, dtype))
        assert output.isfinite().all()
        assert (weights.masked_select(~mask) == 0).all()


def settings(**changes: object) -> ModelSettings:
    return ModelSettings(**{"d_model": 24, "d_ff": 32, "n_heads": 3, "dropout": 0.0, **changes})


# --- scaled dot-product attention, §3.2.1 ---


@MASK_CASES
def test_explicit_and_fused_attention_equal_equation_1(mask: Tensor | None) -> None:
    heads = random_heads()
    everything = torch.ones(B, H, T, S, dtype=torch.bool)
    allowed = everything if mask is None else mask.expand(B, H, T, S)
    by_hand, weights_by_hand = attention_by_hand(*(x.detach().numpy() for x in heads), allowed.numpy())
    output, weights = scaled_dot_product_attention(*heads, mask)
    assert_close(output, torch.from_numpy(by_hand))
    assert_close(weights, torch.from_numpy(weights_by_hand))
    assert_close(fused_attention(*heads, mask), torch.from_numpy(by_hand))


@MASK_CASES
def test_explicit_and_fused_attention_have_the_gradient_of_equation_1(mask: Tensor | None) -> None:
    heads = random_heads()
    torch.autograd.gradcheck(lambda *x: scaled_dot_product_attention(*x, mask)[0], heads)
    upstream = torch.randn(B, H, T, DV, dtype=torch.float64)
    explicit = torch.autograd.grad(attend("explicit", *heads, mask), heads, upstream)
    fused = torch.autograd.grad(attend("fused", *heads, mask), heads, upstream)
    assert_close(explicit, fused)


@MASK_CASES
def test_weights_are_shares_of_the_keys_a_query_may_attend_to(mask: Tensor | None) -> None:
    _, weights = scaled_dot_product_attention(*random_heads(), mask)
    allowed = torch.ones(B, H, T, S, dtype=torch.bool) if mask is None else mask.expand(B, H, T, S)
    assert (weights >= 0).all()
    assert (weights[~allowed] == 0).all()
    assert_close(weights.sum(-1), allowed.any(-1).double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("form", FORMS)
def test_a_query_that_may_attend_to_nothing_gets_zeros_and_passes_no_gradient(form: Form, dtype: torch.dtype) -> None:
    queries, keys, values = random_heads(dtype)
    mask = torch.ones(B, 1, T, S, dtype=torch.bool)
    mask[0, :, 2] = False  # one query
    mask[1] = False  # a whole sentence
    output = attend(form, queries, keys, values, mask)
    assert output.dtype == dtype
    assert (output[0, :, 2] == 0).all()
    assert (output[1] == 0).all()
    output.float().pow(2).sum().add(output.float().sum()).backward()
    for x in (queries, keys, values):
        assert x.grad is not None
        assert x.grad.isfinite().all()
        assert (x.grad[1] == 0).all()
        assert (x.grad[0] != 0).any()
    assert queries.grad is not None
    assert (queries.grad[0, :, 2] == 0).all()


def test_queries_are_divided_before_the_product_so_that_it_stays_in_range() -> None:
    queries = torch.full((1, 1, 1, 64), 40.0, dtype=torch.float16)
    keys = torch.stack([queries[0, 0, 0], queries[0, 0, 0], -queries[0, 0, 0]])[None, None]  # products 102,400
    assert not (queries @ keys.transpose(-2, -1)).isfinite().any()  # above 65,504, the largest number of fp16
    _, weights = scaled_dot_product_attention(queries, keys, keys)
    assert_close(weights[0, 0, 0], torch.tensor([0.5, 0.5, 0.0], dtype=torch.float16))


@pytest.mark.parametrize("form", FORMS)
@MASK_CASES
def test_in_fp16_values_and_gradients_are_those_of_fp32_but_for_rounding(mask: Tensor | None, form: Form) -> None:
    half = random_heads(torch.float16)
    exact = [x.detach().float().requires_grad_() for x in half]
    upstream = torch.randn(B, H, T, DV)
    output = attend(form, *half, mask)
    assert output.dtype == torch.float16
    expected = attend(form, *exact, mask)
    assert_close(output.float(), expected, rtol=0, atol=4e-3)
    gradients = torch.autograd.grad(output, half, upstream.half())
    for found, right in zip(gradients, torch.autograd.grad(expected, exact, upstream), strict=True):
        assert_close(found.float(), right, rtol=0, atol=2e-2)


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["large", "very negative"])
@pytest.mark.parametrize("form", FORMS)
def test_in_fp16_products_beyond_its_range_leave_values_and_gradients_finite(form: Form, sign: float) -> None:
    """Of each query's keys some have products of ±180,000 / √16, others of zero, and some are hidden."""
    queries = torch.full((2, 1, 3, 16), 300.0, dtype=torch.float16, requires_grad=True)
    keys = (torch.tensor([600.0, 0.0, 600.0, 600.0]) * sign)[:, None].expand(2, 1, 4, 16).half().requires_grad_()
    values = torch.randn(2, 1, 4, 5).half().requires_grad_()
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 1, 0], [0, 0, 0, 0]], dtype=torch.bool)[None, None]
    scaled = queries.detach() / 4 @ keys.detach().mT
    assert not scaled[:, :, 0, 0].isfinite().any()
    assert not scaled[:, :, 0, 3].isfinite().any()
    output = attend(form, queries, keys, values, mask)
    both = (values[:, :, 0] + values[:, :, 2]) / 2  # two keys alike
    assert_close(output[:, :, 0], both if sign > 0 else values[:, :, 1])
    assert_close(output[:, :, 1], both)
    assert (output[:, :, 2] == 0).all()
    output.float().square().sum().backward()
    for x in (queries, keys, values):
        assert x.grad is not None
        assert x.grad.isfinite().all()
    assert values.grad is not None
    assert (values.grad[:, :, 3] == 0).all()  # hidden


@pytest.mark.parametrize("form", FORMS)
def test_in_fp16_long_rows_are_averaged_not_overflowed(form: Form) -> None:
    """2,000 equal keys: e⁰ added up 2,000 times, weights of 1 / 2,000, and the mean of the values."""
    n = 2000
    queries, keys = (torch.zeros(1, 1, length, 4, dtype=torch.float16, requires_grad=True) for length in (2, n))
    values = (100 + torch.rand(1, 1, n, 3)).half().requires_grad_()
    mask = torch.ones(1, 1, 2, n, dtype=torch.bool)
    mask[..., 1, n // 2 :] = False
    output = attend(form, queries, keys, values, mask)
    assert_close(output[0, 0, 0].float(), values[0, 0].float().mean(0), rtol=2e-3, atol=0)
    assert_close(output[0, 0, 1].float(), values[0, 0, : n // 2].float().mean(0), rtol=2e-3, atol=0)
    output.float().sum().backward()
    for x in (queries, keys, values):
        assert x.grad is not None
        assert x.grad.isfinite().all()
    assert values.grad is not None
    shares = torch.full((n,), 1 / n) + torch.where(torch.arange(n) < n // 2, 2 / n, 0.0)
    assert_close(values.grad[0, 0].float(), shares[:, None].expand(n, 3), rtol=2e-3, atol=0)


@pytest.mark.parametrize("form", FORMS)
def test_hidden_keys_stay_hidden_however_unlikely_the_others_are(form: Form) -> None:
    queries, keys = torch.full((1, 1, 1, 4), 1000.0), torch.full((1, 1, 3, 4), -1000.0)  # products of −2,000,000
    values, mask = torch.tensor([1.0, 2.0, 100.0])[None, None, :, None], torch.tensor([True, True, False])
    assert attend(form, queries, keys, values, mask[None, None, None]).item() == pytest.approx(1.5)


@pytest.mark.parametrize("form", FORMS)
def test_keys_have_no_order_of_their_own(form: Form) -> None:
    queries, keys, values = random_heads()
    mask, order = MASKS["any"], torch.randperm(S)
    assert mask is not None
    shuffled = attend(form, queries, keys[:, :, order], values[:, :, order], mask[..., order])
    assert_close(shuffled, attend(form, queries, keys, values, mask))


def test_dropout_loses_whole_weights_and_scales_the_others() -> None:
    queries, keys, values = (torch.randn(8, 4, 32, K) for _ in range(3))
    _, before = scaled_dot_product_attention(queries, keys, values)
    output, after = scaled_dot_product_attention(queries, keys, values, dropout=0.25)
    kept = after != 0
    assert_close(after[kept], before[kept] / 0.75)
    assert_close(output, after @ values)
    n = kept.numel()
    assert abs(kept.sum().item() - 0.75 * n) < 5 * math.sqrt(n * 0.25 * 0.75)


# --- multi-head attention, §3.2.2 ---


def torch_twin(attention: MultiHeadAttention, chosen: ModelSettings) -> nn.MultiheadAttention:
    """PyTorch's module with the same weights; random biases, which both would start with at zero."""
    twin = nn.MultiheadAttention(chosen.d_model, chosen.n_heads, bias=chosen.attention_bias, batch_first=True)
    own = (attention.in_projection, attention.out_projection)
    theirs = ((twin.in_proj_weight, twin.in_proj_bias), (twin.out_proj.weight, twin.out_proj.bias))
    with torch.no_grad():
        for projection, (weight, bias) in zip(own, theirs, strict=True):
            weight.copy_(projection.weight)
            if chosen.attention_bias:
                bias.copy_(nn.init.normal_(projection.bias))
    return twin.double()


@pytest.mark.parametrize("bias", [False, True], ids=["no biases", "biases"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("use", ["encoder self-attention", "decoder self-attention", "encoder-decoder attention"])
def test_each_use_of_attention_equals_torchs_own_module(use: str, form: Form, bias: bool) -> None:
    chosen = settings(attention_bias=bias)
    attention = MultiHeadAttention(chosen).double()
    attention.form = form
    twin = torch_twin(attention, chosen)
    x, memory = (torch.randn(2, n, 24, dtype=torch.float64, requires_grad=True) for n in (5, 7))
    hidden = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])  # nn.MultiheadAttention: True = may *not* attend

    if use == "encoder self-attention":
        ours = attention(x, ~hidden[:, None, None, :5])
        theirs, weights = twin(x, x, x, key_padding_mask=hidden[:, :5], average_attn_weights=False)
    elif use == "decoder self-attention":
        ours = attention(x, subsequent_mask(5))
        theirs, weights = twin(x, x, x, attn_mask=~subsequent_mask(5), average_attn_weights=False)
    else:
        ours = attention(x, ~hidden[:, None, None, :], memory=attention.keys_values(memory))
        theirs, weights = twin(x, memory, memory, key_padding_mask=hidden, average_attn_weights=False)

    assert_close(ours.output, theirs)
    if form == "explicit":
        assert_close(ours.weights, weights)
    upstream = torch.randn_like(theirs)
    inputs = [x, memory] if use == "encoder-decoder attention" else [x]
    ours_by_x = torch.autograd.grad(ours.output, [*inputs, *attention.parameters()], upstream)
    theirs_by_x = torch.autograd.grad(theirs, [*inputs, *twin.parameters()], upstream)
    assert_close(ours_by_x, theirs_by_x)


@pytest.mark.parametrize("form", FORMS)
def test_heads_of_any_width_are_concatenated_and_projected(form: Form) -> None:
    """MultiHead(Q, K, V) = Concat(head₁, …, head_h) W^O with head_i = Attention(Q W^Q_i, K W^K_i, V W^V_i)."""
    attention = MultiHeadAttention(settings(d_head=10, d_value=7)).double()
    attention.form = form
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    w_q, w_k, w_v = attention.in_projection.weight.split([30, 30, 21])
    heads = []
    for i in range(3):
        q, k, v = (x @ w[i * n : (i + 1) * n].T for w, n in ((w_q, 10), (w_k, 10), (w_v, 7)))
        heads.append(torch.softmax(q @ k.mT / math.sqrt(10), -1) @ v)
    expected = torch.cat(heads, -1) @ attention.out_projection.weight.T
    assert_close(attention(x).output, expected)
    assert_close(attention(x, memory=attention.keys_values(x)).output, expected)


class Kept:
    """A past that is all there was, one after the other."""

    def __init__(self) -> None:
        self.keys, self.values = torch.empty(2, 3, 0, 8), torch.empty(2, 3, 0, 3)

    def append(self, keys: Tensor, values: Tensor) -> KeyValues:
        self.keys, self.values = torch.cat([self.keys, keys], 2), torch.cat([self.values, values], 2)
        return KeyValues(self.keys, self.values)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rotary", [False, True], ids=["no rotation", "rotary"])
def test_attending_with_a_past_continues_attention_to_the_whole(form: Form, rotary: bool) -> None:
    attention = MultiHeadAttention(settings(d_value=3)).double()
    attention.form = form
    x = torch.randn(2, 6, 24, dtype=torch.float64)

    def rotation(n: int, first: int) -> object:
        return rotary_positions(n, 8, first) if rotary else None

    whole, past = attention(x, subsequent_mask(6), rotation=rotation(6, 0)), Kept()
    start = attention(x[:, :4], subsequent_mask(4), past=past, rotation=rotation(4, 0))
    rest = attention(x[:, 4:], subsequent_mask(2, 4), past=past, rotation=rotation(2, 4))
    assert_close(torch.cat([start.output, rest.output], 1), whole.output)


def test_weights_are_there_whenever_they_are_needed() -> None:
    attention = MultiHeadAttention(settings())
    x = torch.randn(2, 6, 24)
    attention.form = "fused"
    needed = attention(x, subsequent_mask(6), need_weights=True)
    assert attention(x, subsequent_mask(6)).weights is None
    attention.form = "explicit"
    assert_close(tuple(needed), tuple(attention(x, subsequent_mask(6))))


@pytest.mark.parametrize("form", FORMS)
def test_rotary_self_attention_depends_on_distances_not_on_places(form: Form) -> None:
    attention = MultiHeadAttention(settings()).double()
    attention.form = form
    x = torch.randn(2, 6, 24, dtype=torch.float64)
    here = attention(x, rotation=rotary_positions(6, 8)).output
    there = attention(x, rotation=rotary_positions(6, 8, first=40)).output
    assert_close(here, there, atol=1e-5, rtol=1e-5)  # angles are computed in fp32
    assert not torch.allclose(here, attention(x).output, atol=1e-2)


def test_only_the_explicit_form_has_weights_to_show_and_the_device_decides_by_default() -> None:
    attention = MultiHeadAttention(settings())
    x = torch.randn(1, 2, 24)
    shows_weights = {}
    for form in (*FORMS, None):
        attention.form = form
        shows_weights[form] = attention(x).weights is not None
    assert shows_weights == {"explicit": True, "fused": False, None: FASTEST_FORM["cpu"] == "explicit"}


@pytest.mark.parametrize("form", FORMS)
def test_attention_dropout_acts_in_training_only(form: Form) -> None:
    attention = MultiHeadAttention(settings(attention_dropout=0.5))
    attention.form = form
    x = torch.randn(2, 5, 24)
    attention.eval()
    assert torch.equal(attention(x).output, attention(x).output)
    attention.train()
    assert not torch.equal(attention(x).output, attention(x).output)
