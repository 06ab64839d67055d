"""From corpora to `prepared/NAME`: what is to do, whether it was done before, and what stands in its way.

Each source is read once, by one process, and cut into parts of some ten thousand pairs. Other processes filter parts,
and later encode them. What is finished lies on disk beside the result (see `data.parts`): a run that is killed goes on
from there. Only a few parts are in memory at a time, and their order is that of the corpora, however many work. The
steps are in `data.preparation_steps`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from data.atomic import whole_directory
from data.corpora import find_problems, is_pipe
from data.errors import DataError
from data.parts import Facts, WorkDirectory
from data.preparation_options import Corpora, Shard, TrainingCorpus, VocabularyOptions
from data.preparation_steps import Steps, load_given, vocabulary_hashes
from data.prepared import MANIFEST, read_manifest, save_manifest
from data.report.page import save_page
from data.selection import Rules
from data.vocabulary import have_equal_ids

__all__ = [
    "Corpora",
    "Preparation",
    "Rules",
    "Shard",
    "TrainingCorpus",
    "VocabularyOptions",
    "prepare",
    "prepare_shard",
]


@dataclass(frozen=True)
class Preparation:
    """The manifest of `directory`, and whether there was nothing to do."""

    directory: Path
    manifest: dict[str, Any]
    unchanged: bool


def prepare(
    directory: Path,
    corpora: Corpora,
    rules: Rules,
    options: VocabularyOptions,
    workers: int | None = None,
    *,
    wait: bool = False,
) -> Preparation:
    """Make `directory` from the corpora, or find that it was made from the same corpora with the same settings.

    The result does not depend on `workers`, a number of processes (None: one per processor). The directory appears in
    one step at the end; until then an older one stays as it is. With `wait`, others may still be making parts.

    Raises DataError for whatever is wrong with corpora, settings or disk; several missing files are one message.
    """
    plan = _plan(directory, corpora, rules, options)
    if manifest := _find_unchanged(directory, plan):
        WorkDirectory(directory, plan).remove_leftovers()
        return Preparation(directory, manifest, unchanged=True)
    with _work_directory(directory, plan, shared=False, wait=wait) as work:
        steps = Steps(work, corpora, rules, options, workers or os.cpu_count() or 1)
        with whole_directory(directory) as unfinished:
            manifest = {**plan, **steps.fill(unfinished)}
            save_page(unfinished, manifest)
            save_manifest(unfinished, manifest)
        work.remove()
    work.remove_leftovers()
    return Preparation(directory, read_manifest(directory), unchanged=False)


def prepare_shard(
    directory: Path,
    corpora: Corpora,
    rules: Rules,
    options: VocabularyOptions,
    shard: Shard,
    workers: int | None = None,
    *,
    launched: bool = False,
) -> Path | None:
    """Filter this shard's parts of the text, for `prepare` to find; returns the folder of the parts.

    None: `directory` has been made already. `launched` says that all shards run at the same time: the first returns
    when the parts of all are there, and one that starts late waits until the first has finished the work.

    Raises DataError as `prepare` does.
    """
    plan = _plan(directory, corpora, rules, options)
    if _find_unchanged(directory, plan):
        return None
    with _work_directory(directory, plan, shared=True, wait=launched) as work:
        if _find_unchanged(directory, plan):
            return None
        steps = Steps(work, corpora, rules, options, workers or os.cpu_count() or 1)
        steps.make_text(shard)
        if launched and shard.number == 0:
            steps.wait_for_text()
        return work.path


def _plan(directory: Path, corpora: Corpora, rules: Rules, options: VocabularyOptions) -> Facts:
    """Everything that the result depends on."""
    if problems := [*_problems_of(corpora, rules, options), *_problems_at(directory)]:
        raise DataError("\n".join(dict.fromkeys(problems)))
    vocabulary = {**asdict(options), "path": None if options.path is None else str(options.path)}
    given = {} if options.path is None else {"given": vocabulary_hashes(load_given(options.path))}
    return {
        "src_lang": corpora.src_lang,
        "tgt_lang": corpora.tgt_lang,
        "settings": {"data": rules.as_json(), "vocabulary": vocabulary},
        "sources": {**corpora.fingerprints(), **given},
    }


def _find_unchanged(directory: Path, plan: Facts) -> dict[str, Any] | None:
    try:
        manifest = read_manifest(directory)
    except DataError:  # missing or damaged: made anew
        return None
    return manifest if all(manifest.get(key) == value for key, value in plan.items()) else None


@contextmanager
def _work_directory(directory: Path, plan: Facts, *, shared: bool, wait: bool = False) -> Iterator[WorkDirectory]:
    """The work directory, locked. It goes when the text is at fault, and stays when the run was only ended."""
    work = WorkDirectory(directory, plan)
    try:
        with work.locked(shared=shared, wait=wait):
            try:
                yield work
            except DataError as error:
                if error.about_text and not shared:
                    work.remove()
                raise
    except OSError as error:
        raise DataError(
            f"{error.filename or directory}: {error.strerror or error}. {directory} is as it was before; mend this and "
            "run again: what was finished is kept"
        ) from error


def _problems_of(corpora: Corpora, rules: Rules, options: VocabularyOptions) -> Iterator[str]:
    for name, sources in (("train", corpora.train), ("valid", corpora.valid)):
        if not sources:
            yield f"data.{name} lists no corpora: give some, such as 'data.{name}=[{{src: a.en, tgt: a.de}}]'"
    names = Counter(corpus.name for corpus in corpora.train)
    yield from (f"data.train: the name {name} is given to {n} corpora" for name, n in names.items() if n > 1)
    if "valid" in corpora.test:
        yield "data.test.valid: a test set cannot be called valid, as the validation set is; choose another name"
    unreadable = [problem for source in corpora for problem in find_problems(source)]
    yield from unreadable
    if any("cannot be read" in problem for problem in unreadable):
        yield "(paths in a config are relative to its own folder, paths on the command line to the current one)"
    if rules.word_translation is not None and any(is_pipe(corpus.source) for corpus in corpora.train):
        yield "the filter word_translation reads text twice, which a pipe does not allow: give files"
    if options.path is not None:
        try:
            vocabulary, tgt_vocabulary = load_given(options.path)
            is_joint = have_equal_ids(vocabulary, tgt_vocabulary)
            if is_joint != options.joint:
                holds, joint = ("one vocabulary", "true") if is_joint else ("two vocabularies", "false")
                yield f"{options.path} holds {holds}: set vocabulary.joint to {joint}"
            yield from (
                f"{options.path}: has no piece for the tag {tag}; learn a vocabulary for this corpus, or leave the tag"
                for tag in corpora.tags
                if vocabulary.tag_id(tag) is None
            )
        except DataError as error:
            yield str(error)


def _problems_at(directory: Path) -> Iterator[str]:
    empty = directory.is_dir() and not any(directory.iterdir())
    if directory.exists() and not empty and not (directory / MANIFEST).exists():
        yield f"{directory} is there already, but preprocess.py did not make it: move it away, or change name"
