"""Two runs on the same sentences: whether they differ by more than chance, and where most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF

from data.report.visible import plain, shown
from transformer.errors import ConfigError, RunError
from transformer.evaluation.report.run import Run
from transformer.evaluation.report.samples import LIMIT, SAMPLES, Ranking, Reading, Sample, last_validation
from transformer.evaluation.report.wording import with_differences
from transformer.evaluation.results import METRICS, Sentence
from transformer.evaluation.sentence_statistics import count
from transformer.evaluation.significance import SIGNIFICANCE, compare
from transformer.evaluation.tokenization import load_bleu, tokenizer_at_hand


@dataclass(frozen=True)
class Comparison:
    """A set that two runs have translated: whether they differ by more than chance, and where most."""

    test_set: str
    verdicts: list[str]
    rankings: list[Ranking]


def compare_runs(first: Run, second: Run, i: int) -> list[Comparison]:
    """The first run and run number `i` on each test set that both have translated, else on the validation set."""
    sets = {
        name: (first.tests[name][1], second.tests[name][1])
        for name in first.tests.keys() & second.tests.keys()
        if _is_same_text(first.tests[name][1], second.tests[name][1])
    }
    if not sets and (last := _last_validations(first, second)):
        sets = {"validation": last}
    return [_compare(first, second, i, name, *sets[name]) for name in sorted(sets)]


def _is_same_text(one: Sequence[Sentence], other: Sequence[Sentence]) -> bool:
    texts, others = ([(s.src, s.references) for s in sentences] for sentences in (one, other))
    return bool(texts) and texts == others and all(references for _, references in texts)


def _last_validations(first: Run, second: Run) -> tuple[list[Sentence], list[Sentence]] | None:
    if first.valid_text is None or first.valid_text != second.valid_text:
        return None
    one, other = last_validation(first), last_validation(second)
    return (one, other) if one and other else None


def _compare(first: Run, second: Run, i: int, name: str, one: list[Sentence], other: list[Sentence]) -> Comparison:
    gains = [after.chrf - before.chrf for before, after in zip(one, other, strict=True)]
    order = sorted(range(len(gains)), key=lambda line: (-abs(gains[line]), line))
    better = [line for line in order if gains[line] > 0][: SAMPLES // 2]
    worse = [line for line in order if gains[line] < 0][: SAMPLES // 2]
    names = plain(first.name), plain(second.name)
    tokenizer = first.tests[name][0].tokenizer if name in first.tests else tokenizer_at_hand(first.languages[1])
    rankings = [
        Ranking(title, [_pair(first, second, i, line, one[line], other[line]) for line in lines])
        for title, lines in (
            (f"{names[1]} better than {names[0]}", better),
            (f"{names[0]} better than {names[1]}", worse),
        )
        if lines
    ]
    return Comparison(plain(name), list(_verdicts(names, one, other, tokenizer)), rankings)


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


def _verdicts(
    names: tuple[str, str], one: Sequence[Sentence], other: Sequence[Sentence], tokenizer: str
) -> Iterator[str]:
    """Whether BLEU and chrF of two systems on the same sentences differ by more than chance."""
    n_references = min(len(sentence.references) for sentence in one)
    references = [[sentence.references[r] for sentence in one] for r in range(n_references)]
    metrics: dict[str, Metric] = {"chrf": CHRF()}
    try:
        metrics = {"bleu": load_bleu(tokenizer), **metrics}
    except (ConfigError, RunError) as error:
        yield plain(str(error))
    before, after = (count(metrics, [sentence.hypothesis for sentence in side], references) for side in (one, other))
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
