"""What a user is told about lines that are not as they seem."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from data.pairs import Pair
from transformer.inference.command.results import Result
from transformer.inference.command.tally import SHOWN, Tally, notes
from transformer.inference.translation import BLANK, Translation

GOOD = Translation("x", -1.0, 2, True)
FLAGS = [
    replace(GOOD, finished=False),
    replace(GOOD, truncated=True),
    replace(GOOD, n_parts=2),
    replace(GOOD, constraint_unmet=True),
]


def counted(*translations: Translation) -> Tally:
    tally = Tally()
    results = [Result(Pair("s", ""), translation) for translation in translations]
    assert list(tally.count(results)) == results
    return tally


def test_every_flag_has_a_note_of_its_own() -> None:
    assert notes(GOOD) == notes(BLANK) == []
    found = [notes(translation) for translation in FLAGS]
    assert [len(each) for each in found] == [1, 1, 1, 1]
    assert len({each[0] for each in found}) == 4


def test_a_report_names_the_lines_of_each_note_the_first_ones_if_they_are_many() -> None:
    tally = counted(GOOD, *FLAGS, *[replace(GOOD, finished=False, truncated=True)] * (SHOWN + 5))
    lines = tally.report("wrote out").splitlines()
    assert re.fullmatch(rf"wrote out: {SHOWN + 10} lines, in \d+\.\d s", lines[0])
    assert len(lines) == 5
    assert lines[1].startswith(f"{SHOWN + 6} lines ran into the length limit")
    assert lines[1].endswith(": lines 2, 6, 7, 8, 9, 10, 11, 12, 13, 14, …")
    assert lines[2].startswith("1 line lacked")
    assert lines[2].endswith(": line 5")


def test_the_speed_is_that_of_the_lines_translated_now() -> None:
    tally = counted(*[GOOD] * 30)
    tally.advance(10)
    assert re.fullmatch(r"x: 30 lines, of them 10 here, in \d+\.\d s \([\d,.]+ lines/s\)", tally.report("x"))


def test_perplexity_is_that_of_all_pieces_together() -> None:
    log_probs = [(-0.5, -1.0), (-3.0,), (-0.25, -0.25, -2.0)]
    scored = [replace(GOOD, n_tokens=len(each), token_log_probs=each) for each in log_probs]
    nats = 7.0 / 6
    assert (
        counted(*scored, BLANK).perplexity().startswith(f"perplexity {math.exp(nats):.4f} ({nats:.4f} nats a piece, 6 ")
    )
    assert counted(BLANK).perplexity() == "no pieces to score"
    assert "inf" not in counted(replace(GOOD, n_tokens=1, token_log_probs=(-1e5,))).perplexity()
