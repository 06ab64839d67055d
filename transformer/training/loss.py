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
) -> Loss:
    """`smoothed_cross_entropy(hidden @ weightᵀ · logit_scale, targets)`, computed `chunk_rows` tokens at a time.

    The gradient of a chunk is made while its logits are at hand: the logits of one chunk only, chunk_rows · V numbers,
    exist at any time, and the product is not repeated in the backward pass. hidden (N, D), weight (V, D), targets (N,).

    R-Drop (Liang et al. 2021): of two passes with other dropout, hidden (2 N, D), one below the other, it is per token

        ½ (CE₁ + CE₂) + α/2 · ½ (KL(P₁‖P₂) + KL(P₂‖P₁)),  α = `r_drop`:

    half of their equation 4, so that the loss of a token stays on the scale of one pass and α means what it means
    there. P is the softmax itself, unsmoothed; gradients flow into both passes. nll is the mean of the two.
    """
    smoothed, nll = _ProjectedLoss.apply(hidden, weight, targets, smoothing, logit_scale, chunk_rows, r_drop)  # type: ignore[no-untyped-call]  # torch's
    return Loss(smoothed, nll)


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
        logit_scale: float,
        chunk_rows: int,
        r_drop: float | None,
    ) -> tuple[Tensor, Tensor]:
        needs_gradient = any(ctx.needs_input_grad)
        product_type = _autocast_type(hidden)
        sum_type = torch.promote_types(product_type, torch.float32)  # of softmax and sums: at least fp32
        product_weight = weight.to(product_type)
        n_passes = 1 if r_drop is None else 2
        # fp16 ends at 6e-8, and most gradients of a softmax are smaller: multiplied before they are rounded to it, and
        # divided after. R-Drop's may be larger by far.
        half_scale = 1.0 if product_type != torch.float16 else 2.0**9 if r_drop is None else 2.0**4
        by_pass = hidden.reshape(n_passes, len(targets), hidden.size(1))  # (P · N, D) → (P, N, D)
        smoothed, nll = hidden.new_zeros((), dtype=sum_type), hidden.new_zeros((), dtype=sum_type)
        hidden_gradient = torch.empty_like(by_pass) if ctx.needs_input_grad[0] else None
        weight_gradient = torch.zeros_like(weight, dtype=sum_type) if ctx.needs_input_grad[1] else None
        if r_drop is not None:
            chunk_rows = max(1, chunk_rows // 4)  # of two passes each, and with as much again three times beside them
        for first in range(0, len(targets), chunk_rows):
            rows = slice(first, first + chunk_rows)
            inputs = by_pass[:, rows].flatten(0, 1).to(product_type)  # (P, n, D) → (P · n, D)
            logits = (inputs @ product_weight.T).to(sum_type).mul_(logit_scale)
            if r_drop is None:
                chunk, logits_gradient = _loss_and_gradient(logits, targets[rows], smoothing, needs_gradient)
            else:
                chunk, logits_gradient = _r_drop_and_gradient(logits, targets[rows], smoothing, r_drop, needs_gradient)
            smoothed += chunk.smoothed
            nll += chunk.nll
            if needs_gradient:
                logits_gradient = logits_gradient.mul_(logit_scale * half_scale).to(product_type)
            if hidden_gradient is not None:
                hidden_gradient[:, rows] = (logits_gradient @ product_weight).view(n_passes, -1, hidden.size(1))
            if weight_gradient is not None:
                weight_gradient += logits_gradient.T @ (
                    inputs / half_scale
                )  # before the sum over rows, lest it overflow
            del logits, logits_gradient  # else they would live until those of the next chunk are made: two at a time
        if hidden_gradient is not None and half_scale != 1.0:
            hidden_gradient /= half_scale
        ctx.save_for_backward(None if hidden_gradient is None else hidden_gradient.flatten(0, 1), weight_gradient)
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, smoothed_gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (None if each is None else each * smoothed_gradient for each in ctx.saved_tensors)
        return *gradients, None, None, None, None, None


def _loss_and_gradient(logits: Tensor, targets: Tensor, smoothing: float, needs_gradient: bool) -> tuple[Loss, Tensor]:
    """The loss of some rows and softmax(z) − q, its gradient by the logits, which overwrites `logits` (N, V)."""
    target_logits = logits.gather(1, targets[:, None]).squeeze(1)
    mean_logits = logits.mean(dim=-1) if smoothing > 0 else target_logits
    highest = logits.amax(dim=-1, keepdim=True)
    exponentials = logits.sub_(highest).exp_()
    sums = exponentials.sum(dim=-1, keepdim=True)
    log_sum = (highest + sums.log()).squeeze(1)
    nll = log_sum - target_logits
    loss = Loss(((1 - smoothing) * nll + smoothing * (log_sum - mean_logits)).sum(), nll.sum())
    if needs_gradient:
        exponentials.div_(sums).sub_(smoothing / logits.size(1))
        exponentials.scatter_add_(1, targets[:, None], exponentials.new_full((len(targets), 1), smoothing - 1))
    return loss, exponentials


def _r_drop_and_gradient(
    logits: Tensor, targets: Tensor, smoothing: float, r_drop: float, needs_gradient: bool
) -> tuple[Loss, Tensor]:
    """The loss of two passes over some rows, as in `projected_loss`, and its gradient by the logits (2 n, V)."""
    targets = targets.repeat(2)[:, None]
    log_probs = logits.log_softmax(dim=-1)
    nll = -log_probs.gather(1, targets).sum()
    smoothed = (1 - smoothing) * nll - smoothing * log_probs.mean(dim=-1).sum()

    log_probs = log_probs.view(2, -1, logits.size(1))  # (2 n, V) → (2, n, V)
    difference = log_probs - log_probs.flip(0)  # log P − log Q: Q is the other pass
    probs = log_probs.exp_()
    divergence = (probs * difference).sum(dim=-1, keepdim=True)  # KL(P‖Q), (2, n, 1)
    loss = Loss(smoothed / 2 + r_drop / 4 * divergence.sum(), nll / 2)
    if needs_gradient:
        # By the logits of P: P (log P − log Q − KL(P‖Q)) of KL(P‖Q), P − Q of KL(Q‖P), P − (smoothed one-hot) of CE.
        factor = difference.sub_(divergence).add_(1).mul_(r_drop / 4).add_(1 / 2)
        gradient = factor.mul_(probs).sub_(probs.flip(0), alpha=r_drop / 4).sub_(smoothing / logits.size(1) / 2)
        gradient = gradient.flatten(0, 1)  # (2, n, V) → (2 n, V)
        return loss, gradient.scatter_add_(1, targets, gradient.new_full(targets.shape, (smoothing - 1) / 2))
    return loss, probs


def _autocast_type(hidden: Tensor) -> torch.dtype:
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype


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
    weight, logit_scale = network.projection.weight, network.logit_scale
    return projected_loss(hidden, weight, target_ids, smoothing, logit_scale, r_drop=r_drop)


def packed_loss(network: Transformer, batch: PackedBatch, smoothing: float) -> Loss:
    """The same for packed sentences; every tensor has the same shape each time, and no number comes from the device.

    Filler counts for nothing: a row of zeros gives logits of zero, whose loss is log V exactly, smoothed or not, and is
    taken off again; and no gradient gets past it, neither to the projection, which zeros multiply, nor to the network.
    """
    hidden = packed_hidden(network, batch)
    is_filler = batch.tgt_out == PAD_ID
    hidden = hidden.masked_fill(is_filler[:, None], 0.0)
    weight, logit_scale = network.projection.weight, network.logit_scale
    n_rows = chunk_rows(hidden.device.type, packed=True)
    loss = projected_loss(hidden, weight, batch.tgt_out, smoothing, logit_scale, n_rows)
    of_filler = is_filler.sum(dtype=loss.nll.dtype) * math.log(len(weight))
    return Loss(loss.smoothed - of_filler, loss.nll - of_filler)


def chunk_rows(device: str, packed: bool) -> int:
    """Tokens whose logits exist at once."""
    return _GPU_CHUNK_ROWS if packed and device != "cpu" else CHUNK_ROWS


def packed_hidden(network: Transformer, batch: PackedBatch) -> Tensor:
    """What the decoder makes of each target token: (M, D)."""
    src = Segments(batch.src_offsets, batch.src_positions, batch.longest)
    tgt = Segments(batch.tgt_offsets, batch.tgt_positions, batch.longest)
    memory = network.encode(batch.src[None], PackedMask(src, src))  # (N,) → (1, N)
    return network.decode(batch.tgt_in[None], memory, PackedMask(tgt, src)).squeeze(0)
