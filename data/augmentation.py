"""Changes made to sentence pairs on the fly: other cuts into pieces, other case, noise, pairs joined.

Everything is drawn from (seed, epoch or stage, update): whoever prepares an update, in whatever process and after
whatever else, makes the same of it. Ids are decoded, changed as text, and encoded again; a pair of which nothing is
changed keeps its ids, and so does one that would outgrow the budget or hold characters without a piece. Tags before the
source (control symbols) stay where they are.

Rates of the Firefox translation pipeline (OpusTrainer): upper case .07, title case .05, end punctuation .2, typos .05,
tags .005.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from data.batches import Integers
from data.prepared import IdSequences, ParallelIds
from data.vocabulary import EOS_ID, UNK_ID, Vocabulary

# The last word of the seed: EpochPlan and data.mixing have others, and so other random numbers.
_PURPOSE = 7
_TYPO_RATE = 0.1  # of the words beyond the first one that gets a typo

_FIRST_LETTER = re.compile(r"(?<!\S)([^\w\s]*)(\w)")  # of a word, after an opening quote or bracket
_END_MARKS = re.compile(r"(?<=\w)\s*[.!?…。！？।؟]+$")
_WORD = re.compile(r"\w+")
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_TAGS = [(f"<{name}>", f"</{name}>") for name in ("b", "i", "u", "em", "strong", "span")]
_TAGS += [('<a href="#">', "</a>"), ('<g id="1">', "</g>")]


Ids = list[int]


@dataclass(frozen=True)
class Rates:
    """Probability of each change, per pair."""

    upper_case: float = 0.0
    title_case: float = 0.0  # excludes upper case
    drop_end_punctuation: float = 0.0
    typos: float = 0.0
    markup: float = 0.0
    merge_sentences: float = 0.0


@dataclass(frozen=True)
class Side:
    """A language's vocabulary, and how its words are cut: the share of bpe's merges left out, or unigram's α."""

    vocabulary: Vocabulary
    sampling: float | None = None  # None: always the same cut


class Augmentation:
    """Changes the pairs of an update."""

    def __init__(self, src: Side, tgt: Side, rates: Rates, *, max_tokens: int, seed: int) -> None:
        self._src, self._tgt = _Coder(src), _Coder(tgt)
        self._rates, self._max_tokens, self._seed = rates, max_tokens, seed

    def apply(self, corpus: ParallelIds, sentences: Integers, part: int, update: int) -> ParallelIds:
        """What an update of an epoch or stage makes of its sentences; fewer where some are joined."""
        random = np.random.default_rng([self._seed, part, update, _PURPOSE])
        wanted = _draw(self._rates, len(sentences), random)
        src, tgt = _read(corpus.src, sentences), _read(corpus.tgt, sentences)
        src_new, tgt_new = self._change(src, tgt, wanted, random)
        for i in src_new.keys() | tgt_new.keys():
            changed = src_new.get(i, src[i]), tgt_new.get(i, tgt[i])
            if all(ids and UNK_ID not in ids and len(ids) < self._max_tokens for ids in changed):  # < : eos follows
                src[i], tgt[i] = changed
        self._merge(src, tgt, random.permutation(np.flatnonzero(wanted["merge_sentences"])).tolist())
        return ParallelIds(_sequences(src), _sequences(tgt))

    def _change(
        self,
        src: Sequence[Ids],
        tgt: Sequence[Ids],
        wanted: Mapping[str, npt.NDArray[np.bool_]],
        random: np.random.Generator,
    ) -> tuple[dict[int, Ids], dict[int, Ids]]:
        """The new ids of every sentence that has any."""
        known = [bool(s and t) and UNK_ID not in s and UNK_ID not in t for s, t in zip(src, tgt, strict=True)]
        anything = np.any([wanted[name] for name in wanted if name != "merge_sentences"], axis=0) & np.array(known)
        edited = np.flatnonzero(anything).tolist()
        src_before, tgt_before = (
            coder.decode(ids, np.flatnonzero(known).tolist() if coder.sampling else edited)
            for coder, ids in ((self._src, src), (self._tgt, tgt))
        )
        src_text, tgt_text = dict(src_before), dict(tgt_before)
        for i in edited:
            names = [name for name in wanted if wanted[name][i]]
            src_text[i], tgt_text[i] = edit(src_text[i], tgt_text[i], names, random)
        return (
            self._src.encode(src, src_text, src_before, random),
            self._tgt.encode(tgt, tgt_text, tgt_before, random),
        )

    def _merge(self, src: list[Ids], tgt: list[Ids], merging: Sequence[int]) -> None:
        """Join the first with the second, the third with the fourth …, where tags agree and the budget allows it."""
        gone = set()
        for one, other in zip(merging[::2], merging[1::2], strict=False):  # of an odd number, the last stays alone
            src_tags, src_rest = self._src.split(src[other])
            tgt_tags, tgt_rest = self._tgt.split(tgt[other])
            same = (src_tags, tgt_tags) == (self._src.split(src[one])[0], self._tgt.split(tgt[one])[0])
            # Every sentence begins with the piece of a new word, so that ids stand behind each other as words do.
            joined = src[one] + src_rest, tgt[one] + tgt_rest
            if same and max(map(len, joined)) < self._max_tokens:
                src[one], tgt[one] = joined
                gone.add(other)
        for side in (src, tgt):
            side[:] = [ids for i, ids in enumerate(side) if i not in gone]


