from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.contamination import EXACT, KINDS, NONE, NORMALISED, OVERLAP, HeldOut, Matches
from data.pairs import Texts

Lines = list[str]
Pairs = list[tuple[str, str]]

words = st.lists(st.sampled_from(["a", "B", "b", "c", "d"]), max_size=16)
line = st.builds(lambda words, end: " ".join(words) + end, words, st.sampled_from(["", ".", " !"]))
pairs = st.lists(st.tuples(line, line), max_size=6)


def texts(pairs: Pairs) -> Texts:
    return Texts([src for src, _ in pairs], [tgt for _, tgt in pairs])


def held_out(**sets: Pairs) -> HeldOut:
    return HeldOut({name: (texts(pairs).src, texts(pairs).tgt) for name, pairs in sets.items()})


def match_one(train: tuple[str, str], test: tuple[str, str]) -> int:
    return int(held_out(test=[test]).match(texts([train])).kinds[0])


def match_by_definition(train: tuple[str, str], test: tuple[str, str]) -> int:
    """As the module says, for words of ASCII letters."""
    found = [NONE]
    for sides, enough in (((0, 1), 1), ((0,), 5), ((1,), 5)):
        old, new = ([pair[side].lower().rstrip(".! ").split() for side in sides] for pair in (test, train))
        if old == new and all(len(words) >= enough for words in old):
            found.append(EXACT if [train[side] for side in sides] == [test[side] for side in sides] else NORMALISED)
    for one, other in zip(train, test, strict=True):
        runs, there = (
            {tuple(words[at : at + 3]) for at in range(len(words) - 2)}
            for words in (text.lower().rstrip(".! ").split() for text in (other, one))
        )
        if len(other.rstrip(".! ").split()) >= 12 and len(runs & there) >= ceil(0.7 * len(runs)):
            found.append(OVERLAP)
    return min((kind for kind in found if kind), default=NONE)


@given(pairs, pairs)
def test_a_pair_is_contaminated_as_defined(train: Pairs, test: Pairs) -> None:
    matches = held_out(test=test).match(texts(train))
    kinds = np.array([[match_by_definition(one, other) for other in test] for one in train], int)
    kinds = kinds.reshape(len(train), len(test))
    closest = np.where(kinds == NONE, 9, kinds)
    for row, kind, number in zip(closest, matches.kinds, matches.lines, strict=True):
        assert kind == (row.min(initial=9) if (row < 9).any() else NONE)
        assert number == (row.argmin() if (row < 9).any() else -1)
    assert matches.found.tolist() == np.flatnonzero((kinds > 0).any(0)).tolist()


@given(pairs, pairs, st.integers(1, 3))
def test_batches_and_processes_change_nothing(train: Pairs, test: Pairs, size: int) -> None:
    guard = held_out(test=test)
    whole = guard.match(texts(train))
    copy = pickle.loads(pickle.dumps(guard))
    parts: list[Matches] = [copy.match(texts(train[at : at + size])) for at in range(0, len(train), size)]
    assert whole.kinds.tolist() == [kind for part in parts for kind in part.kinds]
    assert whole.lines.tolist() == [number for part in parts for number in part.lines]
    assert set(whole.found) == {number for part in parts for number in part.found}


LONG = ("The committee has decided to put off its vote until next week.", "Der Ausschuss hat die Abstimmung vertagt.")


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda text: text, "exact"),
        (lambda text: text.upper(), "normalised"),
        (lambda text: "  «" + text.replace(" ", "\u00a0") + "» ", "normalised"),
        (lambda text: text.replace("o", "o\u00ad"), "normalised"),
        (lambda text: text.replace("week", "year"), "overlap"),
        (lambda text: text.replace("decided", "chosen"), "overlap"),
        (lambda text: f"{text} It said so on Monday, and nobody was surprised.", "overlap"),
        (lambda text: " ".join(text.split()[:6]), "none"),
        (lambda text: " ".join(sorted(text.split())), "none"),
    ],
)
def test_one_changed_side_is_enough(change: Callable[[str], str], kind: str) -> None:
    assert KINDS[match_one((change(LONG[0]), "Etwas ganz anderes."), LONG)] == kind


@pytest.mark.parametrize(
    ("train", "kind"),
    [
        (("Yes.", "Ja."), "exact"),
        (("yes", "ja!"), "normalised"),
        (("Yes.", "Doch."), "none"),
        (("Sure.", "Ja."), "none"),
        (("Ja.", "Yes."), "none"),
    ],
)
def test_short_lines_count_only_together(train: tuple[str, str], kind: str) -> None:
    assert KINDS[match_one(train, ("Yes.", "Ja."))] == kind


