"""What was read and kept of each training corpus, and why the rest was not: the data behind funnel.html.j2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from data.report.findings import corpus_name
from data.report.visible import plain, shortened, shown

CORPORA = 20  # funnels; the smaller corpora beyond are a table

_COLOURS = 10  # classes c0 … c9 of page.css; all rarer reasons share a grey
_EXAMPLE_BYTES = 160_000  # of the page, for examples of dropped pairs

_Json = Mapping[str, Any]


def training_corpora(manifest: _Json) -> list[dict[str, Any]]:
    """What the manifest counts of each training corpus."""
    return list((manifest.get("counts") or {}).get("train") or [])


def funnels(manifest: _Json) -> dict[str, Any]:
    """For funnel.html.j2: each of the larger corpora, all of them together first, and the sizes of the others."""
    corpora = training_corpora(manifest)
    total: dict[str, int] = {}
    for corpus in corpora:
        for reason, n in (corpus.get("dropped") or {}).items():
            total[reason] = total.get(reason, 0) + n
    reasons = sorted((reason for reason in total if total[reason]), key=lambda reason: -total[reason])
    colours = {reason: f"c{i}" if i < _COLOURS else "rest" for i, reason in enumerate(reasons)}
    largest = sorted(corpora, key=lambda corpus: -corpus.get("read", 0))[:CORPORA]
    examples = _examples(manifest, largest)
    shown_ones = [
        _funnel(corpus, colours, examples.get(i, {})) for i, corpus in enumerate(corpora) if corpus in largest
    ]
    if len(corpora) > 1:
        read, kept = (sum(corpus.get(key, 0) for corpus in corpora) for key in ("read", "kept"))
        everything = {"name": "All corpora together", "read": read, "kept": kept, "dropped": total}
        shown_ones.insert(0, _funnel(everything, colours, {}))
    others = [
        (corpus_name(corpus), corpus.get("read", 0), corpus.get("kept", 0))
        for corpus in corpora
        if corpus not in largest
    ]
    return {"each": shown_ones, "others": others}


def _funnel(corpus: _Json, colours: Mapping[str, str], examples: Mapping[str, list[Any]]) -> dict[str, Any]:
    dropped = {reason: n for reason, n in (corpus.get("dropped") or {}).items() if n}
    read, kept = corpus.get("read", 0), corpus.get("kept", 0)
    rows = [
        {"reason": words(reason), "n": n, "colour": colours[reason], "examples": examples.get(reason, [])}
        for reason, n in sorted(dropped.items(), key=lambda item: -item[1])
    ]
    source = plain(str(corpus.get("source") or ""))
    name = corpus_name(corpus)
    n_dropped = sum(dropped.values())
    left = 100 * kept / read if read else 100.0
    return {
        "name": name,
        "source": "" if source == name else shortened(source, 200),
        "read": read,
        "kept": kept,
        "dropped": n_dropped,
        "left": round(left, 2),
        "rows": rows,
    }


def words(reason: str) -> str:
    """A name of the manifest as people write it."""
    return plain(reason).replace("_", " ")


def _examples(manifest: _Json, corpora: Sequence[_Json]) -> dict[int, dict[str, list[Any]]]:
    """Examples to show, by number of the corpus and by reason; of the frequent reasons first, while there is room."""
    given = manifest.get("examples") or {}
    groups = [
        (n, i, reason, (given.get(str(corpus.get("name"))) or {}).get(reason) or [])
        for i, corpus in enumerate(training_corpora(manifest))
        if corpus in corpora
        for reason, n in (corpus.get("dropped") or {}).items()
    ]
    found: dict[int, dict[str, list[Any]]] = {}
    room = _EXAMPLE_BYTES
    for _, i, reason, pairs in sorted(groups, key=lambda group: -group[0]):
        for pair in pairs[:5]:
            sides = [
                shown(str(pair.get(side) or ""), language=str(manifest.get(f"{side}_lang") or ""))
                for side in ("src", "tgt")
            ]
            room -= sum(map(len, sides)) + 150
            if room > 0:
                found.setdefault(i, {}).setdefault(reason, []).append((pair.get("place"), *sides))
    return found
