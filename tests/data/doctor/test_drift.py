"""Where lines were taken out or put in is found to within 20 lines, and nothing is found where nothing happened."""

from __future__ import annotations

import functools
import gzip
import random
from pathlib import Path

import numpy as np
import pytest

from data.doctor.drift import Drift, drift_profile, find_drift
from data.doctor.traces import N_WORDS, NO_WORD, Tracer, Traces
from data.grammar.corpus import generate_pairs
from data.words import words_of

Edit = tuple[str, str, int]  # "out" or "in", "src" or "tgt", line from 1


@functools.cache
def text() -> tuple[list[str], list[str]]:
    src, tgt = zip(*generate_pairs(1500, seed=7), strict=True)
    return list(src), list(tgt)


def traces(lines: list[str], batch: int = 400) -> Traces:
    tracer = Tracer()
    for start in range(0, len(lines), batch):
        part = lines[start : start + batch]
        tracer.add(words_of(part), [len(line) for line in part])
    return tracer.traces()


def drift_of(src: list[str], tgt: list[str]) -> Drift:
    return find_drift(traces(src), traces(tgt))


def edited(edits: list[Edit], src: list[str], tgt: list[str]) -> tuple[list[str], list[str]]:
    sides = {"src": list(src), "tgt": list(tgt)}
    for what, side, line in sorted(edits, key=lambda edit: -edit[2]):
        sides[side][line - 1 : line - (what == "in")] = [] if what == "out" else ["Nobody said this."]
    return sides["src"], sides["tgt"]


def offsets_after(edits: list[Edit]) -> list[tuple[int, int]]:
    """(line, offset from there on) by arithmetic."""
    found, offset = [(1, 0)], 0
    for what, side, line in sorted(edits, key=lambda edit: edit[2]):
        offset += (1 if what == "in" else -1) * (1 if side == "tgt" else -1)
        found.append((line, offset))
    return found


def assert_located(drift: Drift, edits: list[Edit]) -> None:
    expected = offsets_after(edits)
    assert [step.offset for step in drift.steps] == [offset for _, offset in expected], drift.steps
    for step, (line, _) in zip(drift.steps, expected, strict=True):
        assert abs(step.line - line) <= 20, (drift.steps, edits)


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("out", "tgt", 40)],
        [("out", "tgt", 750)],
        [("out", "src", 1460)],
        [("in", "tgt", 300)],
        [("in", "src", 1100)],
        [("out", "tgt", 500), ("out", "tgt", 600)],
        [("out", "tgt", 400), ("in", "tgt", 1000)],
        [("out", "src", 700), ("in", "src", 760)],
        [("out", "tgt", 200), ("out", "src", 700), ("in", "src", 1200)],
    ],
    ids=str,
)
def test_lines_out_and_in_are_located(edits: list[Edit]) -> None:
    assert_located(drift_of(*edited(edits, *text())), edits)


def test_swapped_sides_have_the_opposite_offsets() -> None:
    src, tgt = edited([("out", "tgt", 600), ("out", "tgt", 900)], *text())
    one, other = drift_of(src, tgt), drift_of(tgt, src)
    assert [step.offset for step in one.steps] == [-(step.offset or 0) for step in other.steps]


def test_a_large_gap_is_found_by_lengths() -> None:
    src, tgt = text()
    steps = drift_of(src, tgt[:500] + tgt[700:]).steps
    assert steps[-1].offset == -200
    assert abs(steps[-1].line - 701) <= 20
    assert steps[0].offset == 0


def test_a_text_cut_at_its_end_is_in_step_as_far_as_it_goes() -> None:
    src, tgt = text()
    assert [step.offset for step in drift_of(src, tgt[:1000]).steps] == [0]


def test_few_lines_are_enough_for_lengths_to_tell() -> None:
    src, tgt = (side[:100] for side in text())
    steps = drift_of(src, tgt[:40] + tgt[41:]).steps
    assert steps[-1].offset == -1
    assert abs(steps[-1].line - 41) <= 20


@pytest.mark.parametrize(("n_src", "n_tgt"), [(0, 0), (0, 3), (1, 0), (1, 1), (2, 9), (300, 1)])
def test_any_sizes_are_judged(n_src: int, n_tgt: int) -> None:
    src, tgt = text()
    assert drift_of(src[:n_src], tgt[:n_tgt]).steps[0].line == 1


