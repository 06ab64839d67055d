"""How likely each of a few languages is for some thousand texts at once: the model of py3langid, walked by numpy.

py3langid (Barbaresi's continuation of langid.py, Lui & Baldwin 2012) counts byte n-grams with a finite automaton, and
weighs them by naive Bayes: score = log(1 + counts) · weights + priors. It does so byte by byte in Python. Here all
texts are one string of bytes, cut into stripes that the automaton walks abreast: a step is a look-up in an array.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from data.errors import DataError

# Most text of the web is in these (Common Crawl's statistics of languages, 2024).
LARGEST = ("en", "ru", "de", "ja", "zh", "es", "fr", "it", "pt", "nl")

_BETWEEN = b"\xff"  # never in UTF-8 and in no feature, so it takes the automaton back to its start
_STRIPE = 256  # bytes that are walked one after the other
_MEMORY = 8  # the automaton's state is told by the last 6 bytes, the length of its longest feature
_FEATURE_BITS = 17  # 100,053 features
_TEXTS = 1 << (32 - _FEATURE_BITS)  # as many are numbered by what is left of 32 bits
_BYTES = 1 << 22  # walked at once, to bound memory
_SORTED_AT_ONCE = 4096  # visits; more are sorted more slowly each


class LanguageScorer:
    """Scores of `languages`, codes of ISO 639-1, as py3langid's `rank` gives them when restricted to the same."""

    def __init__(self, languages: Sequence[str]) -> None:
        """Load the model.

        Raises:
            DataError: py3langid does not know one of the languages.
        """
        self.languages: tuple[str, ...] = tuple(dict.fromkeys(languages))
        model = _model()
        if unknown := [language for language in self.languages if language not in model.nb_classes]:
            raise DataError(
                f"{', '.join(unknown)}: no language that py3langid knows; it knows "
                f"{', '.join(sorted(set(model.nb_classes)))}. Leave out the filter `language`, or give it model: lingua"
            )
        self._rows = np.asarray(model.tk_row, np.int32) << 8  # where the transitions of a state begin
        self._next = np.frombuffer(model.tk_nextmove, np.dtype(f"u{model.tk_nextmove.itemsize}"))
        self._feature = np.asarray(model.tk_output, np.int32)  # of a state; -1: none
        # Some languages stand there twice, in two scripts: the better counts.
        columns = [[i for i, label in enumerate(model.nb_classes) if label == name] for name in self.languages]
        self._begins = np.cumsum([0, *map(len, columns[:-1])])
        flat = [i for of_one in columns for i in of_one]
        self._weights = np.ascontiguousarray(model.nb_ptc[:, flat], np.float32)  # features × columns
        self._priors = np.asarray(model.nb_pc[flat], np.float32)

    def scores(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Log-likelihoods, up to one constant a text: texts × languages; without any feature, the lowest number."""
        return self._scores(_encode(texts))

    def evidence(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Scores / √bytes, to compare texts of different lengths, as py3langid does; without any feature, zeros."""
        encoded = _encode(texts)
        scores = self._scores(encoded)
        scores[scores[:, 0] == np.finfo(np.float32).min] = 0.0
        scores /= np.sqrt(np.fromiter(map(len, encoded), np.float32, len(encoded)) + 1)[:, None]
        return scores

    def _scores(self, encoded: list[bytes]) -> npt.NDArray[np.float32]:
        scores = np.empty((len(encoded), len(self.languages)), np.float32)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        ends = np.cumsum(lengths + 1)
        begin = 0
        while begin < len(encoded):
            limit = (ends[begin - 1] if begin else 0) + _BYTES
            end = min(max(begin + 1, int(np.searchsorted(ends, limit))), begin + _TEXTS, len(encoded))
            columns = self._score(encoded[begin:end], lengths[begin:end])
            scores[begin:end] = np.maximum.reduceat(columns, self._begins, axis=1)
            begin = end
        return scores

    def _score(self, encoded: list[bytes], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        features = self._feature[self._walk(np.frombuffer(_BETWEEN.join([*encoded, b""]), np.uint8))]
        numbers = np.repeat(np.arange(len(encoded), dtype=np.uint32), lengths + 1)
        seen = np.flatnonzero(features >= 0)
        visits = (numbers[seen] << np.uint32(_FEATURE_BITS)) | features[seen].astype(np.uint32)
        n_visits = np.bincount(numbers[seen], minlength=len(encoded))
        _sort_within(visits, np.cumsum(n_visits))
        return self._weigh(visits, len(encoded))

    def _walk(self, text: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
        """The automaton's state after each byte."""
        stripes = -(-len(text) // _STRIPE)
        padded = np.full(_MEMORY + stripes * _STRIPE, _BETWEEN[0], np.uint8)
        padded[_MEMORY : _MEMORY + len(text)] = text
        # Each stripe begins a few bytes early, in the one before, and is in the right state when its own begins.
        windows = np.lib.stride_tricks.sliding_window_view(padded, _MEMORY + _STRIPE)[::_STRIPE]
        letters = np.ascontiguousarray(windows.T)  # bytes × stripes
        states = np.empty(letters.shape, np.int32)
        state, place = np.zeros(stripes, np.int32), np.empty(stripes, np.int32)
        for step, letter in enumerate(letters):
            np.take(self._rows, state, out=place, mode="clip")  # clip: take checks no bounds, and copies nothing
            np.add(place, letter, out=place)
            state = states[step]
            state[:] = np.take(self._next, place, mode="clip")
        own: npt.NDArray[np.int32] = states[_MEMORY:].T.reshape(-1)[: len(text)]
        return own

    def _weigh(self, visits: npt.NDArray[np.uint32], n_texts: int) -> npt.NDArray[np.float32]:
        """log(1 + counts) · weights + priors, from sorted visits; texts × columns."""
        first = np.flatnonzero(np.diff(visits, prepend=~visits[:1]))
        weight = np.log1p(np.diff(first, append=len(visits)).astype(np.float32))
        texts, features = np.divmod(visits[first], np.uint32(1 << _FEATURE_BITS))
        scores = np.full((n_texts, len(self._priors)), np.finfo(np.float32).min)
        begins = np.flatnonzero(np.diff(texts, prepend=~texts[:1]))
        featured = texts[begins]
        ends = np.append(begins[1:], len(texts))
        for block in range(0, len(begins), 512):  # of texts, whose rows of weights fit in the processor's cache
            low, high = begins[block], ends[min(block + 512, len(ends)) - 1]
            rows = np.take(self._weights, features[low:high], axis=0, mode="clip")
            rows *= weight[low:high, None]
            sums = np.add.reduceat(rows, begins[block : block + 512] - low, axis=0)
            scores[featured[block : block + 512]] = sums + self._priors
        return scores


def known_languages() -> frozenset[str]:
    """The codes of the languages that can be told apart."""
    return frozenset(_model().nb_classes)


@cache
def _model() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # half a second, for who uses it

    return LanguageIdentifier.from_model_file(MODEL_FILE)


def _encode(texts: Sequence[str]) -> list[bytes]:
    """The bytes that py3langid looks at."""
    lowered = [text.lower() if text.isupper() else text for text in texts]
    composed = [text if text.isascii() else unicodedata.normalize("NFC", text) for text in lowered]
    return [text.encode("utf-8", "surrogatepass") for text in composed]


def _sort_within(visits: npt.NDArray[np.uint32], ends: npt.NDArray[np.int64]) -> None:
    """Sort what is sorted by text already, some texts at a time: a third of the time of sorting all."""
    begin = 0
    while begin < len(visits):
        end = int(ends[min(int(np.searchsorted(ends, begin + _SORTED_AT_ONCE)), len(ends) - 1)])
        visits[begin:end].sort()
        begin = end
