"""Ensembles: several models translate as one, whose distribution is the mean of theirs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor

from data.vocabulary import Vocabulary
from transformer.errors import ConfigError
from transformer.inference.search.beam_search import IMPOSSIBLE, log_distribution
from transformer.inference.search.search_state import Step


class EnsembleStep:
    """A step out of several over one target vocabulary: log of the arithmetic mean of their probabilities.

    The mean of probabilities, not of logits (which would be their geometric mean): one model that finds a piece
    likely is enough to keep it in the beam. Each step reads its own source and keeps its own cache; a call costs as
    much as all of theirs.
    """

    def __init__(self, steps: Sequence[Step], impossible: Sequence[int] = IMPOSSIBLE) -> None:
        assert steps
        self.steps = steps
        self.impossible = impossible

    def __call__(self, tokens: Tensor, origin: Tensor) -> Tensor:
        """tokens and origin (N,) → logits (N, V), normalised, in fp32; `Step`.

        The impossible pieces are left out of each distribution before it is normalised, or a model that gives them
        much would count for less.
        """
        each = (log_distribution(step(tokens, origin), self.impossible) for step in self.steps)
        total = reduce(lambda a, b: torch.logaddexp(a, b, out=a), each)  # of log P: e^-104 would be 0 in fp32
        return total.sub_(math.log(len(self.steps)))


def check_shared_vocabularies(vocabularies: Mapping[str, tuple[Vocabulary, Vocabulary]]) -> None:
    """See that the models of an ensemble mean the same by the same id; model → (source, target) vocabulary.

    Raises:
        ConfigError: some models have another vocabulary than the first one; the message says which, and of which side.
    """
    problems = []
    for side, name in enumerate(("source", "target")):
        first, *others = [(model, both[side]) for model, both in vocabularies.items()]
        problems += [
            f"the {name} vocabulary of {model} ({_described(vocabulary)}) is not that of {first[0]} "
            f"({_described(first[1])})"
            for model, vocabulary in others
            if vocabulary.hash != first[1].hash
        ]
    if problems:
        raise ConfigError(
            f"--model: these models cannot translate together: {'; '.join(problems)}. The models of an ensemble read "
            "the same source pieces and average their probabilities piece by piece: leave the others out, or train "
            "them on data prepared with one vocabulary."
        )


def _described(vocabulary: Vocabulary) -> str:
    return f"{len(vocabulary):,} pieces, sha256 {vocabulary.hash[:8]}…"
