"""The plan for many GPUs: its arithmetic keeps to what cannot be otherwise, and its page shows what it computes."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from benchmarks.scaling_plan import (
    NUMBERS_OF_A_CALL,
    PAGE,
    PUBLISHED_RATES,
    SIZES,
    Assumed,
    all_reduce_seconds,
    efficiency,
    exponent,
    main,
    micro_batches,
    models,
    narrowest,
    rate_for,
    render,
    ring_bytes,
    tables,
    tables_of,
    with_tables,
)
from transformer.errors import RunError
from transformer.training import group
from transformer.training.schedule import peak_of_paper


def pass_around(n: int, length: int) -> tuple[list[list[float]], list[int]]:
    """A ring all-reduce, done: each of `n` has numbers in `n` chunks; what all have at the end, and numbers sent."""
    chunks = [[[float(rank * length + i)] * (length // n) for i in range(n)] for rank in range(n)]
    sent = [0] * n
    for turn in range(2 * (n - 1)):
        moving = [(rank, (rank - turn) % n) for rank in range(n)]  # whose chunk goes to the neighbour
        passed = {rank: list(chunks[rank][chunk]) for rank, chunk in moving}
        for rank, chunk in moving:
            sent[rank] += len(passed[rank])
            own = chunks[(rank + 1) % n][chunk]
            added = [a + b for a, b in zip(own, passed[rank], strict=True)]
            chunks[(rank + 1) % n][chunk] = added if turn < n - 1 else passed[rank]
    return [[number for chunk in each for number in chunk] for each in chunks], sent


@pytest.mark.parametrize("n", [2, 3, 8])
def test_each_of_a_ring_sends_what_a_ring_that_is_done_sends(n: int) -> None:
    sums, sent = pass_around(n, 24)
    assert all(each == sums[0] for each in sums)
    assert sums[0][0] == sum(float(rank * 24) for rank in range(n))
    assert sent == [ring_bytes(24, n)] * n


def test_one_gpu_sends_nothing_and_many_never_twice_the_data() -> None:
    assert ring_bytes(100, 1) == 0
    sent = [ring_bytes(100, n) for n in range(1, 100)]
    assert sent == sorted(sent) and sent[-1] < 200


@pytest.mark.parametrize("late", [None, 0.0, 0.3, 1.0])
def test_efficiency_is_a_share_and_falls_with_communication(late: float | None) -> None:
    found = [efficiency(1.0, seconds, late) for seconds in (0.0, 1e-6, 0.1, 0.5, 1.0, 10.0, 1e6)]
    assert found[0] == 1
    assert all(0 < each <= 1 for each in found)
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("communication", [0.1, 0.7, 5.0])
def test_overlap_never_costs_and_hides_at_most_the_backward_pass(communication: float) -> None:
    after = efficiency(1.0, communication)
    assert after == 1 / (1 + communication)
    found = [efficiency(1.0, communication, late) for late in (0.0, 0.5, 1.0)]
    assert found == sorted(found, reverse=True)
    assert found[-1] == after  # with nothing to sum before the end, there is nothing to overlap
    assert found[0] <= 1 / (1 + communication - 2 / 3) or found[0] == 1


def test_a_faster_link_never_costs_time_and_a_longer_way_does() -> None:
    times = [all_reduce_seconds(10**8, 4, 16, speed, 1e-6) for speed in (1e9, 1e10, 1e11, 1e12)]
    assert times == sorted(times, reverse=True)
    assert times[0] == pytest.approx(ring_bytes(4e8, 16) / 1e9 + 6 * 30 * 1e-6)  # 100 M numbers: six calls
    assert all_reduce_seconds(10**8, 4, 16, 1e9, 1e-3) > times[0]


def test_between_nodes_the_narrower_of_nvlink_and_adapters_counts() -> None:
    assumed = Assumed(nvlink=450e9, attainable=1.0)
    assert narrowest(8, 200, assumed) == 450e9
    assert narrowest(16, 200, assumed) == 8 * 25e9  # 200 Gbit/s are 25 GB/s
    assert narrowest(16, 800, assumed) == 450e9


def test_the_plan_cuts_gradients_as_training_does() -> None:
    assert NUMBERS_OF_A_CALL == group._NUMBERS_AT_A_TIME


def test_base_and_big_have_the_sizes_that_describe_prints() -> None:
    base, big = models()
    assert (round(base.parameters / 1e6, 1), round(big.parameters / 1e6, 1)) == (63.0, 214.2)
    assert 0.2 < base.flops < 0.4 and big.flops == 1
    assert (base.late * base.parameters, big.late * big.parameters) == pytest.approx((37_000 * 512, 37_000 * 1024))


def test_the_published_rates_imply_the_exponents_of_the_page() -> None:
    paper, eight, eighty = PUBLISHED_RATES["pre"]
    assert exponent(eight, eighty) == pytest.approx(math.log(1.732 / 1.9) / math.log(737_280 / 110_592), abs=1e-3)
    assert exponent(eight, eighty) < 0 < 0.5 < exponent(paper, eight) < 1
    assert exponent(paper._replace(lr=1.0), paper._replace(lr=2.0, n_tokens=50_000)) == pytest.approx(1)  # linear
    assert exponent(paper._replace(lr=1.0), paper._replace(lr=2.0, n_tokens=100_000)) == pytest.approx(0.5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_rule_gives_the_published_points_and_goes_straight_between_them(norm: str) -> None:
    points = PUBLISHED_RATES[norm]
    for point in points:
        assert rate_for(point.n_tokens, 1024, points) == pytest.approx((point.lr, point.warmup_steps))
    for left, right in pairwise(points):
        lr, warmup = rate_for(math.sqrt(left.n_tokens * right.n_tokens), 1024, points)
        assert lr == pytest.approx(math.sqrt(left.lr * right.lr))
        assert warmup == pytest.approx(math.sqrt(left.warmup_steps * right.warmup_steps))
    assert rate_for(1, 1024, points) == pytest.approx(rate_for(25_000, 1024, points))
    assert rate_for(10**9, 1024, points) == pytest.approx(rate_for(points[-1].n_tokens, 1024, points))


def test_at_the_papers_batch_the_rule_is_equation_3() -> None:
    for points in PUBLISHED_RATES.values():
        for d_model in (512, 1024):
            assert rate_for(25_000, d_model, points)[0] == pytest.approx(peak_of_paper(d_model, 4000))


def test_micro_batches_hold_the_share_of_each_process() -> None:
    assert micro_batches(9_000, 1, 10_000) == 1
    assert micro_batches(9_001, 1, 10_000) == 2
    assert micro_batches(400_000, 8) == 4 and micro_batches(400_000, 64) == 1


def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out.rstrip("\n")
    shown = "\n\n".join(tables_of(PAGE.read_text(encoding="utf-8")))
    assert shown == printed, "run python benchmarks/scaling_plan.py --write"


def test_slower_gpus_are_fed_better() -> None:
    """With fewer tokens per second there is more time for the same bytes: no cell of the table may fall."""
    fast, slow = (list(tables(Assumed(tokens_per_second=speed)))[2] for speed in (500_000, 50_000))
    for row, other in zip(fast[1:], slow[1:], strict=True):
        for cell, above in zip(row[2:], other[2:], strict=True):
            figures, others = ([int(part.strip("%")) for part in text.split(" – ")] for text in (cell, above))
            assert all(0 < one <= two <= 100 for one, two in zip(figures, others, strict=True))
            assert figures[0] <= figures[1]
        assert len(row) == 2 + len(SIZES) + 1


def test_new_tables_take_the_places_of_the_old_ones() -> None:
    page = "# A\n\n| a |\n| --- |\n| 1 |\n\ntext | no table\n\n| b |\n\nend\n"
    assert tables_of(page) == ["| a |\n| --- |\n| 1 |", "| b |"]
    assert with_tables(page, ["| x |", "| y |"]) == "# A\n\n| x |\n\ntext | no table\n\n| y |\n\nend\n"
    with pytest.raises(RunError, match="2 tables"):
        with_tables(page, ["| x |"])
    assert render([["a", "b"], ["1", ""]]) == "| a | b |\n| --- | --- |\n| 1 | |"


@pytest.mark.parametrize("speed", ["0", "-1", "nan"])
def test_an_impossible_speed_is_refused(speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--tokens-per-second", speed])
    assert ended.value.code == 2
    assert "more than 0" in capsys.readouterr().err
