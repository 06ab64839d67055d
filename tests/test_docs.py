"""Documents name only what exists: files, functions, tests and settings; and docs/paper.md leaves nothing out."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from transformer.config import Settings
from transformer.config_file import load_config

ROOT = Path(__file__).resolve().parent.parent
NETWORK = ("masks", "attention", "layers", "embeddings", "encoder", "cache", "decoder", "model")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
HAND_WRITTEN = [ROOT / "docs" / name for name in ("paper.md", "scaling.md", "seed_repository.md")]
EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
EACH_HAND_WRITTEN = pytest.mark.parametrize("page", HAND_WRITTEN, ids=lambda page: page.name)

LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
OVERRIDE = re.compile(r"(data|vocabulary|model|train|translate)\.(?!py$)\w+(=\S+)?")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def local_links(page: Path) -> list[tuple[str, Path]]:
    """(text, file) of every link that stays in the repository."""
    return [
        (text, (page.parent / target.partition("#")[0]).resolve())
        for text, target in LINK.findall(text_of(page))
        if "://" not in target and not target.startswith("#")
    ]


@cache
def defined_names(file: Path) -> frozenset[str]:
    """Functions, classes and constants of a module, and its classes' methods and fields as Class.name."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        names |= _bound(node)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{name}" for inner in node.body for name in _bound(inner)}
    return frozenset(names)


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


@EACH_PAGE
def test_every_link_leads_to_a_file(page: Path) -> None:
    missing = [f"[{text}] → {file}" for text, file in local_links(page) if not file.exists()]
    assert not missing, f"{page.name} links to what is not there: {missing}"


@EACH_PAGE
def test_a_linked_name_is_defined_where_the_link_leads(page: Path) -> None:
    for text, file in local_links(page):
        if file.suffix == ".py" and (name := re.fullmatch(r"`([\w.]+)`", text)) and not name[1].endswith(".py"):
            assert name[1] in defined_names(file), f"{page.name}: {file.relative_to(ROOT)} does not define {name[1]}"


def test_every_file_that_the_paper_page_names_exists() -> None:
    """In the figure and in commands, too, where names are relative to the root, to transformer/ or to configs/."""
    without_links = LINK.sub(r"\1", text_of(ROOT / "docs" / "paper.md"))
    names = set(re.findall(r"[\w/]+\.(?:py|yaml|md)\b", without_links))
    assert {f"{module}.py" for module in NETWORK} <= names
    for name in names:
        places = [folder / name for folder in (ROOT, ROOT / "transformer", ROOT / "configs")]
        assert any(place.exists() for place in places), f"docs/paper.md names {name}"


@EACH_HAND_WRITTEN
def test_every_setting_that_is_named_exists_and_takes_the_value_given(page: Path) -> None:
    commands = [code.split() for code in CODE.findall(text_of(page))]
    commands = [words for words in commands if all(OVERRIDE.fullmatch(word) for word in words)]
    assert len(commands) > 5
    for words in commands:
        for word in words:
            section, key = word.partition("=")[0].split(".")
            assert key in type(getattr(Settings(), section)).model_fields, f"there is no setting {section}.{key}"
        load_config(ROOT / "configs" / "base.yaml", [word for word in words if "=" in word])


def test_every_section_of_the_paper_that_concerns_a_program_has_its_place() -> None:
    page = text_of(ROOT / "docs" / "paper.md")
    for section in (
        "3.1",
        "3.2.1",
        "3.2.2",
        "3.2.3",
        "3.3",
        "3.4",
        "3.5",
        "4",
        "5.1",
        "5.2",
        "5.3",
        "5.4",
        "6.1",
        "6.2",
    ):
        assert re.search(rf"^#+ §{re.escape(section)}\b", page, flags=re.MULTILINE), f"§{section} has no heading"
    for part in ("equation 1", "equation 2", "equation 3", "figure 1", "figure 2", "table 3"):
        assert part in page.lower(), f"{part} is not there"


@pytest.mark.parametrize("module", NETWORK)
def test_every_part_of_the_network_has_its_place_beside_the_paper(module: str) -> None:
    file = ROOT / "transformer" / f"{module}.py"
    linked = {text.strip("`") for text, target in local_links(ROOT / "docs" / "paper.md") if target == file}
    nodes = ast.parse(file.read_text(encoding="utf-8")).body
    parts = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"}
    assert parts <= {name.split(".")[0] for name in linked}, (
        f"docs/paper.md does not say what these are: {parts - linked}"
    )


def test_the_paper_page_holds_its_claims_by_tests() -> None:
    tests = {text for text, file in local_links(ROOT / "docs" / "paper.md") if file.name.startswith("test_")}
    assert len([text for text in tests if text.startswith("`test_")]) > 30


def test_the_checks_notice_a_name_that_is_gone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "module.py").write_text("class A:\n    b: int\n    def c(self): ...\nD = 1\n\ndef e(): ...\n")
    assert defined_names(tmp_path / "module.py") == {"A", "A.b", "A.c", "D", "e"}
    page.write_text("[`A.b`](module.py) [`gone`](module.py) [x](https://a.b/c) [y](#here) [z](gone.md#there)")
    assert [text for text, _ in local_links(page)] == ["`A.b`", "`gone`", "z"]
    with pytest.raises(AssertionError, match=re.escape("z")):
        test_every_link_leads_to_a_file(page)
