"""The page before a run: its figures are those of the network, the data and the settings, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from data.prepared import Prepared
from transformer.config import Settings
from transformer.config_mixing import MixingSettings
from transformer.describe import describe
from transformer.errors import RunError
from transformer.training import plan as module
from transformer.training.plan import (
    N_SAMPLED,
    N_TIMED,
    Plan,
    Speed,
    measure_peak,
    measure_plan,
    take_sample,
    validation_sample,
)
from transformer.training.plan_page import format_plan
from transformer.training.stream import open_stream

MakeSettings = Callable[..., Settings]


@pytest.fixture(scope="module")
def plan(prepared: Prepared, make_settings: MakeSettings) -> Plan:
    """Of the tiny run, with products that take no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PRODUCT_SIZES", (64, 128))
        return measure_plan(make_settings(train={"ema_decay": 0.9}), prepared)


def test_parameters_and_flops_are_those_of_describe(plan: Plan, prepared: Prepared) -> None:
    size = len(prepared.src_vocabulary)
    train = prepared.train
    mean_length = (train.src_lengths.mean() + train.tgt_lengths.mean()) / 2 + 1
    expected = describe(plan.settings.model, size, size, round(mean_length))
    assert plan.description == expected
    assert plan.flops_per_token == 3 * expected.flops
    page = format_plan(plan)
    assert f"{expected.parameters:,} parameters" in page
    assert f"{expected.parameters_without_embeddings:,} without embeddings" in page


def test_r_drop_costs_two_passes(plan: Plan, make_settings: MakeSettings) -> None:
    doubled = replace(plan, settings=make_settings(train={"r_drop": 1.0}))
    assert doubled.flops_per_token == 2 * plan.flops_per_token


def test_an_epoch_is_counted_as_the_stream_makes_it(plan: Plan, prepared: Prepared) -> None:
    stream = open_stream(plan.settings, prepared, plan.choices.max_tokens)
    epoch = [stream.make(0, 0)]
    while (taken := stream.make(0, len(epoch))).part == 0:
        epoch.append(taken)
    stream.close()
    assert plan.updates_per_epoch == len(epoch)
    assert plan.n_tokens == sum(taken.n_tokens for taken in epoch)
    assert plan.n_pairs == sum(len(batch.src) for taken in epoch for batch in taken.batches)


