"""How much two lines look like translations of each other, in nats; learnt on the corpus itself.

Three things speak: lengths (Gale and Church 1993), words that are the same in both, such as numbers and names, and
words that keep each other's company (pointwise mutual information; Church and Hanks 1990). Their sum is calibrated: a
score is log p(sum | lines that belong together) − log p(sum | lines some places apart), both as counted in the corpus.
So nought means "tells nothing", and sums over lines can be weighed against a prior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from data.doctor.traces import N_IDS, NO_WORD, Ids, Traces

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]

OUTSIDE = -0.3  # nats of a line that has no partner at all: less than nothing, as a partner is what is wanted
LOST = np.iinfo(np.int64).min >> 1  # the offset of a line that belongs to no line

_TABLE_BITS = 22  # a table of counts of pairs of words has at most 4 Mi places; two of them, 32 MiB
_LEARNT_LINES = 80_000  # at most so many lines teach
_ENOUGH_LINES = 150  # fewer teach nothing
_LINES_AT_A_TIME = 4096
_FOLD = 256  # lines, at most; even and odd stretches are judged by what the others taught, never by themselves
_MOST = 4.0  # nats that one line can say for or against: noise must not decide alone
_BINS = 40
_APART = (11, 13, 17, 19, 23, 29)  # so far apart are lines that do not belong together, yet speak of the same things
_SPREAD = 0.35  # standard deviation of log(length ratio) before it is known
_NEVER = np.float32(-1e9)


@dataclass(frozen=True)
class LengthModel:
    """log p(tgt length | src length) − log p(tgt length), for normal distributions of logarithms."""

    slope: float
    intercept: float
    spread: float
    mean: float
    deviation: float

    def score(self, src: Floats, tgt: Floats) -> Floats:
        """Nats, of logarithms of lengths."""
        together = (tgt - np.float32(self.intercept) - np.float32(self.slope) * src) / np.float32(self.spread)
        apart = (tgt - np.float32(self.mean)) / np.float32(self.deviation)
        score = (apart**2 - together**2) / 2 + np.float32(np.log(self.deviation / self.spread))
        return np.clip(score, -_MOST, _MOST)


@dataclass(frozen=True)
class Calibration:
    """A step function from raw scores to nats."""

    edges: Floats
    nats: Floats

    def __call__(self, raw: Floats) -> Floats:
        """Nats of raw scores."""
        nats: Floats = self.nats[np.searchsorted(self.edges, raw)]
        return nats


class Agreement:
    """Agreement of any source line with any target line of one corpus."""

    def __init__(self, src: Traces, tgt: Traces) -> None:
        self._src, self._tgt = src, tgt
        self.n_src, self.n_tgt = len(src), len(tgt)
        self._fold = int(np.clip(self.n_src // 16, 8, _FOLD))
        self._logs = log_lengths(src), log_lengths(tgt)
        self._lengths = self._guess_lengths()
        self._bits = min(_TABLE_BITS, 10 + self.n_src.bit_length())
        random = np.random.default_rng(0).integers(0, 1 << self._bits, (2, N_IDS), np.uint32)
        self._mixed = random[0], random[1]  # a pair's place in the table: mixed[0][src word] ^ mixed[1][tgt word]
        self._rarity = self._rarity_of(src), self._rarity_of(tgt)
        self._table: Floats | None = None  # of those who judge even stretches, then of those who judge odd ones
        self._calibration: Calibration | None = None

    def learn(self, offsets: Places) -> None:
        """Learn from the corpus, given for each source line its target line less its own number, or LOST."""
        src_lines = self._sample(offsets)
        tgt_lines = src_lines + offsets[src_lines]
        if len(src_lines) < _ENOUGH_LINES:
            return
        self._lengths = self._fit_lengths(src_lines, tgt_lines)
        odd = self._is_odd(src_lines)
        self._table = np.concatenate([self._count(src_lines[who], tgt_lines[who]) for who in (odd, ~odd)])
        self._calibration = self._calibrate(src_lines, tgt_lines)

    def score(self, src_lines: Places, tgt_lines: Places, by_words: bool = True) -> Floats:
        """Nats for each pair of lines; OUTSIDE where a line number is outside the file."""
        inside = (tgt_lines >= 0) & (tgt_lines < self.n_tgt)
        if not inside.all():
            nats = np.full(len(src_lines), OUTSIDE, np.float32)
            nats[inside] = self.score(src_lines[inside], tgt_lines[inside], by_words)
            return nats
        raw = self._raw(src_lines, tgt_lines) if by_words else self._score_lengths(src_lines, tgt_lines)
        return self._calibration(raw) if self._calibration and by_words else np.clip(raw, -_MOST, _MOST)

    def _raw(self, src_lines: Places, tgt_lines: Places) -> Floats:
        raw: Floats = self._score_lengths(src_lines, tgt_lines) + self._score_words(src_lines, tgt_lines)
        return raw

    def _score_lengths(self, src_lines: Places, tgt_lines: Places) -> Floats:
        return self._lengths.score(self._logs[0][src_lines], self._logs[1][tgt_lines])

    def _score_words(self, src_lines: Places, tgt_lines: Places) -> Floats:
        """How much the best partner of a word tells, mean over the source words plus mean over the target words."""
        src, tgt = self._src.words[src_lines], self._tgt.words[tgt_lines]
        meetings = self._rarity[0][src][:, :, None] + self._rarity[1][tgt][:, None, :]  # (lines, src words, tgt words)
        same = np.nonzero((src[:, :, None] == tgt[:, None, :]) & (src != NO_WORD)[:, :, None])
        # How often the same word meets itself by right need not be learnt; frequent ones, such as "in", tell little.
        by_right = np.minimum(meetings[same], 6) - 1
        if self._table is None:
            meetings[:] = 0
        else:
            fold = self._is_odd(src_lines).astype(np.uint32) << np.uint32(self._bits)
            places = self._mixed[0][src] | fold[:, None]
            meetings += self._table.take(places[:, :, None] ^ self._mixed[1][tgt][:, None, :])
        meetings[same] = np.maximum(meetings[same], by_right)
        src_best: Floats = np.maximum(meetings.max(2), 0)
        tgt_best: Floats = np.maximum(meetings.max(1), 0)
        score: Floats = src_best.sum(1) / _n_words(src) + tgt_best.sum(1) / _n_words(tgt)
        return score

    def _rarity_of(self, side: Traces) -> Floats:
        """½ ln(lines) − ln(count): for two words, the sum is −ln of how often they meet by chance."""
        n = max(self.n_src, self.n_tgt, 1)
        rarity: Floats = (0.5 * np.log(n) - np.log(np.maximum(side.counts, 1))).astype(np.float32)
        rarity[NO_WORD] = _NEVER
        return rarity

    def _is_odd(self, src_lines: Places) -> npt.NDArray[np.bool_]:
        odd: npt.NDArray[np.bool_] = src_lines // self._fold % 2 == 1
        return odd

    def _sample(self, offsets: Places) -> Places:
        """Source lines to learn from: whole stretches, evenly spread, whose target line exists."""
        step = -(-self.n_src // _LEARNT_LINES)
        lines = np.flatnonzero(np.arange(self.n_src) // (2 * self._fold) % step == 0)
        tgt_lines = lines + offsets[lines]
        return lines[(tgt_lines >= 0) & (tgt_lines < self.n_tgt)]

    def _count(self, src_lines: Places, tgt_lines: Places) -> Floats:
        """For each pair of words: the logarithm of how often it surely met, had all lines been counted."""
        counts = np.zeros(1 << self._bits, np.float32)
        for src_part, tgt_part in zip(_parts(src_lines), _parts(tgt_lines), strict=True):
            src, tgt = self._src.words[src_part], self._tgt.words[tgt_part]
            places = self._mixed[0][src][:, :, None] ^ self._mixed[1][tgt][:, None, :]
            there = (src != NO_WORD)[:, :, None] & (tgt != NO_WORD)[:, None, :]
            np.add.at(counts, places[there], np.float32(1))
        # Less what other pairs in the same place bring, and less a standard deviation.
        surely = counts - counts.mean() - np.sqrt(counts)
        scale = np.float32(np.log(self.n_src / max(len(src_lines), 1)))
        logs: Floats = np.log(surely, out=np.full_like(surely, _NEVER), where=surely > 0) + scale
        return logs

    def _guess_lengths(self) -> LengthModel:
        (src_mean, _), (tgt_mean, deviation) = _moments(self._logs[0]), _moments(self._logs[1])
        return LengthModel(1.0, tgt_mean - src_mean, _SPREAD, tgt_mean, max(deviation, _SPREAD))

    def _fit_lengths(self, src_lines: Places, tgt_lines: Places) -> LengthModel:
        src, tgt = (self._logs[side][lines].astype(np.float64) for side, lines in enumerate((src_lines, tgt_lines)))
        if src.std() < 0.05:  # all of one length
            return self._lengths
        deviation = float(tgt.std()) + 0.05
        slope = float(np.clip(np.cov(src, tgt)[0, 1] / src.var(), 0.3, 1.2))
        rest = tgt - slope * src
        middle = float(np.median(rest))
        spread = 1.8 * float(np.median(np.abs(rest - middle)))  # 1.48 for normal errors; these have longer tails
        return LengthModel(slope, middle, min(max(spread, 0.1), deviation), float(tgt.mean()), deviation)

    def _calibrate(self, src_lines: Places, tgt_lines: Places) -> Calibration:
        together, apart = [np.zeros(0, np.float32)], [np.zeros(0, np.float32)]
        for number, (src, tgt) in enumerate(zip(_parts(src_lines), _parts(tgt_lines), strict=True)):
            together.append(self._raw(src, tgt))
            for distance in (_APART[number % len(_APART)], -_APART[(number + 1) % len(_APART)]):
                inside = (tgt + distance >= 0) & (tgt + distance < self.n_tgt)
                apart.append(self._raw(src[inside], tgt[inside] + distance))
        return _compare(np.concatenate(together), np.concatenate(apart))


def log_lengths(side: Traces) -> Floats:
    """ln(1 + characters) of each line."""
    logs: Floats = np.log1p(side.lengths.astype(np.float32))
    return logs


def _n_words(words: Ids) -> Floats:
    n_words: Floats = np.maximum((words != NO_WORD).sum(1), 1).astype(np.float32)
    return n_words


def _moments(values: Floats) -> tuple[float, float]:
    return (float(np.median(values)), float(values.std())) if len(values) else (0.0, 1.0)


def _parts(lines: Places) -> Iterator[Places]:
    for start in range(0, len(lines), _LINES_AT_A_TIME):
        yield lines[start : start + _LINES_AT_A_TIME]


def _compare(together: Floats, apart: Floats) -> Calibration:
    """How many times likelier each range of scores is for lines that belong together."""
    everything = np.concatenate([together, apart])
    n_bins = int(np.clip(len(everything) // 100, 1, _BINS))
    edges = np.unique(np.quantile(everything, np.arange(1, n_bins) / n_bins)) if len(everything) else everything
    shares = []
    for side in (together, apart):
        counts = np.bincount(np.searchsorted(edges, side), minlength=len(edges) + 1)
        shares.append((counts + 2) / (counts + 2).sum())  # 2: as if seen before, so that no range is impossible
    nats = np.clip(np.log(shares[0] / shares[1]), -_MOST, _MOST)
    return Calibration(edges.astype(np.float32), nats.astype(np.float32))
