"""Label-smoothed cross-entropy (§5.4) of real target tokens, and R-Drop, without ever holding all of their logits."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from data.batches import Batch
from data.packing import AnyBatch, PackedBatch
from data.vocabulary import PAD_ID
from transformer.masks import PackedMask, Segments, padding_mask
from transformer.model import Transformer
from transformer.precision import product_type

CHUNK_ROWS = 512  # tokens whose logits exist at once
_GPU_CHUNK_ROWS = 4096  # likewise, of packed batches on GPUs: each chunk costs a pass over the matrix's gradient


class Loss(NamedTuple):
    """Sums over tokens, in nats: to be added over micro-batches and divided once by the tokens of the whole update."""

    smoothed: Tensor  # what is minimised
    nll: Tensor  # −log P of the targets, unsmoothed: perplexity is exp(nll / n_tokens)


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Loss:
    """Cross-entropy against (1 − ε) · one-hot + ε / V, PyTorch's definition of label smoothing; logits (N, V).

    −Σ q log p = (1 − ε) (lse − zₜ) + ε (lse − mean z), with lse = log Σ exp z: no second pass over log-probabilities.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_sum = logits.logsumexp(dim=-1)
    nll = log_sum - logits.gather(1, targets[:, None]).squeeze(1)
    smoothed = (1 - smoothing) * nll + smoothing * (log_sum - logits.mean(dim=-1))
    return Loss(smoothed.sum(), nll.sum().detach())


