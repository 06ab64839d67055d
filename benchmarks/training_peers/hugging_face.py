"""Hugging Face's MarianMTModel with what its Trainer takes: LabelSmoother and fused AdamW."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers.trainer_pt_utils import LabelSmoother

from benchmarks.decoding_peers.hugging_face import made_network
from benchmarks.decoding_peers.task import PAD_ID
from benchmarks.training_peers.task import Peer, Task, serve
from benchmarks.training_peers.torch_loop import BETAS, EPSILON, LR, tensor, update_function

IGNORED = -100  # of its labels, those of padding


def load(task: Task, options: dict[str, Any]) -> Peer:
    """`threads` of the options are PyTorch's."""
    torch.set_num_threads(options["threads"])
    torch.manual_seed(1)
    network = made_network(task.network, task.vocab_size)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LR, betas=BETAS, eps=EPSILON, weight_decay=0.0, fused=True)
    criterion = LabelSmoother(task.label_smoothing)

    def loss(src: Tensor, tgt_in: Tensor, tgt_out: Tensor) -> Tensor:
        output = network(input_ids=src, attention_mask=(src != PAD_ID).long(), decoder_input_ids=tgt_in)
        mean: Tensor = criterion(output, tgt_out.masked_fill(tgt_out == PAD_ID, IGNORED))
        return mean

    losses = [partial(loss, tensor(batch.src), tensor(batch.tgt_in), tensor(batch.tgt)) for batch in task.batches]
    version = f"transformers {transformers.__version__}, torch {torch.__version__}"
    return Peer(version, update_function(network, optimizer, losses, task.clip_norm))


if __name__ == "__main__":
    serve(load)
