"""eole's encoder-decoder, loss and Adam, as its Trainer uses them. Its decoder is pre-norm."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from eole.config.training import TrainingConfig
from eole.models.model import EncoderDecoderModel
from eole.utils.loss import LossCompute
from eole.utils.optimizers import build_torch_optimizer
from torch import Tensor, nn

from benchmarks.decoding_peers.eole import draw_weights, made_vocabularies, model_settings
from benchmarks.decoding_peers.task import BOS_ID, PAD_ID
from benchmarks.training_peers.task import Batch, Peer, Task, serve
from benchmarks.training_peers.torch_loop import BETAS, EPSILON, LR, tensor, update_function


def load(task: Task, options: dict[str, Any]) -> Peer:
    """`threads` of the options are PyTorch's."""
    torch.set_num_threads(options["threads"])
    vocabularies = made_vocabularies(task.vocab_size)
    settings = TrainingConfig(
        dropout=[task.network["dropout"]],
        label_smoothing=task.label_smoothing,
        optim="adam",
        learning_rate=LR,
        adam_beta1=BETAS[0],
        adam_beta2=BETAS[1],
        adam_eps=EPSILON,
    )
    network = EncoderDecoderModel.build(model_settings(task.network), vocabularies, settings)
    draw_weights(network)
    optimizer = build_torch_optimizer(network, settings)
    criterion = LossCompute(
        nn.CrossEntropyLoss(ignore_index=PAD_ID, reduction="sum", label_smoothing=task.label_smoothing),
        network.generator,
        tgt_shift_index=network.tgt_shift,
        vocabs=vocabularies,
    )

    def loss(batch: dict[str, Any], n_tokens: int) -> Tensor:
        decoded, attentions, estimate = network(batch["src"], batch["tgt"], batch["srclen"])
        summed, _, _ = criterion(batch, decoded, attentions, estim=estimate)
        mean: Tensor = summed / n_tokens
        return mean

    losses = [partial(loss, made_batch(batch), batch.n_tokens) for batch in task.batches]
    update = update_function(network, optimizer, losses, task.clip_norm)
    return Peer(f"eole {version('eole')}, torch {torch.__version__}", update)


def made_batch(batch: Batch) -> dict[str, Any]:
    """A batch in its form: targets begin with <s>."""
    n_rows = len(batch.tgt)
    return {
        "src": tensor(batch.src),
        "srclen": tensor((batch.src != PAD_ID).sum(1)),
        "tgt": tensor(np.concatenate([np.full_like(batch.tgt[:, :1], BOS_ID), batch.tgt], axis=1)),
        "cid": ["corpus"] * n_rows,
        "cid_line_number": list(range(n_rows)),
    }


if __name__ == "__main__":
    serve(load)
