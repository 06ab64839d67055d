"""Do the words of two sentences translate each other? Judged by what the corpus itself teaches.

Three steps, none of which needs anything but the pairs:

1. IBM Model 1 (Brown et al. 1993, section 4.1) in both directions: by expectation maximisation, how often each word is
   the translation of each other. Deviations: the empty word produces each word with its share of the corpus, fixed;
   and `DISCOUNT` is taken off each expected count afterwards, because Model 1 also learns chance meetings of rare
   words by heart, first of all in the very pairs that are to be judged.
2. How well a word is explained by a sentence on the other side: the largest ratio p(word | word there) / p(word), on a
   logarithmic scale of levels. A word that stands unchanged on the other side has a level of its own, known or not.
3. What that proves is counted: each level among the pairs as they are, and among pairs of neighbours that do not
   belong together (target of the next pair). The logarithm of the two shares' ratio, by frequency of the word, is the
   evidence of a word of that frequency that is so well explained.

The score of a pair is the sum over the different words of both sides: how much more often, in nats, words are so
explained in translations than in other pairs. So 0 is the same threshold for every corpus and language; words that
were never seen say nearly nothing, and short lines little.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from data.atomic import whole_file
from data.errors import DataError
from data.pairs import Texts
from data.words import Keys, Numbers, Words, words_of

Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

MAX_WORDS = 60  # longer pairs are not learnt from: they cost with the square of their length, and teach little
MAX_SCORED_WORDS = 250  # of longer lines the beginning is judged: memory, too, grows with the square
MIN_COUNT = 3  # of a word that is learnt about
DISCOUNT = 2.0  # expected counts
MAX_VOCABULARY = 65_000  # of each side, so that two words together are a number of 32 bits
MAX_LINKS = 25_000_000  # words that meet in pairs, over all pairs learnt from: 1 GB of memory at most
NEIGHBOUR_WEIGHT, NEIGHBOUR_LIMIT, NEIGHBOUR_MARGIN = 0.5, 10.0, 5.0  # see `in_context`

_FORMAT = 1
_PAIRS_AT_A_TIME = 4096
_LINKS_AT_A_TIME = 1_000_000
_N_CLASSES = 13  # of words, by the binary logarithm of their count; 0: unknown
_N_LEVELS, _COPIED = 19, 18  # how well a word is explained; 0: not at all
_LEVELS_PER_NAT, _LEAST_RATIO = 1.5, 0.05
_CALIBRATION_PAIRS = 100_000
_PRIOR = 5.0  # made-up words in each cell, as many true as false


@dataclass(frozen=True)
class Vocabulary:
    """The words of one side that are learnt about."""

    keys: Keys  # ascending
    counts: Numbers

    def ids(self, keys: Keys) -> Numbers:
        """The number of each word, -1 where unknown."""
        return _find(keys, self.keys)

    @property
    def shares(self) -> Floats:
        """How frequent each word is; 1 together."""
        shares: Floats = self.counts / max(self.counts.sum(), 1)
        return shares

    @property
    def classes(self) -> Bytes:
        """The class of frequency of each word."""
        return np.clip(np.log2(self.counts), 1, _N_CLASSES - 1).astype(np.uint8)


@dataclass(frozen=True)
class Bags:
    """The different words of N lines with how often each is there; those of line i are words[starts[i]:starts[i+1]]."""

    words: Numbers
    counts: Numbers
    starts: Numbers  # (N + 1)


@dataclass(frozen=True)
class Dictionary:
    """Words that translate each other, as Model 1 sees it: expected counts of links in both directions."""

    src: Numbers  # a source word …
    tgt: Numbers  # … and a target word that meet in some pair; in ascending order
    forward: Floats  # how many of the target words come from the source word
    backward: Floats  # how many of the source words come from the target word


@dataclass(frozen=True)
class WordTranslation:
    """What was learnt; `score` judges pairs. See the text of this module."""

    src_words: Keys
    tgt_words: Keys
    src_classes: Bytes
    tgt_classes: Bytes
    links: npt.NDArray[np.uint32]  # source word × number of target words + target word, ascending
    src_levels: Bytes  # for each link: how well it explains the source word
    tgt_levels: Bytes
    src_evidence: Floats  # (classes, levels), in nats
    tgt_evidence: Floats

    @classmethod
    def learn(
        cls, pairs: Iterable[tuple[str, str]], *, max_pairs: int = 500_000, n_iterations: int = 5
    ) -> WordTranslation:
        """Learn from the first `max_pairs` different pairs: let them be of all corpora, with neighbours together.

        At most `MAX_LINKS` meetings of two words are learnt from, of pairs spread evenly over these.
        """
        src, tgt = _sample(pairs, max_pairs)
        src_vocabulary, tgt_vocabulary = vocabulary(src.keys), vocabulary(tgt.keys)
        dictionary = learn_dictionary(src, tgt, src_vocabulary, tgt_vocabulary, n_iterations)
        src_levels = _levels(dictionary.backward, dictionary.tgt, src_vocabulary.shares[dictionary.src])
        tgt_levels = _levels(dictionary.forward, dictionary.src, tgt_vocabulary.shares[dictionary.tgt])
        says = (src_levels > 0) | (tgt_levels > 0)
        model = cls(
            src_vocabulary.keys,
            tgt_vocabulary.keys,
            src_vocabulary.classes,
            tgt_vocabulary.classes,
            _link(dictionary.src, dictionary.tgt, len(tgt_vocabulary.keys))[says],
            src_levels[says],
            tgt_levels[says],
            *np.zeros((2, _N_CLASSES, _N_LEVELS)),
        )
        return model._calibrated(src, tgt)

    def filter(self, *, at_least: float = 0.0, window: int = 5) -> WordTranslationFilter:
        """A filter that keeps pairs with a score of `at_least` in nats, each `in_context` of `window` on either side.

        The pairs must come in the order of the corpus. Without a window, -5 drops about as few sound pairs as 0 with.
        """
        return WordTranslationFilter(self, at_least, window)

    def score(self, texts: Texts) -> Floats:
        """The evidence that each pair is a translation, in nats: below 0 against, 0 where there is none, above 0 for.

        Of very long lines, the first words count.
        """
        src, tgt = words_of(texts.src).cut(MAX_SCORED_WORDS), words_of(texts.tgt).cut(MAX_SCORED_WORDS)
        src_cells, tgt_cells = self._cells(src, tgt)
        return _sums(self.src_evidence.ravel(), src_cells) + _sums(self.tgt_evidence.ravel(), tgt_cells)

    def _cells(self, src: Words, tgt: Words) -> tuple[Bags, Bags]:
        """For each different word of each line, class × number of levels + level."""
        known, ids = np.unique(np.concatenate([src.keys, tgt.keys]), return_inverse=True)
        src_bags = bags(ids[: len(src.keys)], src.lines, len(src.starts) - 1)
        tgt_bags = bags(ids[len(src.keys) :], tgt.lines, len(tgt.starts) - 1)
        src_ids, tgt_ids = _find(known, self.src_words)[src_bags.words], _find(known, self.tgt_words)[tgt_bags.words]
        src_levels, tgt_levels = np.zeros(len(src_ids), np.uint8), np.zeros(len(tgt_ids), np.uint8)
        for first, end in _stretches(src_bags, tgt_bags):
            src_places, tgt_places = grid(src_bags, tgt_bags, first, end)
            copied = src_bags.words[src_places] == tgt_bags.words[tgt_places]
            src_levels[src_places[copied]] = tgt_levels[tgt_places[copied]] = _COPIED
            wanted = ~copied & (src_ids[src_places] >= 0) & (tgt_ids[tgt_places] >= 0)
            src_places, tgt_places = src_places[wanted], tgt_places[wanted]
            found = _find(_link(src_ids[src_places], tgt_ids[tgt_places], len(self.tgt_words)), self.links)
            there = found >= 0
            np.maximum.at(src_levels, src_places[there], self.src_levels[found[there]])
            np.maximum.at(tgt_levels, tgt_places[there], self.tgt_levels[found[there]])
        return (
            _with_cells(src_bags, self.src_classes, src_ids, src_levels),
            _with_cells(tgt_bags, self.tgt_classes, tgt_ids, tgt_levels),
        )

    def _calibrated(self, src: Words, tgt: Words) -> WordTranslation:
        """With the evidence counted: levels in pairs as they are, and in wrong ones."""
        n_cells, n_lines = _N_CLASSES * _N_LEVELS, len(src.starts) - 1
        counts: Floats = np.zeros((2, 2, n_cells))  # right or wrong, side, cell
        step = max(1, n_lines // _CALIBRATION_PAIRS) * _PAIRS_AT_A_TIME
        for first in range(0, n_lines, step):
            lines = np.arange(first, min(first + _PAIRS_AT_A_TIME, n_lines))
            for wrong in (0, 1):
                for side, cells in enumerate(self._cells(src.take(lines), tgt.take(np.roll(lines, -wrong)))):
                    counts[wrong, side] += np.bincount(cells.words, minlength=n_cells)
        right, others = counts.reshape(2, 2, _N_CLASSES, _N_LEVELS)
        scale = right.sum(-1, keepdims=True) / np.maximum(others.sum(-1, keepdims=True), 1)
        src_evidence, tgt_evidence = np.log((right + _PRIOR) / (others * scale + _PRIOR))
        return replace(self, src_evidence=src_evidence, tgt_evidence=tgt_evidence)

    def save(self, path: Path) -> None:
        """Write everything as an .npz of plain arrays, whole or not at all. Raises OSError."""
        with whole_file(path) as stream:
            arrays = {field.name: getattr(self, field.name) for field in fields(self)}
            np.savez_compressed(stream, format=np.array(_FORMAT), **arrays)

    @classmethod
    def load(cls, path: Path) -> WordTranslation:
        """Raises DataError where `save` wrote no such file."""
        try:
            with np.load(path, allow_pickle=False) as arrays:
                if arrays["format"] == _FORMAT:
                    return cls(**{field.name: arrays[field.name] for field in fields(cls)})
        except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise DataError(f"{path}: no word translations: {error}. Learn them again") from error
        raise DataError(f"{path}: word translations of another version of this program. Learn them again")


def in_context(scores: Floats, window: int) -> Floats:
    """The scores of pairs in the order of the corpus, each with half those of up to `window` pairs on either side.

    Lines get out of step in runs: where the neighbours are no translations either, little more is needed; where they
    are, a line may be free or hold rare words. So that one bad pair among good ones is still found, neighbours speak
    for a pair with 5 nats at most; so that one long neighbour is not everything, each speaks with 10 nats at most.
    """
    limited = np.clip(scores, -NEIGHBOUR_LIMIT, NEIGHBOUR_LIMIT)
    sums = np.concatenate([[0.0], np.cumsum(limited)])
    places = np.arange(len(scores))
    around = sums[np.minimum(places + window + 1, len(scores))] - sums[np.maximum(places - window, 0)] - limited
    told: Floats = scores + np.minimum(NEIGHBOUR_WEIGHT * around, NEIGHBOUR_MARGIN)
    return told


@dataclass(frozen=True)
class WordTranslationFilter:
    """Keeps the pairs whose words translate each other, see `WordTranslation.filter`."""

    model: WordTranslation
    at_least: float
    window: int

    def __call__(self, texts: Texts) -> npt.NDArray[np.bool_]:
        """True for each pair to keep."""
        keep: npt.NDArray[np.bool_] = in_context(self.model.score(texts), self.window) >= self.at_least
        return keep


def _sample(pairs: Iterable[tuple[str, str]], max_pairs: int) -> tuple[Words, Words]:
    """The words of the first different pairs that have some on both sides, not too many."""
    rest, seen, found = iter(pairs), set[int](), [(words_of([]), words_of([]))]
    while len(seen) < max_pairs and (batch := list(islice(rest, _PAIRS_AT_A_TIME))):
        src, tgt = words_of([pair[0] for pair in batch]), words_of([pair[1] for pair in batch])
        lengths = np.stack([np.diff(src.starts), np.diff(tgt.starts)])
        fit = np.flatnonzero((lengths.min(0) > 0) & (lengths.max(0) <= MAX_WORDS))
        keys = (src.line_keys() * np.uint64(3) + tgt.line_keys())[fit]
        different = dict(zip(keys[::-1].tolist(), fit[::-1].tolist(), strict=True))  # the first place of each
        new = sorted(place for key, place in different.items() if key not in seen)[: max_pairs - len(seen)]
        seen.update(different)
        found.append((src.take(np.array(new, np.int64)), tgt.take(np.array(new, np.int64))))
    return _join([src for src, _ in found]), _join([tgt for _, tgt in found])


def _join(parts: list[Words]) -> Words:
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return Words(np.concatenate([part.keys for part in parts]), starts, np.concatenate([part.small for part in parts]))


def vocabulary(keys: Keys, min_count: int = MIN_COUNT) -> Vocabulary:
    """The most frequent words, of those that are there often enough."""
    different, counts = np.unique(keys, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:MAX_VOCABULARY]
    kept = np.sort(order[counts[order] >= min_count])
    return Vocabulary(different[kept], counts[kept])


def learn_dictionary(
    src: Words, tgt: Words, src_vocabulary: Vocabulary, tgt_vocabulary: Vocabulary, n_iterations: int
) -> Dictionary:
    """Model 1 in both directions, from uniform probabilities."""
    src_bags = bags(src_vocabulary.ids(src.keys), src.lines, len(src.starts) - 1)
    tgt_bags = bags(tgt_vocabulary.ids(tgt.keys), tgt.lines, len(tgt.starts) - 1)
    meetings = _Meetings.of(src_bags, tgt_bags, len(tgt_vocabulary.keys))
    src_words, tgt_words = np.divmod(meetings.links.astype(np.int64), max(len(tgt_vocabulary.keys), 1))
    forward = _expected_counts(meetings, src_words, src_bags, tgt_bags, tgt_vocabulary.shares, True, n_iterations)
    backward = _expected_counts(meetings, tgt_words, tgt_bags, src_bags, src_vocabulary.shares, False, n_iterations)
    return Dictionary(src_words, tgt_words, forward, backward)


class _Chunk(NamedTuple):
    """Some lines, with every meeting of a source and a target word in them, in the order of `grid`."""

    first: int
    end: int
    links: npt.NDArray[np.int32]  # the different ones in these lines, as places in _Meetings.links
    meetings: npt.NDArray[np.int32]  # of each meeting, the place in `links`: close together, so that caches help


@dataclass(frozen=True)
class _Meetings:
    """All meetings of two words in a pair."""

    links: npt.NDArray[np.uint32]
    chunks: list[_Chunk]
    src: Bags
    tgt: Bags

    @classmethod
    def of(cls, src: Bags, tgt: Bags, n_tgt_words: int) -> _Meetings:
        """Sort out which words meet: everywhere, or where that would be too much, in stretches spread evenly."""
        stretches, found = list(_stretches(src, tgt)), []
        n_stretches = min(len(stretches), max(1, MAX_LINKS // _LINKS_AT_A_TIME))
        for number in range(n_stretches):
            first, end = stretches[number * len(stretches) // n_stretches]
            src_places, tgt_places = grid(src, tgt, first, end)
            links = _link(src.words[src_places], tgt.words[tgt_places], n_tgt_words)
            different, meetings = np.unique(links, return_inverse=True)
            found.append((first, end, different, meetings.astype(np.int32)))
        links = np.sort(np.concatenate([np.empty(0, np.uint32), *(chunk[2] for chunk in found)]))
        links = links[np.append(True, links[1:] != links[:-1])[: len(links)]]  # np.unique takes four times as long
        chunks = [
            _Chunk(first, end, np.searchsorted(links, different).astype(np.int32), meetings)
            for first, end, different, meetings in found
        ]
        return cls(links, chunks, src, tgt)


def _expected_counts(
    meetings: _Meetings, given: Numbers, causes: Bags, effects: Bags, shares: Floats, forward: bool, n_iterations: int
) -> Floats:
    """How many of the effects come from each link's cause, after some iterations.

    Equation 17 of Brown et al.: in each line, an effect is shared out among all causes there by their probabilities;
    the empty cause is there once.
    """
    probabilities = np.full(len(meetings.links), 1 / max(len(shares), 1))
    counts = np.zeros(len(meetings.links))
    for _ in range(n_iterations):
        counts = np.zeros(len(meetings.links))
        for chunk in meetings.chunks:
            places = grid(meetings.src, meetings.tgt, chunk.first, chunk.end)
            cause, effect = places if forward else places[::-1]
            weights = probabilities[chunk.links][chunk.meetings] * causes.counts[cause]
            begin, end = effects.starts[chunk.first], effects.starts[chunk.end]
            totals = np.bincount(effect - begin, weights, minlength=end - begin) + shares[effects.words[begin:end]]
            weights *= (effects.counts[begin:end] / totals)[effect - begin]
            counts[chunk.links] += np.bincount(chunk.meetings, weights, minlength=len(chunk.links))
        probabilities = counts / np.maximum(np.bincount(given, counts), np.finfo(float).tiny)[given]
    return counts


def _levels(counts: Floats, given: Numbers, shares: Floats) -> Bytes:
    """How well links explain a word of that share of the corpus."""
    totals = np.bincount(given, counts)[given] if len(given) else counts
    ratios = np.maximum(counts - DISCOUNT, 0) / np.maximum(totals, np.finfo(float).tiny) / shares
    return np.clip(_LEVELS_PER_NAT * np.log1p(ratios / _LEAST_RATIO), 0, _COPIED - 1).astype(np.uint8)


def bags(ids: Numbers, lines: Numbers, n_lines: int) -> Bags:
    """The different ids ≥ 0 of each line."""
    ids, lines = ids[ids >= 0], lines[ids >= 0]
    size = int(ids.max(initial=0)) + 1
    both = np.sort(lines * size + ids)
    first = np.flatnonzero(np.append(True, both[1:] != both[:-1])[: len(both)])
    lines, words = np.divmod(both[first], size)
    return Bags(words, np.diff(np.append(first, len(both))), np.searchsorted(lines, np.arange(n_lines + 1)))


def grid(src: Bags, tgt: Bags, first: int, end: int) -> tuple[Numbers, Numbers]:
    """All meetings of a source and a target word in the lines first … end - 1, as places in the bags."""
    n_src, n_tgt = np.diff(src.starts[first : end + 1]), np.diff(tgt.starts[first : end + 1])
    width = np.repeat(n_tgt, n_src)  # of each source word: how many it meets
    src_places = np.repeat(np.arange(src.starts[first], src.starts[end]), width)
    offset = np.repeat(tgt.starts[first:end], n_src) - (np.cumsum(width) - width)
    return src_places, np.arange(len(src_places)) + np.repeat(offset, width)


def _stretches(src: Bags, tgt: Bags) -> Iterator[tuple[int, int]]:
    """Stretches of lines (first, end) with not many more meetings than fit a cache."""
    n_meetings = np.concatenate([[0], np.cumsum(np.diff(src.starts) * np.diff(tgt.starts))])
    first = 0
    while first < len(n_meetings) - 1:
        end = max(first + 1, int(np.searchsorted(n_meetings, n_meetings[first] + _LINKS_AT_A_TIME)))
        yield first, min(end, len(n_meetings) - 1)
        first = end


def _link(src: Numbers, tgt: Numbers, n_tgt_words: int) -> npt.NDArray[np.uint32]:
    return (src * n_tgt_words + tgt).astype(np.uint32)


def _find(values: npt.NDArray[np.generic], ascending: npt.NDArray[np.generic]) -> Numbers:
    """The place of each value, -1 where it is not there."""
    if not len(ascending):
        return np.full(len(values), -1)
    places = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.where(ascending[places] == values, places, -1)


def _with_cells(lines: Bags, classes: Bytes, ids: Numbers, levels: Bytes) -> Bags:
    known = np.append(classes, np.uint8(0))[ids]  # -1, unknown, finds the 0 at the end
    return Bags(known.astype(np.int64) * _N_LEVELS + levels, lines.counts, lines.starts)


def _sums(values: Floats, cells: Bags) -> Floats:
    """The sum of the values of each line's cells."""
    before: Floats = np.concatenate([[0.0], np.cumsum(values[cells.words])])
    return before[cells.starts[1:]] - before[cells.starts[:-1]]
