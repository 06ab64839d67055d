"""How often the rarest word of each sentence stands in the training text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from data.prepared import IdSequences
from data.vocabulary import Vocabulary
from data.words import mix, sequence_keys, words_of

_AT_ONCE = 100_000  # sentences: so many that most words come again


def rarest_words(lines: Sequence[str], train: IdSequences, vocabulary: Vocabulary) -> npt.NDArray[np.int64]:
    """For each line the number of times that its rarest word stands in the training text: (N,); -1: it has no word.

    Words are those of `data.words`: case does not matter, and of scripts without blanks each character is one. All of
    the training text, which prepared data hold as ids, is read once, in pieces.
    """
    words = words_of(lines)
    if not len(words.keys):
        return np.full(len(lines), -1)
    wanted, place = np.unique(words.keys, return_inverse=True)
    times = np.zeros(len(wanted), np.int64)
    begins = np.array([piece.startswith("▁") for piece in vocabulary.all_pieces()])
    with tqdm(total=len(train), desc="rare words", unit=" lines", disable=None, delay=2) as bar:
        for first in range(0, len(train), _AT_ONCE):
            offsets = train.offsets[first : first + _AT_ONCE + 1]
            texts, n_times = _distinct(train.ids[offsets[0] : offsets[-1]], offsets - offsets[0], begins, vocabulary)
            found = words_of(texts)
            at = np.searchsorted(wanted, found.keys)
            is_wanted = (at < len(wanted)) & (wanted[np.minimum(at, len(wanted) - 1)] == found.keys)
            np.add.at(times, at[is_wanted], n_times[found.lines[is_wanted]])
            bar.update(len(offsets) - 1)
    rarest = np.full(len(lines), np.iinfo(np.int64).max)
    np.minimum.at(rarest, words.lines, times[place])
    return np.where(np.diff(words.starts) > 0, rarest, -1)


def _distinct(
    ids: npt.NDArray[np.integer[Any]],
    offsets: npt.NDArray[np.int64],
    begins: npt.NDArray[np.bool_],
    vocabulary: Vocabulary,
) -> tuple[list[str], npt.NDArray[np.int64]]:
    """What stands between blanks, and how often: decoding that of which there is much once makes counting fast.

    Args:
        begins: whether a blank comes before each id of the vocabulary: (V,).
    """
    is_first = begins[ids]
    is_first[offsets[:-1][np.diff(offsets) > 0]] = True
    bounds = np.append(np.flatnonzero(is_first), len(ids))
    _, chosen, n_times = np.unique(
        sequence_keys(mix(ids.astype(np.uint64) + np.uint64(1)), bounds), return_index=True, return_counts=True
    )
    spans = zip(bounds[chosen].tolist(), bounds[chosen + 1].tolist(), strict=True)
    return vocabulary.decode([ids[begin:end].tolist() for begin, end in spans]), n_times
