"""Training pairs that give away lines of the validation and test sets.

A pair counts as contaminated when, with a held-out pair,

- both sides are the same, however short they are; or
- one side is the same, and has at least `min_words` words (everyday lines such as "Yes." or "A man." translate
  themselves, and would empty a corpus of conversation); or
- one side holds nearly all of the held-out side, which has at least `min_overlap_words` words: at least the share
  `overlap` of its runs of 3 words (6 characters, where a script writes no spaces), anywhere in the training line. So
  words added or a line joined to others are found, as is a line of 12 words with one changed in the middle.

"The same" means identical for the kind *exact*; for *normalised*, the same words in the same order after NFKC and case
folding, whatever stands between them. Lines without a letter or digit never count. The sides are compared source with
source and target with target.

Runs of words as evidence of overlap follow the decontamination of GPT-3 (Brown et al. 2020, appendix C); their runs of
13 words are longer than most sentences here. With the defaults, 0.7 and 12 words, lines that long are found again with
any one word changed, and 1 of Multi30k's 29,000 training pairs counts against test_2016_flickr. With 0.8, over two
fifths of lines so changed are missed; from 10 words on, beginnings that everybody writes count ("A group of people
standing in front of an …": 8 pairs). A training line can reach the share only if it holds one of the rarest
(1 - overlap) of a held-out line's runs, and those are what is looked for first (prefix filtering, Chaudhuri et al.
2006), so that common phrases cost nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from data.pairs import Texts
from data.words import Keys, Numbers, Words, mix, words_of

NONE, EXACT, NORMALISED, OVERLAP = 0, 1, 2, 3
KINDS = ("none", "exact", "normalised", "overlap")

_N = 3  # words in a run, of a script with spaces
_N_SMALL = 6  # characters in a run, of a script without
_BITS_PER_KEY = 32  # size of the first, rough look-up: about one in as many strange keys passes it


@dataclass(frozen=True)
class Matches:
    """What was found in a batch of pairs."""

    kinds: npt.NDArray[np.int8]  # for each pair: NONE, EXACT, NORMALISED or OVERLAP; the closest, where several apply
    lines: Numbers  # for each pair: the held-out line it matches so (the first of several), see `HeldOut.locate`; or -1
    found: Numbers  # all held-out lines that any pair matches, ascending; unite those of several batches by np.union1d
    hits: Numbers  # (3, hits): pair, line and kind of everything found, by pair, the closest first


class HeldOut:
    """The lines of validation and test sets, to be looked for in training pairs. Can be sent to other processes."""

    def __init__(
        self,
        sets: Mapping[str, tuple[Sequence[str], Sequence[str]]],
        *,
        overlap: float = 0.7,
        min_words: float = 5,
        min_overlap_words: float = 12,
    ) -> None:
        self.sizes = {name: len(src) for name, (src, _) in sets.items()}
        src, tgt = ([line for pair in sets.values() for line in pair[side]] for side in (0, 1))
        src_words, tgt_words = words_of(src), words_of(tgt)
        self._pairs = _Index(_join(src_words.line_keys(), tgt_words.line_keys()))
        self._pair_texts = _text_keys(map("\n".join, zip(src, tgt, strict=True)))
        self._sides = tuple(
            _HeldOutSide(lines, words, overlap, min_words, min_overlap_words)
            for lines, words in ((src, src_words), (tgt, tgt_words))
        )

    def __len__(self) -> int:
        return sum(self.sizes.values())

    def match(self, texts: Texts) -> Matches:
        """Look for all held-out lines in all pairs."""
        src, tgt = words_of(texts.src), words_of(texts.tgt)
        pair_keys = _join(src.line_keys(), tgt.line_keys())
        found = [_same(self._pairs, self._pair_texts, pair_keys, [texts.src, texts.tgt])]
        for side, lines, words in zip(self._sides, (texts.src, texts.tgt), (src, tgt), strict=True):
            found += [side.same(lines, words), side.overlapping(words)]
        return _gather(len(texts), np.concatenate(found, axis=1))

    def count(self, found: Numbers) -> dict[str, int]:
        """How many lines of each set are among the `found`."""
        ends = np.searchsorted(found, np.cumsum([0, *self.sizes.values()]))
        return dict(zip(self.sizes, np.diff(ends).tolist(), strict=True))

    def count_pairs(self, matches: Matches, among: npt.NDArray[np.bool_]) -> dict[str, dict[str, int]]:
        """For each set, how many pairs `among` all match a line of it exactly, else normalised, else by overlap."""
        pairs, lines, kinds = matches.hits[:, among[matches.hits[0]]]
        sets = np.searchsorted(np.cumsum(list(self.sizes.values())), lines, side="right")
        _, first = np.unique(sets * (int(pairs.max(initial=0)) + 1) + pairs, return_index=True)
        counts = np.zeros((len(self.sizes), len(KINDS)), np.int64)
        np.add.at(counts, (sets[first], kinds[first]), 1)
        return {
            name: {KINDS[kind]: int(row[kind]) for kind in range(1, len(KINDS)) if row[kind]}
            for name, row in zip(self.sizes, counts, strict=True)
        }

    def locate(self, line: int) -> tuple[str, int]:
        """The set that a held-out line is from, and its number there, from 1."""
        for name, size in self.sizes.items():
            if line < size:
                return name, int(line) + 1
            line -= size
        raise IndexError(line)


class _HeldOutSide:
    """One side of all held-out lines."""

    def __init__(
        self, lines: Sequence[str], words: Words, overlap: float, min_words: float, min_overlap_words: float
    ) -> None:
        self._lines = _Index(np.where(words.n_words >= min_words, words.line_keys(), np.uint64(0)))
        self._texts = _text_keys(lines)
        mostly_small = words.n_words < 0.75 * np.diff(words.starts)  # more than half of the words count half
        long = words.n_words >= min_overlap_words
        wanted = {_N: long & ~mostly_small, _N_SMALL: long & mostly_small}
        self._runs = [_HeldOutRuns(words, n, which, overlap) for n, which in wanted.items() if which.any()]

    def same(self, lines: Sequence[str], words: Words) -> Numbers:
        """(pair, line, kind) of pairs with the same words on this side; (3, hits)."""
        return _same(self._lines, self._texts, words.line_keys(), [lines])

    def overlapping(self, words: Words) -> Numbers:
        """(pair, line, OVERLAP) of pairs that hold nearly all of a held-out line; (3, hits)."""
        found = [runs.match(words) for runs in self._runs]
        return np.concatenate([np.empty((3, 0), np.int64), *found], axis=1)


class _HeldOutRuns:
    """The runs of n words of those held-out lines that are `wanted`."""

    def __init__(self, words: Words, n: int, wanted: npt.NDArray[np.bool_], overlap: float) -> None:
        self._n = n
        keys, lines = words.ngrams(n)
        keys, lines = keys[wanted[lines]], lines[wanted[lines]]
        order = np.lexsort((keys, lines))
        keys, lines = keys[order], lines[order]
        new = np.append(True, (np.diff(lines) > 0) | (np.diff(keys) > 0))[: len(keys)]  # each run once a line
        keys, lines = keys[new], lines[new]
        self._keys, runs, n_lines = np.unique(keys, return_inverse=True, return_counts=True)
        self._runs = runs.astype(np.int32)  # of one line after the other, as numbers in _keys
        self._starts = np.searchsorted(lines, np.arange(len(wanted) + 1))
        n_runs = np.diff(self._starts)
        self._needed = np.ceil(overlap * n_runs - 1e-9).astype(np.int64)
        rarest_first = np.lexsort((n_lines[runs], lines))
        rank = np.arange(len(lines)) - self._starts[lines]
        rare = rarest_first[rank <= (n_runs - self._needed)[lines]]  # without all of these the rest is not enough
        self._rare = _Index(keys[rare], lines[rare])

    def match(self, words: Words) -> Numbers:
        """(pair, line, OVERLAP); (3, hits)."""
        keys, pairs = words.ngrams(self._n)
        places, held_out = self._rare.find(keys)
        candidates = np.unique(pairs[places] * len(self._needed) + held_out)
        pair, line = np.divmod(candidates, len(self._needed)) if len(candidates) else (candidates, candidates)
        enough = self._n_shared(keys, pairs, pair, line) >= self._needed[line]
        return np.stack([pair[enough], line[enough], np.full(enough.sum(), OVERLAP)])

    def _n_shared(self, keys: Keys, pairs: Numbers, pair: Numbers, line: Numbers) -> Numbers:
        """How many runs of held-out line[i] are in training line pair[i]."""
        is_candidate = np.zeros(pairs.max(initial=-1) + 1, np.bool_)
        is_candidate[pair] = True
        keys, pairs = keys[is_candidate[pairs]], pairs[is_candidate[pairs]]
        runs = np.searchsorted(self._keys, keys)
        known = self._keys[np.minimum(runs, len(self._keys) - 1)] == keys
        there = np.unique(pairs[known] * len(self._keys) + runs[known])
        which, runs = _ranges(self._starts[line], self._starts[line + 1])
        shared = _is_in(pair[which] * len(self._keys) + self._runs[runs], there)
        return np.bincount(which[shared], minlength=len(pair))


class _Index:
    """Finds which held-out lines have a key; 0 is the key of nothing."""

    def __init__(self, keys: Keys, lines: Numbers | None = None) -> None:
        lines = np.arange(len(keys)) if lines is None else lines
        keys, lines = keys[keys != 0], lines[keys != 0]
        order = np.argsort(keys, kind="stable")
        self._keys, self._lines = keys[order], lines[order].astype(np.int32)

    def find(self, keys: Keys) -> tuple[Numbers, Numbers]:
        """The places of those keys that are known, and a line of each; one hit for each line."""
        places = np.flatnonzero(self._sieve[(keys & self._mask).astype(np.int64)])
        keys = keys[places]
        first, end = (np.searchsorted(self._keys, keys, side) for side in ("left", "right"))
        which, found = _ranges(first, end)
        return places[which], self._lines[found].astype(np.int64)

    @property
    def _mask(self) -> np.uint64:
        return np.uint64((1 << (_BITS_PER_KEY * len(self._keys)).bit_length()) - 1)

    @cached_property
    def _sieve(self) -> npt.NDArray[np.bool_]:
        """True at the last bits of every key: most strange keys are turned away here, at a tenth of the cost."""
        sieve = np.zeros(int(self._mask) + 1, np.bool_)
        sieve[(self._keys & self._mask).astype(np.int64)] = True
        return sieve

    def __getstate__(self) -> dict[str, object]:
        return {"_keys": self._keys, "_lines": self._lines}  # the sieve is larger than these, and soon made


def _same(index: _Index, texts: Keys, keys: Keys, sides: Sequence[Sequence[str]]) -> Numbers:
    """(pair, line, EXACT or NORMALISED) of pairs whose key is known; (3, hits)."""
    pairs, lines = index.find(keys)
    found = _text_keys("\n".join([side[pair] for side in sides]) for pair in pairs.tolist())
    return np.stack([pairs, lines, np.where(found == texts[lines], EXACT, NORMALISED)])


def _gather(n_pairs: int, hits: Numbers) -> Matches:
    """The closest hit of each pair, of the first line where several are as close."""
    pairs, lines, kinds = hits[:, np.lexsort((hits[1], hits[2], hits[0]))]
    first = np.append(True, np.diff(pairs) > 0)[: len(pairs)]
    matches = Matches(
        np.zeros(n_pairs, np.int8), np.full(n_pairs, -1), np.unique(lines), np.stack([pairs, lines, kinds])
    )
    matches.kinds[pairs[first]] = kinds[first]
    matches.lines[pairs[first]] = lines[first]
    return matches


def _join(src: Keys, tgt: Keys) -> Keys:
    """A key for both sides together; 0 where one of them holds no word."""
    return np.where((src != 0) & (tgt != 0), mix(src + np.uint64(1)) + mix(tgt), np.uint64(0))


def _text_keys(texts: Iterable[str]) -> Keys:
    """A key for each text as it is."""
    digests = [hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), "<u8")


def _ranges(first: Numbers, end: Numbers) -> tuple[Numbers, Numbers]:
    """All numbers of all ranges first[i] … end[i] - 1, and the i of each."""
    lengths = end - first
    which = np.repeat(np.arange(len(lengths)), lengths)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + first[which]


def _is_in(values: Numbers, ascending: Numbers) -> npt.NDArray[np.bool_]:
    places = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return ascending[places] == values if len(ascending) else np.zeros(len(values), np.bool_)
