"""`report.html`: what was read, kept and made, as one page that needs no network, no script and no foreign font."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from data.atomic import whole_file
from data.report import drawing
from data.report.drawing import Curve
from data.report.findings import (
    contamination_verdict,
    drift_findings,
    findings,
    percent,
    set_size,
    set_title,
)
from data.report.funnel import CORPORA, funnels, training_corpora, words
from data.report.template import load_template
from data.report.visible import plain
from data.statistics import Statistics

PAGE = "report.html"

_PICTURES = 6  # corpora with pictures of their own
_SETTINGS_CHARACTERS = 20_000
_LANGUAGES = 6  # of each text by name
_MARKS, _DRIFT_TEXTS = 30, 8  # of one corpus

_Json = Mapping[str, Any]


def save_page(directory: Path, manifest: _Json) -> Path:
    """Write `report.html` about this manifest into the directory; its path. Raises OSError as `whole_file`."""
    path = directory / PAGE
    with whole_file(path) as stream:
        stream.write(page(manifest).encode("utf-8", "replace"))
    return path


def page(manifest: _Json) -> str:
    """The page as HTML. Parts that the manifest lacks are left out."""
    totals = _totals(manifest)
    return load_template("page.html.j2", "data.report").render(
        src=str(manifest.get("src_lang") or "source"),
        tgt=str(manifest.get("tgt_lang") or "target"),
        head=list(_head(manifest, totals)),
        findings=findings(manifest),
        funnels=funnels(manifest),
        lengths=_lengths(manifest, totals),
        vocabulary=_vocabulary(manifest, totals),
        duplicates=list(_flat(manifest.get("duplicates") or {})),
        contamination=list(_contamination(manifest)),
        drift=list(_drift(manifest)),
        languages=list(_languages(manifest)),
        texts=list(_texts(manifest)),
    )


def _totals(manifest: _Json) -> Statistics | None:
    """Of all corpora together; a sum of what is told of each knows nothing of single pieces."""
    if written := manifest.get("statistics_all"):
        return Statistics.from_json(written)
    each = [Statistics.from_json(written) for written in (manifest.get("statistics") or {}).values()]
    if len(each) == 1:
        return each[0]
    return sum(each, Statistics()) if each else None


# --- head ---


def _head(manifest: _Json, totals: Statistics | None) -> Iterator[tuple[str, str, str]]:
    """(number, what it counts, remark)."""
    corpora = training_corpora(manifest)
    read, kept = (sum(corpus.get(key, 0) for corpus in corpora) for key in ("read", "kept"))
    if corpora:
        n = len(corpora)
        yield f"{read:,}", "pairs read", f"from {n:,} {'corpus' if n == 1 else 'corpora'}"
        yield f"{kept:,}", "pairs kept", percent(kept, read)
    if totals and totals.pairs:
        for side, counts in (("src", totals.src), ("tgt", totals.tgt)):
            per_pair = f"{counts.words / totals.pairs:.1f} a sentence"
            yield f"{counts.words:,}", f"words of {manifest.get(f'{side}_lang') or side}", per_pair
    if sizes := manifest.get("vocabulary_size"):
        joint = _settings(manifest, "vocabulary").get("joint")
        both = f"{sizes['src']:,}" if joint else f"{sizes['src']:,} + {sizes['tgt']:,}"
        yield both, "pieces", "one vocabulary for both" if joint else "two vocabularies" if joint is not None else ""
    if seconds := manifest.get("seconds"):
        yield _duration(float(seconds)), "to prepare", f"{read / seconds:,.0f} pairs a second" if read else ""


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _settings(manifest: _Json, section: str) -> _Json:
    found = (manifest.get("settings") or {}).get(section)
    return found if isinstance(found, Mapping) else {}


# --- lengths and vocabulary ---


def _lengths(manifest: _Json, totals: Statistics | None) -> list[dict[str, Any]]:
    """Pictures of all text together, then of each corpus."""
    written = manifest.get("statistics") or {}
    drawn = [("", totals)]
    if len(written) > 1:
        drawn += [(name, Statistics.from_json(one)) for name, one in list(written.items())[:_PICTURES]]
    return [_length_pictures(manifest, name, one) for name, one in drawn if one and one.pairs]


def _length_pictures(manifest: _Json, name: str, statistics: Statistics) -> dict[str, Any]:
    src, tgt = (plain(str(manifest.get(f"{side}_lang") or side)) for side in ("src", "tgt"))
    return {
        "name": plain(name),
        "pairs": statistics.pairs,
        "histogram": drawing.length_histogram(
            [(src, "src", statistics.src.lengths), (tgt, "tgt", statistics.tgt.lengths)]
        ),
        "joint": drawing.joint_lengths(statistics.joint_lengths, src, tgt),
        "ratio": statistics.tgt.pieces / max(statistics.src.pieces, 1),
    }


def _vocabulary(manifest: _Json, totals: Statistics | None) -> dict[str, Any] | None:
    if not totals or not totals.pairs:
        return None
    sides = {side: plain(str(manifest.get(f"{side}_lang") or side)) for side in ("src", "tgt")}
    corpora = list((manifest.get("statistics") or {}).items())[:CORPORA]
    written = {plain(name): Statistics.from_json(one) for name, one in corpora}
    rows = [
        {"corpus": name, "language": language, "style": side, "side": getattr(statistics, side)}
        for name, statistics in [("all", totals), *(written.items() if len(written) > 1 else [])]
        for side, language in sides.items()
    ]
    use = list(_uses(manifest, totals, sides))
    curves = [_curve(one["name"], one["style"], one["summary"]) for one in use]
    known = [curve for curve in curves if len(curve.x)]
    return {"rows": rows, "use": use, "curve": drawing.piece_curves(known) if known else None}


def _uses(manifest: _Json, totals: Statistics, sides: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """How much of each vocabulary occurs, and how often: of both languages together too, where they share one."""
    sizes = manifest.get("vocabulary_size") or {}
    joint = bool(_settings(manifest, "vocabulary").get("joint"))
    written = totals.to_json()
    summaries = {side: written[side]["vocabulary"] for side in sides}
    names = dict(sides)
    if joint:
        summaries, names = {"both": written["vocabulary"], **summaries}, {"both": "both together", **names}
    for style, summary in summaries.items():
        if summary:
            side = "tgt" if style == "tgt" else "src"
            size = int(sizes.get(side) or 0) - written[side]["first_piece"]
            never = max(size - summary["used"], 0) if sizes else 0
            often = summary["used_often"]
            parts = [("often", often, "100 times or more"), ("seldom", summary["used"] - often, "1 to 99 times")]
            parts.append(("never", never, "never"))
            yield {"name": names[style], "style": style, "summary": summary, "parts": parts}


def _curve(name: str, style: str, summary: _Json) -> Curve:
    ranks, counts = (np.array(summary["curve"][part].split(), np.float64) for part in ("ranks", "counts"))
    return Curve(name, style, ranks, counts)


# --- the rest ---


def _flat(tree: Any, *path: str) -> Iterator[tuple[str, int]]:
    """Numbers in a tree of dicts, each with the words that lead to it."""
    if isinstance(tree, Mapping):
        for name, branch in tree.items():
            yield from _flat(branch, *path, words(str(name)))
    elif isinstance(tree, int) and not isinstance(tree, bool):
        yield " · ".join(path), tree


def _contamination(manifest: _Json) -> Iterator[dict[str, Any]]:
    for name, counts in (manifest.get("contamination") or {}).items():
        size = set_size(manifest, name)
        yield {"name": set_title(name), "size": size, "counts": counts, "verdict": contamination_verdict(counts, size)}


def _drift(manifest: _Json) -> Iterator[dict[str, Any]]:
    for corpus, drift in list((manifest.get("drift") or {}).items())[:_PICTURES]:
        found = drift_findings(drift)
        marks = [place for _, place in found if place is not None][:_MARKS]
        known = any(value is not None for value in drift.get("agreement") or [])
        picture = drawing.agreement(drift, marks, plain(corpus)) if known and drift.get("places") else None
        if picture or found:
            texts = [text for text, _ in found]
            more = len(texts) - _DRIFT_TEXTS
            yield {"name": plain(corpus), "picture": picture, "findings": texts[:_DRIFT_TEXTS], "more": max(more, 0)}


def _languages(manifest: _Json) -> Iterator[dict[str, Any]]:
    for corpus, sides in list((manifest.get("languages") or {}).items())[:CORPORA]:
        for side in ("src", "tgt"):
            counts = {str(name): n for name, n in (sides.get(side) or {}).items() if n}
            if not counts:
                continue
            total = sum(counts.values())
            ranked = sorted(counts.items(), key=lambda item: -item[1])
            rest = sum(n for _, n in ranked[_LANGUAGES:])
            parts = [*ranked[:_LANGUAGES], *([("others", rest)] if rest else [])]
            expected = str(manifest.get(f"{side}_lang") or "")
            styles = [side if _same_language(name, expected) else f"c{i}" for i, (name, _) in enumerate(parts)]
            named = [(plain(name), n, style) for (name, n), style in zip(parts, styles, strict=True)]
            yield {"corpus": plain(corpus), "expected": plain(expected), "total": total, "parts": named}


def _same_language(one: str, other: str) -> bool:
    return one.lower().replace("_", "-").split("-")[0] == other.lower().replace("_", "-").split("-")[0]


def _texts(manifest: _Json) -> Iterator[tuple[str, str]]:
    """Settings and sources as YAML to read."""
    for title in ("settings", "sources"):
        if tree := manifest.get(title):
            plain_tree = json.loads(json.dumps(tree, default=str))
            text = yaml.safe_dump(plain_tree, sort_keys=False, allow_unicode=True, width=100)
            cut = f"{text[:_SETTINGS_CHARACTERS]}\n… (cut)" if len(text) > _SETTINGS_CHARACTERS else text
            yield title, "\n".join(map(plain, cut.split("\n")))
