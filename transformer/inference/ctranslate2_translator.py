"""Exported models of CTranslate2 behind `translate.py`: lines in, translations out, without PyTorch."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from data.prepared import load_vocabularies
from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Vocabulary
from transformer.config_translate import TranslateSettings
from transformer.errors import ConfigError, RunError
from transformer.inference.export.description import check_files, read_description
from transformer.inference.export.obstacles import LONGEST_SOURCE, fit_search
from transformer.inference.line_translator import WINDOW, Progress, override
from transformer.inference.requests import Request
from transformer.inference.translation import Translation, blank
from transformer.inference.units import Unit, in_batches, lines_of, units_of
from transformer.torchrun import Process, check_gpu

TARGET = "ctranslate2"
UNLIMITED = 0  # as CTranslate2 has it, which otherwise reads 1,024 pieces
SCORED_TOKENS = 1024  # positions of a batch that is scored: CTranslate2 has the logits of all of them at once


NEVER = {PAD_ID, UNK_ID, BOS_ID}


class Found(NamedTuple):
    """A hypothesis: ids with the closing </s>, where it was written; log P / length penalty."""

    tokens: list[int]
    score: float


class CTranslate2Translator:
    """Translates with an exported folder; what comes out of the search is what `Translator` finds.

    Args:
        directory: written by `python -m transformer export --to ctranslate2`.
        settings: as `fit_search` leaves them.
        device: auto, cuda or cpu.
        max_sentences: the most sentences in a batch; None: as many as `settings.max_tokens` allows.
        threads: of the CPU; None: OMP_NUM_THREADS, else one for each core that this process may use.
        process: whose GPU it is.

    Raises:
        ConfigError: CTranslate2 is not installed, or the tag unknown.
        RunError: the folder is damaged, or the device not there.
    """

    def __init__(
        self,
        directory: Path,
        settings: TranslateSettings,
        device: str = "auto",
        max_sentences: int | None = None,
        threads: int | None = None,
        process: Process | None = None,
    ) -> None:
        self.settings = settings.model_copy(
            update={"max_source_length": min(settings.max_source_length or LONGEST_SOURCE, LONGEST_SOURCE)}
        )
        self.max_sentences = max_sentences
        self.src_lang = self.tgt_lang = "any"  # a description says them
        self.src_vocabulary, self.tgt_vocabulary = load_vocabularies(directory)
        self._src_pieces = self.src_vocabulary.all_pieces()
        self._tgt_pieces = self.tgt_vocabulary.all_pieces()
        self._tgt_ids = {piece: number for number, piece in enumerate(self._tgt_pieces)}
        self.prefix = [] if settings.tag is None else [_tag_id(settings.tag, self.src_vocabulary)]
        threads, on_gpu = threads or _n_threads(), _is_on_gpu(device)
        process = process or Process()
        if on_gpu and process.size > 1:
            check_gpu(process, import_ctranslate2().get_cuda_device_count(), "give --device cpu")
        self.n_workers = settings.workers if settings.workers != "auto" else 1 if on_gpu else threads
        where = ("cuda", process.local_rank) if on_gpu else ("cpu", 0)
        self._translator = _load(directory, *where, self.n_workers, max(1, threads // self.n_workers))

    @classmethod
    def load(
        cls,
        directory: Path,
        device: str = "auto",
        max_sentences: int | None = None,
        threads: int | None = None,
        process: Process | None = None,
        **overrides: Any,
    ) -> CTranslate2Translator:
        """The translator of an exported folder; `overrides` replace its TranslateSettings, by name.

        Raises:
            ConfigError: an override is not a setting, out of bounds, or beyond CTranslate2.
            RunError: the folder is not an export to CTranslate2, or damaged.
        """
        description = read_description(directory)
        if description.target != TARGET:
            raise RunError(
                f"{directory}: exported to {description.target}, which this program does not run: its README.md says "
                "what does; here, translate with the model it was made from, or export that --to ctranslate2"
            )
        settings = override(description.translate, overrides)
        if refused := fit_search(TARGET, settings)[1]:
            raise ConfigError("\n".join(refused))
        check_files(directory, description)
        translator = cls(directory, settings, device, max_sentences, threads, process)
        translator.src_lang, translator.tgt_lang = description.src_lang, description.tgt_lang
        return translator

    def translations(
        self,
        requests: Iterable[str | Request],
        window: int = WINDOW,
        progress: Progress | None = None,
        annotate: bool = False,
        first_line: int = 0,
    ) -> Iterator[Translation]:
        """See `Translator.translations`; annotated are pieces and their log-probabilities, not what they attend to.

        Raises:
            ConfigError: a line has wishes.
            RunError: the output is not a number.
        """
        lines = (Request(request) if isinstance(request, str) else request for request in requests)
        while part := list(islice(lines, window)):
            yield from self._translate_window(part, first_line, progress or (lambda _: None), annotate)
            first_line += len(part)

    def scored(
        self,
        pairs: Iterable[tuple[str, str]],
        window: int = WINDOW,
        progress: Progress | None = None,
        first_line: int = 0,
    ) -> Iterator[Translation]:
        """See `Translator.scored`, annotated as in `translations`.

        Raises:
            RunError: a side has too many pieces.
        """
        pairs = iter(pairs)
        while part := list(islice(pairs, window)):
            sources = self.src_vocabulary.encode([src for src, _ in part])
            targets = [[*ids, EOS_ID] for ids in self.tgt_vocabulary.encode([tgt for _, tgt in part])]
            for number, pair in enumerate(zip(sources, targets, strict=True), first_line + 1):
                _refuse_long(number, *map(len, pair))
            log_probs = self.log_probs(sources, targets)
            for (src, tgt), tokens, each in zip(part, targets, log_probs, strict=True):
                one = Translation(tgt, self._score(each), len(tokens), True, **self._annotations(tokens, each))
                yield one if src.strip() or tgt.strip() else blank(annotate=True)
            if progress:
                progress(len(part))
            first_line += len(part)

    # --- ids in, ids out ---

    def search(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        done: Callable[[list[int]], object] = lambda _: None,
    ) -> list[list[Found]]:
        """The `n_best` best hypotheses of each source, best first.

        Args:
            sources: ids without special ones.
            limits: the most pieces of each, </s> included.
            done: is called with the places of each batch that is.
        """
        limits = [min(limit, LONGEST_SOURCE) for limit in limits]  # there are no more positions
        lengths = [len(self.prefix) + len(source) + 1 for source in sources]  # 1 for </s>
        order = sorted(range(len(sources)), key=lengths.__getitem__)
        costs = [self.settings.beam_size * length for length in lengths]
        batches = list(in_batches(order, costs, self.settings.max_tokens, self.n_workers, self.max_sentences))[::-1]
        found: dict[int, list[Found]] = {}
        beyond: dict[int, list[int]] = {}  # by limit
        # A batch has one limit. Where a hypothesis goes beyond its own, or is cut later than there, the search would
        # have ended otherwise; as the whole beam is seen here, in no other case can anything differ.
        for batch, results in self._run(sources, [(batch, max(limits[i] for i in batch)) for batch in batches]):
            longest = max(limits[i] for i in batch)
            for i, hypotheses in zip(batch, results, strict=True):
                found[i] = hypotheses
                cut = any(len(one.tokens) > limits[i] or one.tokens[-1] != EOS_ID for one in hypotheses)
                if cut and limits[i] < longest:
                    beyond.setdefault(limits[i], []).append(i)
            done(batch)
        for batch, results in self._run(sources, [(batch, limit) for limit, batch in beyond.items()]):
            found |= zip(batch, results, strict=True)
        return [found[i][: self.settings.n_best] for i in range(len(sources))]

    def _run(
        self, sources: Sequence[Sequence[int]], batches: Sequence[tuple[list[int], int]]
    ) -> Iterator[tuple[list[int], list[list[Found]]]]:
        """Search batches, each with a limit of its own, side by side; gives each with what was found, in order."""
        started = [self._start([sources[i] for i in batch], limit) for batch, limit in batches]
        for (batch, _), results in zip(batches, started, strict=True):
            yield batch, [self._found(result.result()) for result in results]

    def log_probs(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """log P of each piece of the targets: ids, which end in </s> where it was written."""
        ended = [list(target[:-1] if target[-1] == EOS_ID else target) for target in targets]
        results = self._translator.score_batch(
            [self._source(source) for source in sources],
            [[self._tgt_pieces[i] for i in target] for target in ended],
            max_batch_size=SCORED_TOKENS,
            batch_type="tokens",
            max_input_length=UNLIMITED,
        )
        return [result.log_probs[: len(target)] for result, target in zip(results, targets, strict=True)]

    def _start(self, sources: Sequence[Sequence[int]], limit: int) -> Any:
        return self._translator.translate_batch(
            [self._source(source) for source in sources],
            asynchronous=True,
            beam_size=self.settings.beam_size,
            num_hypotheses=self.settings.beam_size,
            length_penalty=0.0 if self.settings.length_penalty == "none" else self.settings.alpha,
            disable_unk=True,
            max_input_length=UNLIMITED,
            max_decoding_length=limit,
            min_decoding_length=0,
            return_scores=True,
            return_end_token=True,
        )

    def _source(self, ids: Sequence[int]) -> list[str]:
        return [self._src_pieces[i] for i in (*self.prefix, *ids)]

    def _found(self, result: Any) -> list[Found]:
        tokens = [[self._tgt_ids[piece] for piece in pieces] for pieces in result.hypotheses]
        found = map(Found, tokens, result.scores)
        return [one for one in found if NEVER.isdisjoint(one.tokens)]  # a beam wider than the choice is filled up

    # --- text in, text out ---

    def _translate_window(
        self, requests: list[Request], n_before: int, progress: Progress, annotate: bool
    ) -> list[Translation]:
        settings = self.settings
        units = units_of(requests, n_before, self.src_vocabulary, self.tgt_vocabulary, settings)
        for unit in units:
            _refuse_wishes(unit, n_before)
        progress(len(requests) - len({unit.line for unit in units}))
        sources = [unit.sentence.src for unit in units]
        limits = [int(settings.max_length_ratio * len(src)) + settings.max_extra_length for src in sources]
        found = self.search(sources, limits, lambda batch: progress(sum(units[i].is_last for i in batch)))
        texts = [self.tgt_vocabulary.decode([one.tokens for one in hypotheses]) for hypotheses in found]
        rows = [(unit.sentence.src, one.tokens) for unit, each in zip(units, found, strict=True) for one in each]
        read = iter(self.log_probs(*zip(*rows, strict=True)) if annotate and rows else ())
        translations = []
        for unit, hypotheses, of_unit in zip(units, found, texts, strict=True):
            ranked = []
            for one, text in zip(hypotheses, of_unit, strict=True):
                score, annotations = one.score, {}
                if annotate:
                    each = next(read)
                    score, annotations = self._score(each), self._annotations(one.tokens, each)
                finished = one.tokens[-1] == EOS_ID
                ranked.append(Translation(text, score, len(one.tokens), finished, **annotations))
            if not math.isfinite(ranked[0].score):
                raise RunError(f"line {n_before + unit.line + 1}: the output is not a number: export the model again")
            translations.append(replace(ranked[0], alternatives=tuple(ranked[1:])))
        return lines_of(requests, units, translations, annotate)

    def _score(self, log_probs: Sequence[float]) -> float:
        """log P / length penalty."""
        alpha = 0.0 if self.settings.length_penalty == "none" else self.settings.alpha
        return math.fsum(log_probs) / math.pow(len(log_probs), alpha)

    def _annotations(self, tokens: Sequence[int], log_probs: Sequence[float]) -> dict[str, Any]:
        return {"pieces": tuple(self._tgt_pieces[i] for i in tokens), "token_log_probs": tuple(log_probs)}


def _n_threads() -> int:
    stated = os.environ.get("OMP_NUM_THREADS", "")
    if stated.isdecimal() and int(stated):  # as torchrun does, and PyTorch obeys
        return int(stated)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_on_gpu(device: str) -> bool:
    return device == "cuda" or (device == "auto" and import_ctranslate2().get_cuda_device_count() > 0)


def _load(directory: Path, device: str, device_index: int, n_workers: int, threads: int) -> Any:
    """The model, as CTranslate2 runs it."""
    ctranslate2 = import_ctranslate2()
    try:
        return ctranslate2.Translator(
            str(directory),
            device=device,
            device_index=device_index,
            inter_threads=n_workers,
            intra_threads=threads,
            max_queued_batches=-1,  # no limit: all batches of a window are handed over at once
        )
    except (RuntimeError, ValueError) as error:
        raise RunError(f"{directory}: CTranslate2 cannot load it: {error}") from error


def import_ctranslate2() -> Any:
    """The library.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import ctranslate2  # an extra
    except ImportError as error:
        raise ConfigError("CTranslate2 is not installed: pip install ctranslate2") from error
    return ctranslate2


def _tag_id(tag: str, vocabulary: Vocabulary) -> int:
    found = vocabulary.tag_id(tag)
    if found is None:
        raise ConfigError(f"translate.tag: {tag}: no corpus that this model was trained on had this tag; leave it out")
    return found


def _refuse_long(number: int, n_source: int, n_target: int) -> None:
    for side, n_pieces in (("source", n_source), ("translation", n_target - 1)):
        if n_pieces > LONGEST_SOURCE:
            raise RunError(
                f"line {number}: the {side} has {n_pieces:,} pieces, and CTranslate2 scores up to {LONGEST_SOURCE:,}: "
                "cut the line, or score with the model this was exported from"
            )


def _refuse_wishes(unit: Unit, n_before: int) -> None:
    wishes = {"prefix": unit.request.prefix, "required": unit.request.required, "avoided": unit.request.avoided}
    if wanted := [name for name, wish in wishes.items() if wish]:
        raise ConfigError(
            f"line {n_before + unit.line + 1} has {', '.join(wanted)}, which only the torch backend knows: translate "
            "with the model this was exported from"
        )