@pytest.mark.parametrize("pair", [("", ""), ("...", "..."), ("- - - - - -", "- - - - - -"), ("", "Ein leeres Blatt.")])
def test_lines_without_letters_never_count(pair: tuple[str, str]) -> None:
    assert match_one(pair, pair) == NONE


def test_overlap_is_found_where_no_spaces_are_written() -> None:
    line = "委员会在星期一的会议上决定将投票推迟到下周再进行审议。"
    assert match_one(("x", f"据报道，{line}大家都很惊讶。"), ("y", line)) == OVERLAP
    assert match_one(("x", line.replace("审议", "表决")), ("y", line)) == OVERLAP
    assert match_one(("x", line[::-1]), ("y", line)) == NONE
    assert match_one(("x", line), ("y", line)) == EXACT


def test_what_was_found_is_counted_for_each_set() -> None:
    guard = held_out(valid=[("a b c d e", "1"), ("Yes.", "Ja.")], empty=[], test=[("a b c d e", "2"), ("f", "3")])
    matches = guard.match(texts([("A b c d e", "4"), ("f", "3"), ("f", "3"), ("g", "g")]))
    assert guard.count(matches.found) == {"valid": 1, "empty": 0, "test": 2}
    assert [guard.locate(number) for number in range(len(guard))] == [
        ("valid", 1),
        ("valid", 2),
        ("test", 1),
        ("test", 2),
    ]
    assert matches.lines.tolist() == [0, 3, 3, -1]


def test_nothing_is_found_where_nothing_is_held_out() -> None:
    for guard in (held_out(), held_out(test=[])):
        matches = guard.match(texts([LONG]))
        assert (matches.kinds.tolist(), matches.lines.tolist(), matches.found.tolist()) == ([NONE], [-1], [])
    assert len(held_out(test=[LONG]).match(Texts([], [])).kinds) == 0


def read(path: Path) -> Lines:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().split("\n")[:-1]


def read_pairs(corpora: Path, name: str, suffix: str = ".gz") -> Pairs:
    return list(zip(*(read(corpora / f"{name}.{language}{suffix}") for language in ("en", "de")), strict=True))


def test_planted_pairs_are_found_and_no_others(corpora: Path) -> None:
    train, test = read_pairs(corpora, "nasty/leak-train", ""), read_pairs(corpora, "multi30k/test_2016_flickr")
    matches = held_out(flickr=test).match(texts(train))
    assert (matches.kinds > 0).tolist() == [pair in set(test) for pair in train]
    assert np.bincount(matches.kinds).tolist() == [300, 50]
    assert len(matches.found) == 50


def test_clean_corpora_are_hardly_touched(corpora: Path) -> None:
    train, test = read_pairs(corpora, "multi30k/train"), read_pairs(corpora, "multi30k/test_2016_flickr")
    assert (held_out(flickr=test).match(texts(train)).kinds > 0).mean() < 0.0005


def test_a_line_of_twelve_words_is_found_whichever_word_is_changed() -> None:
    words = [f"word{number}" for number in range(12)]
    for place in range(len(words)):
        changed = " ".join([*words[:place], "zero", *words[place + 1 :]])
        assert match_one((changed, "x"), (" ".join(words), "y")) == OVERLAP


def test_a_pair_counts_once_for_each_set_it_matches_by_the_closest_kind() -> None:
    line, other = "one two three four five six", "eins zwei drei vier fünf sechs"
    sets = {"a": ([line, "x"], [other, "y"]), "b": ([line.upper()] * 2, ["z"] * 2), "c": (["nothing"], ["nichts"])}
    held_out = HeldOut(sets)
    matches = held_out.match(Texts([line, line, "x"], [other, "something else", "y"]))
    everything = np.ones(3, np.bool_)
    assert held_out.count_pairs(matches, everything) == {"a": {"exact": 3}, "b": {"normalised": 2}, "c": {}}
    assert held_out.count_pairs(matches, np.array([True, False, False]))["a"] == {"exact": 1}
    assert held_out.count(matches.found) == {"a": 2, "b": 2, "c": 0}
    assert held_out.count_pairs(held_out.match(Texts([], [])), everything[:0]) == {"a": {}, "b": {}, "c": {}}
