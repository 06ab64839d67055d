"""All that is said about the translations of one test set: figures, intervals, breakdown, flaws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from data.errors import DataError
from transformer.evaluation import breakdown
from transformer.evaluation.comet import Comet
from transformer.evaluation.flaws import Translated, find_flaws
from transformer.evaluation.language_check import doubts_about
from transformer.evaluation.metrics import check_counts, literature_bleu, literature_form, why_zero
from transformer.evaluation.results import Bucket, Evaluation, Figure, Sentence
from transformer.evaluation.sentence_statistics import Statistics, count
from transformer.evaluation.significance import RESAMPLES, SEED, confidence_intervals
from transformer.evaluation.test_sets import TestSet
from transformer.evaluation.tokenization import choose_tokenizer, doubts, load_metrics


@dataclass(frozen=True)
class Output:
    """What came out for a test set.

    Attributes:
        log_probs: nats per token of each hypothesis by the model; None: not known.
        finished: False where the limit of length cut a translation; None: not known.
        settings: of the search.
    """

    hypotheses: list[str]
    log_probs: Sequence[float | None] | None = None
    finished: Sequence[bool] | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measures:
    """What is measured beside the usual figures, and in which languages.

    Attributes:
        tokenizer: of BLEU; None: that of the target language.
        literature: whether BLEU in the literature's form is wanted.
    """

    src_lang: str
    tgt_lang: str
    tokenizer: str | None = None
    literature: bool = False
    comet: Comet | None = None

    @property
    def tokenizer_used(self) -> str:
        """That which was asked for, or that of the target language."""
        return self.tokenizer or choose_tokenizer(self.tgt_lang)

    def statistics(self, test: TestSet, hypotheses: Sequence[str]) -> dict[str, Statistics]:
        """The statistics of every metric, by the keys of `results.METRICS`.

        Raises:
            DataError: the numbers of lines differ, or there are none; or COMET is to judge without sources.
            ConfigError, RunError: as `tokenization.load_metrics`.
        """
        check_counts(hypotheses, test.references[0], test.name)
        found = count(load_metrics(self.tokenizer_used, self.tgt_lang), hypotheses, test.references)
        if self.comet:
            if test.src is None:
                raise DataError(f"{test.name}: COMET reads the sources, too: give them as --src FILE")
            found["comet"] = self.comet.judge(test.src, hypotheses, test.references)
        return found


def measure(
    test: TestSet, output: Output, measures: Measures, times: npt.NDArray[np.int64] | None = None
) -> tuple[Evaluation, list[Sentence]]:
    """Score a test set in every way there is.

    Args:
        times: how often the rarest word of each source is in the training text; None: not known.

    Raises:
        DataError, ConfigError, RunError: as `Measures.statistics` and `metrics.literature_form`.
    """
    statistics = measures.statistics(test, output.hypotheses)
    bleu = statistics["bleu"]
    sums = bleu.counts.sum(0).astype(int).tolist()
    evaluation = Evaluation(
        test_set=test.name,
        src_lang=measures.src_lang,
        tgt_lang=measures.tgt_lang,
        n_lines=len(test),
        tokenizer=measures.tokenizer_used,
        translate=output.settings,
        metrics=figures_of(statistics),
        literature=_literature(test, output.hypotheses, measures.tgt_lang) if measures.literature else None,
        length_ratio=sums[0] / sums[1] if sums[1] else None,
        note=why_zero(bleu.metric._compute_score_from_stats(sums)),
        breakdown=_breakdown(test, statistics, times),
        shares=find_flaws(
            Translated(
                test.src, output.hypotheses, test.references, output.finished, measures.src_lang, measures.tgt_lang
            )
        ),
    )
    return evaluation, _sentences(test, output, statistics)


def figures_of(statistics: Mapping[str, Statistics]) -> dict[str, Figure]:
    """Scores with their confidence intervals and signatures."""
    intervals = confidence_intervals(statistics)
    marks = {"bs": str(RESAMPLES), "seed": str(SEED)}
    return {name: Figure(one.figure(), intervals[name], one.signature(**marks)) for name, one in statistics.items()}


def _literature(test: TestSet, hypotheses: Sequence[str], language: str) -> Figure:
    metric = {"literature": literature_bleu()}
    references = [literature_form(side, language) for side in test.references]
    return figures_of(count(metric, literature_form(hypotheses, language), references))["literature"]


def _breakdown(
    test: TestSet, statistics: Mapping[str, Statistics], times: npt.NDArray[np.int64] | None
) -> dict[str, list[Bucket]]:
    found = {}
    if test.src is not None:
        found["source length"] = breakdown.by_length(test.src, statistics)
    if times is not None:
        found["rarest word"] = breakdown.by_rarest_word(times, statistics)
    if test.domains is not None:
        found["domain"] = breakdown.by_domain(test.domains, statistics)
    return found


def _sentences(test: TestSet, output: Output, statistics: Mapping[str, Statistics]) -> list[Sentence]:
    bleu, chrf = statistics["bleu"].of_each(), statistics["chrf"].of_each()
    return [
        Sentence(
            src=test.src[line] if test.src is not None else None,
            references=[side[line] for side in test.references],
            hypothesis=hypothesis,
            bleu=bleu[line],
            chrf=chrf[line],
            log_prob_per_token=output.log_probs[line] if output.log_probs is not None else None,
        )
        for line, hypothesis in enumerate(output.hypotheses)
    ]


def check(measures: Measures) -> None:
    """Raises ConfigError or RunError where a package or a model is missing, before hours of work depend on it."""
    load_metrics(measures.tokenizer_used, measures.tgt_lang)
    if measures.literature:
        literature_form([], measures.tgt_lang)


def doubts_about_test(test: TestSet, measures: Measures) -> list[str]:
    """What speaks against a test set, known before anything is translated: its languages, its form."""
    found = list(test.notes)
    if doubt := doubts(measures.tgt_lang, measures.tokenizer_used):
        found.append(doubt)
    if test.src is not None:
        found += doubts_about(f"the sources of {test.name}", test.src, measures.src_lang, measures.tgt_lang)
    for number, side in enumerate(test.references, 1):
        which = f"references {number}" if len(test.references) > 1 else "references"
        found += doubts_about(f"the {which} of {test.name}", side, measures.tgt_lang, measures.src_lang)
    return found


def doubts_about_output(name: str, output: Output, measures: Measures) -> list[str]:
    """The same of translations."""
    return doubts_about(f"the translations of {name}", output.hypotheses, measures.tgt_lang, measures.src_lang)
