"""The loss and R-Drop: equal to PyTorch's functions in values and gradients, whatever the chunks, never all logits."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from data.batches import Batch
from data.vocabulary import PAD_ID
from transformer.config import ModelSettings
from transformer.model import Transformer
from transformer.training.loss import Loss, batch_loss, projected_loss, smoothed_cross_entropy
from transformer.training.validation import perplexity

N, D, V = 50, 16, 33
TINY: dict[str, Any] = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 32, "d_ff": 48, "n_heads": 2}
TINY |= {"dropout": 0.0}

# Cases L1 and L2: vocabulary 4, ε 0.1.
L1_LOGITS = torch.tensor([[0.0, 2, 1, 0], [0, 0, 3, 0], [5, 0, 0, 0], [5, 0, 0, 0]])
L1_TARGETS = torch.tensor([1, 2, PAD_ID, PAD_ID])


def make_batch(src: list[list[int]], tgt: list[list[int]]) -> Batch:
    """Rows of ids, already padded; `tgt` is what is to be learnt."""
    tgt_out = torch.tensor(tgt)
    tgt_in = torch.cat([torch.full((len(tgt), 1), 2), tgt_out[:, :-1]], dim=1)
    targets = (tgt_out != PAD_ID).flatten().nonzero().squeeze(1)
    return Batch(torch.tensor(src), tgt_in, tgt_out, targets, int((torch.tensor(src) != PAD_ID).sum()), len(targets))


def loss_of_logits(logits: Tensor, targets: Tensor, smoothing: float = 0.1) -> Loss:
    """`batch_loss` of a network whose logits are these, (N, V): its hidden states, seen through an identity matrix."""
    network = SimpleNamespace(
        encode=lambda src, mask: None,
        decode=lambda tgt, memory, mask: logits[None],
        projection=SimpleNamespace(weight=torch.eye(logits.size(1), dtype=logits.dtype), bias=None),
        logit_scale=1.0,
    )
    return batch_loss(cast(Transformer, network), make_batch([[3]], [targets.tolist()]), smoothing)


def inputs(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    hidden = torch.randn(N, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(V, (N,))


def inputs_of_two_passes(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states of the first pass, below them of the second: not equal, but alike as under dropout."""
    hidden, weight, targets = inputs(dtype)
    hidden = torch.cat([hidden, hidden + 0.3 * torch.randn_like(hidden)]).detach()
    return hidden.requires_grad_(), weight, targets


def r_drop_of_logits(logits: Tensor, targets: Tensor, smoothing: float, alpha: float) -> Tensor:
    """Half of equation 4 of Liang et al. 2021, the cross-entropy smoothed, summed over tokens; logits (2 N, V)."""
    first, second = logits.chunk(2)
    entropies = [F.cross_entropy(each, targets, label_smoothing=smoothing, reduction="sum") for each in (first, second)]
    p, q = first.log_softmax(-1), second.log_softmax(-1)
    divergences = [F.kl_div(a, b, reduction="sum", log_target=True) for a, b in ((p, q), (q, p))]
    return (sum(entropies, torch.zeros(())) + alpha / 2 * sum(divergences, torch.zeros(()))) / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_smoothed_loss_is_pytorchs_in_values_and_gradients(smoothing: float) -> None:
    logits, targets = torch.randn(N, V, requires_grad=True), torch.randint(V, (N,))
    loss = smoothed_cross_entropy(logits, targets, smoothing)
    expected = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    assert_close(loss.smoothed, expected)
    assert_close(loss.nll, F.cross_entropy(logits, targets, reduction="sum"))
    assert_close(torch.autograd.grad(loss.smoothed, logits), torch.autograd.grad(expected, logits))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("logit_scale", [1.0, 0.25])
