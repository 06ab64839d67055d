"""fairseq's transformer, criterion and Adam, as its Trainer uses them."""

from __future__ import annotations

from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.decoding_peers.fairseq import made_dictionary, made_network
from benchmarks.decoding_peers.task import PAD_ID
from benchmarks.training_peers.task import Batch, Peer, Task, serve
from benchmarks.training_peers.torch_loop import BETAS, EPSILON, LR, tensor

# isort: split
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig


def load(task: Task, options: dict[str, Any]) -> Peer:
    """`threads` of the options are PyTorch's."""
    torch.set_num_threads(options["threads"])
    torch.manual_seed(1)
    dictionary = made_dictionary(task.vocab_size)
    network = made_network(task.network, dictionary).train()
    criterion = LabelSmoothedCrossEntropyCriterion(
        SimpleNamespace(target_dictionary=dictionary), sentence_avg=False, label_smoothing=task.label_smoothing
    )
    settings = FairseqAdamConfig(lr=[LR], adam_betas=str(BETAS), adam_eps=EPSILON, tpu=False)
    optimizer = FairseqAdam(settings, list(network.parameters()))
    samples = [made_sample(batch) for batch in task.batches]

    def update(number: int) -> None:
        optimizer.zero_grad()
        loss, n_tokens, _ = criterion(network, samples[number])
        optimizer.backward(loss)
        optimizer.multiply_grads(1 / n_tokens)
        optimizer.clip_grad_norm(task.clip_norm)
        optimizer.step()

    return Peer(f"fairseq {version('fairseq')}, torch {torch.__version__}", update)


def made_sample(batch: Batch) -> dict[str, Any]:
    """A batch in its form."""
    src = tensor(batch.src)
    lengths = tensor((batch.src != PAD_ID).sum(1))
    inputs = {"src_tokens": src, "src_lengths": lengths, "prev_output_tokens": tensor(batch.tgt_in)}
    return {"net_input": inputs, "target": tensor(batch.tgt), "ntokens": batch.n_tokens}


if __name__ == "__main__":
    serve(load)
