"""The steps of a preparation, one after the other; each picks up what an earlier run has finished."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from tqdm import tqdm

from data.contamination import HeldOut
from data.corpora import Source, read_pairs, size_of
from data.duplicates import KeyFile, disk_array, mark_repeats
from data.errors import DataError
from data.filters.language import unknown_to_py3langid
from data.kept_text import EvenLines, KeptText, Verdicts
from data.language_mix import LanguageMix
from data.length_agreement import describe_agreement
from data.pairs import NO_META, Pair, Texts
from data.part_facts import add_contamination, add_facts
from data.part_making import IdsJob, IdsMaker, TextJob, TextMaker
from data.parts import PAIRS_PER_PART, Facts, WorkDirectory, load_facts, load_ids_part, load_keys, own_name
from data.preparation_options import Corpora, Shard, TrainingCorpus, VocabularyOptions
from data.prepared import IdWriter, ParallelText, load_vocabularies, save_text, save_vocabularies
from data.processes import run_jobs
from data.selection import KEPT, Rules, TextSelection
from data.statistics import Statistics
from data.vocabulary import Vocabulary
from data.word_translation import WordTranslation

Vocabularies = tuple[Vocabulary, Vocabulary]  # the same object twice when joint

EVERYTHING = Shard(0, 1)
_SECONDS_BETWEEN_LOOKS = 0.5
_PAIRS_FOR_WORDS = 500_000  # of which the filter word_translation learns, as many of each corpus


def load_given(path: Path) -> Vocabularies:
    """The vocabularies of a directory, or one sentencepiece model for both sides. Raises DataError."""
    if path.is_dir():
        return load_vocabularies(path)
    vocabulary = Vocabulary.load(path)
    return vocabulary, vocabulary


def vocabulary_hashes(vocabularies: Vocabularies) -> dict[str, str]:
    """What tells two vocabularies apart, for the manifest."""
    src, tgt = vocabularies
    return {"src": src.hash, "tgt": tgt.hash}


class Steps:
    """One preparation: what it is of, and where its parts are. The steps are methods, in the order they are taken."""

    def __init__(
        self, work: WorkDirectory, corpora: Corpora, rules: Rules, options: VocabularyOptions, workers: int
    ) -> None:
        self.work, self.corpora, self.rules, self.options, self.workers = work, corpora, rules, options, workers
        self.valid = _read_all(corpora.valid, "validation")
        self.test = {name: _read_all([source], f"test set {name}") for name, source in corpora.test.items()}
        self.held_out = HeldOut({"valid": self.valid, **self.test})

    def fill(self, directory: Path) -> Facts:
        """Write everything but the manifest, for which it returns the facts."""
        self.make_text()
        repeats = self.find_repeats()
        vocabularies = self.make_vocabularies(repeats)
        self.make_ids(repeats, vocabularies)
        facts = self.assemble(directory, vocabularies)
        valid_tokens = self.encode_valid(directory, vocabularies)
        save_vocabularies(directory, *vocabularies)
        save_text(directory, self.valid)
        for name, text in self.test.items():
            save_text(directory, text, test=name)
        src, tgt = vocabularies
        return {
            **facts,
            "counts": {
                "train": facts["counts"],
                "valid": len(self.valid[0]),
                "test": {name: len(text[0]) for name, text in self.test.items()},
            },
            "tokens": {"train": facts["tokens"], "valid": valid_tokens},
            "vocabulary_size": {"src": len(src), "tgt": len(tgt)},
            "vocabulary_hash": vocabulary_hashes(vocabularies),
        }

    # --- text ---

    def make_text(self, shard: Shard = EVERYTHING) -> None:
        """Read all corpora, and filter the parts of this shard that are missing."""
        languages = LanguageMix(self.corpora.src_lang, self.corpora.tgt_lang)
        if any(name == "language" for name, _ in self.rules.filters):
            for code in unknown_to_py3langid(self.corpora.src_lang, self.corpora.tgt_lang):
                print(f"the filter language does not know {code}, and lets that side pass", file=sys.stderr)
        selection = TextSelection(
            self.rules, self.corpora.src_lang, self.corpora.tgt_lang, self.held_out, self._word_translation()
        )
        for _ in run_jobs(TextMaker(selection, languages), self._text_jobs(shard), self.workers):
            pass
        if shard.count == 1:
            facts = [self._facts(number, self.work.text_path) for number in self._corpora()]
            self._refuse_change(facts)
            self._refuse_nothing(facts)

    def _text_jobs(self, shard: Shard) -> Iterator[TextJob]:
        for number, corpus in enumerate(self.corpora.train):
            end = self.work.end_of(number)
            if end and all(self.work.text_path(number, part).exists() for part in self._own_parts(end, shard)):
                continue
            left_out: Counter[str] = Counter()
            pairs = _read(corpus.source, f"training corpus {number + 1} of {len(self.corpora.train)}", left_out)
            n_pairs = n_parts = 0
            while chunk := list(islice(pairs, PAIRS_PER_PART)):
                path = self.work.text_path(number, n_parts)
                if n_parts % shard.count == shard.number and not path.exists():
                    yield _text_job(path, chunk)
                n_parts += 1
                n_pairs += len(chunk)
            self.work.save_end(number, {"read": n_pairs, "parts": n_parts, "left_out": left_out})

    def wait_for_text(self) -> None:
        """Wait until all parts of all corpora are there, made by others."""
        corpora = self._corpora()
        while not all(self.work.end_of(number) for number in corpora):
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        missing = [path for part in self._parts() if not (path := self.work.text_path(*part)).exists()]
        with tqdm(total=len(missing), unit="parts", desc="waiting for other processes", disable=None) as bar:
            while missing:
                time.sleep(_SECONDS_BETWEEN_LOOKS)
                still = [path for path in missing if not path.exists()]
                bar.update(len(missing) - len(still))
                missing = still

    def _own_parts(self, end: Facts, shard: Shard) -> range:
        return range(shard.number, end["parts"], shard.count)

    def _word_translation(self) -> WordTranslation | None:
        """The model of the filter word_translation, learnt before anything is judged."""
        if self.rules.word_translation is None:
            return None
        path = self.work.path / "word_translation.npz"
        if path.exists():
            return WordTranslation.load(path)
        pairs = (
            (pair.src, pair.tgt)
            for number, corpus in enumerate(self.corpora.train, 1)
            for pair in islice(
                _read(corpus.source, f"training corpus {number} for word_translation"),
                _PAIRS_FOR_WORDS // len(self.corpora.train),
            )
        )
        print("learning which words translate each other …", file=sys.stderr)
        own = path.with_name(f"word_translation.{own_name()}.npz")  # shards may learn at the same time
        WordTranslation.learn(pairs, max_pairs=_PAIRS_FOR_WORDS).save(own)
        own.replace(path)
        return WordTranslation.load(path)

    def _parts(self) -> list[tuple[int, int]]:
        """(corpus, part) of all parts, in order."""
        ends = [self.work.end_of(number) for number in self._corpora()]
        return [(number, part) for number, end in enumerate(ends) if end for part in range(end["parts"])]

    def _corpora(self) -> range:
        return range(len(self.corpora.train))

    def _facts(self, corpus: int, *kinds: Callable[[int, int], Path]) -> Facts:
        """What the parts of a corpus say, together."""
        parts = [part for part in self._parts() if part[0] == corpus]
        return add_facts(load_facts(path_of(*part)) for path_of in kinds for part in parts)

    # --- repetitions ---

    def find_repeats(self) -> list[Verdicts]:
        """For each part KEPT, or the reason of the rule under which a pair repeats one before it; on disk."""
        sizes = [load_keys(self.work.text_path(*part)).shape[1] for part in self._parts()]
        ends = np.cumsum(sizes)[:-1]
        verdicts = disk_array(self.work.path / "repeats", sum(sizes), np.int8, KEPT)
        marked = disk_array(self.work.path / "marked", sum(sizes), np.bool_, False)
        for rule_number, rule in enumerate(self.rules.duplicates):
            keys = KeyFile(self.work.path / "keys")
            for part in self._parts():
                keys.append(load_keys(self.work.text_path(*part))[rule_number])
            mark_repeats(keys.read(), marked)
            reason = self.rules.reasons.index(rule.reason)
            for of_part, marked_of_part in zip(np.split(verdicts, ends), np.split(marked, ends), strict=True):
                of_part[marked_of_part & (of_part == KEPT)] = reason
        return np.split(verdicts, ends)

    # --- vocabulary ---

    def make_vocabularies(self, repeats: Sequence[Verdicts]) -> Vocabularies:
        """Load the given vocabulary, or the one that was learnt before this run was stopped, or learn it."""
        if self.options.path is not None:
            return load_given(self.options.path)
        paths = [self.work.text_path(*part) for part in self._parts()]
        lines = KeptText(paths, repeats, self.options.sample_lines)
        if self.options.joint:
            joint = self._learn("joint", lines.of("src", "tgt"))
            return joint, joint
        return self._learn("source", lines.of("src")), self._learn("target", lines.of("tgt"))

    def _learn(self, which: str, lines: EvenLines) -> Vocabulary:
        path = self.work.path / f"{which}.model"
        if path.exists():
            return Vocabulary.load(path)
        options = self.options
        print(f"learning {options.size:,} pieces of {which} vocabulary from {len(lines):,} lines …", file=sys.stderr)
        try:
            vocabulary = Vocabulary.learn(
                lines,
                size=options.size,
                type=options.type,
                byte_fallback=options.byte_fallback,
                character_coverage=options.character_coverage,
                normalization=options.normalization,
                tags=[] if which == "target" else self.corpora.tags,
            )
        except DataError as error:
            raise DataError(f"{which} vocabulary: {error}") from error
        vocabulary.save(path)
        return vocabulary

    # --- ids ---

    def make_ids(self, repeats: Sequence[Verdicts], vocabularies: Vocabularies) -> None:
        """Encode the parts that are missing."""
        maker = IdsMaker(self.rules, *vocabularies)
        tag_ids = [self._tag_ids(corpus, vocabularies[0]) for corpus in self.corpora.train]
        parts = list(zip(self._parts(), repeats, strict=True))
        missing = [(part, verdicts) for part, verdicts in parts if not self.work.ids_path(*part).exists()]
        jobs = (
            IdsJob(self.work.ids_path(*part), self.work.text_path(*part), np.array(verdicts), tag_ids[part[0]])
            for part, verdicts in missing
        )
        n_made = len(parts) - len(missing)
        with tqdm(total=len(parts), initial=n_made, unit="parts", desc="encoding", disable=None) as bar:
            for _ in run_jobs(maker, jobs, self.workers):
                bar.update()

    def _tag_ids(self, corpus: TrainingCorpus, vocabulary: Vocabulary) -> list[int]:
        if corpus.tag is None:
            return []
        tag_id = vocabulary.tag_id(corpus.tag)
        assert tag_id is not None, "a vocabulary that was learnt has all tags, and one that was given has been checked"
        return [tag_id]

    def encode_valid(self, directory: Path, vocabularies: Vocabularies) -> dict[str, int]:
        """Encode the validation text, all of it. Return the tokens of each side."""
        tokens = {}
        for side, lines, vocabulary in zip(("src", "tgt"), self.valid, vocabularies, strict=True):
            with IdWriter(directory, f"valid.{side}", len(vocabulary)) as writer:
                writer.append(vocabulary.encode(lines, self.workers))
            tokens[side] = writer.n_tokens
        return tokens

    # --- the whole ---

    def assemble(self, directory: Path, vocabularies: Vocabularies) -> Facts:
        """Join the parts, and what they say."""
        src_vocabulary, tgt_vocabulary = vocabularies
        statistics = [Statistics() for _ in self.corpora.train]
        with (
            IdWriter(directory, "train.src", len(src_vocabulary)) as src_writer,
            IdWriter(directory, "train.tgt", len(tgt_vocabulary)) as tgt_writer,
        ):
            for corpus, number in tqdm(self._parts(), unit="parts", desc="joining", disable=None):
                part = load_ids_part(self.work.ids_path(corpus, number))
                src_writer.append_flat(part.src_ids, part.src_lengths)
                tgt_writer.append_flat(part.tgt_ids, part.tgt_lengths)
                statistics[corpus] += part.statistics
        facts = [self._facts(number, self.work.text_path, self.work.ids_path) for number in self._corpora()]
        self._refuse_nothing(facts)
        return {
            "tokens": {"src": src_writer.n_tokens, "tgt": tgt_writer.n_tokens},
            **self._describe(facts),
            "statistics": {
                corpus.name: counted.to_json() for corpus, counted in zip(self.corpora.train, statistics, strict=True)
            },
            "statistics_all": sum(statistics, Statistics()).to_json(),
        }

    def _describe(self, by_corpus: Sequence[Facts]) -> Facts:
        names = [corpus.name for corpus in self.corpora.train]
        counts = []
        for number, (corpus, facts) in enumerate(zip(self.corpora.train, by_corpus, strict=True)):
            end = self.work.end_of(number) or {}
            dropped = {reason: facts["dropped"].get(reason, 0) for reason in self.rules.reasons}
            kept = facts["read"] - sum(dropped.values())
            counts.append(
                {
                    "name": corpus.name,
                    "source": str(corpus.source),
                    "read": facts["read"],
                    "kept": kept,
                    "dropped": dropped,
                    "left_out": end.get("left_out", {}),  # units of the file that were no pair
                }
            )
        contamination = add_contamination([facts["contamination"] for facts in by_corpus])
        return {
            "counts": counts,
            "contamination": self._contamination(contamination),
            "examples": {name: facts["examples"] for name, facts in zip(names, by_corpus, strict=True)},
            "languages": {name: facts["languages"] for name, facts in zip(names, by_corpus, strict=True)},
            "drift": {
                name: describe_agreement(facts["agreement"]) for name, facts in zip(names, by_corpus, strict=True)
            },
        }

    def _contamination(self, facts: Facts) -> Facts:
        """For each held-out set the lines of it that training text holds, and how many pairs match, and how."""
        found = self.held_out.count(np.array(facts["found"], np.int64))
        sets = {}
        for name in self.held_out.sizes:
            pairs = facts["pairs"].get(name, {})
            dropped = sum(pairs.values()) if self.rules.drop_contamination else 0
            sets[name] = {"lines": found[name], **pairs, "pairs_dropped": dropped}
        return sets

    def _refuse_change(self, by_corpus: Sequence[Facts]) -> None:
        """Raises DataError when parts of a corpus are not of the text that was read last."""
        for number, (corpus, facts) in enumerate(zip(self.corpora.train, by_corpus, strict=True)):
            end = self.work.end_of(number)
            if end is None or facts["read"] != end["read"]:
                raise DataError(f"{corpus.source}: changed while it was being prepared; run this again")

    def _refuse_nothing(self, by_corpus: Sequence[Facts]) -> None:
        """Raises DataError when no pair is left, with the reasons."""
        n_read = sum(facts["read"] for facts in by_corpus)
        dropped: Counter[str] = sum((Counter(facts["dropped"]) for facts in by_corpus), Counter())
        if n_read > dropped.total():
            return
        limits = {
            "too_long": f" (data.max_length {self.rules.max_length} pieces)",
            "length_ratio": f" (data.max_length_ratio {self.rules.max_length_ratio:g})",
            "contamination": " (also in validation or test sets; data.drop_contamination)",
        }
        why = ", ".join(
            f"{n} {reason.replace('_', ' ')}{limits.get(reason, '')}" for reason, n in dropped.most_common()
        )
        raise DataError(
            f"0 of {n_read} pairs are left to train on: {why}. Change these filters and limits, or give other text"
        )


def _read(source: Source, what: str, left_out: Counter[str] | None = None) -> Iterator[Pair]:
    """All pairs of a source, with a bar; `left_out` as in `read_pairs`. Raises DataError when there is none."""
    total, unit = size_of(source)
    n_pairs = 0
    with tqdm(total=total, unit=unit, unit_scale=True, desc=f"reading {what}", disable=None) as bar:
        for pair in read_pairs(source, bar.update, left_out):
            n_pairs += 1
            yield pair
    if not n_pairs:
        raise DataError(f"{source}: empty, not one line. Take it out of the config, or mend it")


def _read_all(sources: Sequence[Source], what: str) -> ParallelText:
    pairs = [pair for source in sources for pair in _read(source, what)]
    return [pair.src for pair in pairs], [pair.tgt for pair in pairs]


def _text_job(path: Path, pairs: Sequence[Pair]) -> TextJob:
    src, tgt, places, metas = zip(*pairs, strict=True)
    meta: list[Mapping[str, str]] | None = None
    if any(meta is not NO_META for meta in metas):
        meta = [dict(meta) for meta in metas]
    return TextJob(path, Texts(list(src), list(tgt), meta), np.array(places, np.int64))