@pytest.mark.parametrize("chunk_rows", [1, 7, N, 512])
def test_the_projected_loss_is_pytorchs_with_any_chunk_size(
    smoothing: float, logit_scale: float, chunk_rows: int
) -> None:
    hidden, weight, targets = inputs()
    bias = torch.randn(V, requires_grad=True)
    loss = projected_loss(hidden, weight, targets, smoothing, logit_scale, chunk_rows, bias=bias)
    logits = (hidden @ weight.T + bias) * logit_scale
    expected = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    assert_close(loss.smoothed, expected)
    assert_close(loss.nll, F.cross_entropy(logits, targets, reduction="sum"))
    # Divided, as an update does: the gradient made in the forward pass follows what comes after the loss.
    found = torch.autograd.grad(loss.smoothed / 7, (hidden, weight, bias))
    assert_close(found, torch.autograd.grad(expected / 7, (hidden, weight, bias)))


def test_the_gradient_agrees_with_finite_differences() -> None:
    hidden, weight, targets = inputs(torch.float64)

    def loss(hidden: Tensor, weight: Tensor) -> Tensor:
        return projected_loss(hidden, weight, targets[:7], 0.1, 0.7, chunk_rows=3).smoothed

    assert torch.autograd.gradcheck(loss, (hidden[:7].detach().requires_grad_(), weight))


@pytest.mark.parametrize("alpha", [None, 1.0])
@pytest.mark.parametrize("frozen", ["hidden", "weight"])
def test_either_input_may_need_no_gradient(frozen: str, alpha: float | None) -> None:
    hidden, weight, targets = inputs() if alpha is None else inputs_of_two_passes()
    (hidden if frozen == "hidden" else weight).requires_grad_(False)
    rest = weight if frozen == "hidden" else hidden
    if alpha is None:
        expected = F.cross_entropy(hidden @ weight.T, targets, label_smoothing=0.1, reduction="sum")
    else:
        expected = r_drop_of_logits(hidden @ weight.T, targets, 0.1, alpha)
    found = projected_loss(hidden, weight, targets, 0.1, r_drop=alpha).smoothed
    assert_close(torch.autograd.grad(found, rest), torch.autograd.grad(expected, rest))


def test_the_unsmoothed_loss_is_for_reporting_only() -> None:
    hidden, weight, targets = inputs()
    assert not projected_loss(hidden, weight, targets, 0.1).nll.requires_grad
    assert not smoothed_cross_entropy(hidden, targets % D, 0.1).nll.requires_grad


def test_very_large_logits_give_finite_losses_and_gradients() -> None:
    hidden, weight, targets = inputs()
    loss = projected_loss(hidden * 1e4, weight, targets, 0.1)
    gradients = torch.autograd.grad(loss.smoothed, (hidden, weight))
    assert all(torch.isfinite(tensor).all() for tensor in (*loss, *gradients))


@pytest.mark.parametrize("alpha", [None, 1.0])
def test_no_tokens_have_no_loss(alpha: float | None) -> None:
    hidden, weight, targets = inputs()
    loss = projected_loss(hidden[:0], weight, targets[:0], 0.1, r_drop=alpha)
    assert (loss.smoothed.item(), loss.nll.item()) == (0.0, 0.0)


class LiveBytes(TorchDispatchMode):
    """The most bytes that tensors made meanwhile held at one time, inputs not counted."""

    def __init__(self, *not_counted: Tensor) -> None:
        super().__init__()
        self.inputs = {tensor.untyped_storage().data_ptr() for tensor in not_counted}
        self.live: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **kwargs or {})
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in self.inputs:
                reference = StorageWeakRef(tensor.untyped_storage())
                self.live[reference.cdata] = (reference, tensor.untyped_storage().nbytes())
        self.live = {key: (ref, n_bytes) for key, (ref, n_bytes) in self.live.items() if not ref.expired()}
        self.peak = max(self.peak, sum(n_bytes for _, n_bytes in self.live.values()))
        return result


