from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import lxml.html
import pytest

from data.report.page import page, save_page
from data.statistics import Statistics

ROOT = Path(__file__).resolve().parents[3]
SECTIONS = {
    "counts": "kept",
    "duplicates": "duplicates",
    "contamination": "contamination",
    "drift": "drift",
    "languages": "languages",
}
HOSTILE = "<script>alert(1)</script><img src=x onerror=y>\"'&amp;\u202e\x1b\x00\ud800{{ 7*7 }}</style>]]>"


def parsed(manifest: dict[str, Any]) -> lxml.html.HtmlElement:
    return lxml.html.document_fromstring(page(manifest))


def text_of(manifest: dict[str, Any]) -> str:
    return " ".join(parsed(manifest).text_content().split())


def assert_closed_to_the_world(made: str) -> None:
    document = lxml.html.document_fromstring(made)
    assert not document.xpath("//script | //link | //img | //iframe | //object | //form | //@src | //@onerror")
    assert all(link.startswith("#") for link in document.xpath("//@href"))
    assert not re.search(r"url\(|@import|https?://", made)


def test_the_page_tells_the_numbers_of_the_manifest(manifest: dict[str, Any]) -> None:
    text = text_of(manifest)
    for words in (
        *("4,156", "3,500", "1 min 11 s", "3,456 read, 3,000 kept (86.8 %)", "too long"),
        *("the copied source", "the copied target", "pair · exact", "2,737", "fr 50 (1.7 %)", "from line 2,012 on"),
    ):
        assert words in text


def test_the_page_is_written_into_the_directory(manifest: dict[str, Any], tmp_path: Path) -> None:
    path = save_page(tmp_path, manifest)
    assert path == tmp_path / "report.html" and path.read_text("utf-8") == page(manifest)


def test_the_page_needs_nothing_from_outside(manifest: dict[str, Any]) -> None:
    assert_closed_to_the_world(page(manifest))


@pytest.mark.parametrize("part", [*SECTIONS, "examples", "statistics", "statistics_all", "settings", "vocabulary_size"])
def test_what_the_manifest_lacks_is_left_out(manifest: dict[str, Any], part: str) -> None:
    lacking = {name: value for name, value in manifest.items() if name != part}
    for smaller in (lacking, {**lacking, part: {}}, {**lacking, part: None}):
        document = parsed(smaller)
        assert not document.xpath(f"//section[@id='{SECTIONS.get(part, 'none')}']")
        links = [link.removeprefix("#") for link in document.xpath("//nav/a/@href")]
        assert links == document.xpath("//section/@id")


def test_what_the_manifest_has_is_there(manifest: dict[str, Any]) -> None:
    sections = ["kept", "lengths", "vocabulary", "duplicates", "contamination", "drift", "languages", "made"]
    assert parsed(manifest).xpath("//section/@id") == sections


def test_a_manifest_of_nothing_makes_a_page() -> None:
    assert "source" in text_of({})


def test_a_corpus_of_which_nothing_was_kept_makes_a_page() -> None:
    nothing = {"name": "a", "read": 0, "kept": 0, "dropped": {}}
    made = page({"counts": {"train": [nothing]}, "statistics": {"a": Statistics().to_json()}})
    assert "0 read, 0 kept (–)" in made


def spoil(tree: Any) -> Any:
    """The same with hostile text in place of every text, and at every name that comes from outside."""
    if isinstance(tree, dict):
        return {name: spoil(branch) for name, branch in tree.items()}
    if isinstance(tree, list):
        return [spoil(branch) for branch in tree]
    return HOSTILE if isinstance(tree, str) else tree


def test_hostile_text_stays_text_wherever_it_stands(manifest: dict[str, Any]) -> None:
    outside = {
        name: spoil(manifest[name]) for name in ("src_lang", "counts", "examples", "drift", "sources", "settings")
    }
    names = {
        "contamination": {HOSTILE: manifest["contamination"]["wmt14"]},
        "languages": {HOSTILE: {"src": {HOSTILE: 5}}},
        "duplicates": {HOSTILE: {HOSTILE: 3}},
        "statistics": {HOSTILE: manifest["statistics"]["news"], "b": manifest["statistics"]["books"]},
        "examples": {HOSTILE: {"copied": [{"place": HOSTILE, "src": HOSTILE, "tgt": HOSTILE}]}},
    }
    hostile = {**manifest, **outside, **names}
    hostile["counts"]["train"][0]["dropped"][HOSTILE] = 7
    made = page(hostile)
    assert_closed_to_the_world(made)
    assert "7*7" in made
    for character in "\u202e\x1b\x00\ud800":
        assert character not in made
    assert len(lxml.html.document_fromstring(made).xpath("//style")) == 1


def test_a_page_about_very_much_stays_small(manifest: dict[str, Any]) -> None:
    reasons = [f"reason_{i}" for i in range(20)]
    names = [f"corpus number {i}" for i in range(100)]
    pair = {"place": 123_456_789, "src": "<&>\x00" * 5000, "tgt": "word " * 5000}
    manifest["counts"]["train"] = [
        {"name": name, "source": "s" * 100, "read": 10**9, "kept": 10**8, "dropped": dict.fromkeys(reasons, 10**7)}
        for name in names
    ]
    manifest["examples"] = {name: dict.fromkeys(reasons, [pair] * 5) for name in names}
    manifest["statistics"] = dict.fromkeys(names, manifest["statistics"]["news"])
    curve = {"places": list(range(20_000)), "agreement": [0.5] * 20_000, "findings": ["line 3"] * 1000}
    mix = {"src": {f"l{i}": 5 for i in range(90)}, "tgt": {"de": 7}}
    manifest["drift"] = dict.fromkeys(names, curve)
    manifest["languages"] = dict.fromkeys(names, mix)
    manifest["sources"] = {"train": [{"path": "p" * 200}] * 150}
    assert len(page(manifest).encode()) < 500_000


def test_pictures_speak_and_details_open_without_script(manifest: dict[str, Any]) -> None:
    document = parsed(manifest)
    pictures = document.xpath("//*[local-name()='svg'][not(ancestor-or-self::*[@aria-hidden])]")
    assert len(pictures) >= 4 and all(one.get("role") == "img" and one.get("aria-label") for one in pictures)
    assert document.get("lang") == "en"
    for example in document.xpath("//ul[@class='examples']/li/bdi"):
        assert example.get("lang") in ("en", "de") and example.getparent().getparent().getparent().tag == "details"
    headings = [int(one.tag[1]) for one in document.xpath("//h1 | //h2 | //h3")]
    assert headings[0] == 1 and all(b - a <= 1 for a, b in pairwise(headings))


def test_every_class_of_the_page_has_its_style(manifest: dict[str, Any]) -> None:
    made = page(manifest)
    styled = set(re.findall(r"\.([a-z][\w-]*)", re.search(r"<style>(.*?)</style>", made, re.S)[1]))  # type: ignore[index]
    used = {name for names in re.findall(r'class="([^"]*)"', made) for name in names.split()}
    assert used - styled == set()


def test_the_template_travels_with_the_package() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    packed = setuptools.get("package-data", {}).get("data.report", [])
    for file in (ROOT / "data" / "report").iterdir():
        if file.is_file() and file.suffix != ".py":
            assert any(file.match(pattern) for pattern in packed), f"{file.name} is not among the package data"
