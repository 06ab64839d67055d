"""One batch of sentences through the search: everything the settings and the sentences ask for, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from data.vocabulary import EOS_ID, PAD_ID, UNK_ID, Vocabulary
from transformer.config_translate import TranslateSettings
from transformer.inference.search.beam_search import SearchRules, beam_search
from transformer.inference.search.cached_step import CachedStep
from transformer.inference.search.diversity import diverse_beam_search
from transformer.inference.search.ensemble import EnsembleStep
from transformer.inference.search.length_penalty import length_penalty
from transformer.inference.search.required_phrases import RequiredPhrases, word_continuations
from transformer.inference.search.restrictions import build_restrictions
from transformer.inference.search.sampling import Sampling
from transformer.inference.search.search_state import Choice, Hypothesis
from transformer.inference.sentence import Sentence
from transformer.model import Transformer


class BatchSearch:
    """Searches translations for batches of sentences; several networks translate as one.

    Args:
        networks: on the device, in evaluation mode.
        src_prefix: ids that stand before every source sentence.
    """

    def __init__(
        self,
        networks: Sequence[Transformer],
        tgt_vocabulary: Vocabulary,
        settings: TranslateSettings,
        device: torch.device,
        src_prefix: Sequence[int] = (),
    ) -> None:
        self.networks = networks
        self.settings = settings
        self.device = device
        self.src_prefix = list(src_prefix)
        self.rules = SearchRules(
            settings.beam_size,
            length_penalty(settings.length_penalty, settings.alpha),
            # Of candidates that are compared with each other, all are needed.
            settings.beam_size if settings.minimum_bayes_risk else settings.n_best,
            settings.stop,
            unwanted=() if settings.copy_unknown and not tgt_vocabulary.has_bytes else (UNK_ID,),
        )
        self.tgt_vocabulary = tgt_vocabulary

    @cached_property
    def continues_word(self) -> Tensor:
        """(V,) target pieces that go on with the word before them."""
        return _continues_word(self.tgt_vocabulary).to(self.device)

    def source(self, batch: Sequence[Sentence]) -> Tensor:
        """What the encoder reads: (B, S)."""
        rows = [torch.tensor([*self.src_prefix, *sentence.src, EOS_ID]) for sentence in batch]
        return pad_sequence(rows, batch_first=True, padding_value=PAD_ID).to(self.device)

    def limit(self, sentence: Sentence) -> int:
        """The most pieces of its translation, </s> included; its own length decides, not that of its neighbours."""
        settings = self.settings
        return int(settings.max_length_ratio * len(sentence.src)) + settings.max_extra_length + len(sentence.prefix)

    def __call__(self, batch: Sequence[Sentence]) -> list[list[Hypothesis]]:
        """For each sentence what was found, best first."""
        settings = self.settings
        src = self.source(batch)
        limits = torch.tensor([self.limit(sentence) for sentence in batch], device=self.device)
        required = None
        if any(sentence.required for sentence in batch):
            phrases = [sentence.required for sentence in batch]
            required = RequiredPhrases.of(phrases, settings.beam_size, self.device, self.continues_word)
        restrictions = build_restrictions(
            device=self.device,
            min_length=settings.min_length,
            repetition_penalty=settings.repetition_penalty,
            no_repeat_ngram=settings.no_repeat_ngram,
            prefixes=[sentence.prefix for sentence in batch],
            avoided=[sentence.avoided for sentence in batch],
            required=required,
        )
        steps = [CachedStep(net, src, settings.beam_size, settings.coverage_penalty) for net in self.networks]
        step = steps[0] if len(steps) == 1 else EnsembleStep(steps)
        bonus = _mean_bonus(steps) if settings.coverage_penalty else None
        if settings.diversity:
            groups, strength = settings.diversity.groups, settings.diversity.strength
            return diverse_beam_search(step, limits, self.rules, groups, strength, restrictions, bonus)
        choose: Choice | None = required.choose if required else None
        if settings.sampling:
            sampling = settings.sampling
            numbers = torch.tensor([sentence.number for sentence in batch], device=self.device)
            choose = Sampling(
                numbers, settings.beam_size, sampling.seed, sampling.temperature, sampling.top_k, sampling.top_p
            )
        return beam_search(step, limits, self.rules, restrictions, choose, bonus)


def _mean_bonus(steps: Sequence[CachedStep]) -> Callable[[], Tensor]:
    return lambda: torch.stack([step.coverage_bonus() for step in steps]).mean(0)


def _continues_word(vocabulary: Vocabulary) -> Tensor:
    """(V,) `word_continuations` of a vocabulary; of bytes, those that are or begin letters of alphabets."""
    continues = word_continuations(vocabulary.all_pieces())
    if vocabulary.has_bytes:
        first = vocabulary.n_special
        # From 0xC3: Latin letters with marks, Greek, Cyrillic … Hebrew, Arabic; what begins with 0xE0 can be anything.
        continues[first : first + 256] = torch.tensor(
            [chr(byte).isalnum() if byte < 0x80 else 0xC3 <= byte < 0xE0 for byte in range(256)]
        )
    return continues
