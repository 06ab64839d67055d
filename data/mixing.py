"""Several corpora in chosen shares: an endless order of sentences that is a pure function of seed and place.

A run is cut into stages, each with its own shares. A stage is cut into rounds of equally many updates and pairs. Each
corpus gives its share of a round from a stream of its own: one permutation of its pairs after another, drawn anew
for each pass. A small corpus is thus used more often without being copied, and none of its pairs more than once oftener
than another. The pairs of a round are sorted by length and cut into updates, as those of an epoch are.

The place in the data is two integers: the stage, and the updates done of it. Everything else is computed from them:
round = update // updates of a round; pairs drawn from a corpus = what its shares make of the pairs before this round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from data.batches import Integers, Plan, cut_evenly, longer_side, order_by_length, random_order
from data.errors import DataError
from data.prepared import ParallelIds

# A round of so many updates is long enough for little padding: its sentences are sorted into so many groups by length.
_UPDATES_OF_A_ROUND = 256
_FEWEST_UPDATES_OF_A_ROUND = 16

# Where the random numbers of one purpose end, those of another begin: the last word of the seed. EpochPlan has 0.
_PASS, _ROUND = 1, 2


@dataclass(frozen=True)
class CorpusRange:
    """Where a training corpus lies among the prepared pairs."""

    name: str
    first: int
    end: int  # last + 1

    def __len__(self) -> int:
        return self.end - self.first


@dataclass(frozen=True)
class Stage:
    """What is mixed until an optimizer step; None: to the end of the run."""

    shares: tuple[float, ...]  # of each corpus among the pairs, in their order; the sum is 1
    until: int | None = None


def corpus_ranges(counts: Sequence[Mapping[str, object]], n_pairs: int) -> list[CorpusRange]:
    """The training corpora, from `manifest["counts"]["train"]`: each has a name and how many of its pairs were kept.

    Raises DataError when the prepared data are of a version that did not write names, or two corpora share one.
    """
    names = [str(count.get("name", "")) for count in counts]
    kept = [count.get("kept", 0) for count in counts]
    ends = np.cumsum([0, *(number if isinstance(number, int) else 0 for number in kept)])
    if not all(names) or ends[-1] != n_pairs:
        raise DataError(
            "the prepared data do not say which pairs are of which corpus, which data.mixing needs: "
            "run preprocess.py again"
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(
            f"{len(names)} training corpora, but more than one is called {', '.join(twice)}: data.mixing cannot tell "
            "them apart. Give each corpus of data.train a name of its own, and run preprocess.py again"
        )
    return [CorpusRange(name, int(a), int(b)) for name, a, b in zip(names, ends[:-1], ends[1:], strict=True)]


def shares_by_weight(corpora: Sequence[CorpusRange], weights: Mapping[str, float], setting: str) -> tuple[float, ...]:
    """The weights as shares of 1, in the order of the corpora. `setting` is named in messages.

    Raises DataError when a weight is of no corpus, a corpus of weight has no pairs, or a corpus has no weight.
    """
    names = [corpus.name for corpus in corpora]
    problems = [
        f"{setting}: {name}: no training corpus has this name; they are {', '.join(names)}"
        for name in weights
        if name not in names
    ]
    problems += [
        f"{setting}: {name} has no weight: give it one, or 0 to leave it out" for name in names if name not in weights
    ]
    problems += [
        f"{setting}: {corpus.name}: {weights[corpus.name]:g}: no pair of this corpus can be trained on; give it 0"
        for corpus in corpora
        if weights.get(corpus.name) and not len(corpus)
    ]
    total = sum(weights.values())
    if not problems and not total > 0:
        problems = [f"{setting}: every weight is 0: give at least one corpus more"]
    if problems:
        raise DataError("\n".join(problems))
    return tuple(weights[name] / total for name in names)


def shares_by_size(corpora: Sequence[CorpusRange], temperature: float = 1.0) -> tuple[float, ...]:
    """Shares ∝ size^(1/temperature) (Arivazhagan et al. 2019, §4.2): 1 is the size, a large one nearly equal shares."""
    sizes = np.array([len(corpus) for corpus in corpora], np.float64)
    powers = np.where(sizes > 0, (sizes / sizes.max()) ** (1 / temperature), 0.0)
    return tuple(float(share) for share in powers / powers.sum())


def apportion(shares: npt.NDArray[np.float64], n_pairs: int) -> npt.NDArray[np.int64]:
    """How many of the first `n_pairs` pairs each corpus gives: share · n, rounded by Sainte-Laguë's method.

    It never takes back what it gave when n grows. The method of largest remainders does (the Alabama paradox), so that
    what a round takes, the difference of two of these, could be negative.
    """
    counts = np.floor(shares * max(n_pairs - len(shares), 0)).astype(np.int64)  # surely not too many for anyone
    divisors = np.where(shares > 0, shares, np.nan)
    for _ in range(n_pairs - int(counts.sum())):
        counts[np.nanargmin((counts + 0.5) / divisors)] += 1
    return counts


class Mixture:
    """The order of a run with mixing. Costs 4 bytes a pair beside the lengths, and those of one round."""

    name = "stage"

    def __init__(
        self,
        corpus: ParallelIds,
        corpora: Sequence[CorpusRange],
        stages: Sequence[Stage],
        *,
        batch_tokens: int,
        max_tokens: int,
        seed: int,
        by_length: bool = True,
    ) -> None:
        self._corpus, self._seed, self._by_length = corpus, seed, by_length
        self._streams = [_Stream(corpus, one, max_tokens, [seed, i]) for i, one in enumerate(corpora)]
        self._stages: list[_StagePlan] = []
        self._refuse_nothing(corpora, stages, max_tokens)
        drawn, begin = np.zeros(len(corpora), np.int64), 0
        for stage in stages:
            plan = _StagePlan(stage, begin, drawn, self._streams, batch_tokens)
            self._stages.append(plan)
            if stage.until is not None:
                drawn, begin = plan.drawn_by(plan.pairs_before(plan.n_updates or 0)), stage.until
        self._held: tuple[tuple[int, int], Plan] | None = None

    def place(self, stage: int, update: int) -> tuple[int, int]:
        """Where the update stands that follows the first `update` ones of a stage."""
        return (stage + 1, 0) if update == self._stages[stage].n_updates else (stage, update)

    def sentences(self, stage: int, update: int) -> Integers:
        """The sentences of an update, in an order that does not depend on the budget."""
        number, update_of_round = divmod(update, self._stages[stage].updates_of_a_round)
        if self._held is None or self._held[0] != (stage, number):
            self._held = None  # its memory, before that of the next
            self._held = ((stage, number), self._plan_round(stage, number))
        return self._held[1].sentences(update_of_round)

    def _refuse_nothing(self, corpora: Sequence[CorpusRange], stages: Sequence[Stage], max_tokens: int) -> None:
        for i, (corpus, stream) in enumerate(zip(corpora, self._streams, strict=True)):
            if not len(stream) and any(stage.shares[i] > 0 for stage in stages):
                raise DataError(
                    f"each of the {len(corpus):,} pairs of corpus {corpus.name} is longer than train.max_tokens="
                    f"{max_tokens}, so that it cannot have its share of data.mixing: raise it, or give the corpus 0"
                )

    def _plan_round(self, stage: int, number: int) -> Plan:
        """The pairs of a round, sorted if `by_length`, and cut; the last round of a stage ends where the stage does."""
        plan = self._stages[stage]
        first, n_updates = plan.round(number)
        begin, end = (plan.drawn_by(plan.pairs_before(update)) for update in (first, first + n_updates))
        drawn = [stream.take(int(a), int(b)) for stream, a, b in zip(self._streams, begin, end, strict=True)]
        sentences = np.concatenate(drawn)
        random = np.random.default_rng([self._seed, stage, number, _ROUND])
        src, tgt = self._corpus.src_lengths[sentences], self._corpus.tgt_lengths[sentences]
        all_fit = np.ones(len(sentences), np.bool_)
        order = order_by_length(src, tgt, all_fit, random) if self._by_length else random_order(all_fit, random)
        tokens = np.cumsum(tgt[order] + 1, dtype=np.int64)
        return Plan(sentences[order], cut_evenly(tokens, n_updates), random)


class _StagePlan:
    """The arithmetic of one stage: updates to rounds, updates to pairs, pairs to pairs of each corpus."""

    def __init__(
        self, stage: Stage, begin: int, drawn: npt.NDArray[np.int64], streams: Sequence[_Stream], batch_tokens: int
    ) -> None:
        self.shares = np.array(stage.shares, np.float64)
        self.n_updates = None if stage.until is None else stage.until - begin
        self.drawn_before = drawn  # from each corpus in earlier stages
        used = [(share, stream) for share, stream in zip(stage.shares, streams, strict=True) if share > 0]
        pairs_an_update = max(batch_tokens / sum(share * stream.mean_tokens for share, stream in used), 1.0)
        # No longer than a pass of any corpus: a pair should seldom meet itself in an update. But sorting needs room.
        updates_of_a_pass = min(len(stream) / share for share, stream in used) / pairs_an_update
        self.updates_of_a_round = int(np.clip(updates_of_a_pass, _FEWEST_UPDATES_OF_A_ROUND, _UPDATES_OF_A_ROUND))
        self.pairs_of_a_round = round(pairs_an_update * self.updates_of_a_round)

    def round(self, number: int) -> tuple[int, int]:
        """First update of a round, and how many it has."""
        first = number * self.updates_of_a_round
        left = self.updates_of_a_round if self.n_updates is None else self.n_updates - first
        return first, min(self.updates_of_a_round, left)

    def pairs_before(self, update: int) -> int:
        """Pairs in the first `update` updates of the stage, which end a round or the stage."""
        return update * self.pairs_of_a_round // self.updates_of_a_round

    def drawn_by(self, n_pairs: int) -> npt.NDArray[np.int64]:
        """What each corpus has given since the run began when the stage has had so many pairs."""
        return self.drawn_before + apportion(self.shares, n_pairs)


class _Stream:
    """The pairs of one corpus that fit the budget, again and again, in another order each time."""

    def __init__(self, corpus: ParallelIds, where: CorpusRange, max_tokens: int, seed: list[int]) -> None:
        self._corpus, self._where, self._max_tokens, self._seed = corpus, where, max_tokens, seed
        fits = self._fits()
        self._n = int(np.count_nonzero(fits))
        n_tokens = int(corpus.tgt_lengths[where.first : where.end][fits].sum(dtype=np.int64)) + self._n
        self.mean_tokens = n_tokens / max(self._n, 1)  # real target tokens of a pair, eos included
        self._held: tuple[int, Integers] | None = None

    def __len__(self) -> int:
        return self._n

    def take(self, first: int, end: int) -> Integers:
        """The pairs from place `first` to `end` of the stream."""
        parts: list[Integers] = [np.empty(0, np.int32)]
        while first < end:
            number, offset = divmod(first, self._n)
            part = self._pass(number)[offset : offset + end - first]
            parts.append(part)
            first += len(part)
        return np.concatenate(parts)

    def _fits(self) -> npt.NDArray[np.bool_]:
        return longer_side(self._corpus, slice(self._where.first, self._where.end)) <= self._max_tokens

    def _pass(self, number: int) -> Integers:
        if self._held is None or self._held[0] != number:
            self._held = None  # its memory, before that of the next
            order: Integers = np.flatnonzero(self._fits()).astype(np.int32 if self._where.end < 2**31 else np.int64)
            order += self._where.first
            np.random.default_rng([*self._seed, number, _PASS]).shuffle(order)
            self._held = (number, order)
        return self._held[1]
