"""What deserves a look in prepared data, as sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from data.report.visible import plain, shortened

_MOST = 20  # findings to tell
_NAME = 60  # characters of a name in a sentence
_FEW_KEPT = 0.5  # of the pairs read
_MANY_SPELLED = 0.02  # of the words: unknown or spelled in bytes


@dataclass(frozen=True)
class Finding:
    """One sentence, and whether it should worry."""

    level: Literal["error", "warning", "note"]
    text: str


def findings(manifest: Mapping[str, Any]) -> list[Finding]:
    """Everything odd that the manifest tells, worst first."""
    found = [*_of_drift(manifest), *_of_contamination(manifest), *_of_counts(manifest), *_of_vocabulary(manifest)]
    ranked = sorted(found, key=lambda finding: ("error", "warning", "note").index(finding.level))
    rest = len(ranked) - _MOST
    return [*ranked[:_MOST], Finding("note", f"And {rest:,} more like these.")] if rest > 0 else ranked


def percent(part: float, whole: float) -> str:
    """`part` of `whole` in percent, with digits enough to tell it from none and from all."""
    if not whole:
        return "–"
    share = 100 * part / whole
    if share and share < 0.1:
        return "< 0.1 %"
    if 99.9 < share < 100:
        return "> 99.9 %"
    return f"{share:.0f} %" if share in (0, 100) else f"{share:.1f} %"


def set_title(name: str) -> str:
    """What people call the set of that name in the manifest."""
    return "validation" if name == "valid" else f"test set {plain(name)}"


def set_size(manifest: Mapping[str, Any], name: str) -> int | None:
    """Sentences in the set of that name in the manifest, where it tells."""
    counts = manifest.get("counts") or {}
    size = counts.get("valid") if name == "valid" else (counts.get("test") or {}).get(name)
    return int(size) if size is not None else None


def contamination_verdict(counts: Mapping[str, int], size: int | None = None) -> Finding:
    """What to think of the lines of one set, of `size` in all, that are in the training text, too."""
    n_pairs = sum(counts.get(kind, 0) for kind in ("exact", "normalised", "overlap"))
    lines, dropped = counts.get("lines", 0), counts.get("pairs_dropped", 0)
    if not n_pairs:
        return Finding("note", "Not one of its sentences was found in the training text.")
    share = f" of {size:,} sentences ({percent(lines, size)})" if size else _plural(" sentence", lines)
    where = f"{lines:,}{share} found in {n_pairs:,}{_plural(' training pair', n_pairs)}"
    if dropped >= n_pairs:
        return Finding("note", f"{where}; these pairs were dropped, so scores on the set are sound.")
    rest = n_pairs - dropped
    return Finding(
        "warning", f"{where}, {rest:,} of which {'is' if rest == 1 else 'are'} trained on: scores on this set flatter."
    )


def drift_findings(drift: Mapping[str, Any]) -> list[tuple[str, int | None]]:
    """Each finding of one corpus and the place it speaks of, where it names one."""
    found = []
    for finding in drift.get("findings") or []:
        text, place = (
            (finding.get("text", ""), finding.get("place")) if isinstance(finding, Mapping) else (finding, None)
        )
        named = re.search(r"(?:line|place|record|row|pair|unit)s?\s+(\d[\d,]*)", text)
        found.append((text, place if place is not None or not named else int(named[1].replace(",", ""))))
    return found


def _plural(word: str, n: int) -> str:
    return word if n == 1 else f"{word}s"


def _of_drift(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    for corpus, drift in (manifest.get("drift") or {}).items():
        for text, _ in drift_findings(drift):
            yield Finding("error", f"{shortened(plain(corpus), _NAME)}: {shortened(plain(text), 500)}")


def _of_contamination(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    for name, counts in (manifest.get("contamination") or {}).items():
        verdict = contamination_verdict(counts, set_size(manifest, name))
        if verdict.level == "warning":
            yield Finding("warning", f"{set_title(name)}: {verdict.text}")


def _of_counts(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    for corpus in (manifest.get("counts") or {}).get("train") or []:
        read, kept = corpus.get("read", 0), corpus.get("kept", 0)
        dropped = corpus.get("dropped") or {}
        if read and kept < _FEW_KEPT * read:
            reason = max(dropped, key=dropped.__getitem__, default="")
            mostly = f", mostly for {plain(reason).replace('_', ' ')}" if reason else ""
            name = shortened(corpus_name(corpus), _NAME)
            yield Finding("warning", f"{name}: only {percent(kept, read)} of {read:,} pairs were kept{mostly}.")
        if left_out := corpus.get("left_out"):
            reasons = ", ".join(f"{n:,} {plain(reason)}" for reason, n in left_out.items())
            text = f"{shortened(corpus_name(corpus), _NAME)}: units of the file that are no pair, not read: {reasons}."
            yield Finding("note", text)


def _of_vocabulary(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    for corpus, written in (manifest.get("statistics") or {}).items():
        for side in ("src", "tgt"):
            counts = written.get(side) or {}
            broken, words = counts.get("broken", 0), counts.get("words", 0)
            if words and broken > _MANY_SPELLED * words:
                language = plain(str(manifest.get(f"{side}_lang", side)))
                yield Finding(
                    "warning",
                    f"{shortened(plain(corpus), _NAME)}: {percent(broken, words)} of the {language} words are unknown "
                    "to the vocabulary or spelled in bytes; more pieces or a higher character coverage would help.",
                )


def corpus_name(corpus: Mapping[str, Any]) -> str:
    """The name of a training corpus in the manifest, made harmless."""
    return plain(str(corpus.get("name") or corpus.get("source") or "corpus"))
