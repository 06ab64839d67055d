"""Lines of text in, lines of text out: the one translator behind `translate.py`, evaluation and validation."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import ValidationError

from data.vocabulary import EOS_ID, UNK_ID, Vocabulary
from transformer.config_translate import TranslateSettings
from transformer.device import choose_device
from transformer.errors import ConfigError, RunError
from transformer.inference.alignment import SentencePieces, best_links, copy_unknown, word_attention
from transformer.inference.batch_search import BatchSearch, Sentence
from transformer.inference.long_input import split, truncate
from transformer.inference.requests import Request
from transformer.inference.scoring import Forced, forced
from transformer.inference.search.bayes_risk import best_by_risk
from transformer.inference.search.ensemble import check_shared_vocabularies
from transformer.inference.search.length_penalty import length_penalty
from transformer.inference.search.required_phrases import phrase_ids, unmet
from transformer.inference.search.search_state import Hypothesis
from transformer.inference.translation import BLANK, Translation, blank, joined
from transformer.inference.word_bounds import occurs
from transformer.inference.workers import Workers
from transformer.model import Transformer
from transformer.model_directory import load_model, stored_translate_settings

__all__ = ["BLANK", "WINDOW", "Request", "Translation", "Translator"]

WINDOW = 2048
"""Lines that are held and sorted by length together: enough for batches almost without padding, and few in memory."""

PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}
SCORED_LOGITS = 2**25  # numbers: forced decoding has the logits of all positions of a batch at once
PARTS_APART = 2**32  # between the numbers of parts of one line

Progress = Callable[[int], object]


class _Unit(NamedTuple):
    """A line, or a part of one."""

    line: int  # place in the window
    text: str
    sentence: Sentence
    request: Request
    is_last: bool = True  # of its line


class Translator:
    """Translates with one network or several, in batches sorted by length; no line's translation depends on others.

    Args:
        networks: one, or those of an ensemble; they are moved to the device, and translate in evaluation mode whatever
            mode they are in.
        device: a torch.device, or auto, cuda, mps or cpu.
        max_sentences: the most sentences in a batch; None: as many as `settings.max_tokens` allows.

    Raises:
        ConfigError: an unknown tag, or settings that this network cannot fulfil.
    """

    def __init__(
        self,
        networks: Transformer | Sequence[Transformer],
        src_vocabulary: Vocabulary,
        tgt_vocabulary: Vocabulary,
        settings: TranslateSettings,
        device: torch.device | str = "auto",
        max_sentences: int | None = None,
    ) -> None:
        self.device = choose_device(device) if isinstance(device, str) else device
        given = [networks] if isinstance(networks, Transformer) else list(networks)
        self.networks = [_in_precision(network.to(self.device), settings.precision) for network in given]
        self.src_vocabulary = src_vocabulary
        self.tgt_vocabulary = tgt_vocabulary
        self.settings = settings
        self.max_sentences = max_sentences
        self.src_lang = self.tgt_lang = "any"  # a model directory says them
        self.prefix = _tag_ids(settings.tag, src_vocabulary)
        self.search = BatchSearch(self.networks, tgt_vocabulary, settings, self.device, self.prefix)
        self.workers = Workers(settings.workers, self.device)
        _check_layer(settings.alignment_layer, self.networks)

    @property
    def network(self) -> Transformer:
        """The first one."""
        return self.networks[0]

    @classmethod
    def load(
        cls,
        paths: Path | str | Sequence[Path | str],
        device: str = "auto",
        max_sentences: int | None = None,
        **overrides: Any,
    ) -> Translator:
        """The translator of a model directory or run, or of several; `overrides` replace TranslateSettings, by name.

        An ensemble has the stored settings of its first model.

        Raises:
            RunError: there is no usable model.
            ConfigError: an override is not a setting or out of bounds, a tag unknown, the device missing, or models
                have different vocabularies.
        """
        names = [paths] if isinstance(paths, (str, Path)) else list(paths)
        settings = _overridden(stored_translate_settings(names[0]), overrides)  # before weights are read
        models = [load_model(path) for path in names]
        vocabularies = [(model.src_vocabulary, model.tgt_vocabulary) for model in models]
        check_shared_vocabularies(dict(zip(map(str, names), vocabularies, strict=True)))
        translator = cls([model.network for model in models], *vocabularies[0], settings, device, max_sentences)
        translator.src_lang, translator.tgt_lang = models[0].src_lang, models[0].tgt_lang
        return translator

    def translate(self, lines: Iterable[str]) -> list[str]:
        """One line of text for each line; blank lines stay blank."""
        return list(self.translate_stream(lines))

    def translate_stream(self, lines: Iterable[str]) -> Iterator[str]:
        """As `translate`, for any number of lines in bounded memory."""
        return (translation.text for translation in self.translations(lines))

    def translations(
        self,
        requests: Iterable[str | Request],
        window: int = WINDOW,
        progress: Progress | None = None,
        annotate: bool = False,
        first_line: int = 0,
    ) -> Iterator[Translation]:
        """Translations with their scores, in the order of the lines, as soon as a window of them is translated.

        Args:
            requests: lines, or lines with wishes.
            progress: is called with the number of lines of each batch that is done.
            annotate: fill in pieces, their log-probabilities, alignment and attention, which takes another reading.
            first_line: the number of the first of these lines in their file, from 0: what is drawn for a line depends
                on it.

        Raises:
            RunError: the network's output is not a number.
            ConfigError: a line asks for what its settings exclude.
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
        """Given translations with the score that the search would give them, annotated: (source, target) in, in order.

        Where both sides are blank, so is the result. Arguments as in `translations`.
        """
        pairs = iter(pairs)
        while part := list(islice(pairs, window)):
            yield from self._score_window(part, first_line, progress or (lambda _: None))
            first_line += len(part)

    # --- translating ---

    def _translate_window(
        self, requests: list[Request], n_before: int, progress: Progress, annotate: bool
    ) -> list[Translation]:
        units = self._units(requests, n_before)
        progress(len(requests) - len({unit.line for unit in units}))
        order = sorted(range(len(units)), key=lambda i: len(units[i].sentence.src))
        batches = list(self._batches(order, [len(unit.sentence.src) for unit in units]))[::-1]  # the longest first

        def work(batch: list[int]) -> list[Translation]:
            return self._translate_batch([units[i] for i in batch], annotate)

        found: dict[int, Translation] = {}
        with self._evaluating():
            for place, translations in self.workers.run(work, batches):
                found |= zip(batches[place], translations, strict=True)
                progress(sum(units[i].is_last for i in batches[place]))
        results = [blank(annotate)] * len(requests)
        for i, translation in found.items():
            if not math.isfinite(translation.score):
                raise RunError(f"line {n_before + units[i].line + 1}: {_NOT_A_NUMBER}")
        parts: dict[int, list[int]] = {}
        for i, unit in enumerate(units):
            parts.setdefault(unit.line, []).append(i)
        for line, places in parts.items():
            of_line = [found[i] for i in places]
            whole = joined(requests[line].text, [units[i].text for i in places], of_line)
            results[line] = replace(whole, truncated=self._is_truncated(units[places[0]]))
        return results

    def _units(self, requests: Sequence[Request], n_before: int) -> list[_Unit]:
        """What is to be searched for each line that is not blank, cut into parts where it is too long."""
        sources = self.src_vocabulary.encode([request.text for request in requests])
        limit = self.settings.max_source_length
        units = []
        for line, (request, src) in enumerate(zip(requests, sources, strict=True)):
            # A line of spaces may encode to nothing, or, as some vocabularies keep spaces, to something: it is blank.
            if not src or request.text.isspace():
                continue
            self._check(request, n_before + line + 1)
            texts = [request.text]
            # A phrase that is required could belong to any part: such a line is read as a whole.
            if limit and len(src) > limit and self.settings.long_input == "split" and not request.required:
                texts = split(request.text, self._count_pieces, limit)
            parts = [src] if len(texts) == 1 else self.src_vocabulary.encode(texts)
            for place, (text, ids) in enumerate(zip(texts, parts, strict=True)):
                if limit and self.settings.long_input == "truncate":
                    ids = truncate(ids, limit)
                part_request = request if place == 0 else replace(request, prefix="")
                number = n_before + line + place * PARTS_APART
                sentence = Sentence(number, ids, *self._wishes(part_request))
                units.append(_Unit(line, text, sentence, part_request, place == len(texts) - 1))
        return units

    def _count_pieces(self, texts: list[str]) -> list[int]:
        return [len(ids) for ids in self.src_vocabulary.encode(texts)]

    def _is_truncated(self, unit: _Unit) -> bool:
        limit = self.settings.max_source_length
        if self.settings.long_input != "truncate" or not limit or len(unit.sentence.src) < limit:
            return False
        return self._count_pieces([unit.text])[0] > limit

    def _wishes(self, request: Request) -> tuple[list[int], tuple[list[int], ...], tuple[list[int], ...]]:
        """Ids of the prefix, of the required and of the avoided phrases."""
        prefix = self.tgt_vocabulary.encode([request.prefix])[0] if request.prefix else []
        phrases = (request.required, request.avoided)
        required, avoided = (tuple(phrase_ids(texts, self.tgt_vocabulary)) if texts else () for texts in phrases)
        return prefix, required, avoided

    def _check(self, request: Request, number: int) -> None:
        """See that the search can do what a line asks for."""
        settings = self.settings
        if request.required:
            excluded = [name for name in ("sampling", "diversity", "no_repeat_ngram") if getattr(settings, name)]
            if excluded:
                raise ConfigError(
                    f"line {number} requires {request.required[0]!r}, which translate.{excluded[0]} excludes: phrases "
                    "are put in by a beam that is shared out among those that have met more and less of them, and may "
                    f"repeat what is there. Turn {', '.join(excluded)} off, or require nothing"
                )

    def _batches(self, order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
        """Cut `order`, sorted by length, so that sentences × beam × longest stays within the budget; at least one.

        Every worker gets as many batches as the others, and all of about one size, or some would wait for the last.
        """
        costs = [self.settings.beam_size * (len(self.prefix) + length + 1) for length in lengths]  # 1 for </s>
        total, budget = sum(costs[i] for i in order), self.settings.max_tokens
        share = total / max(1, math.ceil(total / budget / self.workers.n) * self.workers.n)
        batch: list[int] = []
        n_batches, done = 1, 0
        for i in order:
            is_full = done >= n_batches * share or (len(batch) + 1) * costs[i] > budget
            if batch and (is_full or len(batch) == self.max_sentences):
                yield batch
                batch, n_batches = [], n_batches + 1
            batch.append(i)
            done += costs[i]
        if batch:
            yield batch

    def _translate_batch(self, units: Sequence[_Unit], annotate: bool) -> list[Translation]:
        """The translations of a batch, each with its alternatives."""
        with torch.inference_mode():
            found = self.search([unit.sentence for unit in units])
            texts = [self.tgt_vocabulary.decode([h.tokens for h in hypotheses]) for hypotheses in found]
            chosen = [self._chosen(hypotheses, text) for hypotheses, text in zip(found, texts, strict=True)]
            copies = UNK_ID not in self.search.rules.unwanted
            read = self._read(units, chosen) if annotate or copies else None
        results = []
        for row, (unit, hypotheses) in enumerate(zip(units, chosen, strict=True)):
            src = self._source_pieces(unit) if read else None
            ranked = [
                self._translation(unit, hypothesis, text, src, read[row][rank] if read else None, annotate)
                for rank, (hypothesis, text) in enumerate(hypotheses)
            ]
            results.append(replace(ranked[0], alternatives=tuple(ranked[1:])) if ranked else _NOTHING)
        return results

    def _chosen(self, hypotheses: list[Hypothesis], texts: list[str]) -> list[tuple[Hypothesis, str]]:
        """The n best of what was found, with their texts."""
        ranked = list(zip(hypotheses, texts, strict=True))
        if self.settings.minimum_bayes_risk and ranked:
            # Samples stand for the distribution by their number, hypotheses of a beam by their probability.
            weights = None if self.settings.sampling else self._probabilities(hypotheses)
            ranked = [ranked[i] for i, _ in best_by_risk(texts, self.settings.minimum_bayes_risk, weights)]
        return ranked[: self.settings.n_best]

    def _probabilities(self, hypotheses: Sequence[Hypothesis]) -> list[float]:
        """P of each, relative to the others."""
        scores = torch.tensor([hypothesis.score for hypothesis in hypotheses])
        lengths = torch.tensor([len(hypothesis.tokens) for hypothesis in hypotheses])
        shares: list[float] = (scores * self.search.rules.penalty(lengths)).softmax(0).tolist()
        return shares

    def _read(self, units: Sequence[_Unit], chosen: Sequence[list[tuple[Hypothesis, str]]]) -> list[list[Forced]]:
        """What the networks say about every hypothesis; a few at once, as all their logits exist."""
        src = self.search.source([unit.sentence for unit in units])
        rows = [(row, h.tokens) for row, hypotheses in enumerate(chosen) for h, _ in hypotheses]
        longest = max((len(tokens) for _, tokens in rows), default=1)
        n_at_once = max(1, SCORED_LOGITS // (longest * len(self.tgt_vocabulary)))
        results: list[list[Forced]] = [[] for _ in units]
        for first in range(0, len(rows), n_at_once):
            part = rows[first : first + n_at_once]
            sources = src[[row for row, _ in part]]
            read = forced(self.networks, sources, [tokens for _, tokens in part], self.settings.alignment_layer)
            for (row, _), one in zip(part, read, strict=True):
                results[row].append(one)
        return results

    def _source_pieces(self, unit: _Unit) -> SentencePieces:
        """What was read of a line."""
        src_ids = unit.sentence.src
        return SentencePieces(unit.text, src_ids, self.src_vocabulary.encode_with_spans(unit.text)[1][: len(src_ids)])

    def _translation(
        self,
        unit: _Unit,
        hypothesis: Hypothesis,
        text: str,
        src: SentencePieces | None,
        read: Forced | None,
        annotate: bool,
    ) -> Translation:
        annotated: dict[str, Any] = {}
        if src is not None and read is not None:
            n_tags = len(self.prefix)
            tgt = SentencePieces(*self.tgt_vocabulary.decode_with_spans(hypothesis.tokens))
            if UNK_ID in tgt.ids:
                tgt = copy_unknown(tgt, src, read.attention[: len(tgt.ids), n_tags : n_tags + len(src.ids)])
            text = tgt.text
            if annotate:
                [attention] = word_attention(read.attention[None], [src], [tgt], n_tags)
                annotated = {
                    "pieces": tuple(self.tgt_vocabulary.pieces(hypothesis.tokens)),
                    "token_log_probs": tuple(read.log_probs.tolist()),
                    "alignment": best_links(attention),
                    "attention": tuple(map(tuple, attention.tolist())),
                }
        request, sentence = unit.request, unit.sentence
        is_unmet = any(occurs(phrase, text) for phrase in request.avoided)
        if not all(occurs(phrase, text) for phrase in request.required):  # letter by letter; else piece by piece
            is_unmet |= unmet(hypothesis.tokens, sentence.required, self.search.continues_word)
        n_tokens, finished = len(hypothesis.tokens), hypothesis.complete
        return Translation(text, hypothesis.score, n_tokens, finished, constraint_unmet=is_unmet, **annotated)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Networks in evaluation mode, and back to what they were."""
        modes = [(network, network.training) for network in self.networks]
        for network in self.networks:
            network.eval()
        try:
            yield
        finally:
            for network, was_training in modes:
                network.train(was_training)

    # --- scoring ---

    def _score_window(self, pairs: list[tuple[str, str]], n_before: int, progress: Progress) -> list[Translation]:
        sources = self.src_vocabulary.encode([src for src, _ in pairs])
        targets = [[*ids, EOS_ID] for ids in self.tgt_vocabulary.encode([tgt for _, tgt in pairs])]
        is_blank = [not src.strip() and not tgt.strip() for src, tgt in pairs]
        order = sorted((i for i in range(len(pairs)) if not is_blank[i]), key=lambda i: len(targets[i]))
        units = [
            _Unit(i, src, Sentence(n_before + i, ids), Request(src))
            for i, ((src, _), ids) in enumerate(zip(pairs, sources, strict=True))
        ]
        progress(sum(is_blank))
        n_logits = SCORED_LOGITS // len(self.tgt_vocabulary)
        batches: list[list[int]] = []
        for i in order:
            if not batches or (len(batches[-1]) + 1) * len(targets[i]) > n_logits:
                batches.append([])
            batches[-1].append(i)

        def work(batch: list[int]) -> list[Translation]:
            penalty = length_penalty(self.settings.length_penalty, self.settings.alpha)
            with torch.inference_mode():
                src = self.search.source([units[i].sentence for i in batch])
                read = forced(self.networks, src, [targets[i] for i in batch], self.settings.alignment_layer)
            results = []
            for i, one in zip(batch, read, strict=True):
                score = float(one.log_probs.sum() / penalty(torch.tensor(len(targets[i]))))
                hypothesis = Hypothesis(targets[i], score, complete=True)
                src_pieces = self._source_pieces(units[i])
                translation = self._translation(units[i], hypothesis, "", src_pieces, one, annotate=True)
                results.append(replace(translation, text=pairs[i][1]))
            return results

        results = [blank(annotate=True)] * len(pairs)
        with self._evaluating():
            for place, translations in self.workers.run(work, batches[::-1]):
                batch = batches[::-1][place]
                for i, translation in zip(batch, translations, strict=True):
                    if not math.isfinite(translation.score):
                        raise RunError(f"line {n_before + i + 1}: {_NOT_A_NUMBER}")
                    results[i] = translation
                progress(len(batch))
        return results


_NOTHING = Translation("", math.nan, 0, False)
_NOT_A_NUMBER = (
    "the network's output is not a number; its weights are damaged, or training diverged. Use an earlier checkpoint "
    "(--model RUN/checkpoints/best)."
)


def _in_precision(network: Transformer, precision: str) -> Transformer:
    """The network itself, or a copy whose weights have half as many bits."""
    return network if precision == "fp32" else copy.deepcopy(network).to(PRECISIONS[precision])


def _tag_ids(tag: str | None, vocabulary: Vocabulary) -> list[int]:
    """What stands before every source sentence. Raises ConfigError when the vocabulary has no such tag."""
    if tag is None:
        return []
    tag_id = vocabulary.tag_id(tag)
    if tag_id is None:
        raise ConfigError(f"translate.tag: {tag}: no corpus that this model was trained on had this tag; leave it out")
    return [tag_id]


def _check_layer(layer: int | None, networks: Sequence[Transformer]) -> None:
    fewest = min(len(network.decoder.layers) for network in networks)
    if layer is not None and layer > fewest:
        raise ConfigError(f"translate.alignment_layer: {layer}: the decoder has layers 1 (the lowest) to {fewest}.")


def _overridden(settings: TranslateSettings, overrides: dict[str, Any]) -> TranslateSettings:
    try:
        return TranslateSettings.model_validate(settings.model_dump() | overrides)
    except ValidationError as error:
        problems = [
            f"translate.{'.'.join(map(str, p['loc']))}: {p['msg']}, not {p['input']!r}" if p["loc"] else p["msg"]
            for p in error.errors()
        ]
        raise ConfigError("\n".join(problems)) from None