@pytest.mark.parametrize("gradient", [True, False])
def test_of_two_passes_two_chunks_of_logits_exist_at_most(gradient: bool) -> None:
    n_tokens, width, n_pieces, chunk_rows = 512, 4, 5000, 32
    hidden, weight = torch.randn(2 * n_tokens, width), torch.randn(n_pieces, width)
    hidden.requires_grad_(gradient)
    weight.requires_grad_(gradient)
    targets = torch.randint(n_pieces, (n_tokens,))
    chunk, gradients = 4 * chunk_rows * n_pieces, 4 * (hidden.numel() + 2 * weight.numel())  # bytes; weight: sum, term
    with LiveBytes(hidden, weight, targets) as live:
        projected_loss(hidden, weight, targets, 0.1, chunk_rows=chunk_rows, r_drop=1.0)
    assert live.peak < 2.2 * chunk + (gradients if gradient else 0)


@pytest.mark.parametrize("gradient", [True, False])
def test_logits_of_more_than_one_chunk_never_exist_together(gradient: bool) -> None:
    n_rows, width, n_pieces, chunk_rows = 512, 4, 5000, 32
    hidden, weight = torch.randn(n_rows, width), torch.randn(n_pieces, width)
    hidden.requires_grad_(gradient)
    weight.requires_grad_(gradient)
    targets = torch.randint(n_pieces, (n_rows,))
    chunk, gradients = 4 * chunk_rows * n_pieces, 4 * (hidden.numel() + 2 * weight.numel())  # bytes; weight: sum, term
    with LiveBytes(hidden, weight, targets) as live:
        projected_loss(hidden, weight, targets, 0.1, chunk_rows=chunk_rows)
    assert live.peak >= chunk  # the measure sees logits
    assert live.peak < 1.2 * chunk + (gradients if gradient else 0)
    with LiveBytes(hidden, weight, targets) as live:
        smoothed_cross_entropy(hidden @ weight.T, targets, 0.1)
    assert live.peak >= n_rows / chunk_rows * chunk  # and would see all of them


@pytest.mark.parametrize("alpha", [None, 1.0])
@pytest.mark.parametrize("logit_scale", [1.0, 0.25])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_the_loss_and_its_gradient_stay_close(
    dtype: torch.dtype, logit_scale: float, alpha: float | None
) -> None:
    hidden, weight, targets = inputs() if alpha is None else inputs_of_two_passes()
    expected = projected_loss(hidden, weight, targets, 0.1, logit_scale, r_drop=alpha)
    with torch.autocast("cpu", dtype):
        found = projected_loss(hidden, weight, targets, 0.1, logit_scale, chunk_rows=13, r_drop=alpha)
    assert found.smoothed.dtype == found.nll.dtype == torch.float32
    assert_close(found, expected, rtol=1e-2, atol=0)
    assert not torch.equal(found.smoothed, expected.smoothed)  # the products were in half precision
    for one, other in zip(
        torch.autograd.grad(found.smoothed, (hidden, weight)),
        torch.autograd.grad(expected.smoothed, (hidden, weight)),
        strict=True,
    ):
        assert one.dtype == torch.float32
        assert float((one - other).norm() / other.norm()) < 2e-2


@pytest.mark.parametrize(
    ("tie_embeddings", "scaling", "projection_bias"),
    [
        ("three_way", "embedding", False),
        ("three_way", "projection", True),
        ("target", "embedding", True),
        ("source_target", "none", False),
        ("none", "projection", False),
    ],
)
def test_a_batch_has_the_loss_and_all_gradients_of_pytorchs_on_all_logits(
    tie_embeddings: Any, scaling: Any, projection_bias: bool
) -> None:
    settings = ModelSettings(**TINY, tie_embeddings=tie_embeddings, scaling=scaling, projection_bias=projection_bias)
    network = Transformer(settings, V, V)
    batch = make_batch([[5, 6, 7, 3], [8, 3, 0, 0]], [[9, 10, 3, 0, 0], [5, 6, 7, 8, 3]])
    logits = network(batch.src, batch.tgt_in)
    expected = F.cross_entropy(
        logits.flatten(0, 1), batch.tgt_out.flatten(), label_smoothing=0.1, ignore_index=PAD_ID, reduction="sum"
    )
    loss = batch_loss(network, batch, 0.1)
    assert_close(loss.smoothed, expected)
    parameters = list(network.parameters())
    found, wanted = (torch.autograd.grad(each, parameters) for each in (loss.smoothed, expected))
    assert_close(found, wanted, rtol=1e-4, atol=1e-5)


