"""Translations to read: the same ten through time, the best and the worst."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from sacrebleu.metrics.chrf import CHRF

from data.report.visible import plain, shown
from transformer.evaluation.report.run import Run
from transformer.evaluation.report.wording import LIMIT, with_differences
from transformer.evaluation.results import Sentence

SAMPLES = 10

_STAGES = 12  # validations of which a sample is shown, in all
_FEWEST_STAGES = 4  # of each run


@dataclass(frozen=True)
class Reading:
    """One translation to show: whose, from when, how good, and its text as HTML."""

    run: int
    name: str
    steps: str
    chrf: float
    text: Markup


@dataclass(frozen=True)
class Sample:
    """A sentence with translations of it."""

    number: int  # from 1, in its set
    src: Markup | None
    reference: Markup
    readings: list[Reading]


@dataclass(frozen=True)
class Ranking:
    """Sentences of one set under a title."""

    title: str
    samples: list[Sample]


def through_time(runs: Sequence[Run]) -> list[Sample]:
    """Ten validation sentences, spread over the lengths, and what each run made of them as it learned.

    A stage is left out where the translation is that of the stage before. Only runs with the validation sentences of
    the first run are told of.
    """
    if runs[0].valid_text is None:
        return []
    src, references = runs[0].valid_text
    most = max(_STAGES // len(runs), _FEWEST_STAGES)
    stages = [
        (i, run, {step: found for step in _spread(sorted(run.translated), most) if (found := run.hypotheses(step))})
        for i, run in enumerate(runs)
        if run.valid_text == (src, references)
    ]
    if not any(steps for _, _, steps in stages):
        return []
    src_lang, tgt_lang = runs[0].languages
    samples = []
    for line in choose_lines(references):
        readings = [
            reading
            for i, run, steps in stages
            for reading in _stages(i, run, {step: found[line] for step, found in steps.items()}, references[line])
        ]
        source, reference = shown(src[line], LIMIT, src_lang), shown(references[line], LIMIT, tgt_lang)
        samples.append(Sample(line + 1, source, reference, readings))
    return samples


def choose_lines(references: Sequence[str], n: int = SAMPLES) -> list[int]:
    """Places of `n` texts that are spread over the lengths, shortest first; blank ones are not chosen."""
    order = sorted((i for i, text in enumerate(references) if text.strip()), key=lambda i: (len(references[i]), i))
    return _spread(order, n)


def _spread(values: Sequence[int], n: int) -> list[int]:
    """`n` of the values, evenly apart, the first and the last among them; all where there are fewer."""
    if len(values) <= n:
        return list(values)
    return [values[round(i * (len(values) - 1) / (n - 1))] for i in range(n)]


def _stages(i: int, run: Run, texts: Mapping[int, str], reference: str) -> Iterator[Reading]:
    language = run.languages[1]
    before: str | None = None
    groups: list[tuple[list[int], str]] = []
    for step, text in texts.items():
        if groups and groups[-1][1] == text:
            groups[-1][0].append(step)
        else:
            groups.append(([step], text))
    for steps, text in groups:
        content = shown(text, LIMIT, language) if before is None else with_differences(text, before, "new", language)
        span = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
        yield Reading(i, plain(run.name), span, _chrf(text, reference), content)
        before = text


def _chrf(hypothesis: str, reference: str) -> float:
    return float(CHRF().sentence_score(hypothesis, [reference]).score)


# --- best and worst ---


def best_and_worst(run: Run, sentences: Sequence[Sentence]) -> list[Ranking]:
    """The ten sentences with the highest chrF, longer ones first where it is equal, and the ten with the lowest."""
    order = sorted(range(len(sentences)), key=lambda i: (-sentences[i].chrf, -len(sentences[i].hypothesis), i))
    n = min(SAMPLES, len(order) // 2)
    if not n:
        return []
    best, worst = order[:n], sorted(order[-n:], key=lambda i: (sentences[i].chrf, i))
    return [
        Ranking(title, [_ranked(run, i, sentences[i]) for i in chosen])
        for title, chosen in (("The best", best), ("The worst", worst))
    ]


def _ranked(run: Run, i: int, sentence: Sentence) -> Sample:
    src_lang, tgt_lang = run.languages
    reference = sentence.references[0] if sentence.references else ""
    text = with_differences(sentence.hypothesis, reference, "new", tgt_lang)
    lost = with_differences(reference, sentence.hypothesis, "lost", tgt_lang)
    src = shown(sentence.src, LIMIT, src_lang) if sentence.src is not None else None
    return Sample(i + 1, src, lost, [Reading(0, plain(run.name), "", sentence.chrf, text)])


def last_validation(run: Run) -> list[Sentence]:
    """The sentences of the newest validation, as those of a test set, but for their BLEU and log-probability."""
    if run.valid_text is None or not run.translated:
        return []
    return [
        Sentence(src, [reference], hypothesis, 0.0, _chrf(hypothesis, reference))
        for src, reference, hypothesis in zip(*run.valid_text, run.hypotheses(max(run.translated)), strict=False)
    ]
