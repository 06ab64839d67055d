"""The page in a real browser: no request, no error, every picture there, nothing cut off, on a desk and on a phone."""

from __future__ import annotations

import html
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lxml.html
import pytest
from matplotlib import image

from transformer.evaluation.report import save_report

from .conftest import add_model, write_run

pytestmark = pytest.mark.browser

QUIET = [f"--{flag}" for flag in ("no-sandbox", "disable-gpu", "disable-background-networking", "no-first-run")]
NOWHERE = "--proxy-server=127.0.0.1:9"  # no request, of the page or of the browser itself, leaves the machine

# Measures each page from outside, as it allows no script inside.
MEASURE = """
const measured = [...document.querySelectorAll("iframe")].map(frame => {
  const page = frame.contentDocument, box = e => e.getBoundingClientRect();
  page.querySelectorAll("details").forEach(e => { e.open = true; });
  const pictures = [...page.querySelectorAll("svg[role=img]")];
  const whole = pictures.filter(svg => !svg.closest(".attention"));  // that one may be scrolled
  const cut = whole.flatMap(svg => [...svg.querySelectorAll("text")].filter(text => {
    const [a, b] = [box(text), box(svg.closest("figure") || svg)];
    return a.left < b.left - 2 || a.right > b.right + 2 || a.top < b.top - 2 || a.bottom > b.bottom + 2;
  })).map(text => text.textContent);
  return { width: frame.clientWidth, needed: page.documentElement.scrollWidth, n_pictures: pictures.length, cut,
           small: pictures.filter(svg => box(svg).width < 150 || box(svg).height < 50).length };
});
document.body.textContent = JSON.stringify(measured);
"""


@dataclass(frozen=True)
class Opened:
    """What a browser made of a page."""

    requests: list[str]  # to any host, by the page
    console: list[str]
    content: str


def browse(page: Path, folder: Path, *options: str) -> Opened:
    log = folder / "net.json"
    command = [
        "chromium",
        "--headless",
        *QUIET,
        NOWHERE,
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={log}",
    ]
    command += ["--enable-logging=stderr", "--virtual-time-budget=3000", *options, page.resolve().as_uri()]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=120, check=True)
    return Opened(_requests(log), re.findall(r"CONSOLE.*", done.stderr), done.stdout)


def _requests(log: Path) -> list[str]:
    """What the page asked for; the browser's own requests have no page that they come from."""
    told = json.loads(log.read_text(encoding="utf-8", errors="replace"))
    kind = told["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    asked = [event["params"] for event in told["events"] if event["type"] == kind and "url" in event.get("params", {})]
    return [one["url"] for one in asked if one.get("initiator") != "not an origin"]


def measure(page: Path, folder: Path, *widths: int) -> list[dict[str, Any]]:
    """The page in frames of these widths; a window cannot be as narrow as a phone."""
    source = html.escape(page.read_text("utf-8"))
    style = "height:900px;border:0;width:{}px"
    frames = "".join(f'<iframe srcdoc="{source}" style="{style.format(width)}"></iframe>' for width in widths)
    host = folder / "host.html"
    host.write_text(f"<!DOCTYPE html><body>{frames}<script>onload = () => {{{MEASURE}}}</script></body>", "utf-8")
    text = lxml.html.document_fromstring(browse(host, folder, "--dump-dom").content).text_content()
    found: list[dict[str, Any]] = json.loads(text[text.index("[{") : text.rindex("]") + 1])
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """About one run, and about two."""
    folder = tmp_path_factory.mktemp("pages")
    run = write_run(folder)
    other = write_run(folder, "a-run-with-a-long-name", worse=0.3, train={"lr": 0.5})
    add_model(run)
    return [save_report([run]), save_report([run, other])]


def test_pages_open_without_a_request_or_an_error(pages: list[Path], tmp_path: Path) -> None:
    for page in pages:
        opened = browse(page, tmp_path, "--dump-dom")
        assert (opened.requests, opened.console) == ([], [])
        assert "</svg>" in opened.content


def test_a_page_that_asks_or_complains_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<body><img src='http://host.example/x.png'><script>console.error('complaint')</script>")
    opened = browse(page, tmp_path, "--dump-dom")
    assert opened.requests == ["http://host.example/x.png"] and "complaint" in opened.console[0]


def test_every_picture_is_there_and_nothing_is_cut_off_on_a_desk_and_on_a_phone(
    pages: list[Path], tmp_path: Path
) -> None:
    for page, n_pictures in zip(pages, (7 + 2 + 1, 7 + 1 + 1), strict=True):
        for found in measure(page, tmp_path, 360, 1200):
            assert found["needed"] <= found["width"]  # nothing to scroll sideways but tables in their boxes
            assert (found["n_pictures"], found["cut"], found["small"]) == (n_pictures, [], 0)


@pytest.mark.parametrize(("scheme", "paper"), [(1, (0xFB, 0xFA, 0xF7)), (0, (0x16, 0x18, 0x1C))])
def test_the_page_is_light_or_dark_as_the_reader_likes(
    pages: list[Path], tmp_path: Path, scheme: int, paper: tuple[int, int, int]
) -> None:
    shot = tmp_path / "shot.png"
    wanted = f"--blink-settings=preferredColorScheme={scheme}"
    browse(pages[0], tmp_path, wanted, "--window-size=1200,3000", f"--screenshot={shot}")
    pixels = (image.imread(shot)[:, :, :3] * 255).round()
    assert tuple(pixels[2, 2]) == paper
    assert pixels.std(axis=(0, 1)).min() > 5  # ink on it