class _Coder:
    """Ids to text and back, on one side; tags before the text are left alone."""

    def __init__(self, side: Side) -> None:
        self.vocabulary, self.sampling = side.vocabulary, side.sampling
        self._tags = range(EOS_ID + 1, side.vocabulary.n_special)

    def split(self, ids: Ids) -> tuple[Ids, Ids]:
        """Tags, and the rest."""
        if not self._tags:
            return [], ids
        n = 0
        while n < len(ids) and ids[n] in self._tags:
            n += 1
        return ids[:n], ids[n:]

    def decode(self, sentences: Sequence[Ids], which: Sequence[int]) -> dict[int, str]:
        texts = self.vocabulary.decode([self.split(sentences[i])[1] for i in which])
        return dict(zip(which, texts, strict=True))

    def encode(
        self,
        sentences: Sequence[Ids],
        texts: Mapping[int, str],
        before: Mapping[int, str],
        random: np.random.Generator,
    ) -> dict[int, Ids]:
        """New ids: of every text if cuts are drawn, else of those that are not what they were before."""
        seed = int(random.integers(2**32))
        if self.sampling is not None:
            new = dict(zip(texts, self.vocabulary.sample(list(texts.values()), self.sampling, seed), strict=True))
        else:
            which = [i for i, text in texts.items() if text != before[i]]
            new = dict(zip(which, self.vocabulary.encode([texts[i] for i in which]), strict=True))
        return {i: self.split(sentences[i])[0] + ids for i, ids in new.items()}


def edit(src: str, tgt: str, changes: Sequence[str], random: np.random.Generator) -> tuple[str, str]:
    """Make these changes, named as in `Rates`; those that a translator would carry over are made on both sides."""
    if "upper_case" in changes:
        src, tgt = src.upper(), tgt.upper()
    if "title_case" in changes:
        src, tgt = (_FIRST_LETTER.sub(lambda found: found[1] + found[2].title(), text) for text in (src, tgt))
    if "drop_end_punctuation" in changes and _END_MARKS.search(src) and _END_MARKS.search(tgt):
        src, tgt = _END_MARKS.sub("", src), _END_MARKS.sub("", tgt)
    if "typos" in changes:
        src = _with_typos(src, random)
    if "markup" in changes:
        src, tgt = _with_markup(src, tgt, random)
    return src, tgt


def _with_typos(text: str, random: np.random.Generator) -> str:
    """One word of four letters or more, and a tenth of the others, get a typo."""
    words = [found.span() for found in _LONG_WORD.finditer(text)]
    if not words:
        return text
    n = 1 + int(random.binomial(len(words) - 1, _TYPO_RATE))
    for i in sorted(random.choice(len(words), n, replace=False).tolist(), reverse=True):  # from behind: places hold
        start, end = words[i]
        text = text[:start] + _typo(text[start:end], random) + text[end:]
    return text


def _typo(word: str, random: np.random.Generator) -> str:
    """Two letters swapped, one left out, doubled, or replaced by another of the word: in any alphabet. Never first."""
    place = int(random.integers(1, len(word) - 1))
    before, one, two, after = word[:place], word[place], word[place + 1], word[place + 2 :]
    other = word[int(random.integers(len(word)))]
    return before + (two + one, two, one + one + two, other + two)[int(random.integers(4))] + after


def _with_markup(src: str, tgt: str, random: np.random.Generator) -> tuple[str, str]:
    """The same tags around a name or number that stands once on each side, else, or half the time, around it all."""
    opening, closing = _TAGS[int(random.integers(len(_TAGS)))]
    names = _shared_names(src, tgt)
    if names and random.random() < 0.5:
        name = names[int(random.integers(len(names)))]
        where = re.compile(rf"\b{name}\b")
        return where.sub(opening + name + closing, src), where.sub(opening + name + closing, tgt)
    return opening + src + closing, opening + tgt + closing


def _shared_names(src: str, tgt: str) -> list[str]:
    """Words that surely translate each other: with a digit, or with a capital that does not begin the sentence."""
    if src.isupper():
        return []
    src_words, tgt_words = _WORD.findall(src), _WORD.findall(tgt)
    once = [word for word in src_words if src_words.count(word) == tgt_words.count(word) == 1]
    return [
        word
        for word in once
        if any(map(str.isdigit, word)) or (word[0].isupper() and word not in (src_words[0], tgt_words[0]))
    ]


def _draw(rates: Rates, n: int, random: np.random.Generator) -> dict[str, npt.NDArray[np.bool_]]:
    """Which sentences get which change."""
    chance = random.random((5, n))
    upper = chance[0] < rates.upper_case
    return {
        "upper_case": upper,
        "title_case": (chance[0] < rates.upper_case + rates.title_case) & ~upper,
        "drop_end_punctuation": chance[1] < rates.drop_end_punctuation,
        "typos": chance[2] < rates.typos,
        "markup": chance[3] < rates.markup,
        "merge_sentences": chance[4] < rates.merge_sentences,
    }


def _read(side: IdSequences, sentences: Integers) -> list[Ids]:
    ids = np.asarray(side.ids)  # a view that is no memmap, whose slices cost several times as much
    starts, ends = side.offsets[sentences].tolist(), side.offsets[sentences + 1].tolist()
    return [ids[start:end].tolist() for start, end in zip(starts, ends, strict=True)]


def _sequences(sentences: Sequence[Ids]) -> IdSequences:
    offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
    return IdSequences(np.fromiter(chain.from_iterable(sentences), np.int32, int(offsets[-1])), offsets)