# --- R-Drop ---


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("logit_scale", [1.0, 0.25])
@pytest.mark.parametrize("chunk_rows", [1, 7, 4 * N, 512])
def test_r_drop_is_its_equation_in_pytorchs_functions(smoothing: float, logit_scale: float, chunk_rows: int) -> None:
    hidden, weight, targets = inputs_of_two_passes()
    bias = torch.randn(V, requires_grad=True)
    loss = projected_loss(hidden, weight, targets, smoothing, logit_scale, chunk_rows, r_drop=5.0, bias=bias)
    logits = (hidden @ weight.T + bias) * logit_scale
    expected = r_drop_of_logits(logits, targets, smoothing, 5.0)
    assert_close(loss.smoothed, expected)
    assert_close(loss.nll, F.cross_entropy(logits, targets.repeat(2), reduction="sum") / 2)
    assert not loss.nll.requires_grad
    found = torch.autograd.grad(loss.smoothed / 7, (hidden, weight, bias))
    assert_close(found, torch.autograd.grad(expected / 7, (hidden, weight, bias)), rtol=1e-4, atol=1e-5)


def test_the_gradient_of_r_drop_agrees_with_finite_differences() -> None:
    hidden, weight, targets = inputs_of_two_passes(torch.float64)

    def loss(hidden: Tensor, weight: Tensor) -> Tensor:
        return projected_loss(hidden, weight, targets[:7], 0.1, 0.7, chunk_rows=12, r_drop=3.0).smoothed

    rows = torch.cat([hidden[:7], hidden[N : N + 7]]).detach().requires_grad_()
    assert torch.autograd.gradcheck(loss, (rows, weight))


def test_two_equal_passes_have_the_loss_and_the_gradient_of_one() -> None:
    hidden, weight, targets = inputs(torch.float64)
    once = projected_loss(hidden, weight, targets, 0.1)
    twice = projected_loss(hidden.repeat(2, 1), weight, targets, 0.1, r_drop=5.0)
    assert_close(twice, once)
    gradients = [torch.autograd.grad(loss.smoothed, (hidden, weight)) for loss in (twice, once)]
    assert_close(*gradients)


def test_r_drop_is_blind_to_which_pass_was_first() -> None:
    hidden, weight, targets = inputs_of_two_passes()
    swapped = torch.cat(list(reversed(hidden.chunk(2))))
    one, other = (projected_loss(each, weight, targets, 0.1, r_drop=5.0) for each in (hidden, swapped))
    assert_close(one, other)


R_DROP_BATCH = make_batch([[5, 6, 7, 3], [8, 3, 0, 0]], [[9, 10, 3, 0, 0], [5, 6, 7, 8, 3]])


def test_a_batch_under_r_drop_is_two_passes_over_it_with_other_dropout() -> None:
    """Equal seeds drop the same elements of the doubled batch here and in the loss."""
    network, batch = Transformer(ModelSettings(**(TINY | {"dropout": 0.3})), V, V), R_DROP_BATCH
    torch.manual_seed(3)
    logits = network(batch.src.repeat(2, 1), batch.tgt_in.repeat(2, 1)).unflatten(0, (2, -1)).flatten(1, 2)
    real = (batch.tgt_out != PAD_ID).flatten()
    assert not torch.allclose(logits[0, real], logits[1, real], atol=1e-2)
    expected = r_drop_of_logits(logits[:, real].flatten(0, 1), batch.tgt_out.flatten()[real], 0.1, 2.0)
    torch.manual_seed(3)
    loss = batch_loss(network, batch, 0.1, r_drop=2.0)
    assert_close(loss.smoothed, expected)
    parameters = list(network.parameters())
    found, wanted = (torch.autograd.grad(each, parameters) for each in (loss.smoothed, expected))
    assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_the_weight_of_the_divergence_counts_and_it_is_never_negative() -> None:
    network = Transformer(ModelSettings(**(TINY | {"dropout": 0.3})), V, V)
    losses = []
    for alpha in (1.0, 2.0, 3.0):
        torch.manual_seed(3)
        losses.append(batch_loss(network, R_DROP_BATCH, 0.1, alpha))
    once, twice, thrice = (loss.smoothed for loss in losses)
    assert twice > once
    assert_close(thrice - twice, twice - once, rtol=1e-3, atol=1e-5)
    assert losses[0].nll == losses[1].nll == losses[2].nll


