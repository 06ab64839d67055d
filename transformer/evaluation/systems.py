"""Who is evaluated: a model with its test sets, or translations that are there already."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from data.errors import DataError
from data.filters.language_scores import known_languages
from data.prepared import Prepared, load_prepared
from transformer.config_file import load_config, section_overrides
from transformer.errors import ConfigError, RunError
from transformer.evaluation.measurement import Output
from transformer.evaluation.test_sets import (
    SideText,
    TestSet,
    file_test,
    languages_of,
    named_test,
    prepared_tests,
    read_side,
    with_domains,
    writable,
)
from transformer.evaluation.word_frequency import rarest_words
from transformer.inference.translation import Translation
from transformer.inference.translator import Translator
from transformer.model_directory import find_model, stored_languages, stored_translate_settings, vocabulary_hashes

Languages = tuple[str, str]
Times = list[npt.NDArray[np.int64] | None]
"""For each test set, how often the rarest word of each sentence is in the training text: (N,); None: not known."""


@dataclass(frozen=True)
class System:
    """A model, or a file of translations.

    Attributes:
        folder: where its translations and figures go; None: nowhere.
        prepared: data with the vocabulary of the model, whose training text is taken for its own; None: not there.
        translate: what it makes of each test set, one after the other, with a bar on a terminal.
    """

    name: str
    languages: Languages
    tests: list[TestSet]
    folder: Path | None
    prepared: Prepared | None
    translate: Callable[[], Iterator[Output]]


@dataclass(frozen=True)
class Wanted:
    """Which test sets: all of the prepared data, unless names or files are given.

    Attributes:
        data: prepared data; None: those of the run.
        names: of prepared data, of sacrebleu, or XML files of WMT.
    """

    data: Path | None
    names: Sequence[str]
    src: Path | None
    references: Sequence[Path]
    domains: Path | None
    languages: Languages | None


def times_of_rarest_words(systems: Sequence[System]) -> Iterator[Times]:
    """Those of each system; counted once for systems of the same data and test sets."""
    known: dict[tuple[Path, tuple[str, ...]], npt.NDArray[np.int64]] = {}
    for system in systems:
        if system.prepared is None:
            yield [None] * len(system.tests)
            continue
        sources = [test.src or [] for test in system.tests]
        lines = tuple(chain.from_iterable(sources))
        key = system.prepared.directory, lines
        if key not in known:
            known[key] = rarest_words(lines, system.prepared.train.src, system.prepared.src_vocabulary)
        yield list(np.split(known[key], np.cumsum([len(src) for src in sources])[:-1]))


def model_system(
    path: Path, name: str, wanted: Wanted, folder: Path | None, overrides: Sequence[str], device: str
) -> System:
    """A model and its test sets; weights are read when it translates.

    Raises:
        ConfigError, RunError, DataError: all that is wrong with it, its settings, and the test sets.
    """
    settings = section_overrides("translate", overrides, stored_translate_settings(path))
    languages = wanted.languages or stored_languages(path)
    prepared = _prepared_for(path, wanted)
    known = prepared_tests(prepared) if prepared else {}
    if wanted.names or wanted.references:
        tests = _wanted_tests(wanted, languages, known)
    else:
        tests = list(known.values())
        if prepared and not tests:
            raise RunError(
                f"{prepared.directory}: holds no test sets; name some under data.test and run preprocess.py again, or "
                "give one as --test NAME, or as --src FILE --reference FILE"
            )
    if len({test.name for test in tests}) < len(tests):
        raise ConfigError(f"{', '.join(test.name for test in tests)}: two test sets of one name; give them one by one")
    for test in tests:
        if test.src is None:
            raise ConfigError(
                f"--reference {wanted.references[0]}: a model needs sources to translate: give --src FILE"
            )

    def translate() -> Iterator[Output]:
        translator = Translator.load(path, device, **settings)
        return (_translate(translator, test) for test in tests)

    return System(name, languages, tests, folder, prepared if _fits(prepared, path) else None, translate)


def _fits(prepared: Prepared | None, model: Path) -> bool:
    if prepared is None:
        return False
    return vocabulary_hashes(find_model(model)) == (prepared.src_vocabulary.hash, prepared.tgt_vocabulary.hash)


def file_systems(
    paths: Sequence[Path], names: Sequence[str], wanted: Wanted, folders: Sequence[Path | None]
) -> tuple[list[System], list[str]]:
    """Files of translations of one test set, and what there is to note about how they are read.

    Raises:
        DataError: as the readers; or files of different lengths.
        ConfigError: languages are needed and not known.
    """
    languages, guess = guess_languages(wanted)
    if wanted.references:
        test, sides = file_test(wanted.src, wanted.references, paths)
    else:
        sides = [read_side(path) for path in paths]
        [test] = _wanted_tests(replace(wanted, domains=None), languages, {})
        _check_length(test, sides)
        test = replace(test, notes=[*test.notes, *(note for side in sides for note in side.notes)])
    test = with_domains(test, wanted.domains) if wanted.domains else test
    systems = [
        System(name, languages, [test], folder, None, partial(iter, [Output(side.lines)]))
        for name, folder, side in zip(names, folders, sides, strict=True)
    ]
    return systems, guess


def _check_length(test: TestSet, sides: Sequence[SideText]) -> None:
    problems = [
        f"{side.path} has {len(side.lines)} lines but {test.name} has {len(test)}"
        for side in sides
        if len(side.lines) != len(test)
    ]
    if problems:
        raise DataError("\n".join(problems) + "\nNothing was scored; look for a lost, added or split line")


def guess_languages(wanted: Wanted) -> tuple[Languages, list[str]]:
    """The languages of files, as given, or else as names tell: ref.zh is Chinese; and a note where it is by a name."""
    if wanted.languages:
        return wanted.languages, []
    for name in wanted.names:
        if found := languages_of(name):
            return found, []
    if wanted.names:
        raise ConfigError(f"--test {wanted.names[0]}: of which languages? Give --languages, such as en-de")
    src, tgt = (_language_by_name(path) for path in (wanted.src, wanted.references[0]))
    note = f"the target language is {tgt}, by the name of {wanted.references[0]}; --languages tells another"
    return (src or "any", tgt or "any"), [note] if tgt else []


def _language_by_name(path: Path | None) -> str | None:
    suffixes = [suffix.removeprefix(".") for suffix in path.suffixes] if path else []
    return next((suffix for suffix in reversed(suffixes) if suffix in known_languages()), None)


def _wanted_tests(wanted: Wanted, languages: Languages, known: Mapping[str, TestSet]) -> list[TestSet]:
    tests = [known[name] if name in known else _named(name, languages, known) for name in wanted.names]
    if wanted.references:
        tests.append(file_test(wanted.src, wanted.references)[0])
    if wanted.domains:
        tests = [with_domains(test, wanted.domains) for test in tests]
    return tests


def _named(name: str, languages: Languages, known: Mapping[str, TestSet]) -> TestSet:
    try:
        return named_test(name, *languages)
    except DataError as error:
        if not known or Path(name).is_file():
            raise
        raise DataError(f"{error}. The prepared data have {', '.join(known)}") from error


def is_run(path: Path) -> bool:
    """Whether this is what train.py made, rather than a model directory alone."""
    return (path / "settings.yaml").is_file()


def _prepared_for(model: Path, wanted: Wanted) -> Prepared | None:
    """The data that a run was trained on; where its test sets are not wanted, they may be missing."""
    if wanted.data:
        return load_prepared(wanted.data)
    needed = not wanted.references and not wanted.names
    find_model(model)
    if not is_run(model):
        if needed:
            raise ConfigError(
                f"{model}: only a run knows its test sets; name prepared data with --data prepared/NAME, or give "
                "--model runs/NAME, or a test set as --test NAME or --src FILE --reference FILE"
            )
        return None
    directory = Path("prepared") / load_config(model / "settings.yaml").name
    if needed and not directory.is_dir():
        raise RunError(
            f"{directory}: not there. Run evaluate.py in the folder where train.py was run, or name the prepared data "
            "with --data"
        )
    try:
        return load_prepared(directory)
    except DataError:
        if needed:
            raise
        return None


def _translate(translator: Translator, test: TestSet) -> Output:
    """Translate a test set, with a bar on a terminal."""
    assert test.src is not None
    hypotheses, log_probs, finished = [], [], []
    with tqdm(total=len(test), desc=test.name, unit=" lines", disable=None) as bar:
        for translation in translator.translations(test.src, progress=bar.update):
            hypotheses.append(translation.text)
            log_probs.append(_log_prob_per_token(translation, translator))
            finished.append(translation.finished)
    return Output(hypotheses, log_probs, finished, translator.settings.model_dump())


def _log_prob_per_token(translation: Translation, translator: Translator) -> float | None:
    """log P / tokens, in nats, out of the score; None where the score is not log P / length penalty of one search."""
    settings = translator.settings
    is_plain = settings.coverage_penalty == 0 and settings.repetition_penalty == 1 and translation.n_parts == 1
    if not translation.n_tokens or not is_plain:
        return None
    penalty = float(translator.search.rules.penalty(torch.tensor(translation.n_tokens)))
    return translation.score * penalty / translation.n_tokens


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """The shortest end of each path that no other has: base, base-2; or a/base, b/base."""
    whole = [Path(os.path.normpath(path.absolute())).parts for path in paths]  # "." has no name, and ".." is none
    if len(set(whole)) < len(whole):
        raise ConfigError(f"{', '.join(map(str, paths))}: the same one twice; name each once")
    names = []
    for own in whole:
        ends = (n for n in range(1, len(own) + 1) if sum(other[-n:] == own[-n:] for other in whole) == 1)
        names.append(writable(str(Path(*own[-next(ends) :]))))
    return names