def test_pairs_too_long_are_left_out_of_the_figures_and_said(
    prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PRODUCT_SIZES", (64,))
    longer = np.maximum(prepared.train.src_lengths, prepared.train.tgt_lengths) + 1
    max_tokens = int(longer.max()) - 1
    plan = measure_plan(make_settings(train={"max_tokens": max_tokens}), prepared)
    assert plan.n_left_out == (longer > max_tokens).sum() > 0
    assert f"{plan.n_left_out} longer pairs are left out" in format_plan(plan)


def test_the_sample_counts_every_position_of_every_micro_batch(prepared: Prepared, make_settings: MakeSettings) -> None:
    settings = make_settings()
    stream = open_stream(settings, prepared, 60)
    sample = take_sample(stream, 7)  # an epoch
    batches = [batch for number in range(7) for batch in stream.make(0, number).batches]
    stream.close()
    assert sample.n_micro_batches == len(batches)
    assert sample.n_pairs == len(prepared.train)
    real = sum(int((side != 0).sum()) for batch in batches for side in (batch.src, batch.tgt_out))
    padded = sum(side.numel() for batch in batches for side in (batch.src, batch.tgt_out))
    assert sample.padding_share == pytest.approx(1 - real / padded)
    assert sample.largest.rows * (sample.largest.src + sample.largest.tgt) == max(
        batch.src.numel() + batch.tgt_out.numel() for batch in batches
    )


def test_twenty_updates_are_timed_twice(plan: Plan) -> None:
    assert len(plan.speed.first) == len(plan.speed.again) == N_TIMED
    assert min(plan.speed.first + plan.speed.again) > 0
    assert plan.speed.validation_seconds > 0
    assert plan.sample.n_updates == N_SAMPLED
    assert plan.speed.tokens_per_second == pytest.approx(plan.speed.n_tokens / sum(plan.speed.again))


def test_the_memory_of_a_process_is_estimated_and_measured(plan: Plan) -> None:
    weights = 4 * plan.description.parameters
    assert plan.memory["weights"] == plan.memory["gradients"] == plan.memory["moving average"] == weights
    assert plan.memory["optimizer moments"] == 2 * weights
    assert min(plan.memory.values()) > 0
    assert plan.peak_memory > 5 * weights
    page = format_plan(plan)
    assert all(name in page for name in plan.memory)


def test_without_a_moving_average_there_is_no_line_for_it(plan: Plan) -> None:
    assert "moving average" in format_plan(plan)
    assert "moving average" not in format_plan(replace(plan, memory={**plan.memory, "moving average": 0}))


def test_utilisation_is_useful_operations_by_those_of_the_fastest_product(plan: Plan) -> None:
    speed = Speed(first=[9.0], again=[2.0, 3.0], n_tokens=1000, validation_seconds=0.0, peak_flops_per_second=1e9)
    timed = replace(plan, speed=speed)
    assert timed.speed.tokens_per_second == 200
    assert timed.utilisation == pytest.approx(plan.flops_per_token * 200 / 1e9)


@pytest.mark.parametrize(
    ("max_steps", "validate_every", "n_validations"), [(6, 4, 2), (8, 4, 2), (9, 4, 3), (3, 4, 1), (100, 4, 25)]
)
def test_the_time_of_a_run_is_a_first_pass_over_the_data_the_others_and_the_validations(
    max_steps: int, validate_every: int, n_validations: int, plan: Plan, make_settings: MakeSettings
) -> None:
    speed = Speed(first=[2.0, 4.0], again=[1.0, 3.0], n_tokens=160, validation_seconds=5.0, peak_flops_per_second=1e9)
    settings = make_settings(train={"max_steps": max_steps, "validate_every": validate_every})
    planned = replace(plan, settings=settings, speed=speed)
    n_first = min(max_steps, 7)  # an epoch has 7 updates
    assert planned.n_validations == n_validations
    assert planned.seconds == 3 * n_first + 2 * (max_steps - n_first) + 5 * n_validations
    assert f"{max_steps / 7:.1f} epochs" in format_plan(planned)


def test_with_mixing_there_are_pairs_and_no_epochs(
    of_two_corpora: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PRODUCT_SIZES", (64,))
    mixing = MixingSettings(temperature=5.0)
    page = format_plan(measure_plan(make_settings(data={"mixing": mixing.model_dump()}), of_two_corpora))
    assert "epoch" not in page
    assert "6 updates, " in page
    assert "pairs" in page.split("6 updates, ")[1].splitlines()[0]


def test_nothing_is_written(
    tmp_path: Path, prepared: Prepared, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PRODUCT_SIZES", (64,))
    monkeypatch.chdir(tmp_path)
    page = format_plan(measure_plan(make_settings(), prepared))
    assert not list(tmp_path.iterdir())
    for part in ("network", "data", "memory", "speed", "run"):
        assert f"\n{part} " in page


def test_with_nothing_to_train_on_there_is_no_plan(prepared: Prepared, make_settings: MakeSettings) -> None:
    with pytest.raises(RunError, match=r"train\.max_tokens"):
        measure_plan(make_settings(train={"max_tokens": 1}), prepared)


def test_a_sample_of_the_validation_set_keeps_pairs_and_text_together(prepared: Prepared) -> None:
    sample = validation_sample(prepared, 3)
    src, tgt = sample.valid_text
    assert len(sample.valid) == len(src) == len(tgt) == 3
    assert src[0] == prepared.valid_text[0][0]
    assert src[-1] == prepared.valid_text[0][-1]
    encoded = prepared.src_vocabulary.encode(src), prepared.tgt_vocabulary.encode(tgt)
    for number in range(3):
        assert sample.valid.src[number].tolist() == encoded[0][number]
        assert sample.valid.tgt[number].tolist() == encoded[1][number]
    everything = validation_sample(prepared, 1000)
    assert everything.valid_text == prepared.valid_text


def test_the_peak_of_products_is_found_in_each_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRODUCT_SIZES", (256, 512))
    for dtype in (torch.float32, torch.bfloat16):
        rate = measure_peak(torch.device("cpu"), dtype)
        left, right = torch.randn(2, 512, 512).to(dtype)
        alone = 2 * 512**3 / min(module._time_product(left, right, 1) for _ in range(5))
        assert rate > alone / 3  # no less than a product of one of its sizes, but for noise
