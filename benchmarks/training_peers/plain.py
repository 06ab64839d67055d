"""torch.nn.Transformer in a plain loop, as tutorials have it: logits of all positions, CrossEntropyLoss, Adam."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.decoding_peers.task import PAD_ID, sinusoidal_positions
from benchmarks.training_peers.task import Peer, Task, serve
from benchmarks.training_peers.torch_loop import BETAS, EPSILON, LR, tensor, update_function

LONGEST = 1024


class Network(nn.Module):
    """Embeddings and output projection are one matrix; dropout wherever torch.nn.Transformer has it."""

    positions: Tensor

    def __init__(self, sizes: dict[str, Any], vocab_size: int) -> None:
        super().__init__()
        d_model = sizes["d_model"]
        self.scale = math.sqrt(d_model)
        self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=PAD_ID)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.register_buffer("positions", torch.from_numpy(sinusoidal_positions(LONGEST, d_model)))
        self.dropout = nn.Dropout(sizes["dropout"])
        self.transformer = nn.Transformer(
            d_model=d_model,
            nhead=sizes["n_heads"],
            num_encoder_layers=sizes["n_encoder_layers"],
            num_decoder_layers=sizes["n_decoder_layers"],
            dim_feedforward=sizes["d_ff"],
            dropout=sizes["dropout"],
            batch_first=True,
        )

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Logits of all positions, (B, T, V)."""
        n = tgt_in.shape[1]
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        hidden = self.transformer(
            self.embed(src),
            self.embed(tgt_in),
            tgt_mask=later,
            tgt_is_causal=True,
            src_key_padding_mask=src == PAD_ID,
            tgt_key_padding_mask=tgt_in == PAD_ID,
            memory_key_padding_mask=src == PAD_ID,
        )
        return F.linear(hidden, self.embedding.weight)

    def embed(self, ids: Tensor) -> Tensor:
        """Scaled embeddings and positions, (B, S, D)."""
        embedded: Tensor = self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.shape[1]])
        return embedded


def load(task: Task, options: dict[str, Any]) -> Peer:
    """`threads` of the options are PyTorch's."""
    torch.set_num_threads(options["threads"])
    torch.manual_seed(1)
    network = Network(task.network, task.vocab_size)
    optimizer = torch.optim.Adam(network.parameters(), lr=LR, betas=BETAS, eps=EPSILON)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD_ID, label_smoothing=task.label_smoothing)

    def loss(src: Tensor, tgt_in: Tensor, tgt_out: Tensor) -> Tensor:
        mean: Tensor = criterion(network(src, tgt_in).flatten(0, 1), tgt_out.flatten())
        return mean

    losses = [partial(loss, tensor(batch.src), tensor(batch.tgt_in), tensor(batch.tgt)) for batch in task.batches]
    return Peer(f"torch {torch.__version__}", update_function(network, optimizer, losses, task.clip_norm))


if __name__ == "__main__":
    serve(load)
