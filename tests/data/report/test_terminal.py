from __future__ import annotations

import re
from typing import Any

import pytest

from data.report.terminal import describe


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def test_the_table_has_a_column_for_each_reason_that_occurred_and_adds_up(manifest: dict[str, Any]) -> None:
    lines = describe(manifest).splitlines()
    assert cells(lines[0]) == ["read", "kept", "copied", "too long", "training corpus (pairs)"]
    assert cells(lines[1]) == ["3,456", "3,000", "456", "0", "news"]
    assert cells(lines[3]) == ["4,156", "3,500", "469", "187", "all"]
    assert len({line.index(name) for line, name in zip(lines, ["training", "news", "books", "all"], strict=False)}) == 1


def test_many_reasons_and_long_names_keep_within_the_terminal() -> None:
    dropped = {f"reason_number_{i}": 10**i for i in range(9)}
    name = "/very/long/path" * 20 + "/corpus.en"
    corpora = [{"name": name, "read": 2 * 10**9, "kept": 1, "dropped": dropped}] * 2
    text = describe({"counts": {"train": corpora}})
    assert all(len(line) <= 120 for line in text.splitlines())
    table = text.split("\nwarning")[0]
    assert "…" in table and "corpus.en" in table
    for i in range(9):
        assert f"reason number {i}" in table and f"{10**i:,}" in table and f"{2 * 10**i:,}" in table


def test_facts_and_warnings_follow(manifest: dict[str, Any]) -> None:
    text = describe(manifest)
    for fact in ("1,014 pairs", "2,737 pairs  wmt14", "8,000 pieces, joint", "en 52,000 tokens, 14.9 per sentence"):
        assert fact in text
    assert text.index("error: news") < text.index("warning: test set wmt14")


def test_two_vocabularies_are_told_apart(manifest: dict[str, Any]) -> None:
    manifest["settings"]["vocabulary"]["joint"] = False
    assert "en 8,000 pieces, de 8,000 pieces" in describe(manifest)


@pytest.mark.parametrize("missing", ["counts", "statistics", "tokens", "settings", "contamination", "drift", "seconds"])
def test_what_the_manifest_lacks_is_left_out(manifest: dict[str, Any], missing: str) -> None:
    for empty in ({}, None):
        assert describe({**manifest, missing: empty})
    del manifest[missing]
    assert describe(manifest)


def test_nothing_known_is_nothing_said() -> None:
    assert describe({}) == ""


def test_names_cannot_drive_the_terminal() -> None:
    corpora = [{"name": "\x1b[2Jevil\u202e", "read": 1, "kept": 1, "dropped": {"a\x07b": 1}}]
    text = describe({"counts": {"train": corpora, "test": {"x\x1b": 1}}, "drift": {"\x1b": {"findings": ["\x1b"]}}})
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text and "‹ESC›" in text
