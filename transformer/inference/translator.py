"""Lines of text in, lines of text out: the one translator behind `translate.py`, evaluation and validation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch.nn.utils.rnn import pad_sequence

from data.vocabulary import EOS_ID, PAD_ID, Vocabulary
from transformer.config import TranslateSettings
from transformer.device import choose_device
from transformer.errors import ConfigError, RunError
from transformer.inference.beam_search import Hypothesis, SearchRules, beam_search
from transformer.inference.cached_step import CachedStep
from transformer.inference.length_penalty import length_penalty
from transformer.model import Transformer
from transformer.model_directory import load_model

WINDOW = 2048
"""Lines that are held and sorted by length together: enough for batches almost without padding, and few in memory."""


@dataclass(frozen=True)
class Translation:
    """One translated line; `text` never holds a line break.

    `score` is log P / length penalty, in nats; `n_tokens` counts pieces with </s>; `finished` is False where the
    length limit cut the translation. A blank line is blank again, with score 0.
    """

    text: str
    score: float
    n_tokens: int
    finished: bool


BLANK = Translation("", 0.0, 0, True)


class Translator:
    """Translates with one network, in batches sorted by length; what surrounds a line does not change its translation.

    Args:
        network: is moved to the device, and translates in evaluation mode whatever mode it is in.
        device: a torch.device, or auto, cuda, mps or cpu.
        max_sentences: the most sentences in a batch; None: as many as `settings.max_tokens` allows.
    """

    def __init__(
        self,
        network: Transformer,
        src_vocabulary: Vocabulary,
        tgt_vocabulary: Vocabulary,
        settings: TranslateSettings,
        device: torch.device | str = "auto",
        max_sentences: int | None = None,
    ) -> None:
        self.device = choose_device(device) if isinstance(device, str) else device
        self.network = network.to(self.device)
        self.src_vocabulary = src_vocabulary
        self.tgt_vocabulary = tgt_vocabulary
        self.settings = settings
        self.max_sentences = max_sentences
        self.src_lang = self.tgt_lang = "any"  # a model directory says them
        self.prefix = _tag_ids(settings.tag, src_vocabulary)
        self.rules = SearchRules(settings.beam_size, length_penalty(settings.length_penalty, settings.alpha))

    @classmethod
    def load(
        cls, path: Path | str, device: str = "auto", max_sentences: int | None = None, **overrides: Any
    ) -> Translator:
        """The translator of a model directory or run; `overrides` replace stored TranslateSettings, by name.

        Raises:
            RunError: there is no usable model.
            ConfigError: an override is not a setting or out of bounds, a tag unknown, or the device missing.
        """
        model = load_model(path)
        settings = _overridden(model.translate, overrides)
        translator = cls(model.network, model.src_vocabulary, model.tgt_vocabulary, settings, device, max_sentences)
        translator.src_lang, translator.tgt_lang = model.src_lang, model.tgt_lang
        return translator

    def translate(self, lines: Sequence[str]) -> list[str]:
        """One line of text for each line; blank lines stay blank."""
        return list(self.translate_stream(lines))

    def translate_stream(self, lines: Iterable[str]) -> Iterator[str]:
        """As `translate`, for any number of lines in bounded memory."""
        return (translation.text for translation in self.translations(lines))

    def translations(
        self, lines: Iterable[str], window: int = WINDOW, progress: Callable[[int], object] | None = None
    ) -> Iterator[Translation]:
        """Translations with their scores, in the order of the lines, as soon as a window of them is translated.

        `progress` is called with the number of lines of each batch that is done.

        Raises:
            RunError: the network's output is not a number.
        """
        lines = iter(lines)
        n_read = 0
        while part := list(islice(lines, window)):
            yield from self._translate_window(part, n_read, progress or (lambda _: None))
            n_read += len(part)

    def _translate_window(
        self, lines: list[str], n_before: int, progress: Callable[[int], object]
    ) -> Iterable[Translation]:
        sources = self.src_vocabulary.encode(lines)
        # A line of spaces may encode to nothing, or, as some vocabularies keep spaces, to something: it is blank.
        order = [i for i, line in enumerate(lines) if sources[i] and not line.isspace()]
        results = [BLANK] * len(lines)
        progress(len(lines) - len(order))
        order.sort(key=lambda i: len(sources[i]))
        for batch in self._batches(order, sources):
            hypotheses = self._search([sources[i] for i in batch])
            texts = self.tgt_vocabulary.decode([hypothesis.tokens for hypothesis in hypotheses])
            for i, hypothesis, text in zip(batch, hypotheses, texts, strict=True):
                if not math.isfinite(hypothesis.score):
                    raise RunError(
                        f"line {n_before + i + 1}: the network's output is not a number; its weights are damaged, or "
                        "training diverged. Use an earlier checkpoint (--model RUN/checkpoints/best)."
                    )
                results[i] = Translation(text, hypothesis.score, len(hypothesis.tokens), hypothesis.complete)
            progress(len(batch))
        return results

    def _batches(self, order: list[int], sources: list[list[int]]) -> Iterator[list[int]]:
        """Cut `order`, sorted by length, so that sentences × beam × longest stays within the budget; at least one."""
        batch: list[int] = []
        for i in order:
            longest = len(self.prefix) + len(sources[i]) + 1  # </s>
            over_budget = (len(batch) + 1) * self.settings.beam_size * longest > self.settings.max_tokens
            if batch and (over_budget or len(batch) == self.max_sentences):
                yield batch
                batch = []
            batch.append(i)
        if batch:
            yield batch

    def _search(self, sources: list[list[int]]) -> list[Hypothesis]:
        """The best hypothesis for each source, which comes without </s>; its own length decides how long it may get."""
        settings, network = self.settings, self.network
        rows = [torch.tensor([*self.prefix, *source, EOS_ID]) for source in sources]
        src = pad_sequence(rows, batch_first=True, padding_value=PAD_ID).to(self.device)  # (B, S)
        limits = [int(settings.max_length_ratio * len(source)) + settings.max_extra_length for source in sources]
        was_training = network.training
        network.eval()
        try:
            with torch.inference_mode():
                step = CachedStep(network, src, settings.beam_size)
                found = beam_search(step, torch.tensor(limits, device=self.device), self.rules)
        finally:
            network.train(was_training)
        return [hypotheses[0] for hypotheses in found]


def _tag_ids(tag: str | None, vocabulary: Vocabulary) -> list[int]:
    """What stands before every source sentence. Raises ConfigError when the vocabulary has no such tag."""
    if tag is None:
        return []
    tag_id = vocabulary.tag_id(tag)
    if tag_id is None:
        raise ConfigError(f"translate.tag: {tag}: no corpus that this model was trained on had this tag; leave it out")
    return [tag_id]


def _overridden(settings: TranslateSettings, overrides: dict[str, Any]) -> TranslateSettings:
    try:
        return TranslateSettings.model_validate(settings.model_dump() | overrides)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, p['loc']))}: {p['msg']}, not {p['input']!r}" for p in error.errors()]
        raise ConfigError("translate: " + "; ".join(problems)) from None
