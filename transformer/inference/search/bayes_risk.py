"""Minimum Bayes risk: of several translations, the one most like all the others (Kumar & Byrne 2004).

The most probable translation may be an outlier; the one of the greatest expected utility, when the others stand in for
the unknown reference, is not (Eikema & Aziz 2020, §6). Utilities are sacrebleu's chrF or BLEU of single sentences,
0 to 100. Computed pair by pair they would take longer than the search; here all pairs of a sentence share their counts.

That two texts have an n-gram min(a, b) times in common, where it occurs a times in one and b times in the other, is the
same as: they share its first, its second, … occurrence, as far as both have it. So a text is a set of (n-gram, number
of the occurrence), and the sizes of all intersections are one matrix product:

    "abab"  {a¹, b¹, a², b²}        in common with        "aba"  {a¹, b¹, a²}        are 3 = min(2, 2) + min(2, 1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Utility = Literal["chrf", "bleu"]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def best_by_risk(
    candidates: Sequence[str], utility: Utility = "chrf", weights: Sequence[float] | None = None
) -> list[tuple[int, float]]:
    """The different candidates, each as (place, expected utility): greatest first, of equal ones the first.

    Args:
        candidates: what was sampled, or an n-best list. The same text several times counts as often, at its first
            place.
        utility: of a candidate as the hypothesis with another as the reference.
        weights: how probable the candidates are, relative to each other; None: all the same, as samples are.
    """
    first_places = {text: place for place, text in reversed(list(enumerate(candidates)))}
    places = sorted(first_places.values())
    shares = dict.fromkeys(first_places, 0.0)
    for text, weight in zip(candidates, weights or [1.0] * len(candidates), strict=True):
        shares[text] += weight
    texts = [candidates[place] for place in places]
    expected = expected_utilities(texts, np.array([shares[text] for text in texts]), utility)
    # Symmetric texts differ in the last bits, by the order of the sums: that is no preference.
    return sorted(zip(places, expected.tolist(), strict=True), key=lambda entry: (-round(entry[1], 9), entry[0]))


def expected_utilities(texts: Sequence[str], weights: Floats, utility: Utility) -> Floats:
    """Σ weight · utility(text, reference) / Σ weight over all texts as references, itself among them: (N,)."""
    expected: Floats = utilities(texts, utility) @ weights / weights.sum()
    return expected


def utilities(texts: Sequence[str], utility: Utility) -> Floats:
    """The utility of each text, by rows, with each text as the reference, by columns: (N, N)."""
    functions: dict[Utility, Callable[[Sequence[str]], Floats]] = {"chrf": chrf, "bleu": bleu}
    return functions[utility](texts)


def chrf(texts: Sequence[str]) -> Floats:
    """chrF2 (Popović 2015) as sacrebleu's `sentence_chrf`: characters without spaces, orders 1 to 6."""
    characters = [np.frombuffer("".join(text.split()).encode("utf-32-le"), np.uint32) for text in texts]
    shared, totals = shared_ngrams(characters, 6)
    hypothesis, reference = totals[:, :, None], totals[:, None, :]  # (6, N, 1), (6, 1, N)
    effective = (hypothesis > 0) & (reference > 0)  # orders that both texts are long enough for
    n_effective = np.maximum(effective.sum(0), 1)
    precision = (shared / np.maximum(hypothesis, 1) * effective).sum(0) / n_effective
    recall = (shared / np.maximum(reference, 1) * effective).sum(0) / n_effective
    weighted = 4 * precision + recall  # β² = 4: recall counts twice as much
    score: Floats = 100 * 5 * precision * recall / np.where(weighted > 0, weighted, 1)
    return score


def bleu(texts: Sequence[str]) -> Floats:
    """BLEU (Papineni et al. 2002) as sacrebleu's `sentence_bleu`: 13a words, effective order, exponential smoothing."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a  # takes longer to import than to use

    tokenise: Callable[[str], str] = Tokenizer13a()  # type: ignore[no-untyped-call]
    words = [tokenise(text.rstrip()).split() for text in texts]
    numbers: dict[str, int] = {}
    ids = [np.array([numbers.setdefault(word, len(numbers)) for word in line], np.int64) for line in words]
    shared, totals = shared_ngrams(ids, 4)
    total = totals[:, :, None]  # (4, N, 1)
    effective = np.maximum((total > 0).sum(0), 1)  # (N, 1) orders that the hypothesis is long enough for
    missed = (shared == 0) & (total > 0)  # the k-th order without a match counts as 1 / 2^k matches
    matches = np.where(missed, 0.5 ** missed.cumsum(0), np.maximum(shared, 1))
    log_precision = np.where(total > 0, np.log(matches / np.maximum(total, 1)), 0.0).sum(0) / effective
    length, reference_length = totals[0, :, None], totals[0, None, :]
    brevity = np.minimum(0.0, 1 - reference_length / np.maximum(length, 1))
    return np.where(shared.any(0), 100 * np.exp(log_precision + brevity), 0.0)


def shared_ngrams(sequences: Sequence[NDArray[np.integer]], max_order: int) -> tuple[Floats, Integers]:
    """How many n-grams each two sequences have in common, and how many each has, for every order from 1.

    Returns (orders, N, N) and (orders, N).
    """
    lengths = np.array([len(sequence) for sequence in sequences])
    owner = np.repeat(np.arange(len(sequences)), lengths)  # of each place in the sequences laid end to end
    left = np.repeat(lengths.cumsum(), lengths) - np.arange(len(owner))  # symbols from the place to its owner's end
    symbols = _numbered(np.concatenate(sequences))
    places = np.arange(len(owner))
    ngrams = np.zeros_like(symbols)  # of the order before, of which there is but one of order 0
    shared = []
    for order in range(1, max_order + 1):
        long_enough = left[places] >= order
        places, ngrams = places[long_enough], ngrams[long_enough]
        ngrams = _numbered(ngrams * (len(symbols) + 1) + symbols[places + order - 1])
        occurrences = _occurrences(owner[places], ngrams)
        features = _numbered(ngrams * (len(symbols) + 1) + occurrences)
        sets = np.zeros((len(sequences), features.max(initial=-1) + 1), np.float32)
        sets[owner[places], features] = 1
        shared.append(sets @ sets.T)  # whole numbers, exact below 2²⁴
    totals = np.maximum(lengths - np.arange(max_order)[:, None], 0)
    return np.stack(shared).astype(np.float64), totals


def _numbered(values: NDArray[np.integer]) -> Integers:
    """Equal values → equal numbers, from 0."""
    numbers: Integers = np.unique(values, return_inverse=True)[1]
    return numbers


def _occurrences(owner: Integers, ngrams: Integers) -> Integers:
    """For each n-gram, how often its owner has it further left."""
    order = np.lexsort((ngrams, owner))  # by owner, then by n-gram; stable, so from left to right
    begins = np.ones(len(order), bool)
    begins[1:] = (np.diff(owner[order]) != 0) | (np.diff(ngrams[order]) != 0)
    index = np.arange(len(order))
    first = np.maximum.accumulate(np.where(begins, index, 0))  # where the run of equal ones begins
    occurrences = np.empty_like(index)
    occurrences[order] = index - first
    return occurrences
