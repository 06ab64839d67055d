"""Augmentation: what is changed, on which side, how often; the same at the same place, and never over the budget."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.augmentation import Augmentation, Rates, Side, edit
from data.lines import read_lines
from data.prepared import IdSequences, ParallelIds
from data.vocabulary import UNK_ID, Vocabulary

WORDS = ["the", "small", "red", "cat", "saw", "Berlin", "Paris", "42", "old", "houses", "under", "bright", "trees"]
WORDS += ["while", "Maria", "walked", "through", "gardens"]
CHANGES = [field.name for field in fields(Rates)]
EDITS = [name for name in CHANGES if name != "merge_sentences"]
N = 400


def sentences(n: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    texts = [" ".join(random.choice(WORDS, random.integers(3, 12))) for _ in range(n)]
    return [text[0].upper() + text[1:] + random.choice([".", "!", " ?"]) for text in texts]


SRC, TGT = sentences(N, 1), sentences(N, 2)


def learn(**options: object) -> Vocabulary:
    alphabet = "".join(chr(i) for i in range(33, 127))
    return Vocabulary.learn([*SRC, *TGT, alphabet], size=400, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return learn(tags=["<bt>", "<news>"])


def sequences(ids: Sequence[Sequence[int]]) -> IdSequences:
    offsets = np.cumsum([0, *map(len, ids)], dtype=np.int64)
    return IdSequences(np.array([i for each in ids for i in each], np.uint16), offsets)


def corpus_of(vocabulary: Vocabulary, src: list[str] = SRC, tgt: list[str] = TGT) -> ParallelIds:
    return ParallelIds(sequences(vocabulary.encode(src)), sequences(vocabulary.encode(tgt)))


def lists(side: IdSequences) -> list[list[int]]:
    return [side[i].tolist() for i in range(len(side))]


def apply(
    vocabulary: Vocabulary,
    corpus: ParallelIds,
    *,
    place: tuple[int, int] = (0, 0),
    seed: int = 1,
    max_tokens: int = 10_000,
    src_sampling: float | None = None,
    tgt_sampling: float | None = None,
    **rates: float,
) -> tuple[list[list[int]], list[list[int]]]:
    sides = Side(vocabulary, src_sampling), Side(vocabulary, tgt_sampling)
    change = Augmentation(*sides, Rates(**rates), max_tokens=max_tokens, seed=seed)
    found = change.apply(corpus, np.arange(len(corpus)), *place)
    return lists(found.src), lists(found.tgt)


ALL = dict.fromkeys(CHANGES, 0.3) | {"src_sampling": 0.1, "tgt_sampling": 0.1}


def test_without_any_rate_ids_are_what_they_were(vocabulary: Vocabulary) -> None:
    corpus = corpus_of(vocabulary)
    assert apply(vocabulary, corpus) == (lists(corpus.src), lists(corpus.tgt))


def test_everything_follows_from_seed_and_place(vocabulary: Vocabulary) -> None:
    corpus = corpus_of(vocabulary)
    places = {(seed, part, update) for seed in (1, 2) for part in (0, 1) for update in (0, 1, 5)}
    results = {
        (seed, part, update): apply(vocabulary, corpus, seed=seed, place=(part, update), **ALL)
        for seed, part, update in sorted(places)
    }
    assert len(set(map(str, results.values()))) == len(places)
    for seed, part, update in sorted(places, reverse=True):
        np.random.seed(update)  # no other source of chance has a part in it
        vocabulary.sample(SRC[:3], 0.5, update)
        again = apply(vocabulary, corpus, seed=seed, place=(part, update), **ALL)
        assert again == results[seed, part, update]


@pytest.mark.parametrize(("kind", "amount"), [("bpe", 0.1), ("unigram", 0.1)])
def test_sampled_cuts_spell_the_same_text_and_follow_from_the_seed(kind: str, amount: float) -> None:
    """Also in several threads at once, though sentencepiece has one seed for the process."""
    vocabulary = Vocabulary.learn([*SRC, *TGT], size=330, type=kind)  # type: ignore[arg-type]
    one, other = vocabulary.sample(SRC, amount, 5), vocabulary.sample(SRC, amount, 6)
    plain = vocabulary.encode(SRC)
    assert vocabulary.decode(one) == vocabulary.decode(other) == vocabulary.decode(plain)
    assert one != other
    assert sum(a != b for a, b in zip(one, plain, strict=True)) > N / 10
    assert sum(map(len, one)) > sum(map(len, plain))
    found: dict[int, list[list[int]]] = {}
    threads = [
        threading.Thread(target=lambda seed=seed: found.setdefault(seed, vocabulary.sample(SRC, amount, seed)))
        for seed in (5, 6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found[5], found[6]) == (one, other)


def test_cuts_are_drawn_on_the_side_that_is_named(vocabulary: Vocabulary) -> None:
    corpus = corpus_of(vocabulary)
    src, tgt = apply(vocabulary, corpus, tgt_sampling=0.2)
    assert src == lists(corpus.src)
    assert tgt != lists(corpus.tgt)
    assert vocabulary.decode(tgt) == TGT


@pytest.mark.parametrize("change", EDITS)
def test_a_change_comes_as_often_as_its_rate_says(vocabulary: Vocabulary, change: str) -> None:
    corpus = corpus_of(vocabulary)
    changed = sum(
        src != before
        for update in range(5)
        for src, before in zip(
            apply(vocabulary, corpus, place=(0, update), **{change: 0.2})[0], lists(corpus.src), strict=True
        )
    )
    assert changed / (5 * N) == pytest.approx(0.2, abs=5 * (0.2 * 0.8 / (5 * N)) ** 0.5)


def texts(vocabulary: Vocabulary, **rates: float) -> tuple[list[str], list[str]]:
    src, tgt = apply(vocabulary, corpus_of(vocabulary), **rates)
    return vocabulary.decode(src), vocabulary.decode(tgt)


def test_case_and_end_marks_change_on_both_sides(vocabulary: Vocabulary) -> None:
    assert texts(vocabulary, upper_case=1) == ([s.upper() for s in SRC], [t.upper() for t in TGT])
    assert texts(vocabulary, title_case=1) == ([s.title() for s in SRC], [t.title() for t in TGT])
    src, tgt = texts(vocabulary, drop_end_punctuation=1)
    assert (src, tgt) == ([s.rstrip(" .!?") for s in SRC], [t.rstrip(" .!?") for t in TGT])


def test_upper_and_title_case_exclude_each_other(vocabulary: Vocabulary) -> None:
    src, tgt = texts(vocabulary, upper_case=0.4, title_case=0.5)
    kinds = [(s.isupper(), s.istitle(), t.isupper(), t.istitle()) for s, t in zip(src, tgt, strict=True)]
    assert {kind[:2] for kind in kinds if kind[0] or kind[2]} == {(True, False)}
    assert sum(kind[0] for kind in kinds) / N == pytest.approx(0.4, abs=0.1)
    assert sum(kind[1] for kind in kinds) / N == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("src", "tgt", "expected"),
    [
        ("Go!", "Geh", ("Go!", "Geh")),  # else the network would learn to leave marks out
        ("Go.", "去。", ("Go", "去")),
        ("Really?!", "Wirklich ?!", ("Really", "Wirklich")),
        ("...", "...", ("...", "...")),  # nothing would be left
        ('He said "go."', 'Er sagte "geh."', ('He said "go."', 'Er sagte "geh."')),
    ],
)
def test_end_marks_go_only_where_both_sides_have_them(src: str, tgt: str, expected: tuple[str, str]) -> None:
    assert edit(src, tgt, ["drop_end_punctuation"], np.random.default_rng(1)) == expected


def test_title_case_is_that_of_words_not_of_apostrophes() -> None:
    found = edit("(don't) 'go' élan", "ab", ["title_case"], np.random.default_rng(1))
    assert found == ("(Don't) 'Go' Élan", "Ab")


def test_typos_are_small_and_of_the_source_alone(vocabulary: Vocabulary) -> None:
    src, tgt = texts(vocabulary, typos=1)
    assert tgt == TGT
    assert sum(a != b for a, b in zip(src, SRC, strict=True)) > 0.8 * N  # a swap of equal letters is none
    for before, after in zip(SRC, src, strict=True):
        one, other = before.split(), after.split()
        assert len(one) == len(other)
        for word, typed in zip(one, other, strict=True):
            assert word == typed or (word[0] == typed[0] and abs(len(word) - len(typed)) <= 1 and len(word) >= 4)


def test_markup_is_the_same_on_both_sides_around_what_corresponds(vocabulary: Vocabulary) -> None:
    src, tgt = texts(vocabulary, markup=1)
    inner = re.compile(r"^(.*?)(<[^/>]+>)(.*)(</\w+>)(.*)$")
    spans = 0
    for s, t, before_s, before_t in zip(src, tgt, SRC, TGT, strict=True):
        one, other = inner.match(s), inner.match(t)
        assert one and other
        assert (one[2], one[4]) == (other[2], other[4])
        assert (one[1] + one[3] + one[5], other[1] + other[3] + other[5]) == (before_s, before_t)
        if one[1] or one[5]:
            spans += 1
            assert one[3] == other[3]
        else:
            assert not other[1] + other[5]
    assert 0.1 * N < spans < 0.6 * N


def test_joined_pairs_are_whole_and_correspond(vocabulary: Vocabulary) -> None:
    corpus = corpus_of(vocabulary)
    src, tgt = apply(vocabulary, corpus, merge_sentences=0.5)
    assert sum(map(len, src)) == len(corpus.src.ids)
    assert len(src) == len(tgt) == pytest.approx(0.75 * N, abs=0.1 * N)
    pairs = set(zip(SRC, TGT, strict=True))
    singles = 0
    for s, t in zip(vocabulary.decode(src), vocabulary.decode(tgt), strict=True):
        if (s, t) in pairs:
            singles += 1
            continue
        halves = [(a, b) for a, b in pairs if s.startswith(a + " ") and t.startswith(b + " ")]
        assert any((s[len(a) + 1 :], t[len(b) + 1 :]) in pairs for a, b in halves)
    assert 0 < singles < len(src)


def test_tags_stay_before_the_source_whatever_happens_to_it(vocabulary: Vocabulary) -> None:
    """And pairs of different tags are not joined."""
    tags = [vocabulary.tag_id(tag) for tag in ("<bt>", "<news>")]
    plain = corpus_of(vocabulary)
    prefix = [[], tags[:1], tags[1:], tags]
    src = [[*prefix[i % 4], *ids] for i, ids in enumerate(lists(plain.src))]  # type: ignore[misc]
    tagged = ParallelIds(sequences(src), plain.tgt)
    found, _ = apply(vocabulary, tagged, **ALL)
    kinds = [[i for i in ids if i in tags] for ids in found]
    assert all(ids[: len(kind)] == kind for ids, kind in zip(found, kinds, strict=True))
    assert {tuple(kind) for kind in kinds} == {tuple(each) for each in prefix}
    assert len(found) < N
    unjoined, _ = apply(vocabulary, tagged, **ALL | {"merge_sentences": 0.0})
    assert [[i for i in ids if i in tags] for ids in unjoined] == [prefix[i % 4] for i in range(N)]


def test_a_pair_that_would_outgrow_the_budget_keeps_its_ids(vocabulary: Vocabulary) -> None:
    corpus = corpus_of(vocabulary)
    longest = int(max(corpus.src_lengths.max(), corpus.tgt_lengths.max()))
    max_tokens = longest + 1
    without_limit = apply(vocabulary, corpus, upper_case=1)
    limited = apply(vocabulary, corpus, max_tokens=max_tokens, upper_case=1)
    clean = lists(corpus.src), lists(corpus.tgt)
    kept = 0
    for s, t, free_s, free_t, clean_s, clean_t in zip(*limited, *without_limit, *clean, strict=True):
        fits = max(len(free_s), len(free_t)) + 1 <= max_tokens
        assert (s, t) == ((free_s, free_t) if fits else (clean_s, clean_t))
        kept += not fits
    assert 0 < kept < N
    everything = apply(vocabulary, corpus, max_tokens=max_tokens, **ALL)
    assert max(max(len(s), len(t)) for s, t in zip(*everything, strict=True)) + 1 <= max_tokens


def test_what_has_no_piece_is_never_brought_in() -> None:
    """Without bytes, capitals that the vocabulary lacks would all be unknown; a pair with <unk> stays as it is."""
    vocabulary = Vocabulary.learn(["ab ba abba baab aabb", "a b"], size=14, byte_fallback=False)
    src, tgt = ["ab ba", "ab xy", "", "baab"], ["ba", "abba", "aabb", ""]
    corpus = corpus_of(vocabulary, src, tgt)
    found = apply(vocabulary, corpus, upper_case=1, markup=1, src_sampling=0.5)
    assert found[1] == lists(corpus.tgt)
    assert [ids for i, ids in enumerate(found[0]) if i] == lists(corpus.src)[1:]
    assert UNK_ID in found[0][1]
    assert UNK_ID not in found[0][0]


@given(
    st.text(st.characters(exclude_characters="\n")),
    st.text(st.characters(exclude_characters="\n")),
    st.sets(st.sampled_from(EDITS)),
    st.integers(0, 1000),
)
def test_any_text_can_be_changed_and_stays_one_line(src: str, tgt: str, changes: set[str], seed: int) -> None:
    found = edit(src, tgt, sorted(changes), np.random.default_rng(seed))
    assert "\n" not in "".join(found)
    assert found == edit(src, tgt, sorted(changes), np.random.default_rng(seed))


def test_on_real_text_only_what_was_asked_for_changes(corpora: Path) -> None:
    src, tgt = (list(read_lines(corpora / "multi30k" / f"val.{language}.gz")) for language in ("en", "de"))
    vocabulary = Vocabulary.learn([*src, *tgt], size=2000)
    corpus = corpus_of(vocabulary, src, tgt)
    plain = vocabulary.decode(lists(corpus.src)), vocabulary.decode(lists(corpus.tgt))
    sampled = apply(vocabulary, corpus, src_sampling=0.1, tgt_sampling=0.1)
    assert tuple(map(vocabulary.decode, sampled)) == plain
    upper = apply(vocabulary, corpus, upper_case=1)
    assert vocabulary.decode(upper[0]) == [text.upper() for text in plain[0]]