def test_lines_that_are_all_alike_are_in_step() -> None:
    assert [step.offset for step in drift_of(["yes"] * 700, ["ja"] * 700).steps] == [0]
    assert [step.offset for step in drift_of([""] * 300, [""] * 300).steps] == [0]


def test_a_shuffled_side_has_no_offset_that_could_be_believed() -> None:
    src, tgt = text()
    random.Random(3).shuffle(tgt := list(tgt))
    drift = drift_of(src, tgt)
    n_by_offset = sum(step.offset not in (0, None) for step in drift.steps)
    assert n_by_offset == 0


def test_the_picture_shows_where_agreement_ends() -> None:
    src, tgt = edited([("out", "tgt", 750)], *text())
    profile = drift_profile(drift_of(src, tgt))
    places, agreement, best = (np.array(profile[key]) for key in ("places", "agreement", "best"))
    assert (np.diff(places) > 0).all() and places[0] >= 1 and places[-1] <= len(src)
    assert ((agreement >= 0) & (agreement <= 1)).all()
    assert agreement[places < 700].mean() > 0.7 > 0.3 > agreement[places > 800].mean()
    assert best[places > 800].mean() > 0.7


def test_a_trace_holds_words_of_its_line_and_does_not_depend_on_neighbours_in_its_batch() -> None:
    lines = ["one two three", "", " ".join(f"w{n}" for n in range(40)), "two two two"]
    found = traces(lines)
    alone = [set(traces([line]).words[0].tolist()) - {NO_WORD} for line in lines]
    counts = [len(set(row.tolist()) - {NO_WORD}) for row in found.words]
    assert counts == [3, 0, N_WORDS, 1]
    for number in (0, 1, 3):
        assert set(found.words[number].tolist()) - {NO_WORD} == alone[number]
    assert found.lengths.tolist() == [len(line) for line in lines]
    assert found.counts.sum() == 3 + 40 + 3


def read(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]


@pytest.mark.parametrize(
    "edits",
    [
        [("out", "tgt", 20_000), ("in", "tgt", 20_050)],
        pytest.param([("out", "tgt", 90)], marks=pytest.mark.slow),
        pytest.param([("out", "src", 28_950)], marks=pytest.mark.slow),
        pytest.param([("out", "tgt", 14_500), ("out", "tgt", 14_600)], marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_real_captions(corpora: Path, edits: list[Edit]) -> None:
    src, tgt = (read(corpora / f"multi30k/train.{language}.gz") for language in ("en", "de"))
    assert_located(drift_of(*edited(edits, src, tgt)), edits)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("src", "tgt"),
    [
        ("multi30k/train.en.gz", "multi30k/train.de.gz"),
        ("multi30k/train.en.gz", "multi30k/train.fr.gz"),
        ("multi30k/train.en.gz", "multi30k/train.cs.gz"),
        ("l10n/train.en-de.en.gz", "l10n/train.en-de.de.gz"),
        ("l10n/train.en-zh.en.gz", "l10n/train.en-zh.zh.gz"),
        ("tatoeba/train.en-de.en.gz", "tatoeba/train.en-de.de.gz"),
        ("tatoeba/train.en-fr.en.gz", "tatoeba/train.en-fr.fr.gz"),
        ("wmt/plain/newstest2014.fr-en.fr.gz", "wmt/plain/newstest2014.fr-en.en.gz"),
    ],
)
def test_nothing_is_found_in_sound_corpora(corpora: Path, src: str, tgt: str) -> None:
    assert [step.offset for step in drift_of(read(corpora / src), read(corpora / tgt)).steps] == [0]


@pytest.mark.slow
def test_nine_in_ten_runs_of_thirty_shifted_lines_are_found(corpora: Path) -> None:
    src, tgt, labels = (read(corpora / f"l10n/noisy.en-de.{name}.gz") for name in ("en", "de", "labels"))
    shifted = np.array([label == "misaligned" for label in labels])
    steps = drift_of(src, tgt).steps
    found = np.zeros(len(src), bool)
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        found[step.line - 1 : after.line - 1 if after else None] = step.offset not in (0, None)
    begins = np.flatnonzero(shifted & ~np.roll(shifted, 1))
    assert np.mean([found[begin : begin + 30].any() for begin in begins]) > 0.9
    assert (found & ~shifted).sum() < 0.05 * shifted.sum()
