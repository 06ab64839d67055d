"""The page tells what there is, needs nothing from outside, and shows any text as text."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import lxml.html
import pytest

from data.lines import write_lines
from transformer.errors import ConfigError, RunError
from transformer.evaluation.report import draw_report, save_report
from transformer.evaluation.report.page import MOST_RUNS, page
from transformer.evaluation.report.run import read_run
from transformer.evaluation.results import load_evaluation, load_sentences, save_evaluation

from .conftest import N_SENTENCES, MakeRun, add_model

ROOT = Path(__file__).resolve().parents[4]
HOSTILE = "<script>alert(1)</script><img src=x onerror=y>\"'&amp;\u202e\x1b\x00\ud800{{ 7*7 }}</style>]]>"
ARABIC, HEBREW, CHINESE = "الكلب يرى القط", "הכלב רואה את החתול", "那只狗看见了猫"


def document(path: Path) -> lxml.html.HtmlElement:
    return lxml.html.document_fromstring(path.read_text("utf-8"))


def assert_closed_to_the_world(path: Path) -> None:
    made = document(path)
    assert not made.xpath("//script | //link | //img | //iframe | //object | //form | //@src | //@onerror")
    assert all(link.startswith("#") for link in made.xpath("//@href"))
    assert all(made.xpath(f"//*[@id='{link[1:]}']") for link in made.xpath("//@href"))
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", path.read_text("utf-8"))


def words(path: Path) -> str:
    return " ".join(document(path).body.text_content().split())


def test_the_page_of_a_run_tells_everything(make_run: MakeRun) -> None:
    run = make_run()
    add_model(run)
    path = save_report([run])
    assert path == run / "report.html"
    told = words(path)
    for said in (
        *("en→de", "Finished after 300 updates", "BLEU of validation", "10 min", "1.2 M target tokens"),
        *("news/2024", "nrefs:1|tok:13a", "2 copied", "100 to 300", "Lengths", "Confidence", "The best", "The worst"),
        *("1,000 read, 900 kept", "too long", "train.max_steps", "Some Processor", "commit 0123456789ab with changes"),
        f"train.py --reproduce {run}",
    ):
        assert said in told, said
    assert len(document(path).xpath("//figure//*[local-name()='svg']")) == 7 + 2 + 1  # curves, clouds, attention
    assert_closed_to_the_world(path)


def test_several_runs_are_on_a_page_of_their_own(make_run: MakeRun) -> None:
    runs = [make_run("a"), make_run("b", worse=0.3, train={"lr": 0.5}), make_run("c", worse=0.1)]
    path = save_report(runs)
    assert path == runs[0] / "report-vs-b-c.html"
    told = words(path)
    for said in ("a and b", "a and c", "b better than a", "paired bootstrap", "train.lr", "of validation"):
        assert said in told
    assert_closed_to_the_world(path)
    assert save_report(runs[:2], runs[0] / "here.html") == runs[0] / "here.html"


def test_runs_of_one_name_are_told_apart_by_their_paths(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    copy = tmp_path / "elsewhere" / "tiny"
    shutil.copytree(run, copy)
    path = save_report([run, copy], tmp_path / "page.html")
    assert str(copy) in words(path) and str(run) in words(path)


def test_too_many_runs_and_one_named_twice_are_refused(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run(f"r{i}") for i in range(MOST_RUNS + 1)]
    with pytest.raises(ConfigError, match="7 runs: at most 6"):
        save_report(runs)
    with pytest.raises(ConfigError, match="named twice"):
        save_report([runs[0], runs[0] / "."])
    with pytest.raises(RunError, match="there is no such folder"):
        save_report([runs[0], tmp_path / "none"])


def test_hostile_text_is_shown_as_text(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(HOSTILE.replace("/", "").replace("\x00", "").replace("\ud800", ""))
    evaluation = load_evaluation(run / "translations", "news/2024")
    rows = load_sentences(run / "translations", evaluation)
    (run / "translations" / "news%2F2024.json").unlink()
    text = HOSTILE.replace("\ud800", "")
    rows[:] = [replace(row, src=text, hypothesis=f"{text} {row.hypothesis}", references=[text]) for row in rows]
    flaws = {text: [1], "empty": []}
    breakdown = {text: [replace(bucket, label=text) for bucket in evaluation.breakdown["source length"]]}
    metrics = {key: replace(figure, signature=text) for key, figure in evaluation.metrics.items()}
    name = text.replace("\x00", "")
    told = replace(evaluation, test_set=name, shares=flaws, breakdown=breakdown, metrics=metrics, note=text)
    save_evaluation(run / "translations", told, rows)
    write_lines(run / "validation" / "step-00000300.tsv", [f"1.0\t{text}"] * N_SENTENCES)
    (run / "record.json").write_text(
        json.dumps({"environment": {"processes": HOSTILE, "versions": {HOSTILE: HOSTILE}}})
    )
    (run / "choices.json").write_text(json.dumps({"precision": HOSTILE}))
    other = make_run("other")
    for runs in ([run], [run, other], [other, run]):
        path = save_report(runs, tmp_path / "page.html")
        assert_closed_to_the_world(path)
        made = path.read_text("utf-8")
        assert "{{ 7*7 }}" in words(path)
        assert "<script>alert" in words(path) and not re.search("[\x00-\x08\x0b-\x1f\u202e]", made)
        assert len(document(path).xpath("//style")) == 1


@pytest.mark.parametrize("text", [ARABIC, HEBREW, CHINESE])
def test_text_runs_in_the_direction_of_its_script(make_run: MakeRun, text: str) -> None:
    run = make_run(src=text)
    made = document(save_report([run]))
    for element in made.xpath("//bdi"):
        assert element.get("dir") == "auto" and element.get("lang") in ("en", "de")
    assert text in made.xpath("string(//section[@id='samples'])")


def test_a_long_run_makes_a_small_page(make_run: MakeRun) -> None:
    run = make_run()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    updates, validations = ([line for line in lines if ("lr" in line) == is_update] for is_update in (True, False))
    long = [json.dumps(updates[i % len(updates)] | {"step": 10 * i}) for i in range(1, 10_001)]
    long += [json.dumps(validations[i % 3] | {"step": 1000 * i}) for i in range(1, 101)]
    (run / "metrics.jsonl").write_text("\n".join([*long, ""]))
    for i in range(1, 101):
        shutil.copy(run / "validation" / "step-00000200.tsv", run / "validation" / f"step-{1000 * i:08d}.tsv")
    assert save_report([run]).stat().st_size < 300_000


def test_every_class_of_the_page_has_its_style(make_run: MakeRun) -> None:
    runs = [make_run(f"r{i}", worse=i / 20) for i in range(MOST_RUNS)]
    add_model(runs[0])
    for some in (runs[:1], runs):
        made = save_report(some).read_text("utf-8")
        styles = re.search(r"<style>(.*?)</style>", made, re.S)
        assert styles is not None
        styled = set(re.findall(r"\.([a-z][\w-]*)", styles[1]))
        used = {name for names in re.findall(r'class="([^"]*)"', made) for name in names.split()}
        assert used - styled == set()


def test_pictures_speak_and_headings_follow_each_other(make_run: MakeRun) -> None:
    made = document(save_report([make_run("a"), make_run("b", worse=0.2)]))
    pictures = made.xpath("//*[local-name()='svg'][not(ancestor-or-self::*[@aria-hidden])]")
    assert len(pictures) >= 7 and all(one.get("role") == "img" and one.get("aria-label") for one in pictures)
    headings = [int(one.tag[1]) for one in made.xpath("//h1 | //h2 | //h3")]
    assert headings[0] == 1 and all(b - a <= 1 for a, b in pairwise(headings))


def test_while_a_run_trains_its_page_is_quick_and_never_in_the_way(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    assert draw_report(run, thorough=False) == ""
    made = words(run / "report.html")
    assert "Through time" in made and "Attention" not in made
    assert "there is no such folder" in draw_report(tmp_path / "none", thorough=False)
    (run / "report.html").unlink()
    (run / "report.html").mkdir()
    assert "report.html" in draw_report(run, thorough=False)


def test_a_model_that_cannot_be_read_costs_the_picture_of_it(make_run: MakeRun) -> None:
    run = make_run()
    (run / "model").mkdir()
    assert "no picture of attention" in page([read_run(run)], thorough=True)


def test_the_template_travels_with_the_package() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert "transformer.evaluation.report" in setuptools["packages"]
    packed = setuptools["package-data"]["transformer.evaluation.report"]
    for file in (ROOT / "transformer" / "evaluation" / "report").iterdir():
        if file.is_file() and file.suffix != ".py":
            assert any(file.match(pattern) for pattern in packed), f"{file.name} is not among the package data"
