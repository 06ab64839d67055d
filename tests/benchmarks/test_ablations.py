"""The ablations change what they say, and their intervals are those of the sentences and seeds."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.ablations import COOLDOWN, MEMORY, VARIANTS, WARMUP, Outcome, Variant, render
from transformer.config_file import differences, load_config
from transformer.evaluation.metrics import score

REFERENCES = ["a man rides a horse on the beach", "two dogs play in the snow today", "a girl reads a small red book"]
WORSE = ["a man rides the horse on a beach", "two dogs play in the snow today", "a girl is reading a red book"]


def test_every_variant_changes_the_recipe_and_is_a_valid_setting() -> None:
    recipe = load_config("multi30k.yaml")
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)
    for variant in VARIANTS[1:]:
        changed = differences(recipe, load_config("multi30k.yaml", list(variant.overrides)))
        assert changed or variant.batch_tokens != recipe.train.batch_tokens, variant.name


def test_the_shortened_schedule_has_the_shares_of_the_recipe() -> None:
    train = load_config("multi30k.yaml").train
    assert train.ema_decay is not None
    shares = train.warmup_steps, train.cooldown_steps, 1 / (1 - train.ema_decay)
    assert [share / train.max_steps for share in shares] == pytest.approx([WARMUP, COOLDOWN, MEMORY])


def test_the_table_has_the_mean_of_the_seeds_and_no_difference_to_itself() -> None:
    args = argparse.Namespace(pair="en-de", epochs=1.0, jobs=1, data=Path("multi30k"))
    both = {"validation": [REFERENCES, WORSE], "test_2016_flickr": [WORSE, WORSE]}
    outcomes = [Outcome(Variant(name), [60.0, 60.0], both) for name in ("the recipe", "the same", "one worse")]
    outcomes[2] = Outcome(Variant("one worse"), [30.0], {name: [WORSE] for name in both})
    table = render(args, outcomes, dict.fromkeys(both, REFERENCES))
    worse = score(WORSE, REFERENCES).bleu
    rows = {line.split(" | ")[0].removeprefix("| "): line.split(" | ") for line in table.split("\n") if " | " in line}
    assert rows["the recipe"][2:4] == [f"{(100 + worse) / 2:.2f}", f"{worse:.2f}"]
    assert rows["the same"][3] == f"{worse:.2f} (+0.00: +0.00 to +0.00)"  # equal seeds and the same sentences drawn
    assert rows["one worse"][2].startswith(f"{worse:.2f} ({(worse - 100) / 2:+.2f}: ")
    assert rows["one worse"][4] == "0.50"