def projected_loss(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    smoothing: float,
    logit_scale: float = 1.0,
    chunk_rows: int = CHUNK_ROWS,
    r_drop: float | None = None,
    bias: Tensor | None = None,
) -> Loss:
    """`smoothed_cross_entropy((hidden @ weightᵀ + bias) · logit_scale, targets)`, `chunk_rows` tokens at a time.

    The gradient of a chunk is made while its logits are at hand: the logits of one chunk only, chunk_rows · V numbers,
    exist at any time, and the product is not repeated in the backward pass. hidden (N, D), weight (V, D), bias (V,),
    targets (N,).

    R-Drop (Liang et al. 2021): of two passes with other dropout, hidden (2 N, D), one below the other, it is per token

        ½ (CE₁ + CE₂) + α/2 · ½ (KL(P₁‖P₂) + KL(P₂‖P₁)),  α = `r_drop`:

    half of their equation 4, so that the loss of a token stays on the scale of one pass and α means what it means
    there. P is the softmax itself, unsmoothed; gradients flow into both passes. nll is the mean of the two.
    """
    smoothed, nll = _ProjectedLoss.apply(hidden, weight, bias, targets, smoothing, logit_scale, chunk_rows, r_drop)  # type: ignore[no-untyped-call]  # torch's
    return Loss(smoothed, nll)


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        logit_scale: float,
        chunk_rows: int,
        r_drop: float | None,
    ) -> tuple[Tensor, Tensor]:
        needs_gradient = any(ctx.needs_input_grad)
        dtype = product_type(hidden)
        sum_type = torch.promote_types(dtype, torch.float32)  # of softmax and sums: at least fp32
        product_weight = weight.to(dtype)
        n_passes = 1 if r_drop is None else 2
        # fp16 ends at 6e-8, and most gradients of a softmax are smaller: multiplied before they are rounded to it, and
        # divided after. R-Drop's may be larger by far.
        half_scale = 1.0 if dtype != torch.float16 else 2.0**9 if r_drop is None else 2.0**4
        by_pass = hidden.reshape(n_passes, len(targets), hidden.size(1))  # (P · N, D) → (P, N, D)
        mean_weight = weight.to(sum_type).mean(0)  # (D,): the mean logit is a product with it
        added = None if bias is None else bias.to(sum_type) * logit_scale  # (V,): to every row of logits
        smoothed, nll = hidden.new_zeros((), dtype=sum_type), hidden.new_zeros((), dtype=sum_type)
        hidden_gradient = torch.empty_like(by_pass) if ctx.needs_input_grad[0] else None
        weight_gradient = torch.zeros_like(weight, dtype=sum_type) if ctx.needs_input_grad[1] else None
        bias_gradient = torch.zeros_like(bias, dtype=sum_type) if bias is not None and ctx.needs_input_grad[2] else None
        if r_drop is not None:
            chunk_rows = max(1, chunk_rows // 4)  # of two passes each, and with as much again three times beside them
        room = _Room(min(chunk_rows, len(targets)) * n_passes, weight, dtype, sum_type)
        for first in range(0, len(targets), chunk_rows):
            rows = slice(first, first + chunk_rows)
            inputs = by_pass[:, rows].flatten(0, 1)  # (P, n, D) → (P · n, D)
            inputs = inputs if logit_scale == 1.0 else inputs * logit_scale
            mean_logits = inputs.to(sum_type) @ mean_weight
            inputs = inputs.to(dtype)
            logits = room.product(inputs, product_weight)
            if added is not None:
                logits += added
                mean_logits += added.mean()
            if r_drop is None:
                chunk, gradient = _loss_and_gradient(logits, mean_logits, targets[rows], smoothing, needs_gradient)
            else:
                chunk, gradient = _r_drop_and_gradient(
                    logits, mean_logits, targets[rows], smoothing, r_drop, needs_gradient
                )
            smoothed += chunk.smoothed
            nll += chunk.nll
            if bias_gradient is not None:
                bias_gradient += gradient.sum(0)
            if needs_gradient:
                gradient = room.rounded(gradient if half_scale == 1.0 else gradient.mul_(half_scale))
            if hidden_gradient is not None:
                hidden_gradient[:, rows] = (gradient @ product_weight).view(n_passes, -1, hidden.size(1))
            if weight_gradient is not None:
                weight_gradient += gradient.T @ (inputs / half_scale)  # before the sum over rows, lest it overflow
        # What smoothing takes from every piece alike, ε / V of each token, is left out of the gradients above.
        if hidden_gradient is not None:
            factor = logit_scale / half_scale
            if factor != 1.0:
                hidden_gradient *= factor
            hidden_gradient -= (smoothing / n_passes * logit_scale) * mean_weight.to(hidden_gradient.dtype)
        if weight_gradient is not None:
            total = by_pass.sum((0, 1), dtype=sum_type)
            weight_gradient -= total * (smoothing / n_passes * logit_scale / len(weight))
        if bias_gradient is not None:
            bias_gradient = (bias_gradient - smoothing * len(targets) / len(weight)) * logit_scale
        flat_gradient = None if hidden_gradient is None else hidden_gradient.flatten(0, 1)
        ctx.save_for_backward(flat_gradient, weight_gradient, bias_gradient)
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, smoothed_gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (None if each is None else each * smoothed_gradient for each in ctx.saved_tensors)
        return *gradients, None, None, None, None, None


class _Room:
    """Memory for the logits of one chunk after the other: new memory for each cost as much time as what fills it.

    Args:
        n_rows: of the largest chunk.
        weight: (V, D).
        product_type, sum_type: of products, and of softmax and sums.
    """

    def __init__(self, n_rows: int, weight: Tensor, product_type: torch.dtype, sum_type: torch.dtype) -> None:
        self.sums = weight.new_empty(n_rows, len(weight), dtype=sum_type)
        self.products = self.sums if product_type == sum_type else torch.empty_like(self.sums, dtype=product_type)

    def product(self, inputs: Tensor, weight: Tensor) -> Tensor:
        """inputs (n, D) · weightᵀ (D, V), in the type of sums; overwrites what was there."""
        n_rows = len(inputs)
        product = torch.mm(inputs, weight.T, out=self.products[:n_rows])
        return product if self.products is self.sums else self.sums[:n_rows].copy_(product)

    def rounded(self, values: Tensor) -> Tensor:
        """Values (n, V) in the type of products; overwrites the product."""
        return values if self.products is self.sums else self.products[: len(values)].copy_(values)


def _loss_and_gradient(
    logits: Tensor, mean_logits: Tensor, targets: Tensor, smoothing: float, needs_gradient: bool
) -> tuple[Loss, Tensor]:
    """The loss of some rows, and its gradient by the logits but for ε / V of each; overwrites `logits` (N, V).

    That is P − (1 − ε) · one-hot. One pass makes P; with it log Σ exp z = max z − log max P.
    """
    targets = targets[:, None]
    target_logits = logits.gather(1, targets).squeeze(1)
    highest = logits.amax(dim=-1)
    probs = torch.softmax(logits, -1, out=logits)
    log_sum = highest - probs.amax(dim=-1).log()
    nll = log_sum - target_logits
    loss = Loss(((1 - smoothing) * nll + smoothing * (log_sum - mean_logits)).sum(), nll.sum())
    if needs_gradient:
        probs.scatter_add_(1, targets, probs.new_full(targets.shape, smoothing - 1))
    return loss, probs


def _r_drop_and_gradient(
    logits: Tensor, mean_logits: Tensor, targets: Tensor, smoothing: float, r_drop: float, needs_gradient: bool
) -> tuple[Loss, Tensor]:
    """The loss of two passes over some rows, as in `projected_loss`, and its gradient by the logits (2 n, V).

    The gradient lacks −ε / 2 V of each, and the logits are overwritten, as above.
    """
    targets = targets.repeat(2)[:, None]
    target_logits = logits.gather(1, targets).squeeze(1)
    log_probs = torch.log_softmax(logits, -1, out=logits)
    target_log_probs = log_probs.gather(1, targets).squeeze(1)
    nll = -target_log_probs.sum()
    mean_log_probs = mean_logits - target_logits + target_log_probs
    smoothed = (1 - smoothing) * nll - smoothing * mean_log_probs.sum()

    log_probs = log_probs.view(2, -1, logits.size(1))  # (2 n, V) → (2, n, V)
    difference = log_probs - log_probs.flip(0)  # log P − log Q: Q is the other pass
    probs = log_probs.exp_()
    divergence = (probs * difference).sum(dim=-1, keepdim=True)  # KL(P‖Q), (2, n, 1)
    loss = Loss(smoothed / 2 + r_drop / 4 * divergence.sum(), nll / 2)
    if needs_gradient:
        # By the logits of P: P (log P − log Q − KL(P‖Q)) of KL(P‖Q), P − Q of KL(Q‖P), P − (1 − ε) · one-hot of CE.
        factor = difference.sub_(divergence).add_(1).mul_(r_drop / 4).add_(1 / 2)
        gradient = factor.mul_(probs).sub_(probs.flip(0), alpha=r_drop / 4).flatten(0, 1)  # (2, n, V) → (2 n, V)
        return loss, gradient.scatter_add_(1, targets, gradient.new_full(targets.shape, (smoothing - 1) / 2))
    return loss, probs


def batch_loss(network: Transformer, batch: AnyBatch, smoothing: float, r_drop: float | None = None) -> Loss:
    """The loss of a micro-batch, padded or packed; `r_drop` is for padded ones."""
    if isinstance(batch, PackedBatch):
        assert r_drop is None, "train.r_drop is refused with packed batches"
        return packed_loss(network, batch, smoothing)
    return padded_loss(network, batch, smoothing, r_drop)


def padded_loss(network: Transformer, batch: Batch, smoothing: float, r_drop: float | None = None) -> Loss:
    """Run a batch through the network; only real target tokens reach the projection.

    With `r_drop` (see `projected_loss`) every row is there twice in one pass, and dropout differs between the two:
    helps on small corpora, at twice the time and memory of a step. Without dropout it changes nothing. Layers left out
    by layer drop are the same ones for both.
    """
    src, tgt_in, targets = batch.src, batch.tgt_in, batch.targets
    if r_drop is not None:
        src, tgt_in = src.repeat(2, 1), tgt_in.repeat(2, 1)  # (2 B, S), (2 B, T)
        targets = torch.cat([targets, targets + batch.tgt_out.numel()])
    src_mask = padding_mask(src, PAD_ID)
    hidden = network.decode(tgt_in, network.encode(src, src_mask), src_mask)  # (B, T, D)
    hidden = hidden.flatten(0, 1).index_select(0, targets)  # (B · T, D) → (n_tokens, D)
    target_ids = batch.tgt_out.flatten().index_select(0, batch.targets)
    weight, bias, logit_scale = network.projection.weight, network.projection.bias, network.logit_scale
    return projected_loss(hidden, weight, target_ids, smoothing, logit_scale, r_drop=r_drop, bias=bias)


def packed_loss(network: Transformer, batch: PackedBatch, smoothing: float) -> Loss:
    """The same for packed sentences; every tensor has the same shape each time, and no number comes from the device.

    Filler counts for nothing: a row of zeros gives logits of zero, whose loss is log V exactly, smoothed or not, and is
    taken off again; and no gradient gets past it, neither to the projection, which zeros multiply, nor to the network.
    Where the projection has a bias, it is all the logits of filler; loss and gradient of that are taken off likewise.
    """
    hidden = packed_hidden(network, batch)
    is_filler = batch.tgt_out == PAD_ID
    hidden = hidden.masked_fill(is_filler[:, None], 0.0)
    weight, bias, logit_scale = network.projection.weight, network.projection.bias, network.logit_scale
    n_rows = chunk_rows(hidden.device.type, packed=True)
    loss = projected_loss(hidden, weight, batch.tgt_out, smoothing, logit_scale, n_rows, bias=bias)
    n_filler = is_filler.sum(dtype=loss.nll.dtype)
    if bias is None:
        return Loss(loss.smoothed - n_filler * math.log(len(weight)), loss.nll - n_filler * math.log(len(weight)))
    of_filler = smoothed_cross_entropy(bias[None] * logit_scale, batch.tgt_out.new_full((1,), PAD_ID), smoothing)
    return Loss(loss.smoothed - n_filler * of_filler.smoothed, loss.nll - n_filler * of_filler.nll)


def chunk_rows(device: str, packed: bool) -> int:
    """Tokens whose logits exist at once."""
    return _GPU_CHUNK_ROWS if packed and device != "cpu" else CHUNK_ROWS


def packed_hidden(network: Transformer, batch: PackedBatch) -> Tensor:
    """What the decoder makes of each target token: (M, D)."""
    src = Segments(batch.src_offsets, batch.src_positions, batch.longest)
    tgt = Segments(batch.tgt_offsets, batch.tgt_positions, batch.longest)
    memory = network.encode(batch.src[None], PackedMask(src, src))  # (N,) → (1, N)
    return network.decode(batch.tgt_in[None], memory, PackedMask(tgt, src)).squeeze(0)
