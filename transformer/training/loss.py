"""Label-smoothed cross-entropy (§5.4) of real target tokens, without ever holding all of their logits."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from data.batches import Batch
from data.vocabulary import PAD_ID
from transformer.masks import padding_mask
from transformer.model import Transformer


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
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, logit_scale: float = 1.0, chunk_rows: int = 512
) -> Loss:
    """`smoothed_cross_entropy(hidden @ weightᵀ · logit_scale, targets)`, computed `chunk_rows` tokens at a time.

    The gradient of a chunk is made while its logits are at hand: the logits of one chunk only, chunk_rows · V numbers,
    exist at any time, and the product is not repeated in the backward pass. hidden (N, D), weight (V, D), targets (N,).
    """
    smoothed, nll = _ProjectedLoss.apply(hidden, weight, targets, smoothing, logit_scale, chunk_rows)  # type: ignore[no-untyped-call]  # torch's
    return Loss(smoothed, nll)


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, logit_scale: float, chunk_rows: int
    ) -> tuple[Tensor, Tensor]:
        needs_gradient = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        product_type = _autocast_type(hidden)
        sum_type = torch.promote_types(product_type, torch.float32)  # of softmax and sums: at least fp32
        product_weight = weight.to(product_type)
        smoothed, nll = hidden.new_zeros((), dtype=sum_type), hidden.new_zeros((), dtype=sum_type)
        hidden_gradient = torch.empty_like(hidden) if needs_gradient else None
        weight_gradient = torch.zeros_like(weight, dtype=sum_type) if needs_gradient else None
        for first in range(0, hidden.size(0), chunk_rows):
            rows = slice(first, first + chunk_rows)
            inputs = hidden[rows].to(product_type)
            logits = (inputs @ product_weight.T).to(sum_type).mul_(logit_scale)
            chunk, logits_gradient = _loss_and_gradient(logits, targets[rows], smoothing, needs_gradient)
            smoothed += chunk.smoothed
            nll += chunk.nll
            if hidden_gradient is not None and weight_gradient is not None:
                logits_gradient = logits_gradient.mul_(logit_scale).to(product_type)
                hidden_gradient[rows] = logits_gradient @ product_weight
                weight_gradient += logits_gradient.T @ inputs
            del logits, logits_gradient  # else they would live until those of the next chunk are made: two at a time
        ctx.save_for_backward(hidden_gradient, weight_gradient)
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, smoothed_gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        hidden_gradient, weight_gradient = ctx.saved_tensors
        return hidden_gradient * smoothed_gradient, weight_gradient * smoothed_gradient, None, None, None, None


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


def _autocast_type(hidden: Tensor) -> torch.dtype:
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype


def batch_loss(network: Transformer, batch: Batch, smoothing: float) -> Loss:
    """Run a batch through the network; only real target tokens reach the projection."""
    src_mask = padding_mask(batch.src, PAD_ID)
    hidden = network.decode(batch.tgt_in, network.encode(batch.src, src_mask), src_mask)  # (B, T, D)
    hidden = hidden.flatten(0, 1).index_select(0, batch.targets)  # (B · T, D) → (n_tokens, D)
    targets = batch.tgt_out.flatten().index_select(0, batch.targets)
    return projected_loss(hidden, network.projection.weight, targets, smoothing, network.logit_scale)
