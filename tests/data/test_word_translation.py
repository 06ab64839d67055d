from __future__ import annotations

import gzip
import random
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.errors import DataError
from data.pairs import Texts
from data.word_translation import (
    NEIGHBOUR_LIMIT,
    NEIGHBOUR_MARGIN,
    NEIGHBOUR_WEIGHT,
    Vocabulary,
    WordTranslation,
    in_context,
    learn_dictionary,
    vocabulary,
)
from data.words import words_of

Pairs = list[tuple[str, str]]


def texts(pairs: Pairs) -> Texts:
    return Texts([src for src, _ in pairs], [tgt for _, tgt in pairs])


def invented_pairs(n: int, seed: int = 1) -> Pairs:
    """Sentences of two languages whose words translate one to one, in another order; some are rarer."""
    rng = random.Random(seed)
    sentences = [[int(200 * rng.random() ** 2) for _ in range(rng.randint(3, 9))] for _ in range(n)]
    return [
        (" ".join(f"s{word}" for word in words), " ".join(f"t{word}" for word in words[::-1])) for words in sentences
    ]


@pytest.fixture(scope="module")
def model() -> WordTranslation:
    return WordTranslation.learn(invented_pairs(3000))


# --- Model 1 ---


def model_1(pairs: list[tuple[list[str], list[str]]], n_iterations: int) -> dict[tuple[str, str], float]:
    """Expected counts (e, f) of Brown et al.'s Model 1 in dictionaries, the empty word's share given by frequency."""
    frequency: dict[str, int] = defaultdict(int)
    for _, effects in pairs:
        for effect in effects:
            frequency[effect] += 1
    total = sum(frequency.values())
    probability: dict[tuple[str, str], float] = defaultdict(lambda: 1 / len(frequency))
    counts: dict[tuple[str, str], float] = {}
    for _ in range(n_iterations):
        counts = defaultdict(float)
        for causes, effects in pairs:
            for effect in effects:
                sum_of_all = frequency[effect] / total + sum(probability[cause, effect] for cause in causes)
                for cause in causes:
                    counts[cause, effect] += probability[cause, effect] / sum_of_all
        totals: dict[str, float] = defaultdict(float)
        for (cause, _), count in counts.items():
            totals[cause] += count
        for (cause, effect), count in counts.items():
            probability[cause, effect] = count / totals[cause]
    return counts


sentence = st.lists(st.sampled_from("abcd"), min_size=1, max_size=5)


@settings(deadline=None)
@given(st.lists(st.tuples(sentence, sentence), min_size=1, max_size=8), st.integers(1, 4))
def test_expectation_maximisation_is_that_of_the_definition(
    pairs: list[tuple[Pairs, Pairs]], n_iterations: int
) -> None:
    src, tgt = (words_of([" ".join(pair[side]) for pair in pairs]) for side in (0, 1))
    vocabularies = [vocabulary(side.keys, min_count=1) for side in (src, tgt)]
    names = [names_of(words) for words in vocabularies]
    found = learn_dictionary(src, tgt, *vocabularies, n_iterations)
    links = [(names[0][one], names[1][other]) for one, other in zip(found.src, found.tgt, strict=True)]
    forward, backward = model_1(pairs, n_iterations), model_1([(tgt, src) for src, tgt in pairs], n_iterations)
    assert set(links) == set(forward)
    np.testing.assert_allclose(found.forward, [forward[one, other] for one, other in links], rtol=1e-9)
    np.testing.assert_allclose(found.backward, [backward[other, one] for one, other in links], rtol=1e-9)


def names_of(words: Vocabulary) -> list[str]:
    names = {int(words_of([letter]).keys[0]): letter for letter in "abcd"}
    return [names[key] for key in words.keys.tolist()]


def test_words_that_translate_each_other_are_learnt() -> None:
    pairs = invented_pairs(2000)
    src, tgt = (words_of([pair[side] for pair in pairs]) for side in (0, 1))
    src_vocabulary, tgt_vocabulary = vocabulary(src.keys), vocabulary(tgt.keys)
    found = learn_dictionary(src, tgt, src_vocabulary, tgt_vocabulary, n_iterations=5)
    numbers = {int(words_of([f"{side}{word}"]).keys[0]): word for side, word in product("st", range(200))}
    best = np.zeros(len(src_vocabulary.keys), int)
    for place in np.argsort(found.forward):
        best[found.src[place]] = found.tgt[place]
    right = [
        numbers[int(one)] == numbers[int(tgt_vocabulary.keys[other])]
        for one, other in zip(src_vocabulary.keys, best, strict=True)
    ]
    assert np.mean(right) > 0.99


# --- judging pairs ---


def test_translations_are_kept_and_others_are_dropped(model: WordTranslation) -> None:
    pairs = invented_pairs(600, seed=2)
    wrong = [(src, pairs[(place + 1) % len(pairs)][1]) for place, (src, _) in enumerate(pairs)]
    alone = model.filter(window=0)
    assert alone(texts(pairs)).mean() > 0.99
    assert alone(texts(wrong)).mean() < 0.05
    in_order = model.filter()
    assert in_order(texts(wrong)).mean() < 0.02
    run = [*pairs[:200], *wrong[200:230], *pairs[230:]]
    dropped = np.flatnonzero(~in_order(texts(run)))
    assert set(dropped) >= set(range(202, 228))
    assert len(set(dropped) - set(range(200, 230))) < 6


