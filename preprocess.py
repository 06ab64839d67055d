"""Prepare parallel text for training: `python preprocess.py --config base.yaml` turns corpora into prepared/NAME.

Run again, it does nothing unless a corpus or a setting has changed; stopped, it goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data.corpora import Columns, FileSource, HubSource, RecordsSource, Source, TestSetSource
from data.doctor.description import describe as describe_findings
from data.doctor.description import exit_code
from data.doctor.examination import examine
from data.preparation import (
    Corpora,
    Preparation,
    Rules,
    Shard,
    TrainingCorpus,
    VocabularyOptions,
    prepare,
    prepare_shard,
)
from data.report.page import PAGE
from data.report.terminal import describe
from transformer.command_line import CommandParser, add_config_arguments, load_settings, run_command
from transformer.config import DataSettings, VocabularySettings
from transformer.config_corpora import FileCorpus, HubCorpus, RecordsCorpus, TestSetCorpus

Corpus = FileCorpus | RecordsCorpus | HubCorpus | TestSetCorpus


def main(argv: Sequence[str] | None = None) -> int:
    """Read the settings, prepare the data or examine them, and say what came of it."""
    args = parse_arguments(argv)
    settings = load_settings(args)
    directory = Path("prepared") / settings.name
    corpora = corpora_of(settings.data)
    if args.check:
        return check(corpora)

    rules, vocabulary = rules_of(settings.data), vocabulary_options_of(settings.vocabulary)
    launched = shard_of_torchrun()
    shard = args.shard or launched
    if shard:
        is_first = launched is not None and launched.number == 0
        is_launched = launched is not None
        parts = prepare_shard(directory, corpora, rules, vocabulary, shard, args.workers, launched=is_launched)
        if not is_first:
            report_shard(parts, args)
            return 0
    report(prepare(directory, corpora, rules, vocabulary, args.workers, wait=launched is not None), args)
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What there is to choose."""
    parser = CommandParser(description="Read, filter and encode parallel text, and learn its vocabulary.")
    add_config_arguments(parser)
    parser.add_argument("--check", action="store_true", help="change nothing: look for what is wrong with the corpora")
    parser.add_argument("--workers", type=int, metavar="N", help="processes that filter and encode (one per processor)")
    parser.add_argument(
        "--shard",
        type=shard_of,
        metavar="I/N",
        help="filter only part I of N (1/N … N/N), on one of N machines that share the disk; "
        "the same command without --shard then goes on from what all of them made",
    )
    args = parser.parse_args(argv)
    if args.workers is not None and args.workers < 1:
        parser.error(f"--workers {args.workers}: at least 1")
    if args.check and args.shard:
        parser.error("--check looks at whole corpora: leave out --shard")
    return args


def shard_of(text: str) -> Shard:
    """Read I/N, such as 1/4."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text}: write I/N, from 1/N to N/N, such as 1/4")
    return Shard(int(match[1]) - 1, int(match[2]))


def shard_of_torchrun() -> Shard | None:
    """The share of one of several processes that torchrun has started; the first of them finishes the work."""
    rank, count = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return Shard(int(rank), int(count)) if rank.isdecimal() and count.isdecimal() and int(count) > 1 else None


def corpora_of(settings: DataSettings) -> Corpora:
    """The corpora as `data` takes them."""
    return Corpora(
        src_lang=settings.src_lang,
        tgt_lang=settings.tgt_lang,
        train=[
            TrainingCorpus(source_of(corpus, settings), corpus.name or f"corpus-{number}", corpus.tag)
            for number, corpus in enumerate(settings.train, 1)
        ],
        valid=[source_of(corpus, settings) for corpus in settings.valid],
        test={name: source_of(corpus, settings) for name, corpus in settings.test.items()},
    )


def source_of(corpus: Corpus, settings: DataSettings) -> Source:
    """One corpus as `data` takes it."""
    languages: dict[str, Any] = {"src_lang": settings.src_lang, "tgt_lang": settings.tgt_lang}
    values = corpus.model_dump(exclude={"name", "tag"})
    match corpus:
        case FileCorpus():
            return FileSource(Path(values.pop("src")), Path(values.pop("tgt")), **values)
        case RecordsCorpus():
            columns = {name: values.pop(f"{name}_column") for name in ("src", "tgt", "score")}
            columns |= {name: values.pop(name) for name in ("header", "quoted")}
            return RecordsSource(Path(values.pop("file")), **languages, columns=Columns(**columns), **values)
        case HubCorpus():
            return HubSource(**languages, **values)
        case TestSetCorpus():
            return TestSetSource(**languages, **values)


def rules_of(settings: DataSettings) -> Rules:
    """What is asked of training pairs, as `data` takes it."""
    return Rules(
        filters=[(entry.filter, entry.model_dump(exclude={"filter"})) for entry in settings.filters],
        max_length=settings.max_length,
        max_length_ratio=settings.max_length_ratio,
        drop_contamination=settings.drop_contamination,
    )


def vocabulary_options_of(settings: VocabularySettings) -> VocabularyOptions:
    """The section `vocabulary` as `data` takes it: field by field the same names."""
    values = settings.model_dump()
    path = values.pop("path")
    return VocabularyOptions(**values, path=None if path is None else Path(path))


def check(corpora: Corpora) -> int:
    """Examine every corpus and say what is wrong; exit code 1 where training would suffer."""
    named = [
        *((f"train {corpus.name}", corpus.source) for corpus in corpora.train),
        *((f"valid {number}", source) for number, source in enumerate(corpora.valid, 1)),
        *((f"test {name}", source) for name, source in corpora.test.items()),
    ]
    findings = [
        finding for name, source in named for finding in examine(name, source, corpora.src_lang, corpora.tgt_lang)
    ]
    print(describe_findings(findings))
    return exit_code(findings)


def report(prepared: Preparation, args: argparse.Namespace) -> None:
    """Say what was read, kept and made, and what to do next."""
    if prepared.unchanged:
        print(f"{prepared.directory}: corpora and settings are as they were, nothing to do")
    else:
        print(describe(prepared.manifest))
    command = shlex.join(["python", "train.py", "--config", args.config, *args.overrides])
    print(f"data        {prepared.directory}{os.sep}")
    print(f"report      {prepared.directory / PAGE}")
    print(f"next        {command}")


def report_shard(parts: Path | None, args: argparse.Namespace) -> None:
    """Say what one machine has done."""
    if parts is None:
        print("corpora and settings are as they were, nothing to do")
        return
    command = shlex.join(["python", "preprocess.py", "--config", args.config, *args.overrides])
    print(f"parts       {parts}{os.sep}")
    print(f"next        the other shards; when all are done, on one machine: {command}")


if __name__ == "__main__":
    sys.exit(run_command(main))
