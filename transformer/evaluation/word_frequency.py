"""How often the rarest word of each sentence stands in the training text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from data.prepared import IdSequences
from data.vocabulary import Vocabulary
from data.words import words_of

MOST_READ = 1_000_000
"""Of a larger training text, so many sentences are read, evenly spread: half a minute's work."""

_AT_ONCE = 20_000  # sentences


def rarest_words(lines: Sequence[str], train: IdSequences, vocabulary: Vocabulary) -> npt.NDArray[np.int64]:
    """For each line the number of times that its rarest word stands in the training text: (N,); -1: it has no word.

    Words are those of `data.words`: case does not matter, and of scripts without blanks each character is one. The
    training text, which prepared data hold as ids, is read once, in pieces; see `MOST_READ`.
    """
    words = words_of(lines)
    if not len(words.keys):
        return np.full(len(lines), -1)
    wanted, place = np.unique(words.keys, return_inverse=True)
    times = np.zeros(len(wanted), np.int64)
    chosen = np.arange(len(train))[:: -(-len(train) // MOST_READ) or 1]
    with tqdm(total=len(chosen), desc="rare words", unit=" lines", disable=None, delay=2) as bar:
        for first in range(0, len(chosen), _AT_ONCE):
            ids = [train[i].tolist() for i in chosen[first : first + _AT_ONCE].tolist()]
            found = words_of(vocabulary.decode(ids)).keys
            at = np.searchsorted(wanted, found)
            at = at[(at < len(wanted)) & (wanted[np.minimum(at, len(wanted) - 1)] == found)]
            times += np.bincount(at, minlength=len(wanted))
            bar.update(len(ids))
    rarest = np.full(len(lines), np.iinfo(np.int64).max)
    np.minimum.at(rarest, words.lines, times[place])
    return np.where(np.diff(words.starts) > 0, rarest, -1)
