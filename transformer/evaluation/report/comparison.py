"""Two runs on the same sentences: whether they differ by more than chance, and where most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF
from tqdm import tqdm

from data.report.visible import plain, shown
from transformer.errors import ConfigError, RunError
from transformer.evaluation.report.run import Run
from transformer.evaluation.report.samples import SAMPLES, Ranking, Reading, Sample, last_validation
from transformer.evaluation.report.wording import LIMIT, with_differences
from transformer.evaluation.results import METRICS, Sentence
from transformer.evaluation.sentence_statistics import Statistics, count
from transformer.evaluation.significance import SIGNIFICANCE, compare
from transformer.evaluation.tokenization import load_bleu, tokenizer_at_hand


@dataclass(frozen=True)
class Comparison:
    """A set that two runs have translated: whether they differ by more than chance, and where most."""

    test_set: str
    verdicts: list[str]
    rankings: list[Ranking]


@dataclass(frozen=True)
class _Baseline:
    """What the first run made of a set, and what its figures are sums of: counted once, whoever is compared with it."""

    sentences: list[Sentence]
    references: list[list[str]]
    metrics: dict[str, Metric]
    counted: dict[str, Statistics]
    remark: str  # why BLEU is missing, or empty


def compare_runs(runs: Sequence[Run]) -> list[list[Comparison]]:
    """The first run and each other one, on each test set that both have translated, else on the validation set.

    A set can take seconds: there is a bar once one has passed.
    """
    first, others = runs[0], runs[1:]

    @cache
    def baseline(test_set: str | None) -> _Baseline:
        sentences = last_validation(first) if test_set is None else first.tests[test_set][1]
        tokenizer = tokenizer_at_hand(first.languages[1]) if test_set is None else first.tests[test_set][0].tokenizer
        return _count(sentences, tokenizer)

    found: list[list[Comparison]] = [[] for _ in others]
    pairs = [(i, test_set) for i, run in enumerate(others, 1) for test_set in _common_sets(first, run)]
    for i, test_set in tqdm(pairs, desc="differences", unit="set", delay=1, leave=False, disable=None):
        run = runs[i]
        sentences = last_validation(run) if test_set is None else run.tests[test_set][1]
        if sentences and (before := baseline(test_set)).sentences:
            found[i - 1].append(_compare(first, run, i, test_set or "validation", before, sentences))
    return found


def _common_sets(first: Run, second: Run) -> list[str | None]:
    """The test sets that both have translated; None, the validation set, where there are none."""
    names = sorted(first.tests.keys() & second.tests.keys())
    same = [name for name in names if _is_same_text(first.tests[name][1], second.tests[name][1])]
    if same or first.valid_text is None or first.valid_text != second.valid_text:
        return [*same]
    return [None]


def _is_same_text(one: Sequence[Sentence], other: Sequence[Sentence]) -> bool:
    texts, others = ([(s.src, s.references) for s in sentences] for sentences in (one, other))
    return bool(texts) and texts == others and all(references for _, references in texts)


def _count(sentences: list[Sentence], tokenizer: str) -> _Baseline:
    n_references = min((len(sentence.references) for sentence in sentences), default=0)
    references = [[sentence.references[r] for sentence in sentences] for r in range(n_references)]
    metrics: dict[str, Metric] = {"chrf": CHRF()}
    remark = ""
    try:
        metrics = {"bleu": load_bleu(tokenizer), **metrics}
    except (ConfigError, RunError) as error:
        remark = plain(str(error))
    counted = count(metrics, [sentence.hypothesis for sentence in sentences], references) if sentences else {}
    return _Baseline(sentences, references, metrics, counted, remark)


def _compare(first: Run, second: Run, i: int, name: str, before: _Baseline, other: Sequence[Sentence]) -> Comparison:
    one = before.sentences
    gains = [theirs.chrf - own.chrf for own, theirs in zip(one, other, strict=True)]
    order = sorted(range(len(gains)), key=lambda line: (-abs(gains[line]), line))
    better = [line for line in order if gains[line] > 0][: SAMPLES // 2]
    worse = [line for line in order if gains[line] < 0][: SAMPLES // 2]
    names = plain(first.name), plain(second.name)
    rankings = [
        Ranking(title, [_pair(first, second, i, line, one[line], other[line]) for line in lines])
        for title, lines in (
            (f"{names[1]} better than {names[0]}", better),
            (f"{names[0]} better than {names[1]}", worse),
        )
        if lines
    ]
    return Comparison(plain(name), list(_verdicts(before, other)), rankings)


def _pair(first: Run, second: Run, i: int, line: int, one: Sentence, other: Sentence) -> Sample:
    src_lang, tgt_lang = first.languages
    texts = [
        with_differences(one.hypothesis, other.hypothesis, "of-r0", tgt_lang),
        with_differences(other.hypothesis, one.hypothesis, f"of-r{i}", tgt_lang),
    ]
    readings = [
        Reading(0, plain(first.name), "", one.chrf, texts[0]),
        Reading(i, plain(second.name), "", other.chrf, texts[1]),
    ]
    src = shown(one.src, LIMIT, src_lang) if one.src is not None else None
    return Sample(line + 1, src, shown(one.references[0], LIMIT, tgt_lang), readings)


def _verdicts(baseline: _Baseline, other: Sequence[Sentence]) -> Iterator[str]:
    """Whether BLEU and chrF of two systems on the same sentences differ by more than chance."""
    if baseline.remark:
        yield baseline.remark
    before = baseline.counted
    after = count(baseline.metrics, [sentence.hypothesis for sentence in other], baseline.references)
    for key, p in compare(before, after).items():
        figures = before[key].figure(), after[key].figure()
        change = figures[1] - figures[0]
        if p.identical:
            yield f"{METRICS[key]} {figures[0]:.2f} for both: the translations do not differ."
            continue
        sure = "more than chance" if max(p.bootstrap, p.randomization) < SIGNIFICANCE else "may be chance"
        yield (
            f"{METRICS[key]} {figures[0]:.2f} → {figures[1]:.2f} ({change:+.2f}): {sure}; p {_chance(p.bootstrap)} by "
            f"paired bootstrap, {_chance(p.randomization)} by approximate randomisation."
        )


def _chance(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"
