"""JoeyNMT's model, loss and Adam, as its TrainManager uses them."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from joeynmt.batch import Batch as JoeyBatch
from joeynmt.builders import build_optimizer
from torch import Tensor

from benchmarks.decoding_peers.joeynmt import SPECIAL, made_network
from benchmarks.decoding_peers.task import BOS_ID, EOS_ID, PAD_ID
from benchmarks.training_peers.task import Batch, Ids, Peer, Task, serve
from benchmarks.training_peers.torch_loop import BETAS, LR, tensor, update_function


def load(task: Task, options: dict[str, Any]) -> Peer:
    """`threads` of the options are PyTorch's."""
    torch.set_num_threads(options["threads"])
    torch.manual_seed(1)
    network = made_network(task.network, task.vocab_size)
    network.loss_function = ("crossentropy", task.label_smoothing)
    settings = {"optimizer": "adam", "learning_rate": LR, "adam_betas": BETAS}
    optimizer = build_optimizer(settings, network.parameters())

    def loss(batch: JoeyBatch) -> Tensor:
        batch.sort_by_src_length()
        summed, _, _, _ = network(return_type="loss", **vars(batch))
        mean: Tensor = batch.normalize(summed, normalization="tokens")
        return mean

    losses = [partial(loss, made_batch(batch)) for batch in task.batches]
    update = update_function(network, optimizer, losses, task.clip_norm)
    return Peer(f"joeynmt {version('joeynmt')}, torch {torch.__version__}", update)


def made_batch(batch: Batch) -> JoeyBatch:
    """A batch in its form: targets begin with <s>."""
    tgt = np.concatenate([np.full_like(batch.tgt[:, :1], BOS_ID), batch.tgt], axis=1)
    return JoeyBatch(
        src=tensor(with_its_ids(batch.src)),
        src_length=tensor((batch.src != PAD_ID).sum(1)),
        src_prompt_mask=None,
        trg=tensor(with_its_ids(tgt)),
        trg_prompt_mask=None,
        indices=torch.arange(len(tgt)),
        device=torch.device("cpu"),
        pad_index=SPECIAL.pad_id,
        eos_index=EOS_ID,
    )


def with_its_ids(ids: Ids) -> Ids:
    """Its <unk> is our padding, and the other way round."""
    return np.where(ids < 2, 1 - ids, ids)


if __name__ == "__main__":
    serve(load)
