"""Choices, most by trial: device, precision, attention, kind and size of micro-batches; made once, kept on resume."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import torch
from tqdm import tqdm

from data.batches import longer_side
from data.packing import AnyBatch
from data.prepared import ParallelIds, Prepared
from transformer.attention import Form, packed_kernel_problem
from transformer.config import Settings, TrainSettings
from transformer.errors import ConfigError
from transformer.model import Transformer
from transformer.training.budget import (
    Pass,
    all_layers,
    available_bytes,
    fastest,
    largest_that_fits,
    longest_batch,
    ordinary_batch,
    packed_batch,
    seconds_in_turn,
)
from transformer.training.loss import batch_loss

Precision = Literal["fp32", "bf16", "fp16"]
Batching = Literal["padded", "packed"]
# Budget of the batch on which precision and attention are timed, at most: a CPU shows its speed on a small one, a GPU
# must have enough to do.
_TIMED_TOKENS = {"cpu": 512, "cuda": 8192, "mps": 8192}
_GRADIENT_BYTES, _ADAM_BYTES = 4, 8  # of each parameter that is trained


@dataclass(frozen=True)
class Choices:
    """What this run computes on, and how."""

    device: str
    precision: Precision
    attention: Form
    seconds: dict[str, float]  # shortest time of a pass for each candidate that was timed
    max_tokens: int = 0  # budget of a micro-batch; 0: chosen by a version that did not record it
    tokens_per_second: dict[int, float] = field(default_factory=dict)  # target tokens, for each budget that was timed
    batching: Batching = "padded"
    compiled: bool = False  # passes of packed batches

    @property
    def name(self) -> str:
        """What was timed, in `seconds`."""
        return f"{self.precision} {self.attention}"


def autocast(choices: Choices) -> AbstractContextManager[object]:
    """Run matrix products in the chosen precision; weights, sums and the loss stay fp32."""
    dtype = torch.float16 if choices.precision == "fp16" else torch.bfloat16
    return torch.autocast(choices.device, dtype, enabled=choices.precision != "fp32")


def make_scaler(choices: Choices) -> torch.amp.GradScaler | None:
    """In fp16, what scales the loss so that small gradients stay above zero (Micikevicius et al. 2018, §3.2)."""
    return torch.amp.GradScaler(choices.device) if choices.precision == "fp16" else None


def describe_choices(choices: Choices) -> str:
    """One line for people: what was chosen, and by which times."""
    words = f"computing on {choices.device} in {choices.precision} with {choices.attention} attention"
    if choices.batching == "packed":
        words += " in padded batches; batches of training are packed" + (
            ", passes compiled" if choices.compiled else ""
        )
    if choices.seconds:
        words += f", the fastest ({', '.join(f'{name} {s:.3g} s' for name, s in choices.seconds.items())})"
    words += f"; micro-batches of at most {choices.max_tokens:,} tokens"
    if choices.tokens_per_second:
        speeds = ", ".join(f"{budget:,}: {speed:,.0f} tokens/s" for budget, speed in choices.tokens_per_second.items())
        words += f", the fastest ({speeds})"
    return words


def choose(
    network: Transformer, prepared: Prepared, settings: Settings, device: torch.device, n_processes: int = 1
) -> Choices:
    """Settle what the settings leave open ("auto") by passes over batches of this run, as one process will do them.

    Only bf16 against fp32 changes results beyond rounding. Leaves weights, gradients and random numbers as they were;
    what else the run holds in the device's memory, such as a moving average, must be there already.

    Raises:
        ConfigError: train.batching or train.compile ask for what this device cannot do.
        RunError: train.max_tokens is auto, and not even the longest training pair alone fits into the GPU's memory.
    """
    wanted, corpus = settings.train, prepared.train
    with _on_trial(network, device):
        timed_tokens = min(_TIMED_TOKENS[device.type], max(_longest(corpus), _share(wanted, n_processes)))
        if wanted.max_tokens != "auto":
            timed_tokens = min(timed_tokens, wanted.max_tokens)
        choices = _fastest_form(network, corpus, timed_tokens, wanted, device)
        choices = _with_batching(choices, network, settings, min(_longest(corpus), timed_tokens))
        if wanted.max_tokens != "auto":
            return replace(choices, max_tokens=wanted.max_tokens)
        return _with_budget(choices, network, corpus, wanted, n_processes)


def _longest(corpus: ParallelIds) -> int:
    return int(longer_side(corpus).max(initial=1))


def _share(settings: TrainSettings, n_processes: int) -> int:
    """Target tokens of an update that one process trains on."""
    return -(-settings.batch_tokens // n_processes)


def _fastest_form(
    network: Transformer, corpus: ParallelIds, max_tokens: int, settings: TrainSettings, device: torch.device
) -> Choices:
    """Precision and form of attention: as set, or the fastest of those that fit."""
    candidates = [
        Choices(device.type, precision, attention, {})
        for precision, attention in itertools.product(_precisions(settings, device), _forms(settings))
    ]
    if len(candidates) == 1:
        return candidates[0]
    batch = ordinary_batch(corpus, max_tokens)
    seconds = seconds_in_turn({each.name: partial(_pass(network, each, settings), batch) for each in candidates})
    fitting = [each for each in candidates if each.name in seconds] or candidates[-1:]  # the last needs the least
    return replace(min(fitting, key=lambda each: seconds.get(each.name, 0.0)), seconds=seconds)


def _precisions(settings: TrainSettings, device: torch.device) -> list[Precision]:
    if settings.precision != "auto":
        return [settings.precision]
    has_bf16 = device.type == "cpu" or (device.type == "cuda" and torch.cuda.is_bf16_supported())
    if device.type == "cuda" and has_bf16 and settings.batching == "packed":
        return ["bf16"]  # all that its attention knows
    return ["fp32", "bf16"] if has_bf16 else ["fp32"]


def _forms(settings: TrainSettings) -> list[Form]:
    return ["explicit", "fused"] if settings.attention == "auto" else [settings.attention]


def _with_batching(choices: Choices, network: Transformer, settings: Settings, longest: int) -> Choices:
    """Packed and compiled batches as set, or where a GPU is there for them and nothing speaks against it."""
    wanted = settings.train
    problem = _kernel_problem(choices, settings)
    if wanted.batching == "auto":
        packed = problem is None and choices.device == "cuda" and not settings.packing_problems
        packed = packed and _packed_runs(choices, network, wanted, longest)
    else:
        packed = wanted.batching == "packed"
        if packed and problem is not None:
            raise ConfigError(f"train.batching: packed: {problem}; set train.batching padded, or auto")
    if wanted.compile is True and not packed:
        raise ConfigError(
            "train.compile: true needs batches of one shape, and these are padded: set train.batching packed, or "
            "train.compile auto"
        )
    compiled = (
        choices.device == "cuda" and not settings.compile_problems if wanted.compile == "auto" else wanted.compile
    )
    return replace(choices, batching="packed" if packed else "padded", compiled=packed and compiled)


def _kernel_problem(choices: Choices, settings: Settings) -> str | None:
    """What keeps a GPU from attention of packed batches; a CPU has a reference, which takes anything."""
    if choices.device != "cuda":
        return None
    if choices.precision == "fp32":
        return "attention of packed batches is in bf16 or fp16: set train.precision"
    return packed_kernel_problem(settings.model)


def _packed_runs(choices: Choices, network: Transformer, settings: TrainSettings, longest: int) -> bool:
    """One pass, to be sure: which GPUs the kernel knows is PyTorch's to say."""
    try:
        _pass(network, choices, settings)(packed_batch(longest, longest))
    except RuntimeError as error:
        reason = str(error).strip().split("\n")[0]
        tqdm.write(f"train.batching: padded, as a packed batch did not go ({reason})", file=sys.stderr)
        return False
    return True


