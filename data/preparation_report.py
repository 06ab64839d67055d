"""What preprocess.py tells about the data it made: a table, sizes, and what is odd."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from data.filters import REASONS


def describe(manifest: dict[str, Any]) -> str:
    """A page for people about the manifest of `prepared/NAME`."""
    return "\n".join([*_table(manifest["counts"]["train"]), "", *_facts(manifest), *_warnings(manifest)])


def _table(corpora: list[dict[str, Any]]) -> Iterator[str]:
    rows = [_row(corpus) for corpus in corpora]
    if len(rows) > 1:
        rows.append([*(sum(column) for column in zip(*(row[:-1] for row in rows), strict=True)), "all"])
    titles = ["read", "kept", *(reason.replace("_", " ") for reason in REASONS)]
    for row in [[*titles, "training corpus (pairs)"], *rows]:
        yield "  ".join([*(f"{cell:>12,}" if isinstance(cell, int) else f"{cell:>12}" for cell in row[:-1]), row[-1]])


def _row(corpus: dict[str, Any]) -> list[Any]:
    return [corpus["read"], corpus["kept"], *(corpus["dropped"][reason] for reason in REASONS), corpus["source"]]


def _facts(manifest: dict[str, Any]) -> Iterator[str]:
    counts, tokens = manifest["counts"], manifest["tokens"]["train"]
    n_kept = sum(corpus["kept"] for corpus in counts["train"])
    languages = {side: manifest[f"{side}_lang"] for side in ("src", "tgt")}
    yield f"validation  {counts['valid']:,} pairs"
    for name, n_pairs in counts["test"].items():
        yield f"test        {n_pairs:,} pairs  {name}"
    sizes = manifest["vocabulary_size"]
    if manifest["settings"]["vocabulary"]["joint"]:
        yield f"vocabulary  {sizes['src']:,} pieces, joint"
    else:
        yield f"vocabulary  {languages['src']} {sizes['src']:,} pieces, {languages['tgt']} {sizes['tgt']:,} pieces"
    for side, language in languages.items():
        yield f"training    {language} {tokens[side]:,} tokens, {tokens[side] / n_kept:.1f} per sentence"


def _warnings(manifest: dict[str, Any]) -> Iterator[str]:
    counts, also_in_train = manifest["counts"], manifest["also_in_train"]
    sets = [("validation", counts["valid"], also_in_train["valid"])]
    sets += [(f"test set {name}", n_pairs, also_in_train["test"][name]) for name, n_pairs in counts["test"].items()]
    for name, n_pairs, n_leaked in sets:
        if n_leaked:
            yield (
                f"warning: {n_leaked:,} of {n_pairs:,} source sentences of {name} are in the training text, too; "
                "scores on them say little"
            )
