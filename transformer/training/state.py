"""All that changes while a run trains."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from transformer.model import Transformer
from transformer.training.compilation import LossFunction
from transformer.training.progress import Progress
from transformer.training.sharding import LossModule


@dataclass
class TrainingState:
    """What a checkpoint saves.

    Dropout needs no state: its random numbers are drawn anew for every micro-batch, from the seed and its place.
    """

    network: Transformer
    average: Transformer | None  # the moving average of the network's weights
    optimizers: list[torch.optim.Optimizer]  # each parameter that is trained belongs to one
    progress: Progress
    seed: int = 1
    scaler: torch.amp.GradScaler | None = None  # of the loss, in fp16
    compiled: LossFunction | None = None  # `batch_loss` of the network, where passes are compiled
    sharded: LossModule | None = None  # what holds the network where processes share its weights
    largest_batch: int | None = None  # padded tokens of a micro-batch that found too little memory: not tried again

    @property
    def evaluated(self) -> Transformer:
        """The network that is validated, kept as best, and given to users."""
        return self.average or self.network
