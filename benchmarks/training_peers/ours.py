"""This project: the updates of train.py, and what it chooses before the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from benchmarks.decoding_peers.task import PAD_ID
from benchmarks.training_peers.task import Batch, Peer, Task, serve
from benchmarks.training_peers.torch_loop import LR, tensor
from data import batches
from data.prepared import load_prepared
from transformer.config import ModelSettings, Settings, TrainSettings
from transformer.training.choices import choose, make_scaler
from transformer.training.setup import build, prepare_cpu
from transformer.training.stream import Update
from transformer.training.update import update


def load(task: Task, options: dict[str, Any]) -> Peer:
    """`precision` of the options is that of TrainSettings; `threads` are PyTorch's."""
    settings = Settings(model=ModelSettings(**task.network), train=train_settings(task, options))
    prepared, device = load_prepared(Path(task.prepared)), torch.device("cpu")
    prepare_cpu(settings.train, prepared.train)
    state, _ = build(settings, prepared, device)
    choices = choose(state.network, prepared, settings, device)
    state.scaler = make_scaler(choices)
    state.network.use_attention(choices.attention)
    state.network.train()
    updates = [Update(0, number, [made_batch(each)], each.n_tokens) for number, each in enumerate(task.batches)]

    def update_on(number: int) -> None:
        update(state, updates[number], LR, settings.train, choices)

    return Peer(f"torch {torch.__version__}", update_on, choices.precision, f"{choices.attention} attention")


def train_settings(task: Task, options: dict[str, Any]) -> TrainSettings:
    """Those of the paper's Adam; no moving average, which the others do not have."""
    return TrainSettings(
        device="cpu",
        threads=options["threads"],
        precision=options["precision"],
        batch_tokens=max(batch.n_tokens for batch in task.batches),
        max_tokens=max(max(batch.src.size, batch.tgt.size) for batch in task.batches),
        label_smoothing=task.label_smoothing,
        clip_norm=task.clip_norm,
    )


def made_batch(batch: Batch) -> batches.Batch:
    """A batch as `data.batches` makes it."""
    tgt_out = tensor(batch.tgt)
    targets = (tgt_out != PAD_ID).flatten().nonzero().squeeze(1)
    return batches.Batch(tensor(batch.src), tensor(batch.tgt_in), tgt_out, targets, batch.n_src_tokens, batch.n_tokens)


if __name__ == "__main__":
    serve(load)
