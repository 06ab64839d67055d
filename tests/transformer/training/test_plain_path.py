"""No speed-up changes results beyond rounding: 200 updates of the real path against the same training written plainly.

Plain is: all sentences of an update in one padded batch, the logits of every position, PyTorch's cross-entropy, its
attention, and its Adam in single steps. Real is what train.py does: micro-batches, logits of real tokens only, a chunk
at a time, their gradients made by hand, fused Adam.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from data.batches import Batch, Epochs, collate
from data.prepared import IdSequences, ParallelIds
from data.vocabulary import PAD_ID
from transformer.config import ModelSettings, TrainSettings
from transformer.model import Transformer
from transformer.training.choices import Choices
from transformer.training.loss import CHUNK_ROWS
from transformer.training.optimizer import make_optimizers
from transformer.training.progress import Progress
from transformer.training.schedule import learning_rate
from transformer.training.state import TrainingState
from transformer.training.stream import UpdateStream
from transformer.training.update import update

V, N_STEPS, WARMUP, PEAK = 60, 200, 40, 3e-3
MODEL = ModelSettings(n_encoder_layers=1, n_decoder_layers=1, d_model=32, d_ff=64, n_heads=2, dropout=0.0)
TRAIN = TrainSettings(batch_tokens=1500, max_tokens=900, max_steps=N_STEPS, lr=PEAK, warmup_steps=WARMUP)
SIZES = {"batch_tokens": 1500, "max_tokens": 900, "seed": 1}


@pytest.fixture(scope="module")
def corpus() -> ParallelIds:
    """Sentences of 3 to 12 pieces; the target is the source from its end to its beginning."""
    draw = np.random.default_rng(3)
    src = [draw.integers(4, V, draw.integers(3, 13)).astype(np.uint16) for _ in range(3000)]
    return ParallelIds(sequences(src), sequences([sentence[::-1] for sentence in src]))


def sequences(sentences: list[np.ndarray]) -> IdSequences:
    return IdSequences(np.concatenate(sentences), np.cumsum([0, *map(len, sentences)]))


def fresh_network() -> Transformer:
    torch.manual_seed(1)
    return Transformer(MODEL, V, V)


def real_curve(corpus: ParallelIds, precision: str) -> list[float]:
    """The smoothed loss per token of each update, as train.py computes it."""
    network = fresh_network()
    network.use_attention("explicit")
    choices = Choices("cpu", precision, "explicit", {})  # type: ignore[arg-type]
    state = TrainingState(network, None, make_optimizers(network, TRAIN), Progress())
    stream = UpdateStream(corpus, Epochs(corpus, **SIZES), TRAIN.max_tokens)  # type: ignore[arg-type]
    losses = []
    for step, (epoch, number) in enumerate(places(corpus), 1):
        taken = stream.make(epoch, number)
        assert len(taken.batches) > 1 and max(batch.n_tokens for batch in taken.batches) > CHUNK_ROWS
        result = update(state, taken, learning_rate(step, TRAIN, MODEL.d_model), TRAIN, choices)
        losses.append(float(result.smoothed) / result.n_tokens)
    stream.close()
    return losses


def plain_curve(corpus: ParallelIds, precision: str) -> list[float]:
    """The same losses of the same sentences by PyTorch's own means."""
    network = fresh_network()
    network.use_attention("fused")
    adam = torch.optim.Adam(network.parameters(), betas=(0.9, 0.98), eps=1e-9, foreach=False, fused=False)
    losses = []
    for step, batch in enumerate(whole_updates(corpus), 1):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            logits = network(batch.src, batch.tgt_in).flatten(0, 1)  # (B, T, V) → (B · T, V)
        targets = batch.tgt_out.flatten()
        loss = F.cross_entropy(logits.float(), targets, ignore_index=PAD_ID, label_smoothing=TRAIN.label_smoothing)
        adam.param_groups[0]["lr"] = PEAK * min(step / WARMUP, math.sqrt(WARMUP / step))
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


def places(corpus: ParallelIds) -> Iterator[tuple[int, int]]:
    """Where the updates of the run stand."""
    order, place = Epochs(corpus, **SIZES), (0, 0)  # type: ignore[arg-type]
    for _ in range(N_STEPS):
        place = order.place(*place)
        yield place
        place = place[0], place[1] + 1


def whole_updates(corpus: ParallelIds) -> Iterator[Batch]:
    order = Epochs(corpus, **SIZES)  # type: ignore[arg-type]
    for place in places(corpus):
        yield collate(corpus, order.sentences(*place))


def largest_difference(found: list[float], expected: list[float]) -> float:
    return max(abs(one - two) / two for one, two in zip(found, expected, strict=True))
