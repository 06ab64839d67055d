"""Invented step functions, and what they make of a search that can be checked by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import torch
from torch import Tensor

from data.vocabulary import BOS_ID, EOS_ID, PAD_ID

Prefix = tuple[int, ...]  # the number of a sentence, then its pieces so far
Logits = Callable[[Prefix], list[float]]

A, B, C = 4, 5, 6  # the pieces of the smallest vocabulary, behind the special ones
VOCAB_SIZE = 7


class PrefixStep:
    """A step function for any distribution: it looks at whole prefixes, and notes how many rows each call had."""

    def __init__(self, logits: Logits) -> None:
        self.logits = logits
        self.prefixes: list[Prefix] = []
        self.rows: list[int] = []

    def __call__(self, tokens: Tensor, origin: Tensor) -> Tensor:
        if not self.rows:
            assert tokens.tolist() == [BOS_ID] * len(tokens)
            assert origin.tolist() == list(range(len(tokens)))
            self.prefixes = [(row,) for row in range(len(tokens))]
        else:
            pairs = zip(origin.tolist(), tokens.tolist(), strict=True)
            self.prefixes = [(*self.prefixes[row], token) for row, token in pairs]
        self.rows.append(len(tokens))
        return torch.tensor([self.logits(prefix) for prefix in self.prefixes])

    def bonus(self) -> Tensor:
        """(N,) for the rows of the last call: something that depends on the whole prefix, at most 0."""
        return torch.tensor([-0.3 * prefix[1:].count(4) - 0.1 * prefix[0] for prefix in self.prefixes])


def random_logits(seed: int, vocab_size: int, whole_numbers: bool = False) -> Logits:
    """Logits that depend on nothing but the prefix; whole numbers make many equal scores."""

    def logits(prefix: Prefix) -> list[float]:
        source = random.Random(f"{seed} {prefix}")
        return [float(source.randint(-1, 1)) if whole_numbers else source.gauss(0, 1.5) for _ in range(vocab_size)]

    return logits


def only_sentence(logits: Logits, sentence: int) -> Logits:
    """The distribution of one sentence, as a batch of one asks for it."""
    return lambda prefix: logits((sentence, *prefix[1:]))


def log_distribution_of(logits: list[float]) -> list[float]:
    """log P without pad and bos; unk keeps its share. Double precision, by the definition."""
    total = math.log(sum(math.exp(x) for i, x in enumerate(logits) if i not in (PAD_ID, BOS_ID)))
    return [x - total for x in logits]


class TableStep:
    """log P of the next piece depends on the sentence, the place and the last piece: table (B, T, V, V)."""

    def __init__(self, table: Tensor) -> None:
        self.table, self.place = table, 0

    def __call__(self, tokens: Tensor, origin: Tensor) -> Tensor:
        self.sentences = self.sentences[origin] if self.place else origin
        self.place += 1
        return self.table[self.sentences, self.place - 1, tokens].clone()


def random_table(
    seed: int, n_sentences: int = 2, length: int = 5, scale: float = 2.0, vocab_size: int = VOCAB_SIZE
) -> Tensor:
    """Logits for `TableStep`."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n_sentences, length, vocab_size, vocab_size, generator=generator) * scale


def every_output(max_length: int, begun: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """All outputs of A, B and C that end within max_length, and all that are cut there."""
    if len(begun) == max_length:
        return [begun]
    longer = [output for piece in (A, B, C) for output in every_output(max_length, (*begun, piece))]
    return [(*begun, EOS_ID), *longer]
