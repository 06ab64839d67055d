"""Lines of text in, lines of text out: the one translator behind `translate.py`, evaluation and validation."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from data.vocabulary import EOS_ID, UNK_ID, Vocabulary
from transformer.config_translate import TranslateSettings
from transformer.device import choose_device
from transformer.errors import ConfigError, RunError
from transformer.inference.alignment import SentencePieces, best_links, copy_unknown, word_attention
from transformer.inference.batch_search import BatchSearch
from transformer.inference.line_translator import WINDOW, Progress, override
from transformer.inference.prepacked import can_prepack, prepack
from transformer.inference.requests import Request
from transformer.inference.scoring import Forced, forced
from transformer.inference.search.bayes_risk import best_by_risk
from transformer.inference.search.ensemble import check_shared_vocabularies
from transformer.inference.search.required_phrases import unmet
from transformer.inference.search.search_state import Hypothesis
from transformer.inference.sentence import Sentence
from transformer.inference.translation import BLANK, Translation, blank
from transformer.inference.units import Unit, in_batches, lines_of, units_of
from transformer.inference.word_bounds import occurs
from transformer.inference.workers import Workers
from transformer.model import Transformer
from transformer.model_directory import load_model, stored_translate_settings

__all__ = ["BLANK", "WINDOW", "Request", "Translation", "Translator"]

PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}
SCORED_LOGITS = 2**25  # numbers: forced decoding has the logits of all positions of a batch at once


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
        settings = override(stored_translate_settings(names[0]), overrides)  # before weights are read
        models = [load_model(path) for path in names]
        vocabularies = [(model.src_vocabulary, model.tgt_vocabulary) for model in models]
        check_shared_vocabularies(dict(zip(map(str, names), vocabularies, strict=True)))
        translator = cls([model.network for model in models], *vocabularies[0], settings, device, max_sentences)
        translator.src_lang, translator.tgt_lang = models[0].src_lang, models[0].tgt_lang
        if settings.precision == "fp32":
            for network in translator.networks:  # they are nobody else's
                prepack(network)
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
        units = units_of(requests, n_before, self.src_vocabulary, self.tgt_vocabulary, self.settings)
        progress(len(requests) - len({unit.line for unit in units}))
        lengths = [len(self.prefix) + len(unit.sentence.src) + 1 for unit in units]  # 1 for </s>
        order = sorted(range(len(units)), key=lengths.__getitem__)
        costs = [self.settings.beam_size * length for length in lengths]
        budget, n_workers = self.settings.max_tokens, self.workers.n
        batches = list(in_batches(order, costs, budget, n_workers, self.max_sentences))[::-1]  # the longest first

        def work(batch: list[int]) -> list[Translation]:
            return self._translate_batch([units[i] for i in batch], annotate)

        found: dict[int, Translation] = {}
        with self._evaluating():
            for place, translations in self.workers.run(work, batches):
                found |= zip(batches[place], translations, strict=True)
                progress(sum(units[i].is_last for i in batches[place]))
        parts = [_checked(found[i], n_before + unit.line) for i, unit in enumerate(units)]
        return lines_of(requests, units, parts, annotate)

    def _translate_batch(self, units: Sequence[Unit], annotate: bool) -> list[Translation]:
        """The translations of a batch, each with its alternatives."""
        with torch.inference_mode():
            found = self.search([unit.sentence for unit in units])
            texts = [self.tgt_vocabulary.decode([h.tokens for h in hypotheses]) for hypotheses in found]
            chosen = [self._chosen(hypotheses, text) for hypotheses, text in zip(found, texts, strict=True)]
            copies = UNK_ID not in self.search.rules.unwanted
            read = self._read(units, chosen) if annotate or copies else None
        results = []
        for row, (unit, hypotheses) in enumerate(zip(units, chosen, strict=True)):
            src = self._source_pieces(unit.text, unit.sentence.src) if read else None
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

    def _read(self, units: Sequence[Unit], chosen: Sequence[list[tuple[Hypothesis, str]]]) -> list[list[Forced]]:
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

    def _source_pieces(self, text: str, ids: Sequence[int]) -> SentencePieces:
        """A line, and what was read of it."""
        return SentencePieces(text, ids, self.src_vocabulary.encode_with_spans(text)[1][: len(ids)])

    def _translation(
        self,
        unit: Unit,
        hypothesis: Hypothesis,
        text: str,
        src: SentencePieces | None,
        read: Forced | None,
        annotate: bool,
    ) -> Translation:
        annotations: dict[str, Any] = {}
        if src is not None and read is not None:
            tgt = SentencePieces(*self.tgt_vocabulary.decode_with_spans(hypothesis.tokens))
            n_tags = len(self.prefix)
            tgt = copy_unknown(tgt, src, read.attention[: len(tgt.ids), n_tags : n_tags + len(src.ids)])
            text = tgt.text
            annotations = self._annotations(hypothesis.tokens, src, tgt, read) if annotate else {}
        request, sentence = unit.request, unit.sentence
        is_unmet = any(occurs(phrase, text) for phrase in request.avoided)
        if not all(occurs(phrase, text) for phrase in request.required):  # letter by letter; else piece by piece
            is_unmet |= unmet(hypothesis.tokens, sentence.required, self.search.continues_word)
        n_tokens, finished = len(hypothesis.tokens), hypothesis.complete
        return Translation(text, hypothesis.score, n_tokens, finished, constraint_unmet=is_unmet, **annotations)

    def _annotations(
        self, tokens: Sequence[int], src: SentencePieces, tgt: SentencePieces, read: Forced
    ) -> dict[str, Any]:
        """The fields of a `Translation` that say how it came about."""
        [attention] = word_attention(read.attention[None], [src], [tgt], len(self.prefix))
        return {
            "pieces": tuple(self.tgt_vocabulary.pieces(tokens)),
            "token_log_probs": tuple(read.log_probs.tolist()),
            "alignment": best_links(attention),
            "attention": tuple(map(tuple, attention.tolist())),
        }

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
        order = [i for i, (src, tgt) in enumerate(pairs) if src.strip() or tgt.strip()]
        progress(len(pairs) - len(order))
        lengths = [len(target) for target in targets]
        order.sort(key=lengths.__getitem__)
        budget = SCORED_LOGITS // len(self.tgt_vocabulary)
        batches = list(in_batches(order, lengths, budget, self.workers.n, self.max_sentences))[::-1]

        def work(batch: list[int]) -> list[Translation]:
            with torch.inference_mode():
                src = self.search.source([Sentence(n_before + i, sources[i]) for i in batch])
                read = forced(self.networks, src, [targets[i] for i in batch], self.settings.alignment_layer)
            return [self._scored(*pairs[i], targets[i], one) for i, one in zip(batch, read, strict=True)]

        results = [blank(annotate=True)] * len(pairs)
        with self._evaluating():
            for place, translations in self.workers.run(work, batches):
                for i, translation in zip(batches[place], translations, strict=True):
                    results[i] = _checked(translation, n_before + i)
                progress(len(batches[place]))
        return results

    def _scored(self, src_text: str, tgt_text: str, tokens: list[int], read: Forced) -> Translation:
        score = float(read.log_probs.sum() / self.search.rules.penalty(torch.tensor(len(tokens))))
        src = SentencePieces(src_text, *self.src_vocabulary.encode_with_spans(src_text))
        tgt = SentencePieces(tgt_text, *self.tgt_vocabulary.encode_with_spans(tgt_text))
        return Translation(tgt_text, score, len(tokens), True, **self._annotations(tokens, src, tgt, read))


_NOTHING = Translation("", math.nan, 0, False)


def _checked(translation: Translation, n_before: int) -> Translation:
    if not math.isfinite(translation.score):
        raise RunError(
            f"line {n_before + 1}: the network's output is not a number; its weights are damaged, or training "
            "diverged. Use an earlier checkpoint (--model RUN/checkpoints/best)."
        )
    return translation


def _in_precision(network: Transformer, precision: str) -> Transformer:
    """The network itself, or a copy with products of half as many bits."""
    if precision == "fp32":
        return network
    network, dtype = copy.deepcopy(network), PRECISIONS[precision]
    if dtype == torch.bfloat16 and can_prepack(next(network.parameters()).device):
        prepack(network, dtype)  # a CPU's attention is slower in bf16 than in fp32
        return network
    return network.to(dtype)


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