def test_what_was_never_seen_says_little_and_what_is_the_same_on_both_sides_something(model: WordTranslation) -> None:
    unknown, same, nothing = model.score(
        texts([("new words", "neue Wörter"), ("Kraków 1998", "Kraków 1998"), ("", "…")])
    )
    assert abs(unknown) < 0.5
    assert same >= 0
    assert nothing == 0


def test_a_pair_has_the_score_it_has_alone(model: WordTranslation) -> None:
    pairs = [
        *invented_pairs(30, seed=3),
        ("", ""),
        ("s1 s1 s1", "t1"),
        (" ".join(f"s{n}" for n in range(200)), "t7 t8"),
    ]
    alone = [model.score(texts([pair]))[0] for pair in pairs]
    np.testing.assert_allclose(model.score(texts(pairs)), alone, atol=1e-9)


def test_a_very_long_line_is_judged_by_its_beginning(model: WordTranslation) -> None:
    line = (" ".join(f"s{n % 200}" for n in range(30_000)), " ".join(f"t{n % 200}" for n in range(30_000)))
    beginning = tuple(" ".join(side.split()[:250]) for side in line)
    assert model.score(texts([line])) == model.score(texts([(beginning[0], beginning[1])]))


def test_repeated_pairs_teach_nothing_more() -> None:
    pairs = invented_pairs(300)
    once, often = WordTranslation.learn(pairs), WordTranslation.learn([*pairs, *pairs[:50], *pairs[:50]])
    assert np.array_equal(once.score(texts(pairs)), often.score(texts(pairs)))


def test_no_more_pairs_are_read_than_asked_for() -> None:
    pairs = invented_pairs(300)
    assert np.array_equal(
        WordTranslation.learn(pairs, max_pairs=100).score(texts(pairs)),
        WordTranslation.learn(pairs[:100]).score(texts(pairs)),
    )


def test_where_memory_is_short_all_parts_of_the_corpus_are_learnt_from(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = invented_pairs(1000)
    other = [(src.replace("s", "x"), tgt.replace("t", "y")) for src, tgt in pairs]
    monkeypatch.setattr("data.word_translation._LINKS_AT_A_TIME", 1000)
    monkeypatch.setattr("data.word_translation.MAX_LINKS", 40_000)  # half of the meetings
    judge = WordTranslation.learn([*pairs, *other]).filter(window=0)
    for part in (pairs, other):
        assert judge(texts(part)).mean() > 0.95
        assert judge(texts([(part[place - 1][0], tgt) for place, (_, tgt) in enumerate(part)])).mean() < 0.2


@pytest.mark.parametrize("pairs", [[], [("", "")], [("a b c", "x y z")], [("a", "")] * 9])
def test_too_little_text_teaches_nothing_and_drops_nothing(pairs: Pairs) -> None:
    judge = WordTranslation.learn(pairs).filter()
    assert judge(texts([*pairs, ("a", "x"), ("a b", "z")])).all()
    assert len(judge(texts([]))) == 0


@given(st.lists(st.floats(-30, 30), max_size=20), st.integers(0, 6))
def test_neighbours_count_half_and_within_limits(scores: list[float], window: int) -> None:
    limited = [max(-NEIGHBOUR_LIMIT, min(NEIGHBOUR_LIMIT, score)) for score in scores]
    for place, found in enumerate(in_context(np.array(scores), window)):
        around = limited[max(place - window, 0) : place] + limited[place + 1 : place + 1 + window]
        assert found == pytest.approx(scores[place] + min(NEIGHBOUR_WEIGHT * sum(around), NEIGHBOUR_MARGIN))


# --- on disk ---


def test_what_was_saved_judges_the_same(model: WordTranslation, tmp_path: Path) -> None:
    model.save(tmp_path / "words.npz")
    pairs = invented_pairs(50, seed=4)
    loaded = WordTranslation.load(tmp_path / "words.npz")
    assert np.array_equal(loaded.score(texts(pairs)), model.score(texts(pairs)))


def test_what_is_no_saved_model_is_refused(model: WordTranslation, tmp_path: Path) -> None:
    path = tmp_path / "words.npz"
    model.save(path)
    whole = path.read_bytes()
    np.savez(tmp_path / "other.npz", a=np.arange(3))
    np.save(tmp_path / "array.npy", np.arange(3))
    np.save(tmp_path / "pickle.npy", np.array([{}], object), allow_pickle=True)
    others = [(tmp_path / name).read_bytes() for name in ("other.npz", "array.npy", "pickle.npy")]
    for content in (b"", b"no numbers", whole[: len(whole) // 2], whole.replace(b"PK\x03\x04", b"PK\x03\x05"), *others):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"words\.npz.*Learn them again"):
            WordTranslation.load(path)
    with pytest.raises(DataError, match=r"nowhere.*Learn them again"):
        WordTranslation.load(tmp_path / "nowhere")


def test_misaligned_lines_of_a_real_corpus_are_found(corpora: Path) -> None:
    src, tgt = (
        gzip.decompress((corpora / f"tatoeba/train.en-de.{language}.gz").read_bytes()).decode().split("\n")[:12_000]
        for language in ("en", "de")
    )
    tgt[6000:6040] = [*tgt[6001:6040], tgt[6000]]
    judge = WordTranslation.learn(zip(src, tgt, strict=True)).filter()
    dropped = ~judge(Texts(src[4000:8000], tgt[4000:8000]))
    assert dropped[2000:2040].mean() > 0.9
    assert np.delete(dropped, np.s_[2000:2040]).mean() < 0.03