@pytest.mark.parametrize("training", [True, False])
def test_without_dropout_r_drop_changes_neither_loss_nor_gradients(training: bool) -> None:
    network = (
        Transformer(ModelSettings(**(TINY | {"dropout": 0.0 if training else 0.3})), V, V).train(training).double()
    )
    plain, doubled = (batch_loss(network, R_DROP_BATCH, 0.1, alpha) for alpha in (None, 5.0))
    assert_close(doubled, plain)
    parameters = list(network.parameters())
    found, wanted = (torch.autograd.grad(loss.smoothed, parameters) for loss in (doubled, plain))
    assert_close(found, wanted)


def test_under_layer_drop_both_passes_lose_the_same_layers() -> None:
    network = Transformer(ModelSettings(**TINY, layer_drop=0.5), V, V).double()
    doubled, plain = (
        {round(batch_loss(network, R_DROP_BATCH, 0.0, alpha).smoothed.item(), 9) for _ in range(40)}
        for alpha in (5.0, None)
    )
    assert doubled == plain
    assert len(plain) == 3  # whole; without the encoder's layer; without the decoder's, which alone sees the encoder


def test_a_tied_matrix_receives_the_gradient_of_every_use() -> None:
    tied = Transformer(ModelSettings(**TINY, tie_embeddings="three_way"), V, V)
    free = Transformer(ModelSettings(**TINY, tie_embeddings="none"), V, V)
    free.load_state_dict(tied.state_dict())
    batch = make_batch([[5, 6, 7, 3]], [[9, 10, 3]])
    for network in (tied, free):
        batch_loss(network, batch, 0.1).smoothed.backward()
    uses = [free.encoder.embedding.table.weight, free.decoder.embedding.table.weight, free.projection.weight]
    gradients = [use.grad for use in uses if use.grad is not None]
    assert all(gradient.abs().max() > 0.01 for gradient in gradients)
    assert_close(tied.projection.weight.grad, torch.stack(gradients).sum(dim=0))


def test_padding_rows_and_columns_change_nothing() -> None:
    network = Transformer(ModelSettings(**TINY), V, V)
    bare = batch_loss(network, make_batch([[5, 6, 3]], [[9, 3]]), 0.1)
    padded = batch_loss(network, make_batch([[5, 6, 3, 0, 0], [0] * 5], [[9, 3, 0, 0], [0] * 4]), 0.1)
    assert_close(padded, bare)


def test_case_l1_sums_and_means_over_the_two_real_tokens() -> None:
    loss = loss_of_logits(L1_LOGITS, L1_TARGETS)
    assert round(float(loss.smoothed), 6) == 0.983018
    assert round(float(loss.smoothed) / 2, 6) == 0.491509
    assert round(float(loss.nll) / 2, 6) == 0.316509
    assert_close(loss_of_logits(L1_LOGITS[:2], L1_TARGETS[:2]), loss)  # without the padding rows
    assert_close(loss_of_logits(torch.cat([L1_LOGITS, L1_LOGITS]), torch.cat([L1_TARGETS, L1_TARGETS * 0])), loss)


def test_case_l2_perplexity_is_that_of_the_unsmoothed_loss() -> None:
    probabilities = torch.full((6, 4), 1 / 6).scatter_(1, torch.full((6, 1), 2), 0.5)
    loss = loss_of_logits(probabilities.log(), torch.full((6,), 2))
    assert f"{perplexity(float(loss.nll) / 6):.4f}" == "2.0000"
    assert math.exp(float(loss.smoothed) / 6) == pytest.approx(2.1718, abs=1e-4)  # the wrong one
