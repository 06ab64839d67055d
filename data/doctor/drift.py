"""Drift: places from which the two sides of a corpus are out of step, because a line is missing or too many.

For each source line and each offset that is possible (target line number less source line number) there is a score in
nats, see `Agreement`. The best path through the offsets (Viterbi 1967), on which every change of the offset costs,
tells where lines went missing. It is found over groups of lines, then each change is placed to the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from data.doctor.agreement import LOST, OUTSIDE, Agreement, log_lengths
from data.doctor.traces import Traces

Advance = Callable[[int], object]
Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]

_NEAR = 5  # offsets of so many lines are tried everywhere, farther ones where lengths speak for them
_GROUP = 8  # lines that share an offset at first
_CHANGE = 14.0  # nats a change of the offset costs: one in a million lines
_GIVE_UP = 30.0  # nats that it costs to hold that no offset fits
_STRETCH = 512  # lines whose lengths are compared with those of a neighbourhood
_FAR = 4096  # lines of that neighbourhood in each direction
_CLEAR = 8.0  # standard deviations that tell a correlation from chance
_MOST_FAR = 8  # far offsets that are tried
_GROUPS_AT_A_TIME = 256
_FEW_LINES = 20_000
_WEAK = 0.3  # nats a line, on average of a stretch out of step, that are not enough to believe it
_TELLING_LINES = 200  # whose disagreement is worth telling, where no offset can be believed
_ROUNDS = 3  # of learning from a path, and finding a better one
_SAME = 0.01  # of the groups may still change in the last round
_DOUBT = 0.4  # of the usual score
_MARGIN = 6  # groups around a doubtful one


@dataclass(frozen=True)
class Step:
    """From source line `line` on (from 1), its partner is target line `line` + `offset`; None: no offset fits."""

    line: int
    offset: int | None


@dataclass(frozen=True)
class DriftProfile:
    """What a picture needs: the agreement along the corpus, 0 for lines that have nothing to do with each other.

    `agreement` is of line N with line N, `best` along the path that was found; both in nats a line, means over windows
    of equal size whose middle source lines are `places`.
    """

    places: list[int]
    agreement: list[float]
    best: list[float]


@dataclass(frozen=True)
class Drift:
    """The offset along a corpus: `steps` begins with Step(1, 0) when the first lines are in step."""

    steps: list[Step]
    profile: DriftProfile


def find_drift(src: Traces, tgt: Traces, advance: Advance | None = None) -> Drift:
    """How the two sides of a corpus run along each other. `advance` is told how many more source lines are judged."""
    if not len(src) or not len(tgt):
        return Drift([Step(1, 0)], DriftProfile([], [], []))
    agreement = Agreement(src, tgt)
    offsets = _possible_offsets(src, tgt)
    last = len(tgt) - len(src)
    path = _best_path(_guess_groups(agreement, offsets), offsets, last)
    for _ in range(_ROUNDS):
        agreement.learn(_per_line(offsets[path], len(src)))
        scores = _score_groups(agreement, offsets, path, advance)
        before, path = path, _best_path(scores, offsets, last)
        if (path != before).mean() < _SAME:
            break
    steps = _place_steps(agreement, offsets[_believe(path, scores, offsets)])
    return Drift(steps, _profile(scores, offsets, path))


def _possible_offsets(src: Traces, tgt: Traces) -> Places:
    """Near ones, far ones for which the lengths of some stretch speak, the difference in length; the last is LOST."""
    difference = len(tgt) - len(src)
    found = {*range(-_NEAR, _NEAR + 1), *range(difference - 1, difference + 2), *_far_offsets(src, tgt)}
    return np.array([*sorted(found), LOST])


def _far_offsets(src: Traces, tgt: Traces) -> list[int]:
    """Where stretches of one side are in the other, by cross-correlation of lengths."""
    reach = min(_FAR + abs(len(tgt) - len(src)), 1 << 20)
    ours, theirs = _fluctuation(src), np.pad(_fluctuation(tgt), (reach, reach + _STRETCH + abs(len(tgt) - len(src))))
    size = 1 << (2 * reach + 2 * _STRETCH - 1).bit_length()
    votes: dict[int, float] = {}
    for start in range(0, len(ours) - _STRETCH // 2, max(_STRETCH, len(ours) // 2000)):
        stretch, window = ours[start : start + _STRETCH], theirs[start : start + 2 * reach + _STRETCH]
        products = np.fft.irfft(np.fft.rfft(window, size) * np.conj(np.fft.rfft(stretch, size)), size)
        products = products[: 2 * reach + 1]
        lag = int(products.argmax())
        if products[lag] > _CLEAR * products.std():
            votes[lag - reach] = votes.get(lag - reach, 0) + 1
    far = [offset for offset in votes if abs(offset) > _NEAR]
    return sorted(far, key=lambda offset: -votes[offset])[:_MOST_FAR]


def _fluctuation(side: Traces) -> Floats:
    """Logarithms of lengths, less what whole neighbourhoods have in common."""
    logs = log_lengths(side)
    window = min(65, len(logs))
    sums = np.concatenate([[0.0], np.cumsum(logs, dtype=np.float64)])
    low = np.maximum(np.arange(len(logs)) - window // 2, 0)
    high = np.minimum(low + window, len(logs))
    rest: Floats = (logs - (sums[high] - sums[low]) / (high - low)).astype(np.float32)
    return rest


def _guess_groups(agreement: Agreement, offsets: Places) -> Floats:
    """Nats of each group of lines at each offset, (groups, offsets), before anything has been learnt."""
    by_words = agreement.n_src <= _FEW_LINES  # in many lines the lengths say enough, and cost a hundredth
    scores = np.zeros((-(-agreement.n_src // _GROUP), len(offsets)), np.float32)
    for column, offset in enumerate(offsets):
        for groups in _parts(np.arange(len(scores))):
            scores[groups, column] = _score(agreement, groups, int(offset), by_words)
    return scores


def _score_groups(agreement: Agreement, offsets: Places, path: Places, advance: Advance | None) -> Floats:
    """Nats of each group at each offset, (groups, offsets).

    Where lines agree well along the path, as they do nearly everywhere in most corpora, other offsets are given nought
    without a look.
    """
    scores = np.zeros((len(path), len(offsets)), np.float32)
    scores[:, -1] = OUTSIDE * _GROUP
    for groups in _parts(np.arange(len(path))):
        for column in np.unique(path[groups]):
            members = groups[path[groups] == column]
            scores[members, column] = _score(agreement, members, int(offsets[column]))
        if advance:
            advance(len(groups) * _GROUP)
    doubtful = _find_doubtful(scores[np.arange(len(path)), path], path)
    for column, offset in enumerate(offsets):
        for groups in _parts(doubtful[path[doubtful] != column]):
            scores[groups, column] = _score(agreement, groups, int(offset))
    in_step = list(offsets).index(0)
    for groups in _parts(np.flatnonzero(path != in_step)):  # the profile shows how bad it is
        scores[groups, in_step] = _score(agreement, groups, 0)
    return scores


def _find_doubtful(along: Floats, path: Places) -> Places:
    """The groups where the path might be wrong: the neighbourhood of bad scores and of changes."""
    near = _sum_around(along, 1) / 3
    doubtful = (near < _DOUBT * np.median(along)) | (np.diff(path, prepend=path[:1]) != 0)
    return np.flatnonzero(_sum_around(doubtful.astype(np.float32), _MARGIN) > 0.5)


def _sum_around(values: Floats, margin: int) -> Floats:
    """For each value its sum with `margin` neighbours on either side."""
    sums: Floats = np.convolve(values, np.ones(2 * margin + 1, np.float32))[margin : margin + len(values)]
    return sums


def _score(agreement: Agreement, groups: Places, offset: int, by_words: bool = True) -> Floats:
    lines = (groups[:, None] * _GROUP + np.arange(_GROUP)).reshape(-1)
    inside = lines < agreement.n_src
    nats = np.zeros(len(lines), np.float32)
    nats[inside] = _score_lines(agreement, lines[inside], offset, by_words)
    sums: Floats = nats.reshape(-1, _GROUP).sum(1)
    return sums


def _parts(groups: Places) -> Iterator[Places]:
    for start in range(0, len(groups), _GROUPS_AT_A_TIME):
        yield groups[start : start + _GROUPS_AT_A_TIME]


def _score_lines(agreement: Agreement, lines: Places, offset: int, by_words: bool = True) -> Floats:
    if offset == LOST:
        return np.full(len(lines), OUTSIDE, np.float32)
    return agreement.score(lines, lines + offset, by_words)


def _best_path(scores: Floats, offsets: Places, last: int) -> npt.NDArray[np.int64]:
    """The column of the best offset for each group. It begins in step, and ends at the difference in length."""
    change = np.where(offsets == LOST, _GIVE_UP, _CHANGE)
    total = np.where(offsets == 0, 0.0, -change)
    came_from = np.empty(scores.shape, np.int16)
    stay = np.arange(len(offsets))
    for group, here in enumerate(scores):
        best = int(total.argmax())
        changed = total[best] - change
        came_from[group] = np.where(changed > total, best, stay)
        total = np.maximum(total, changed) + here
    column = int(np.where(offsets == last, total, total - _CHANGE).argmax())
    path = np.empty(len(scores), np.int64)
    for group in range(len(scores) - 1, -1, -1):
        path[group] = column
        column = came_from[group, column]
    return path


def _believe(path: Places, scores: Floats, offsets: Places) -> Places:
    """The path, without stretches out of step whose lines hardly agree there: what was best of many, by chance."""
    in_step, lost = list(offsets).index(0), len(offsets) - 1
    believed = path.copy()
    borders = [0, *(np.flatnonzero(np.diff(path)) + 1), len(path)]
    for begin, end in pairwise(borders):
        column = path[begin]
        mean = scores[begin:end, column].mean() / _GROUP
        if column not in (in_step, lost) and mean < _WEAK:
            believed[begin:end] = lost if (end - begin) * _GROUP >= _TELLING_LINES else in_step
    return believed


def _per_line(of_groups: Places, n_lines: int) -> Places:
    return np.repeat(of_groups, _GROUP)[:n_lines]


def _place_steps(agreement: Agreement, of_groups: Places) -> list[Step]:
    """The changes of the offset, to the line."""
    changes = np.flatnonzero(np.diff(of_groups)) + 1
    steps = [Step(1, _or_none(int(of_groups[0])))]
    borders = [0, *(changes * _GROUP), agreement.n_src]
    for index, group in enumerate(changes):
        before, after = int(of_groups[group - 1]), int(of_groups[group])
        low = max(int(borders[index]) + 1, int(group) * _GROUP - 3 * _GROUP, steps[-1].line)
        high = min(int(borders[index + 2]), int(group) * _GROUP + 3 * _GROUP)
        lines = np.arange(low, high)
        gain = _score_lines(agreement, lines, before) - _score_lines(agreement, lines, after)
        line = low + int(np.concatenate([[0], np.cumsum(gain)]).argmax())
        steps.append(Step(line + 1, _or_none(after)))
    return steps


def _or_none(offset: int) -> int | None:
    return None if offset == LOST else offset


def _profile(scores: Floats, offsets: Places, path: npt.NDArray[np.int64], n_points: int = 400) -> DriftProfile:
    size = max(1, -(-len(scores) // n_points), min(len(scores), 8))
    begins = np.arange(0, len(scores), size)
    n_lines = np.diff([*begins, len(scores)]) * _GROUP
    in_step = np.add.reduceat(scores[:, list(offsets).index(0)], begins) / n_lines
    best = np.add.reduceat(scores[np.arange(len(path)), path], begins) / n_lines
    places = [int(begin * _GROUP + n // 2 + 1) for begin, n in zip(begins, n_lines, strict=True)]
    return DriftProfile(places, [round(float(x), 4) for x in in_step], [round(float(x), 4) for x in best])


def drift_profile(drift: Drift) -> dict[str, list[int] | list[float]]:
    """What `data.report` draws: `places` (source lines), and for each the `agreement` of line N with line N.

    Agreement is between 0 and 1: the mean over the window in nats a line, through the logistic function; so ½ tells
    nothing, near 1 is usual for translations, and near 0 for lines that have nothing to do with each other. `best` is
    the same along the path that was found: where it is high and `agreement` low, the sides are out of step.
    """
    profile = drift.profile
    return {
        "places": profile.places,
        "agreement": [_logistic(nats) for nats in profile.agreement],
        "best": [_logistic(nats) for nats in profile.best],
    }


def _logistic(nats: float) -> float:
    return round(float(1 / (1 + np.exp(-nats))), 3)
