"""Attention (§3.2): scaled dot-product attention in two equal forms, and multi-head attention in its three uses."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config import ModelSettings
from transformer.embeddings import Rotation, rotate
from transformer.masks import PackedMask
from transformer.precision import is_autocasting

Form = Literal["explicit", "fused"]

# Measured by `python benchmarks/attention.py`, forward and backward at sentence lengths: on CPUs two batched products
# around a softmax beat the fused kernel, whose backward is slow there. Where nothing was measured, fused needs less
# memory. Training measures again on its own batches (train.attention: auto).
FASTEST_FORM: dict[str, Form] = {"cpu": "explicit"}


def scaled_dot_product_attention(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """softmax(Q Kᵀ / √d_k) V, equation 1, in explicit form.

    Deviation in order only: queries are divided by √d_k *before* the product, which keeps the products in range in
    half precision; the few that fp16 could still not hold are cut to ±16,384, where a softmax has long made its choice.
    A query that a boolean mask lets attend to nothing gets zeros, in output, weights and gradients, never NaN.

    queries (B, H, T, K), keys (B, H, S, K), values (B, H, S, ·), mask broadcast to (B, H, T, S), boolean or
    `masks.additive`; `dropout` is the probability of losing a weight. Returns the output (B, H, T, ·) and the weights
    (B, H, T, S) after dropout.
    """
    products = (queries / math.sqrt(queries.size(-1))) @ keys.transpose(-2, -1)  # (B, H, T, S)
    if products.dtype == torch.float16:
        with torch.no_grad():  # in place, and the gradient as if uncut: costs no memory; inf would have no softmax
            products.clamp_(-(2.0**14), 2.0**14)  # a quarter of the lowest number: hidden keys, below, still get 0
    if mask is None:
        weights = _softmax(products)
    elif mask.is_floating_point():
        weights = _softmax(products.add_(mask))
    else:
        # The lowest finite number, not -inf: a row of -inf has no softmax. Where one key is allowed, hidden keys still
        # get exactly 0; a row with none comes out uniform, and the second line makes it, and its gradient, zero.
        products = products.masked_fill(~mask, torch.finfo(products.dtype).min)
        weights = _softmax(products).masked_fill(~mask, 0.0)
    if dropout > 0:
        weights = F.dropout(weights, dropout)
    return weights @ values, weights


def _softmax(products: Tensor) -> Tensor:
    """Over keys, in the type of the products: PyTorch sums in fp32 inside, and autocast's two conversions fall away."""
    if not is_autocasting(products):
        return products.softmax(dim=-1)
    with torch.autocast(products.device.type, enabled=False):
        return products.softmax(dim=-1)


def fused_attention(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """The output of `scaled_dot_product_attention`, by PyTorch's kernels, which never store the weights."""
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, dropout_p=dropout)


def packed_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: PackedMask) -> Tensor:
    """The output of `scaled_dot_product_attention` for sentences packed into one row: (1, H, T, d_v).

    On CUDA in half precision by PyTorch's kernel for sequences of any length, which computes nothing between sentences;
    elsewhere with the mask in full, as a reference.
    """
    if queries.is_cuda and queries.dtype in (torch.bfloat16, torch.float16):
        return _packed_kernel(queries, keys, values, mask)
    return scaled_dot_product_attention(queries, keys, values, mask.dense())[0]


def _packed_kernel(queries: Tensor, keys: Tensor, values: Tensor, mask: PackedMask) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn  # PyTorch 2.10; see `packed_kernel_problem`

    queries, keys, values = (each.squeeze(0).transpose(0, 1) for each in (queries, keys, values))  # (T, H, K)
    offsets = mask.queries.offsets, mask.keys.offsets
    longest = mask.queries.longest, mask.keys.longest
    window = (-1, 0 if mask.causal else -1)  # so many keys before and after the query; -1: all
    heads = varlen_attn(queries, keys, values, *offsets, *longest, window_size=window)
    assert isinstance(heads, Tensor)
    return heads.transpose(0, 1)[None]  # (T, H, d_v) → (1, H, T, d_v)


def packed_kernel_problem(settings: ModelSettings) -> str | None:
    """What keeps PyTorch's kernel for packed sentences from this network; None: nothing."""
    if importlib.util.find_spec("torch.nn.attention.varlen") is None:
        return f"packed attention needs PyTorch 2.10, this is {torch.__version__}"
    width = settings.key_width
    if settings.value_width != width or width % 8 or width > 256:
        return (
            "PyTorch's kernel for packed attention wants queries, keys and values of one width, a multiple of 8 up to "
            f"256; here they have {width} and {settings.value_width} columns"
        )
    return None


