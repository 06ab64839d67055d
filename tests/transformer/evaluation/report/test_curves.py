"""Curves can be read: round ticks, labels apart from each other and within the frame, points where they belong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.evaluation.report.curves import HEIGHT, Picture, pictures
from transformer.evaluation.report.run import Run
from transformer.evaluation.report.series import POINTS

WIDTH = 480
TITLES = ["Loss", "Perplexity", "BLEU of validation", "Learning rate", "Gradient norm", "Speed", "Memory"]


def run_of(name: str = "one", n: int = 40, seed: int = 1, **more: float) -> Run:
    draw = np.random.default_rng(seed)
    run = Run(Path(name), name)
    for step in range(1, n + 1):
        nll = 1 + 7 / step + draw.random() * 0.1
        run.updates.append(
            {
                "step": step * 50,
                "lr": 1e-3 / step,
                "nll_per_token": nll,
                "perplexity": np.exp(nll),
                "grad_norm": draw.random(),
                "tokens_per_second": 7000 + draw.random(),
                "memory_gib": 2.5,
                **more,
            }
        )
        if step % 10 == 0:
            run.validations.append(
                {"step": step * 50, "valid_nll_per_token": nll, "valid_bleu": step / 2, "valid_perplexity": np.exp(nll)}
            )
    return run


def drawn(runs: list[Run], intervals: list[dict[int, tuple[float, float]]] | None = None) -> dict[str, Picture]:
    return {picture.title: picture for picture in pictures(runs, intervals or [{} for _ in runs])}


def parsed(picture: Picture) -> ElementTree.Element:
    svg = ElementTree.fromstring(picture.markup)
    assert svg.get("role") == "img" and svg.get("aria-label")
    for element in svg.iter():
        assert not any(re.search("nan|inf", value) for value in element.attrib.values()), element.attrib
        for x, y in (point.split(",") for point in element.get("points", "").split()):
            assert 0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT
    return svg


def of_class(svg: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [element for element in svg.iter() if name in element.get("class", "").split()]


def test_every_figure_has_its_picture_and_what_is_not_known_has_none() -> None:
    assert list(drawn([run_of()])) == TITLES
    run = run_of()
    run.validations.clear()
    for line in run.updates:
        del line["memory_gib"]  # type: ignore[attr-defined]
    assert list(drawn([run])) == [title for title in TITLES if title not in ("BLEU of validation", "Memory")]
    assert drawn([Run(Path("x"), "x")]) == {}


def test_every_axis_has_a_title_and_some_round_ticks() -> None:
    for picture in drawn([run_of()]).values():
        svg = parsed(picture)
        texts = [element.text or "" for element in svg.iter("text") if element.get("class") is None]
        assert 4 <= len(texts) <= 16
        assert all(re.fullmatch(r"-?\d+(\.\d{1,2})?( [kMG])?", text) for text in texts), texts
        titles = [element.text or "" for element in of_class(svg, "title")]
        assert titles[0] == "updates" and len(titles) == 2


def test_the_interval_of_a_validation_is_a_band_and_the_best_has_its_value() -> None:
    svg = parsed(drawn([run_of()], [{500: (4.0, 6.0), 1000: (9.0, 11.0), 2000: (19.0, 21.0)}])["BLEU of validation"])
    [band] = of_class(svg, "area")
    assert len(band.get("points", "").split()) == 6
    assert [dot.findtext("title") for dot in of_class(svg, "dot-r1")] == [
        "500: 5 (4 to 6)",
        "1,000: 10 (9 to 11)",
        "1,500: 15",
        "2,000: 20 (19 to 21)",
    ]
    [ring] = of_class(svg, "ring")
    assert "20.00" in [element.text for element in svg.iter("text")]
    x, y = (float(place) for place in of_class(svg, "line")[0].get("points", "").split()[-1].split(","))
    assert (float(ring.get("cx", "")), float(ring.get("cy", ""))) == (x, y)


def test_several_runs_are_overlaid_in_colours_of_their_own_with_names_apart() -> None:
    runs = [run_of(f"a-very-long-name-of-run-{i}", 30 + i, seed=i) for i in range(6)]
    for title, picture in drawn(runs).items():
        svg = parsed(picture)
        for i in range(6):
            assert of_class(svg, f"r{i}"), (title, i)
        labels = sorted(float(text.get("y", "")) for text in of_class(svg, "label"))
        assert len(labels) == 6 and np.diff(labels).min() > 14 and labels[-1] < HEIGHT - 40
        for text in of_class(svg, "label"):
            assert float(text.get("x", "")) + 8.5 * len(text.text or "") <= WIDTH + 3


def test_a_curve_that_ends_early_is_led_to_its_name() -> None:
    svg = parsed(drawn([run_of("short", 20), run_of("long", 40)])["Speed"])
    assert [line.get("class") for line in of_class(svg, "leader")] == ["line r0 leader"]


@pytest.mark.parametrize("value", [0.0, 1e-7, 5.0, 1e12, -3.0])
def test_a_figure_that_never_changes_is_drawn(value: float) -> None:
    for picture in drawn([run_of(lr=value, grad_norm=value, perplexity=value, memory_gib=value)]).values():
        parsed(picture)


def test_ten_thousand_lines_are_a_small_picture() -> None:
    made = drawn([run_of(n=10_000)])
    assert sum(len(picture.markup) for picture in made.values()) < 120_000
    assert of_class(parsed(made["Gradient norm"]), "area") and "band" in made["Gradient norm"].caption


def test_validations_are_drawn_as_they_are_however_many() -> None:
    run = run_of(n=0)
    draw = np.random.default_rng(4)
    for step in range(1, 481):
        run.validations.append({"step": step, "valid_nll_per_token": 2 - step / 480, "valid_bleu": 30 + draw.random()})
    highest = max(run.validations, key=lambda line: line["valid_bleu"])
    alone = drawn([run])["BLEU of validation"]
    assert not of_class(parsed(alone), "area") and not alone.caption
    assert of_class(parsed(alone), "label")[0].text == f"{highest['valid_bleu']:.2f}"
    assert not of_class(parsed(drawn([run])["Loss"]), "area") and "band" not in drawn([run])["Loss"].caption
    known = dict.fromkeys(range(301, 481), (29.0, 31.5))
    svg = parsed(drawn([run], [known])["BLEU of validation"])
    [band], [line], [ring] = (of_class(svg, name) for name in ("area", "line", "ring"))
    assert len(band.get("points", "").split()) == 2 * len(known)
    places = line.get("points", "").split()
    assert len(places) == 480
    assert f"{float(ring.get('cx', '')):g},{float(ring.get('cy', '')):g}" == places[int(highest["step"]) - 1]


def test_as_many_lines_as_points_are_no_means() -> None:
    made = drawn([run_of(n=POINTS)])
    assert not any("mean of several" in picture.caption for picture in made.values())


@pytest.mark.parametrize("least", [5e-324, 1e-300, 1e-30, 0.0, -1e14])
def test_figures_far_apart_are_drawn(least: float) -> None:
    run = run_of()
    for lines, keys in ((run.updates, ("grad_norm", "lr", "perplexity")), (run.validations, ("valid_perplexity",))):
        for key in keys:
            lines[0][key], lines[1][key] = least, 1e14  # type: ignore[index]
    assert list(map(parsed, drawn([run]).values()))


@pytest.mark.parametrize(
    "names",
    [
        ["multi-a-longlongseed", "multi-b-longlongseed"],
        ["x", "multi-a-longlongseed", "multi-b-longlongseed"],
        ["a-very-long-name", "a-very-long-name-2"],
        ["\t", "‹TAB›"],
    ],
)
def test_no_two_labels_are_alike(names: list[str]) -> None:
    assert_labels_differ(names)


@given(st.lists(st.text("ab-", max_size=40), min_size=2, max_size=6, unique=True))
@settings(max_examples=50, deadline=None)
def test_no_two_labels_of_any_names_are_alike(names: list[str]) -> None:
    assert_labels_differ(names)


def assert_labels_differ(names: list[str]) -> None:
    runs = [Run(Path(name), name, updates=[{"step": 1, "lr": 1.0}, {"step": 2, "lr": 2.0}]) for name in names]
    labels = [text.text or "" for text in of_class(parsed(drawn(runs)["Learning rate"]), "label")]
    assert len(set(labels)) == len([name for name in names if name]) and max(map(len, labels)) <= 14


def test_names_are_only_text() -> None:
    hostile: Any = "</svg><script>\x00\ud800"
    for picture in drawn([run_of(hostile), run_of("b")]).values():
        parsed(picture)
