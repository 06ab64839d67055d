"""Everything that can be asked of a translation beside the best one, through the translator: alone and together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from data.vocabulary import EOS_ID, Vocabulary
from transformer.config import ModelSettings
from transformer.config_translate import DiversitySettings, SamplingSettings, TranslateSettings
from transformer.errors import ConfigError
from transformer.inference.requests import Request
from transformer.inference.scoring import target_log_probs, target_scores
from transformer.inference.search.bayes_risk import best_by_risk
from transformer.inference.search.length_penalty import wu
from transformer.inference.translator import Translation, Translator
from transformer.inference.word_bounds import occurs
from transformer.model import Transformer

SHORT = TranslateSettings(max_length_ratio=0.5, max_extra_length=4)
X7 = [" ".join([f"w{i}"] * (i * 7 % 23 + 1)) for i in range(1, 876)]  # the lines of case X7
LINES = [X7[i] for i in (0, 4, 11, 100, 36, 500, 874, 23)]
PHRASES = ("w17", "the mat", "sat on")


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    """Without bytes, out of which an untrained network makes no characters."""
    lines = [f"w{i} the cat number {i} sat on the mat" for i in range(1, 876)]
    return Vocabulary.learn(lines, size=150, byte_fallback=False)


@pytest.fixture
def translate(vocabulary: Vocabulary, network: Transformer) -> Any:
    """translate(lines, max_sentences=…, annotate=…, **settings) → translations."""

    def run(
        lines: Sequence[str | Request], max_sentences: int | None = None, annotate: bool = False, **settings: Any
    ) -> list[Translation]:
        chosen = TranslateSettings.model_validate(SHORT.model_dump() | settings)
        translator = Translator(network, vocabulary, vocabulary, chosen, "cpu", max_sentences)
        return list(translator.translations(lines, annotate=annotate))

    return run


def texts(translations: Sequence[Translation]) -> list[str]:
    return [translation.text for translation in translations]


def all_texts(translation: Translation) -> list[str]:
    return texts([translation, *translation.alternatives])


# --- several hypotheses ---


def test_n_best_are_sorted_and_different_and_begin_with_the_best(translate: Any) -> None:
    for one, four in zip(translate(LINES), translate(LINES, n_best=4), strict=True):
        assert replace(four, alternatives=()) == one
        scores = [four.score, *(other.score for other in four.alternatives)]
        assert len(scores) == 4
        assert scores == sorted(scores, reverse=True)
    annotated = translate(LINES, n_best=4, annotate=True)
    assert all(len({t.pieces for t in (four, *four.alternatives)}) == 4 for four in annotated)


def test_more_hypotheses_than_beams_are_refused_with_both_numbers() -> None:
    """Case X2."""
    with pytest.raises(ValueError, match=r"n_best 10 is more than beam_size 5"):
        TranslateSettings(beam_size=5, n_best=10)


def test_without_eos_all_n_best_are_cut_and_say_so(translate: Any, network: Transformer) -> None:
    """Case X3."""
    project = network.project
    bias = torch.zeros(network.projection.out_features)
    bias[EOS_ID] = -1e4
    network.project = lambda hidden: project(hidden) + bias  # type: ignore[method-assign]
    try:
        found = translate(LINES[:3], n_best=4, beam_size=4, max_length_ratio=0, max_extra_length=10)
    finally:
        del network.project
    for best in found:
        hypotheses = [best, *best.alternatives]
        assert [(h.n_tokens, h.finished) for h in hypotheses] == [(10, False)] * 4
        assert all(math.isfinite(h.score) for h in hypotheses)


def test_groups_bring_more_different_beginnings_than_one_beam(translate: Any) -> None:
    one = translate(LINES, beam_size=6, n_best=6)
    groups = translate(LINES, beam_size=6, n_best=6, diversity=DiversitySettings(groups=6, strength=5.0).model_dump())

    def beginnings(found: Sequence[Translation]) -> int:
        return sum(len({text[:3] for text in all_texts(t)}) for t in found)

    assert beginnings(groups) > 1.5 * beginnings(one)


@pytest.mark.parametrize("sampling", [None, SamplingSettings(seed=7).model_dump()], ids=["beam", "samples"])
def test_minimum_bayes_risk_takes_the_candidate_most_like_the_others(translate: Any, sampling: Any) -> None:
    candidates = translate(LINES, beam_size=8, n_best=8, sampling=sampling)
    chosen = translate(LINES, beam_size=8, sampling=sampling, minimum_bayes_risk="chrf")
    for found, best in zip(candidates, chosen, strict=True):
        hypotheses = [found, *found.alternatives]
        log_probs = [h.score * float(wu(0.6)(torch.tensor(h.n_tokens))) for h in hypotheses]
        weights = None if sampling else torch.tensor(log_probs).softmax(0).tolist()
        place = best_by_risk([h.text for h in hypotheses], "chrf", weights)[0][0]
        assert best.text == hypotheses[place].text
    assert texts(chosen) != texts(candidates)


# --- sampling ---


@pytest.mark.parametrize("n_samples", [1, 4])
def test_samples_depend_on_the_line_and_the_seed_alone(translate: Any, n_samples: int) -> None:
    def sampled(max_sentences: int | None = None, seed: int = 3) -> list[list[str]]:
        sampling = SamplingSettings(seed=seed, top_k=20).model_dump()
        found = translate(LINES, max_sentences, beam_size=n_samples, n_best=n_samples, sampling=sampling)
        return [all_texts(t) for t in found]

    assert sampled() == sampled(1) == sampled(3)
    assert sampled() != sampled(seed=4)


def test_lines_counted_from_elsewhere_draw_as_they_would_there(vocabulary: Vocabulary, network: Transformer) -> None:
    """A file that is translated in parts gives what it gives in one go."""
    settings = SHORT.model_copy(update={"sampling": SamplingSettings(), "beam_size": 1})
    translator = Translator(network, vocabulary, vocabulary, settings, "cpu")
    same = ["the cat sat"] * 6
    whole = texts(list(translator.translations(same)))
    assert len(set(whole)) > 3  # equal lines draw differently
    assert texts(list(translator.translations(same[2:], first_line=2))) == whole[2:]
    assert texts(list(translator.translations(same, window=2))) == whole


# --- wishes ---


def test_translations_begin_with_their_prefixes_and_go_on_as_the_model_would(translate: Any) -> None:
    plain = translate(LINES, beam_size=1, annotate=True)
    prefixes = [" ".join(t.text.split(" ")[:2]) for t in plain]
    found = translate([Request(line, prefix="the mat") for line in LINES])
    assert all(t.text.startswith("the mat") for t in found)
    same = translate([Request(line, prefix=prefix) for line, prefix in zip(LINES, prefixes, strict=True)], beam_size=1)
    assert all(t.text.startswith(prefix) for t, prefix in zip(same, prefixes, strict=True))


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_required_phrases_are_there_and_flags_say_when_they_cannot_be(translate: Any, beam_size: int) -> None:
    requests = [Request(line, required=PHRASES[: 1 + i % 3]) for i, line in enumerate(LINES)]
    roomy = {"max_extra_length": 30, "beam_size": beam_size}
    for request, found in zip(requests, translate(requests, **roomy), strict=True):
        assert all(occurs(phrase, found.text) for phrase in request.required), (found.text, request.required)
        assert not found.constraint_unmet
    narrow = translate([Request("w1", required=PHRASES)], max_length_ratio=0.0, max_extra_length=2, beam_size=beam_size)
    assert narrow[0].constraint_unmet
    assert math.isfinite(narrow[0].score)
    free = translate(LINES, **roomy)
    mixed = translate([*requests[:2], *LINES[2:]], **roomy)
    assert texts(mixed)[2:] == texts(free)[2:]  # neighbours with wishes change nothing


def test_avoided_phrases_are_not_there(translate: Any, vocabulary: Vocabulary) -> None:
    """Not as the vocabulary cuts them; another cut can spell the same, which the flag then says."""
    plain = translate(LINES, annotate=True)
    avoided = [tuple(vocabulary.decode([vocabulary.encode([t.text])[0][i : i + 2]])[0] for i in (0, 2)) for t in plain]
    found = translate([Request(line, avoided=a) for line, a in zip(LINES, avoided, strict=True)], annotate=True)
    for translation, phrases in zip(found, avoided, strict=True):
        written = " ".join(translation.pieces)
        assert not any(" ".join(vocabulary.pieces(ids)) in written for ids in vocabulary.encode(phrases))
        assert translation.constraint_unmet == any(occurs(phrase, translation.text) for phrase in phrases)
    assert texts(found) != texts(plain)


@pytest.mark.parametrize(
    ("name", "value"),
    [("sampling", SamplingSettings().model_dump()), ("diversity", {"groups": 2}), ("no_repeat_ngram", 3)],
)
def test_what_excludes_required_phrases_is_refused_with_the_line(translate: Any, name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"line 2 .*translate\.{name}.*off"):
        translate(["w1", Request("w2", required=("the mat",))], **{name: value})


def test_wishes_and_settings_go_together(translate: Any) -> None:
    request = Request(LINES[2], prefix="sat", required=("the mat",), avoided=("cat",))
    options = {"n_best": 3, "repetition_penalty": 1.3, "min_length": 8, "coverage_penalty": 0.2, "stop": "first_n"}
    [found] = translate([request], annotate=True, max_extra_length=20, **options)
    for translation in (found, *found.alternatives):
        assert translation.text.startswith("sat")
        assert occurs("the mat", translation.text)
        assert not occurs("cat", translation.text)
        assert translation.n_tokens > 8


def test_minimum_length_repetition_and_ngrams(translate: Any) -> None:
    assert all(t.n_tokens >= 10 for t in translate(["w1", "w2 w3"], min_length=9, max_extra_length=30))
    for t in translate(LINES, no_repeat_ngram=2, max_extra_length=30, annotate=True):
        pairs = list(zip(t.pieces, t.pieces[1:], strict=False))
        assert len(pairs) == len(set(pairs))


def test_coverage_lowers_scores_and_never_raises_them(translate: Any) -> None:
    plain, covered = translate(LINES), translate(LINES, coverage_penalty=0.5)
    assert all(c.score < p.score for c, p in zip(covered, plain, strict=True))


# --- ensembles ---


def test_an_ensemble_of_a_model_with_itself_is_the_model(vocabulary: Vocabulary, network: Transformer) -> None:
    alone = Translator(network, vocabulary, vocabulary, SHORT, "cpu")
    twice = Translator([network, network], vocabulary, vocabulary, SHORT, "cpu")
    one, two = list(alone.translations(LINES)), list(twice.translations(LINES))
    assert texts(two) == texts(one)
    assert [t.score for t in two] == pytest.approx([t.score for t in one], abs=1e-4)


def test_the_score_of_an_ensemble_is_that_of_its_mean(vocabulary: Vocabulary, network: Transformer) -> None:
    torch.manual_seed(5)
    other = Transformer(network.settings, len(vocabulary), len(vocabulary))
    translator = Translator([network, other], vocabulary, vocabulary, SHORT, "cpu")
    for translation in translator.translations(LINES, annotate=True):
        assert translation.token_log_probs is not None
        total = sum(translation.token_log_probs) / float(wu(0.6)(torch.tensor(translation.n_tokens)))
        assert translation.score == pytest.approx(total, abs=1e-4)


# --- annotation and scoring ---


def test_annotations_are_those_of_forced_decoding(vocabulary: Vocabulary, network: Transformer, translate: Any) -> None:
    plain, annotated = translate(LINES), translate(LINES, annotate=True)
    assert texts(plain) == texts(annotated)
    for line, t in zip(LINES, annotated, strict=True):
        src = torch.tensor([[*vocabulary.encode([line])[0], EOS_ID]])
        assert t.pieces is not None
        ids = [next(i for i in range(len(vocabulary)) if vocabulary.pieces([i]) == [piece]) for piece in t.pieces]
        log_probs = target_log_probs(network, src, torch.tensor([ids]))[0]
        assert t.token_log_probs == pytest.approx(log_probs.tolist(), abs=1e-4)
        assert sum(t.token_log_probs) / float(wu(0.6)(torch.tensor(len(ids)))) == pytest.approx(t.score, abs=1e-4)
        n_src, n_tgt = len(line.split()), len(t.text.split())
        assert all(0 <= i < n_src and 0 <= j < n_tgt for i, j in t.alignment)
        assert len(t.attention) == n_tgt
        assert all(len(row) == n_src for row in t.attention)


def test_a_chosen_layer_aligns_and_one_that_is_not_there_is_refused(translate: Any) -> None:
    mean, first = translate(LINES, annotate=True), translate(LINES, annotate=True, alignment_layer=1)
    assert [t.alignment for t in mean] == [t.alignment for t in first]  # this decoder has one layer
    with pytest.raises(ConfigError, match=r"alignment_layer: 2: the decoder has layers 1 \(the lowest\) to 1"):
        translate(LINES, alignment_layer=2)


def test_scores_of_given_translations_are_those_of_the_search(vocabulary: Vocabulary, network: Transformer) -> None:
    translator = Translator(network, vocabulary, vocabulary, SHORT, "cpu")
    pairs = [(line, " ".join(LINES[i].split()[:4])) for i, line in enumerate(LINES)]
    counted: list[int] = []
    found = list(translator.scored([*pairs, ("", " ")], window=4, progress=counted.append))
    assert sum(counted) == len(found) == len(pairs) + 1
    assert (found[-1].text, found[-1].score, found[-1].token_log_probs) == ("", 0.0, ())
    for (src, tgt), t in zip(pairs, found, strict=False):
        ids = [[*vocabulary.encode([text])[0], EOS_ID] for text in (src, tgt)]
        score = target_scores(network, torch.tensor([ids[0]]), torch.tensor([ids[1]]), wu(0.6))
        assert t.text == tgt
        assert t.score == pytest.approx(float(score), abs=1e-4)
        assert len(t.token_log_probs or ()) == len(ids[1])


# --- long input ---


def test_a_line_longer_than_the_limit_is_translated_in_parts_and_says_so(translate: Any) -> None:
    """10,000 words: in bounded time, not one lost part; neighbours are as without it."""
    long = " ".join(f"w{i % 800}" for i in range(10_000))
    found = translate([LINES[0], long, LINES[1]], max_source_length=60, beam_size=1, annotate=True, max_extra_length=2)
    assert found[1].n_parts > 300
    assert not found[1].truncated
    assert found[1].attention is None
    assert len(found[1].pieces or ()) == found[1].n_tokens == len(found[1].token_log_probs or ())
    n_tgt = len(found[1].text.split())
    assert all(0 <= i < 10_000 and 0 <= j < n_tgt for i, j in found[1].alignment)
    assert {i * 10 // 10_000 for i, _ in found[1].alignment} == set(range(10))  # links all along the line
    assert [t.n_parts for t in found] == [1, found[1].n_parts, 1]
    alone = translate([LINES[0], LINES[1]], beam_size=1, max_extra_length=2)
    assert [found[0].text, found[2].text] == texts(alone)


def test_or_only_its_beginning_is_and_says_so(vocabulary: Vocabulary, translate: Any) -> None:
    line = X7[12]  # 23 words
    ids = vocabulary.encode([line])[0]
    cut, whole = translate([line, "w1"], max_source_length=10, long_input="truncate"), translate([line, "w1"])
    assert [t.truncated for t in cut] == [True, False]
    assert len(ids) > 10
    assert cut[0].text != whole[0].text
    assert cut[1].text == whole[1].text
    exact = translate([line], max_source_length=len(ids), long_input="truncate")
    assert not exact[0].truncated
    assert exact[0].text == whole[0].text


# --- side by side, and in other precisions ---


def test_workers_change_no_text(translate: Any) -> None:
    one = translate(X7[:120], 8, workers=1)
    three = translate(X7[:120], 8, workers=3)
    assert texts(one) == texts(three)
    assert [t.score for t in one] == pytest.approx([t.score for t in three], abs=1e-4)


def test_workers_leave_the_number_of_threads_as_it_was(translate: Any) -> None:
    before = torch.get_num_threads()
    translate(X7[:30], 4, workers=2)
    assert torch.get_num_threads() == before


def test_half_precision_changes_scores_a_little_and_leaves_the_network_alone(vocabulary: Vocabulary) -> None:
    settings = ModelSettings(n_encoder_layers=1, n_decoder_layers=1, d_model=32, d_ff=48, n_heads=4)
    torch.manual_seed(0)
    network = Transformer(settings, len(vocabulary), len(vocabulary))
    pairs = [(line, line) for line in LINES]
    full, half = (
        Translator(network, vocabulary, vocabulary, SHORT.model_copy(update={"precision": name}), "cpu")
        for name in ("fp32", "bf16")
    )
    assert next(network.parameters()).dtype == torch.float32
    scores = [[t.score for t in translator.scored(pairs)] for translator in (full, half)]
    assert scores[0] != scores[1]
    assert scores[0] == pytest.approx(scores[1], rel=0.01)
    assert len(half.translate(LINES)) == len(LINES)