class StackedLinear(nn.Linear):
    """Several linear maps of one input, their matrices stacked in one: one product where all of them are needed."""

    def __init__(self, in_features: int, widths: Sequence[int], bias: bool) -> None:
        super().__init__(in_features, sum(widths), bias=bias)
        self.widths = list(widths)

    def part(self, x: Tensor, first: int, last: int) -> Tensor:
        """Only the maps from `first` to the one before `last`: (…, in_features) → (…, the sum of their widths)."""
        rows = slice(sum(self.widths[:first]), sum(self.widths[:last]))
        return F.linear(x, self.weight[rows], None if self.bias is None else self.bias[rows])


class KeyValues(NamedTuple):
    """Keys and values of some positions, ready to be attended to."""

    keys: Tensor  # (B, H, S, K)
    values: Tensor  # (B, H, S, d_v)


class Past(Protocol):
    """Keys and values that were computed before; see `transformer.cache`."""

    def append(self, keys: Tensor, values: Tensor) -> KeyValues:
        """Keep these too, (B, H, T, ·), and return all."""


class Attended(NamedTuple):
    """What multi-head attention returns."""

    output: Tensor  # (B, T, D)
    weights: Tensor | None  # (B, H, T, S); None in fused form


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head₁, …, head_h) W^O, §3.2.2, for all three uses of §3.2.3.

    - encoder self-attention: `attention(x, mask=padding_mask)`;
    - masked decoder self-attention: `attention(x, mask=subsequent_mask)`, or with `past`, position by position;
    - encoder-decoder attention: `attention(x, mask=padding_mask, memory=attention.keys_values(encoder_output))`.
    """

    form: Form | None = None  # None: FASTEST_FORM of the device. Set for all at once by Transformer.use_attention.

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.n_heads = settings.n_heads
        self.widths = [
            width * settings.n_heads for width in (settings.key_width, settings.key_width, settings.value_width)
        ]
        self.dropout = settings.attention_dropout
        # W^Q, W^K, W^V of all heads, stacked: self-attention needs one product instead of 3 h.
        self.in_projection = StackedLinear(settings.d_model, self.widths, bias=settings.attention_bias)
        self.out_projection = nn.Linear(self.widths[2], settings.d_model, bias=settings.attention_bias)  # W^O

    def forward(
        self,
        x: Tensor,
        mask: Tensor | PackedMask | None = None,
        *,
        past: Past | None = None,
        memory: KeyValues | None = None,
        rotation: Rotation | None = None,
        need_weights: bool = False,
    ) -> Attended:
        """Attend from every position of x (B, T, D) to `memory`, or to x itself preceded by `past`.

        mask broadcasts to (B, H, T, S), S counting `past` too; packed rows have one of their own, and no dropout of
        weights. `rotation` turns queries and keys of x (rotary
        positions); keys in `past` are turned already. `need_weights` makes the form explicit.
        """
        if memory is not None:
            queries, attended_to = self._split_heads(self.in_projection.part(x, 0, 1)), memory
        else:
            queries, keys, values = map(self._split_heads, torch.split(self.in_projection(x), self.widths, dim=-1))
            if rotation is not None:
                queries, keys = rotate(queries, rotation), rotate(keys, rotation)
            attended_to = KeyValues(keys, values) if past is None else past.append(keys, values)

        dropout = self.dropout if self.training else 0.0
        form = self.form or FASTEST_FORM.get(x.device.type, "fused")
        if isinstance(mask, PackedMask):
            assert dropout == 0 and not need_weights, "packed attention never stores the weights"
            heads, weights = packed_attention(queries, *attended_to, mask), None
        elif form == "explicit" or need_weights:
            heads, weights = scaled_dot_product_attention(queries, *attended_to, mask, dropout)
        else:
            heads, weights = fused_attention(queries, *attended_to, mask, dropout), None
        concatenated = heads.transpose(1, 2).flatten(2)  # (B, H, T, d_v) → (B, T, H · d_v)
        return Attended(self.out_projection(concatenated), weights)

    def keys_values(self, memory: Tensor) -> KeyValues:
        """Project the encoder's output (B, S, D) once, for any number of later queries."""
        keys, values = torch.split(self.in_projection.part(memory, 1, 3), self.widths[1:], dim=-1)
        return KeyValues(self._split_heads(keys), self._split_heads(values))

    def _split_heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)  # (B, S, H · K) → (B, H, S, K)
