"""What a run will cost, before it begins: the page of `python train.py --config … --plan`.

It states what follows from the settings and the prepared data, estimates the memory, times real updates and a
validation on this device, and says how long the run would take. What the updates have learnt is forgotten, and nothing
is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from data.batches import Batch, EpochPlan, longer_side
from data.packing import PackedShape
from data.prepared import IdSequences, ParallelIds, Prepared
from transformer.config import Settings
from transformer.describe import TRAINING_FACTOR, Description, describe
from transformer.device import choose_device
from transformer.model import Transformer
from transformer.training.choices import Choices, choose, make_scaler
from transformer.training.compilation import compile_loss
from transformer.training.group import ALONE
from transformer.training.memory import Shape, estimate_memory, longest_micro_batch, peak_memory
from transformer.training.schedule import learning_rate
from transformer.training.setup import build, prepare_cpu, report_over_budget
from transformer.training.state import TrainingState
from transformer.training.stream import Update, UpdateStream, open_stream, refuse_impossible_mixing
from transformer.training.update import update
from transformer.training.validation import validate

N_SAMPLED = 100  # updates that are looked at: their padding and micro-batches
N_WARM_UP, N_TIMED = 3, 20  # updates that are done; the first ones of a process are slower
N_VALIDATED = 500  # lines of the validation set, a few full batches; the time of the others is inferred
PRODUCT_SIZES = (512, 1024, 2048, 4096, 8192)
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Sample:
    """Sums over the first updates of a run, and the largest of their micro-batches."""

    n_updates: int
    n_micro_batches: int
    n_pairs: int
    n_src_tokens: int  # real, eos included
    n_tokens: int  # real target tokens, eos included
    n_padded: int  # positions of both sides
    largest: Shape | PackedShape

    @property
    def padding_share(self) -> float:
        """1 − real / padded, both sides together."""
        return 1 - (self.n_src_tokens + self.n_tokens) / self.n_padded

    @property
    def mean_length(self) -> int:
        """Tokens of a sentence, eos included, both sides taken together: `length` of `describe`."""
        return round((self.n_src_tokens + self.n_tokens) / (2 * self.n_pairs))


@dataclass(frozen=True)
class Speed:
    """What was timed."""

    first: list[float]  # seconds of each update, when its shapes were new to the process
    again: list[float]  # seconds of the same updates once more
    n_tokens: int  # real target tokens of these updates, once
    validation_seconds: float  # of one validation
    peak_flops_per_second: float  # of the fastest matrix product

    @property
    def tokens_per_second(self) -> float:
        """Real target tokens, validation left out."""
        return self.n_tokens / sum(self.again)


@dataclass(frozen=True)
class Plan:
    """All that the page states."""

    settings: Settings
    choices: Choices
    description: Description
    n_pairs: int  # that fit into a micro-batch; without mixing an epoch
    n_left_out: int  # that do not
    n_tokens: int  # real target tokens of these pairs, eos included
    updates_per_epoch: int | None  # None with data.mixing, which knows no epochs
    sample: Sample
    memory: Mapping[str, int]  # bytes of a process, estimated
    peak_memory: int  # bytes, measured when the updates had been timed
    speed: Speed

    @property
    def flops_per_token(self) -> int:
        """Floating-point operations of training per target token; R-Drop goes through the network twice."""
        n_passes = 2 if self.settings.train.r_drop is not None else 1
        return TRAINING_FACTOR * n_passes * self.description.flops

    @property
    def utilisation(self) -> float:
        """Model FLOP utilisation (Chowdhery et al. 2022, appendix B): useful products per second / the most measured.

        Useful are those of real target tokens: padding counts as loss.
        """
        return self.flops_per_token * self.speed.tokens_per_second / self.speed.peak_flops_per_second

    @property
    def n_validations(self) -> int:
        """Every `validate_every` updates, and after the last."""
        return -(-self.settings.train.max_steps // self.settings.train.validate_every)

    @property
    def seconds(self) -> float:
        """Of the whole run: updates and validations.

        Shapes are new during a first pass over the data, and come back in the next: a CPU compiles bf16 products for
        each, a GPU looks for its kernels and asks for memory.
        """
        max_steps = self.settings.train.max_steps
        n_first = min(max_steps, round(self.n_tokens * self.sample.n_updates / self.sample.n_tokens))
        updates = n_first * fmean(self.speed.first) + (max_steps - n_first) * fmean(self.speed.again)
        return updates + self.n_validations * self.speed.validation_seconds


def measure_plan(settings: Settings, prepared: Prepared) -> Plan:
    """Build what a run would train, on this device, in one process; look at its data, and time it.

    Raises:
        ConfigError: the device is not there.
        DataError: the shares of data.mixing do not fit the training corpora.
        RunError: there is nothing to train on, or nothing to start from.
    """
    wanted, train = settings.train, prepared.train
    prepare_cpu(wanted, train)
    device = choose_device(wanted.device)
    refuse_impossible_mixing(settings, prepared)
    if isinstance(wanted.max_tokens, int):
        report_over_budget(prepared, wanted.max_tokens)
    longer = longer_side(train)
    program = peak_memory(device)  # before there is a network
    state = build(settings, prepared, device)[0]
    choices = choose(state.network, prepared, settings, device)
    state.scaler = make_scaler(choices)
    for each in (state.network, state.evaluated):
        each.use_attention(choices.attention)

    if choices.compiled:
        state.compiled = compile_loss(state.network)
    pin = device.type == "cuda"
    opened = open_stream(settings, prepared, choices.max_tokens, batching=choices.batching, pin=pin)
    with closing(opened) as stream:
        sample = take_sample(stream, N_SAMPLED)
        shapes = [sample.largest]
        if stream.shape is None:
            shapes.append(longest_micro_batch(train, wanted.batch_tokens, choices.max_tokens))
        memory = {"program and data": program, **estimate_memory(state, shapes, wanted, choices)}
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()  # what `choose` has tried does not count
        with tqdm(total=2 * (N_WARM_UP + N_TIMED), desc="timing updates", unit="update", leave=False) as bar:
            first, again = (time_updates(state, stream, settings, choices, bar) for _ in range(2))
    peak = peak_memory(device)  # before the products below, which need more than a small network
    fits = longer <= choices.max_tokens
    vocabulary_sizes = len(prepared.src_vocabulary), len(prepared.tgt_vocabulary)
    return Plan(
        settings=settings,
        choices=choices,
        description=describe(settings.model, *vocabulary_sizes, sample.mean_length),
        n_pairs=int(fits.sum()),
        n_left_out=int((~fits).sum()),
        n_tokens=int(train.tgt_lengths[fits].sum(dtype=np.int64) + fits.sum()),
        updates_per_epoch=_updates_per_epoch(settings, prepared, choices.max_tokens),
        sample=sample,
        memory=memory,
        peak_memory=peak,
        speed=Speed(
            first=[seconds for seconds, _ in first],
            again=[seconds for seconds, _ in again],
            n_tokens=sum(n_tokens for _, n_tokens in again),
            validation_seconds=time_validation(state.evaluated, prepared, settings, choices),
            peak_flops_per_second=measure_peak(device, DTYPES[choices.precision]),
        ),
    )


# --- the data ---


def take_sample(stream: UpdateStream, n_updates: int) -> Sample:
    """The first updates of the run as they come to the network, which are a random sample of an epoch."""
    n_batches, n_pairs, n_src_tokens, n_tokens, n_padded, largest = 0, 0, 0, 0, 0, Shape(0, 0, 0)
    for taken in _first_updates(stream, n_updates):
        for batch in taken.batches:
            if isinstance(batch, Batch):
                shape = Shape(batch.src.size(0), batch.src.size(1), batch.tgt_out.size(1))
                largest = max(largest, shape, key=lambda each: each.n_src + each.n_tgt)
            n_batches += 1
            n_pairs += batch.n_pairs
            n_src_tokens += batch.n_src_tokens
            n_tokens += batch.n_tokens
            n_padded += batch.n_padded
    return Sample(n_updates, n_batches, n_pairs, n_src_tokens, n_tokens, n_padded, stream.shape or largest)


def _first_updates(stream: UpdateStream, n_updates: int) -> Iterator[Update]:
    part = number = 0
    for _ in range(n_updates):
        taken = stream.take(part, number)
        yield taken
        part, number = taken.part, taken.update + 1


def _updates_per_epoch(settings: Settings, prepared: Prepared, max_tokens: int) -> int | None:
    if settings.data.mixing is not None:
        return None
    batch_tokens = settings.train.batch_tokens
    return len(EpochPlan(prepared.train, batch_tokens=batch_tokens, max_tokens=max_tokens, seed=settings.seed, epoch=0))


# --- time ---


def time_updates(
    state: TrainingState, stream: UpdateStream, settings: Settings, choices: Choices, bar: tqdm[NoReturn]
) -> list[tuple[float, int]]:
    """Seconds and target tokens of each of the first updates, those that warm up left out.

    All at the rate of the first, so that the weights stay nearly what they are: time does not depend on it.
    """
    lr = learning_rate(1, settings.train, settings.model.d_model)
    timed = []
    begin = time.perf_counter()
    for taken in _first_updates(stream, N_WARM_UP + N_TIMED):
        update(state, taken, lr, settings.train, choices, ALONE)
        _wait_for(choices.device)
        end = time.perf_counter()
        timed.append((end - begin, taken.n_tokens))
        bar.update()
        begin = end  # that the next must be waited for counts, as in a run
    return timed[N_WARM_UP:]


def time_validation(network: Transformer, prepared: Prepared, settings: Settings, choices: Choices) -> float:
    """Seconds of one validation, from one on an even sample of its lines.

    A network that has learnt nothing fills every line up to the limit of its length, and so may the first validations
    of a run. Here the limit is about the length of the references, which is where a trained network ends.
    """
    valid = prepared.valid
    ratio = valid.tgt_lengths.sum() / max(int(valid.src_lengths.sum()), 1)
    limits = {
        "max_length_ratio": min(settings.translate.max_length_ratio, float(ratio)),
        "max_extra_length": min(settings.translate.max_extra_length, 5),
    }
    settings = settings.model_copy(update={"translate": settings.translate.model_copy(update=limits)})
    sample = validation_sample(prepared, N_VALIDATED)
    begin = time.perf_counter()
    validate(network, sample, settings, choices, 0, ALONE)
    return (time.perf_counter() - begin) * len(valid) / len(sample.valid)


def validation_sample(prepared: Prepared, n_lines: int) -> Prepared:
    """The same with so many lines of the validation set, evenly chosen, or all where there are fewer."""
    valid, (src, tgt) = prepared.valid, prepared.valid_text
    places = np.linspace(0, len(valid) - 1, min(n_lines, len(valid))).astype(np.int64).tolist()
    ids = ParallelIds(*(_select(side, places) for side in (valid.src, valid.tgt)))
    return replace(prepared, valid=ids, valid_text=([src[i] for i in places], [tgt[i] for i in places]))


def measure_peak(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations per second of the fastest product of two square matrices, of several sizes."""
    fastest = 0.0
    for size in PRODUCT_SIZES:
        left, right = torch.randn(2, size, size, device=device).to(dtype)  # not ones: a GPU is faster with those
        _time_product(left, right, 1)  # warms up
        n_products = max(1, round(0.05 / _time_product(left, right, 1)))
        seconds = min(_time_product(left, right, n_products) for _ in range(3)) / n_products
        fastest = max(fastest, 2 * size**3 / seconds)
        if seconds > 0.1:
            break
    return fastest


def _time_product(left: Tensor, right: Tensor, n_products: int) -> float:
    begin = time.perf_counter()
    for _ in range(n_products):
        left @ right
    _wait_for(left.device.type)
    return time.perf_counter() - begin


def _wait_for(device: str) -> None:
    """Until the device has done what it was given; a CPU has."""
    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "mps":
        torch.mps.synchronize()


def _select(side: IdSequences, places: list[int]) -> IdSequences:
    rows = [side[i] for i in places]
    return IdSequences(np.concatenate(rows), np.cumsum([0, *map(len, rows)]))
