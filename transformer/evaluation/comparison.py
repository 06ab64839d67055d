"""Is one system better than another, or could the difference be chance? Of evaluated runs, or of translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data.errors import DataError
from transformer.errors import RunError
from transformer.evaluation.measurement import Measures, figures_of
from transformer.evaluation.results import METRICS, find_evaluations, load_evaluation, load_sentences
from transformer.evaluation.sentence_statistics import Statistics
from transformer.evaluation.significance import RESAMPLES, SEED, SIGNIFICANCE, TRIALS, PValues, compare
from transformer.evaluation.systems import System, distinct_names, is_run
from transformer.evaluation.tables import columns
from transformer.evaluation.test_sets import TestSet


@dataclass(frozen=True)
class Compared:
    """A test set, and what each system, the baseline first, made of it."""

    test: TestSet
    measures: Measures
    hypotheses: dict[str, list[str]]


def evaluated_runs(paths: Sequence[Path], tokenizer: str | None, wanted: Sequence[str] = ()) -> list[Compared]:
    """The test sets on which all runs have been evaluated; of them those that are wanted, if any are named.

    Raises:
        ConfigError: the same run twice.
        RunError: a run that has not been evaluated, or is damaged; no test set in common, or not one that is wanted.
        DataError: a test set whose sentences are not the same in all runs.
    """
    folders = {name: _results_of(path) for name, path in zip(distinct_names(paths), paths, strict=True)}
    names = [find_evaluations(folder) for folder in folders.values()]
    common = [name for name in names[0] if all(name in others for others in names)]
    if not common:
        there = "; ".join(f"{name}: {', '.join(found)}" for name, found in zip(folders, names, strict=True))
        raise RunError(f"no test set on which all were evaluated: {there}. Run evaluate.py --model with both")
    if missing := [name for name in wanted if name not in common]:
        raise RunError(f"--test {' '.join(missing)}: not all were evaluated on it; they were on {', '.join(common)}")
    return [_load(name, folders, tokenizer) for name in common if name in (wanted or common)]


def compared_files(systems: Sequence[System], measures: Measures) -> Compared:
    """Files of translations of one test set."""
    hypotheses = {system.name: next(system.translate()).hypotheses for system in systems}
    return Compared(systems[0].tests[0], measures, hypotheses)


def _results_of(path: Path) -> Path:
    if not path.is_dir():
        raise RunError(f"{path}: no such folder; --compare takes runs, or files with --reference or --test")
    of_run = path / "translations"
    for folder in [of_run] if is_run(path) else [of_run, path]:  # --output of evaluate.py is no run
        if folder.is_dir() and find_evaluations(folder):
            return folder
    raise RunError(f"{path}: not evaluated yet: run python evaluate.py --model {path}")


def _load(name: str, folders: dict[str, Path], tokenizer: str | None) -> Compared:
    evaluations = {system: load_evaluation(folder, name) for system, folder in folders.items()}
    sentences = {system: load_sentences(folders[system], one) for system, one in evaluations.items()}
    baseline = next(iter(folders))
    asked = [(row.src, row.references) for row in sentences[baseline]]
    for system, rows in sentences.items():
        theirs = [(row.src, row.references) for row in rows]
        if len(theirs) != len(asked):
            raise DataError(
                f"{name}: {baseline} has {len(asked)} lines but {system} has {len(theirs)}: {_NOT_THE_SAME}"
            )
        if theirs != asked:
            at = next(line for line, pair in enumerate(zip(asked, theirs, strict=True), 1) if pair[0] != pair[1])
            raise DataError(f"{name}, line {at}: not the same sentence in {baseline} and {system}: {_NOT_THE_SAME}")
    first = evaluations[baseline]
    used = {one.tokenizer for one in evaluations.values()}
    if tokenizer is None and len(used) > 1:
        raise DataError(f"{name}: scored with the tokenisers {' and '.join(sorted(used))}: give one as --tokenize NAME")
    src = [row.src for row in sentences[baseline] if row.src is not None]
    references = [list(side) for side in zip(*(row.references for row in sentences[baseline]), strict=True)]
    test = TestSet(name, src if len(src) == len(asked) else None, references)
    hypotheses = {system: [row.hypothesis for row in rows] for system, rows in sentences.items()}
    return Compared(test, Measures(first.src_lang, first.tgt_lang, tokenizer or first.tokenizer), hypotheses)


_NOT_THE_SAME = "only systems that translated the same test set can be compared. Evaluate both on the same data"


def format_comparison(compared: Compared) -> str:
    """A table of figures, differences and p-values, and what they mean."""
    statistics = {
        system: compared.measures.statistics(compared.test, hypotheses)
        for system, hypotheses in compared.hypotheses.items()
    }
    baseline, *others = statistics
    rows = _figure_rows(f"{baseline} (baseline)", statistics[baseline])
    for system in others:
        rows += _figure_rows(system, statistics[system])
        rows += _test_rows(statistics[baseline], statistics[system])
    title = f"{compared.test.name}, {len(compared.test):,} lines"
    first = statistics[baseline]
    signatures = [
        f"{METRICS[name]:7} {one.signature(bs=str(RESAMPLES), ar=str(TRIALS), seed=str(SEED))}"
        for name, one in first.items()
    ]
    return "\n".join([columns(rows, [METRICS[name] for name in first], title), "", *signatures])


Row = tuple[str, dict[str, str]]


def _figure_rows(system: str, statistics: dict[str, Statistics]) -> list[Row]:
    figures = {METRICS[name]: figure for name, figure in figures_of(statistics).items()}
    intervals = {
        name: f"[{figure.interval[0]:.1f}, {figure.interval[1]:.1f}]"
        for name, figure in figures.items()
        if figure.interval
    }
    return [
        (system, {name: f"{figure.score:.2f}" for name, figure in figures.items()}),
        ("  95 % interval", intervals),
    ]


def _test_rows(baseline: dict[str, Statistics], system: dict[str, Statistics]) -> list[Row]:
    differences = {METRICS[name]: system[name].figure() - baseline[name].figure() for name in system}
    found = {METRICS[name]: values for name, values in compare(baseline, system).items()}
    return [
        ("  difference", {name: f"{difference:+.2f}" for name, difference in differences.items()}),
        ("  p, paired bootstrap", {name: _p(one.bootstrap, one) for name, one in found.items()}),
        ("  p, approximate randomisation", {name: _p(one.randomization, one) for name, one in found.items()}),
    ]


def _p(value: float, values: PValues) -> str:
    return "same" if values.identical else f"{value:.4f}{'*' if value < SIGNIFICANCE else ' '}"


MEANING = (
    f"* p < {SIGNIFICANCE}: hardly chance, on test sets like this one; another training of the same may still differ.\n"
    "Without a star nothing is known, and not that the systems are alike. Of TER lower is better."
)
