"""Attention of packed sentences is that of each sentence by itself, through the reference and through the kernel."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import varlen
from torch.testing import assert_close

from transformer import attention
from transformer.attention import (
    MultiHeadAttention,
    packed_attention,
    packed_kernel_problem,
    scaled_dot_product_attention,
)
from transformer.config import ModelSettings
from transformer.masks import PackedMask, Segments, subsequent_mask

H, K = 3, 8
QUERIES, KEYS = [4, 1, 6, 0, 5], [3, 5, 2, 4, 7]  # tokens of each sentence
Attention = Callable[[Tensor, Tensor, Tensor, PackedMask], Tensor]


def segments(lengths: list[int]) -> Segments:
    positions = torch.tensor([i for length in lengths for i in range(length)])
    return Segments(torch.tensor([0, *lengths]).cumsum(0).to(torch.int32), positions, max(lengths))


def kernel_on_the_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    window_size: tuple[int, int] = (-1, -1),
) -> Tensor:
    """What PyTorch's documentation says of `varlen_attn`, one sequence after the other; (T, H, K)."""
    assert window_size in ((-1, -1), (-1, 0))
    output = torch.empty(*query.shape[:2], value.size(-1), dtype=query.dtype)
    places = zip(*(zip(o.tolist()[:-1], o.tolist()[1:], strict=True) for o in (cu_seq_q, cu_seq_k)), strict=True)
    parts = []
    for (q, q_end), (k, k_end) in places:
        assert (q_end - q) <= max_q and (k_end - k) <= max_k
        mask = subsequent_mask(q_end - q) if window_size == (-1, 0) else None
        one = [each.transpose(0, 1) for each in (query[q:q_end], key[k:k_end], value[k:k_end])]
        parts.append(scaled_dot_product_attention(*one, mask)[0].transpose(0, 1))
    return torch.cat(parts) if parts else output


@pytest.fixture(params=["reference", "kernel"])
def attend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Attention:
    if request.param == "reference":
        return packed_attention
    monkeypatch.setattr(varlen, "varlen_attn", kernel_on_the_cpu)
    return attention._packed_kernel


def test_the_kernel_is_called_as_pytorch_defines_it() -> None:
    ours, theirs = (inspect.signature(each).parameters for each in (kernel_on_the_cpu, varlen.varlen_attn))
    positional = [name for name, parameter in ours.items() if parameter.kind != inspect.Parameter.KEYWORD_ONLY]
    assert positional == list(theirs)[: len(positional)]
    assert all(theirs[name].kind == ours[name].kind for name in ours)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_attention_is_that_of_each_sentence_in_values_and_gradients(causal: bool, attend: Attention) -> None:
    keys_of = QUERIES if causal else KEYS
    mask = PackedMask(segments(QUERIES), segments(keys_of), causal)
    sizes = sum(QUERIES), sum(keys_of), sum(keys_of)
    inputs = [torch.randn(1, H, n, K, dtype=torch.float64, requires_grad=True) for n in sizes]
    found = attend(inputs[0], inputs[1], inputs[2], mask)

    queries, keys, values = (
        torch.split(each, lengths, dim=2) for each, lengths in zip(inputs, (QUERIES, keys_of, keys_of), strict=True)
    )
    one_by_one = [
        scaled_dot_product_attention(q, k, v, subsequent_mask(q.size(2)) if causal else None)[0]
        for q, k, v in zip(queries, keys, values, strict=True)
    ]
    expected = torch.cat(one_by_one, dim=2)
    assert_close(found, expected)
    slope = torch.randn_like(expected)
    assert_close(torch.autograd.grad(found, inputs, slope), torch.autograd.grad(expected, inputs, slope))


def test_a_sentence_without_keys_gets_zeros_and_gives_no_gradient() -> None:
    """Filler may be longer on one side than on the other."""
    mask = PackedMask(segments([2, 3]), segments([4, 0]))
    inputs = [torch.randn(1, H, n, K, requires_grad=True) for n in (5, 4, 4)]
    output = packed_attention(*inputs, mask)
    assert output[:, :, 2:].count_nonzero() == 0
    (gradient,) = torch.autograd.grad(output.sum(), inputs[0])
    assert gradient[:, :, 2:].count_nonzero() == 0


def test_packed_attention_refuses_dropout_of_weights() -> None:
    module = MultiHeadAttention(ModelSettings(d_model=16, n_heads=2, attention_dropout=0.1)).train()
    with pytest.raises(AssertionError, match="never stores the weights"):
        module(torch.randn(1, 5, 16), PackedMask(segments([5]), segments([5])))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"d_head": 128}, None),
        ({"d_head": 12}, "a multiple of 8 up to 256; here they have 12 and 12"),
        ({"d_head": 264}, "264 and 264"),
        ({"d_head": 64, "d_value": 32}, "64 and 32"),
    ],
)
def test_what_the_kernel_does_not_know_is_said(changes: dict[str, Any], words: str | None) -> None:
    problem = packed_kernel_problem(ModelSettings(**changes))
    assert problem is None if words is None else problem is not None and words in problem


def test_an_older_pytorch_has_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention.importlib.util, "find_spec", lambda name: None)
    assert "needs PyTorch 2.10" in (packed_kernel_problem(ModelSettings()) or "")
