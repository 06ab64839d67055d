"""How the parts of a preparation are made, each on its own, in any process."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data.duplicates import duplicate_keys
from data.language_mix import LanguageMix
from data.length_agreement import length_agreement
from data.pairs import Texts
from data.parts import Facts, IdsPart, TextPart, load_text_part, save_ids_part, save_text_part
from data.selection import CONTAMINATION, KEPT, Rules, TextSelection, judge_lengths
from data.statistics import Statistics
from data.vocabulary import Vocabulary

EXAMPLES = 5  # of dropped pairs, per corpus and reason
_LONGEST_EXAMPLE = 300  # characters

Verdicts = npt.NDArray[np.int8]


@dataclass(frozen=True)
class TextJob:
    """Pairs as they were read, to be judged and written to `path`."""

    path: Path
    texts: Texts
    places: npt.NDArray[np.int64]


@dataclass(frozen=True)
class TextMaker:
    """Makes a `TextPart`: judges pairs by their text, and gives those that pass their keys."""

    selection: TextSelection
    languages: LanguageMix

    def __call__(self, job: TextJob) -> None:
        """Make one part, whole or not at all."""
        texts, rules = job.texts, self.selection.rules
        verdicts, matches = self.selection.judge(texts)
        kept = verdicts == KEPT
        # What nothing but contamination drops: of other pairs it does not matter.
        judged_so = kept | (verdicts == rules.reasons.index(CONTAMINATION) if rules.drop_contamination else kept)
        survivors = Texts(list(compress(texts.src, kept)), list(compress(texts.tgt, kept)))
        keys = [duplicate_keys(survivors, rule) for rule in rules.duplicates]
        facts = {
            "read": len(texts),
            **_dropped(texts, job.places, verdicts, rules.reasons),
            "contamination": {
                "found": matches.found.tolist(),
                "pairs": self.selection.held_out.count_pairs(matches, judged_so),
            },
            "languages": self.languages.count(survivors),
            "agreement": length_agreement(texts, job.places),
        }
        stacked = np.array(keys, np.uint64).reshape(len(keys), len(survivors))
        save_text_part(job.path, TextPart(survivors.src, survivors.tgt, job.places[kept], stacked, facts))


@dataclass(frozen=True)
class IdsJob:
    """A text part to be encoded into the file `path`, without the pairs that `repeats` gives a reason to drop."""

    path: Path
    text_path: Path
    repeats: Verdicts
    tag_ids: Sequence[int]  # put before every source sentence


@dataclass(frozen=True)
class IdsMaker:
    """Makes an `IdsPart`: encodes what is no repetition, and judges lengths in pieces."""

    rules: Rules
    src_vocabulary: Vocabulary
    tgt_vocabulary: Vocabulary

    def __call__(self, job: IdsJob) -> None:
        """Make one part, whole or not at all."""
        part = load_text_part(job.text_path)
        verdicts = job.repeats.copy()
        alive = verdicts == KEPT
        texts = Texts(list(compress(part.src, alive)), list(compress(part.tgt, alive)))
        src, tgt = self.src_vocabulary.encode(texts.src), self.tgt_vocabulary.encode(texts.tgt)
        lengths = judge_lengths(_lengths(src), _lengths(tgt), self.rules)
        verdicts[alive] = lengths
        kept = lengths == KEPT
        src, tgt = list(compress(src, kept)), list(compress(tgt, kept))
        src_ids, tgt_ids = _flat(src), _flat(tgt)
        statistics = Statistics.of(
            list(compress(texts.src, kept)),
            list(compress(texts.tgt, kept)),
            src_ids,
            _lengths(src),
            tgt_ids,
            _lengths(tgt),
            self.src_vocabulary.n_special,
            self.src_vocabulary.has_bytes,
            self.tgt_vocabulary.n_special,
        )
        facts = _dropped(part.texts, part.places, verdicts, self.rules.reasons)
        tagged = [[*job.tag_ids, *ids] for ids in src] if job.tag_ids else src
        save_ids_part(job.path, IdsPart(_flat(tagged), _lengths(tagged), tgt_ids, _lengths(tgt), statistics, facts))


def _dropped(texts: Texts, places: npt.NDArray[np.int64], verdicts: Verdicts, reasons: Sequence[str]) -> Facts:
    """How many pairs are dropped for each reason, and the first few of them."""
    numbers = Counter(verdicts[verdicts != KEPT].tolist())
    examples: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number in sorted(numbers):
        for i in np.flatnonzero(verdicts == number)[:EXAMPLES].tolist():
            src, tgt = texts.src[i][:_LONGEST_EXAMPLE], texts.tgt[i][:_LONGEST_EXAMPLE]
            examples[reasons[number]].append({"place": int(places[i]), "src": src, "tgt": tgt})
    return {"dropped": {reasons[number]: numbers[number] for number in sorted(numbers)}, "examples": examples}


def _lengths(sentences: Sequence[Sequence[int]]) -> npt.NDArray[np.int32]:
    return np.fromiter(map(len, sentences), np.int32, len(sentences))


def _flat(sentences: Sequence[Sequence[int]]) -> npt.NDArray[np.uint32]:
    return np.fromiter(chain.from_iterable(sentences), np.uint32)
