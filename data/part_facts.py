"""What parts say of themselves (numbers read and dropped, examples, languages …), added up, one part at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from data.language_mix import LanguageMix
from data.part_making import EXAMPLES
from data.parts import Facts


def add_facts(parts: Iterable[Facts]) -> Facts:
    """What several parts say, together: numbers are added, of examples the first are kept."""
    n_read = 0
    dropped: Counter[str] = Counter()
    examples: dict[str, list[Any]] = {}
    agreement: list[Any] = []
    languages: dict[str, dict[str, int]] = {}
    contamination: Facts = {"found": [], "pairs": {}}
    for part in parts:
        n_read += part.get("read", 0)
        dropped.update(part["dropped"])
        for reason, found in part["examples"].items():
            examples[reason] = [*examples.get(reason, []), *found][:EXAMPLES]
        agreement += part.get("agreement", [])
        languages = LanguageMix.add([languages, part.get("languages", {})])
        if "contamination" in part:
            contamination = add_contamination([contamination, part["contamination"]])
    return {
        "read": n_read,
        "dropped": dict(dropped),
        "examples": examples,
        "agreement": agreement,
        "languages": languages,
        "contamination": contamination,
    }


def add_contamination(parts: Iterable[Facts]) -> Facts:
    """The held-out lines that were found in any part; and for each set, how many pairs match it, by kind."""
    lines: set[int] = set()
    pairs: dict[str, Counter[str]] = {}
    for part in parts:
        lines.update(part["found"])
        for name, kinds in part["pairs"].items():
            pairs.setdefault(name, Counter()).update(kinds)
    return {"found": sorted(lines), "pairs": pairs}
