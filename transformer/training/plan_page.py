"""What `train.py --plan` prints of a measured plan."""

from __future__ import annotations

from datetime import timedelta
from statistics import fmean

from transformer.inference.export.obstacles import outlook
from transformer.training.choices import describe_choices
from transformer.training.plan import Plan


def format_plan(plan: Plan) -> str:
    """The page: label, then what there is to say, a line each."""
    blocks = {
        "network": _network_lines(plan),
        "data": _data_lines(plan),
        "memory": _memory_lines(plan),
        "speed": _speed_lines(plan),
        "run": _run_lines(plan),
    }
    if wanted := plan.settings.export:
        blocks["export"] = outlook(wanted, plan.settings.model, plan.settings.translate)
    rows = [f"{plan.settings.name}: {describe_choices(plan.choices)}"]
    for label, lines in blocks.items():
        rows += ["", *(f"{name:10}{line}" for name, line in zip([label, *[""] * len(lines)], lines, strict=False))]
    return "\n".join(rows) + "\n"


def _network_lines(plan: Plan) -> list[str]:
    description = plan.description
    return [
        f"{description.parameters:,} parameters, {description.parameters_without_embeddings:,} without embeddings "
        "and output projection",
        f"{plan.flops_per_token / 1e6:,.2f} MFLOP per target token in training, where a sentence has "
        f"{description.length} tokens",
    ]


def _data_lines(plan: Plan) -> list[str]:
    sample, n_updates = plan.sample, plan.sample.n_updates
    whole = f"{plan.n_pairs:,} pairs, {plan.n_tokens:,} target tokens"
    if plan.updates_per_epoch is not None:
        whole = f"an epoch: {whole}, {plan.updates_per_epoch:,} updates"
    left_out = [f"{plan.n_left_out:,} longer pairs are left out"] if plan.n_left_out else []
    return [
        whole,
        *left_out,
        f"an update: {sample.n_tokens / n_updates:,.0f} target tokens of {sample.n_pairs / n_updates:,.0f} pairs in "
        f"{sample.n_micro_batches / n_updates:.1f} micro-batches, {sample.padding_share:.1%} padding",
        f"(mean of the first {n_updates:,} updates)",
    ]


def _memory_lines(plan: Plan) -> list[str]:
    estimated = {name: n_bytes for name, n_bytes in plan.memory.items() if n_bytes}
    rows = {**estimated, "estimated": sum(estimated.values()), "measured": plan.peak_memory}
    lines = [f"{name:18} {n_bytes / 2**30:9.3f} GiB" for name, n_bytes in rows.items()]
    lines[-1] += " at most, when updates were timed"
    if plan.choices.device == "cpu":
        lines.append("(the whole process, with products compiled for each shape, and memory kept for later)")
    if plan.settings.train.parallel == "fully_shard":
        lines.append("of several processes, each has a share of weights, gradients, moments and average")
    return lines


def _speed_lines(plan: Plan) -> list[str]:
    speed = plan.speed
    peak = f"{speed.peak_flops_per_second / 1e12:.3g} TFLOP/s"
    return [
        f"{fmean(speed.again):.3f} s an update ({min(speed.again):.3f} to {max(speed.again):.3f} in "
        f"{len(speed.again)}), {fmean(speed.first):.3f} s when its shapes are new",
        f"{speed.tokens_per_second:,.0f} target tokens/s",
        f"{plan.utilisation:.1%} of {peak}, the fastest matrix product measured here in {plan.choices.precision}",
        f"{speed.validation_seconds:.1f} s a validation",
    ]


def _run_lines(plan: Plan) -> list[str]:
    max_steps, sample = plan.settings.train.max_steps, plan.sample
    validations = plan.n_validations * plan.speed.validation_seconds
    if plan.updates_per_epoch is not None:
        amount = f"{max_steps / plan.updates_per_epoch:,.1f} epochs"
    else:
        amount = f"{max_steps * sample.n_pairs / sample.n_updates:,.0f} pairs"
    until = " unless patience ends before" if plan.settings.train.patience is not None else ""
    return [
        f"{max_steps:,} updates, {amount}{until}",
        f"{_duration(plan.seconds)}, {_duration(validations)} of it for {plan.n_validations:,} validations; "
        "start and checkpoints are not included",
    ]


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
