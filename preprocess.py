"""Prepare parallel text for training: `python preprocess.py --config base.yaml` turns corpora into prepared/NAME.

Run again, it does nothing unless a corpus or a setting has changed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from data.corpora import FileSource, HubSource, Source
from data.filters import Filters
from data.preparation import Corpora, Preparation, VocabularyOptions, prepare
from data.preparation_report import describe
from transformer.command_line import CommandParser, add_config_arguments, load_settings, run_command
from transformer.config import DataSettings, FileCorpus, HubCorpus, VocabularySettings


def main(argv: Sequence[str] | None = None) -> int:
    """Read the settings, prepare the data, and say what came of it."""
    parser = CommandParser(description="Read, filter and encode parallel text, and learn its vocabulary.")
    add_config_arguments(parser)
    parser.add_argument("--workers", type=int, metavar="N", help="threads that encode (one per processor)")
    args = parser.parse_args(argv)
    if args.workers is not None and args.workers < 1:
        parser.error(f"--workers {args.workers}: at least 1")
    settings = load_settings(args)

    prepared = prepare(
        Path("prepared") / settings.name,
        corpora_of(settings.data),
        Filters(
            max_length=settings.data.max_length,
            max_length_ratio=settings.data.max_length_ratio,
            remove_duplicates=settings.data.remove_duplicates,
        ),
        vocabulary_options_of(settings.vocabulary),
        args.workers,
    )
    report(prepared, args)
    return 0


def corpora_of(settings: DataSettings) -> Corpora:
    """The corpora as `data` takes them."""

    def source(corpus: FileCorpus | HubCorpus) -> Source:
        if isinstance(corpus, FileCorpus):
            return FileSource(Path(corpus.src), Path(corpus.tgt))
        return HubSource(
            hub=corpus.hub,
            config=corpus.config,
            split=corpus.split,
            src_lang=settings.src_lang,
            tgt_lang=settings.tgt_lang,
            src_column=corpus.src_column,
            tgt_column=corpus.tgt_column,
        )

    return Corpora(
        src_lang=settings.src_lang,
        tgt_lang=settings.tgt_lang,
        train=[source(corpus) for corpus in settings.train],
        valid=[source(corpus) for corpus in settings.valid],
        test={name: source(corpus) for name, corpus in settings.test.items()},
    )


def vocabulary_options_of(settings: VocabularySettings) -> VocabularyOptions:
    """The section `vocabulary` as `data` takes it: field by field the same names."""
    return VocabularyOptions(**settings.model_dump())


def report(prepared: Preparation, args: argparse.Namespace) -> None:
    """Say what was read, kept and made, and what to do next."""
    if prepared.unchanged:
        print(f"{prepared.directory}: corpora and settings are as they were, nothing to do")
    else:
        print(describe(prepared.manifest))
    command = shlex.join(["python", "train.py", "--config", args.config, *args.overrides])
    print(f"data        {prepared.directory}{os.sep}")
    print(f"next        {command}")


if __name__ == "__main__":
    sys.exit(run_command(main))