def _with_budget(
    choices: Choices, network: Transformer, corpus: ParallelIds, settings: TrainSettings, n_processes: int
) -> Choices:
    """On a GPU the largest budget that fits; elsewhere the fastest, as far as main memory goes.

    The optimizer has no state before its first step: room for Adam's is left. A tenth of the memory stays spare.
    """
    run = _pass(network, choices, settings)
    longest = _longest(corpus)
    ceiling = max(longest, 2 * _share(settings, n_processes))  # an update with its padding: more would be of no use
    n_trained = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
    if choices.device == "cuda":
        # Weights that are shared out later are whole now, with their gradients: more than a share of Adam's state adds.
        is_shared = settings.parallel == "fully_shard" and n_processes > 1
        spare_bytes = torch.cuda.mem_get_info()[1] // 10 + (0 if is_shared else _ADAM_BYTES * n_trained)
        make = packed_batch if choices.batching == "packed" else longest_batch
        max_tokens = largest_that_fits(run, longest, ceiling, spare_bytes, torch.device("cuda"), make)
        return replace(choices, max_tokens=max_tokens)
    room_bytes = 0.9 * available_bytes() / n_processes - (_GRADIENT_BYTES + _ADAM_BYTES) * n_trained
    max_tokens, speeds = fastest(run, corpus, longest, ceiling, room_bytes)
    return replace(choices, max_tokens=max_tokens, tokens_per_second=speeds)


def _pass(network: Transformer, choices: Choices, settings: TrainSettings) -> Pass:
    """A forward and a backward pass as in training, which adds to the gradients there are; done when it returns."""
    device = torch.device(choices.device)

    def run(batch: AnyBatch) -> None:
        network.use_attention(choices.attention)
        with autocast(choices):
            loss = batch_loss(network, batch.to(device), settings.label_smoothing, settings.r_drop)
        torch.autograd.backward(loss.smoothed)
        if choices.device != "cpu":
            torch.accelerator.synchronize()

    return run


@contextmanager
def _on_trial(network: Transformer, device: torch.device) -> Iterator[None]:
    """Passes in here leave no trace; every layer takes part in them, as it must fit when it does."""
    gradients = [(parameter, parameter.grad) for parameter in network.parameters()]
    network.zero_grad(set_to_none=True)
    devices = range(torch.cuda.device_count()) if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=devices), all_layers(network):
            yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        if device.type == "cuda":
            torch.cuda.empty_cache()
