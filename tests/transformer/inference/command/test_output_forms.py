"""The forms that hold more than a text for each line, or less."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from data.forms.tables import Columns, read_table
from data.pairs import Pair
from data.writers import FORMS, Labels
from transformer.inference.command.output_forms import write_translations
from transformer.inference.command.results import Result
from transformer.inference.translation import Translation

LABELS = Labels("en", "de")
BEST = Translation("a\tb", -0.5, 3, True, alternatives=(Translation("c", -1.25, 2, True),))
RESULTS = [Result(Pair("s\tt", ""), BEST), Result(Pair("", ""), Translation("", 0.0, 0, True))]


def written(form: str, results: list[Result] = RESULTS) -> str:
    stream = io.BytesIO()
    write_translations(stream, form, results, LABELS)
    return stream.getvalue().decode()


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_pairs_get_the_translations_as_targets(form: str) -> None:
    stream = io.BytesIO()
    FORMS[form](stream, [result.pair._replace(tgt=result.translation.text) for result in RESULTS], LABELS)
    assert written(form) == stream.getvalue().decode()


def test_ranked_lines_count_lines_and_ranks() -> None:
    assert written("ranked") == "1\t1\t-0.500000\ta b\n1\t2\t-1.250000\tc\n2\t1\t0.000000\t\n"


def test_scores_stand_alone_or_beside_both_sides() -> None:
    assert written("scores") == "-0.500000\n0.000000\n"
    stream = io.BytesIO(written("scored_pairs").encode())
    pairs = list(read_table(stream, "name", "en", "de", Columns(1, 2, 3, header=False)))
    assert pairs == [Pair("s t", "a b", 1, {"score": "-0.500000"}), Pair("", "", 2, {"score": "0.000000"})]


def test_json_lines_have_the_source_as_it_was() -> None:
    records = [json.loads(line) for line in written("jsonl").splitlines()]
    assert [(record["source"], record["text"]) for record in records] == [("s\tt", "a\tb"), ("", "")]
    half = [Result(Pair("\ud800", ""), replace(BEST, text="x"))]  # only JSON can bring it
    assert json.loads(written("jsonl", half))["text"] == "x"
