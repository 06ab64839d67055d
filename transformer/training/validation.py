"""Validation: perplexity of the unsmoothed loss, and BLEU and chrF through the Translator that users get."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor
from torch.nn import functional as F

from data.batches import Batch, EpochPlan, collate, longer_side
from data.lines import read_written_lines, write_lines
from data.prepared import ParallelIds, Prepared
from data.vocabulary import PAD_ID
from transformer.config import Settings
from transformer.errors import RunError
from transformer.evaluation.metrics import score
from transformer.evaluation.sentence_statistics import Floats, Statistics
from transformer.evaluation.significance import SIGNIFICANCE, share_not_better
from transformer.evaluation.tokenization import DEFAULT, load_bleu, tokenizer_at_hand
from transformer.inference.translator import Translator
from transformer.masks import padding_mask
from transformer.model import Transformer
from transformer.training.choices import Choices, autocast
from transformer.training.group import Group
from transformer.training.loss import CHUNK_ROWS


@dataclass(frozen=True)
class Validation:
    """The results of one validation."""

    step: int
    nll_per_token: float  # nats, unsmoothed
    bleu: float  # sacreBLEU, detokenised text against raw references
    chrf: float | None = None  # likewise; None: by a version that did not measure it
    better: bool | None = None  # significantly, than the best before (see `is_better`); None: not compared

    @property
    def perplexity(self) -> float:
        """Of the unsmoothed loss."""
        return perplexity(self.nll_per_token)

    def key(self, best_by: str) -> float:
        """What is compared, higher is better; a figure that is missing or no number is the worst."""
        value = {"bleu": self.bleu, "chrf": self.chrf, "nll": -self.nll_per_token}[best_by]
        return -math.inf if value is None or math.isnan(value) else value


@dataclass(frozen=True)
class Evidence:
    """What a validation found about each sentence, kept so that later ones can be compared with it."""

    hypotheses: list[str]
    nll: list[float]  # −log P of the reference, nats

    def save(self, path: Path) -> None:
        """Write a line for each sentence: nll, tab, hypothesis. Raises OSError."""
        columns = zip(self.nll, self.hypotheses, strict=True)
        write_lines(path, (f"{nll!r}\t{hypothesis}" for nll, hypothesis in columns))

    @classmethod
    def load(cls, path: Path) -> Evidence:
        """Read what `save` wrote, to the last bit.

        Raises:
            RunError: the file is missing or damaged.
        """
        evidence = cls([], [])
        try:
            for line in read_written_lines(path):
                nll, hypothesis = line.split("\t", 1)
                evidence.nll.append(float(nll))
                evidence.hypotheses.append(hypothesis)
        except (OSError, ValueError) as error:
            raise RunError(
                f"{path}: missing or damaged; it holds the best validation so far, which the next is to be compared "
                "with: restore it, or go on with train.patience_significance=false"
            ) from error
        return evidence


def perplexity(nll_per_token: float) -> float:
    """exp of the mean negative log-likelihood in nats; infinite instead of an overflow."""
    return math.exp(nll_per_token) if nll_per_token < 700 else math.inf


def validate(
    network: Transformer, prepared: Prepared, settings: Settings, choices: Choices, step: int, group: Group
) -> tuple[Validation, Evidence]:
    """Score the network, in evaluation mode, on the whole validation set; draws no random numbers.

    The processes of the group, each with the whole network, share the work, and all get the same result, which does not
    depend on how many they are.

    Raises:
        DataError: the numbers of source and target sentences differ.
        RunError: the network's output is not a number.
    """
    max_tokens = choices.max_tokens or settings.train.max_tokens
    assert isinstance(max_tokens, int), "train.max_tokens: auto is for choices to resolve"
    src, tgt = prepared.valid_text
    training = network.training
    network.eval()
    try:
        nll = sentence_nll(network, prepared.valid, max_tokens, choices, group)
        hypotheses = _translations(network, src, prepared, settings, choices, group)
    finally:
        network.train(training)
    scores = score(hypotheses, tgt, tokenizer_at_hand(prepared.manifest["tgt_lang"]))
    n_tokens = int((prepared.valid.tgt_lengths + 1).sum())
    validation = Validation(step, math.fsum(nll) / n_tokens, scores.bleu, scores.chrf)
    return validation, Evidence(hypotheses, nll.tolist())


def _translations(
    network: Transformer, src: Sequence[str], prepared: Prepared, settings: Settings, choices: Choices, group: Group
) -> list[str]:
    """A translation of every sentence; each process makes every size-th one."""
    plain = {"beam_size": settings.train.validate_beam_size, "n_best": 1, "sampling": None, "diversity": None}
    translate = settings.translate.model_copy(update=plain | {"minimum_bayes_risk": None, "precision": "fp32"})
    translator = Translator(
        network, prepared.src_vocabulary, prepared.tgt_vocabulary, translate, torch.device(choices.device)
    )
    hypotheses = [""] * len(src)
    for rank, translated in enumerate(group.gather(translator.translate(src[group.rank :: group.size]))):
        hypotheses[rank :: group.size] = translated
    return hypotheses


@torch.no_grad()
def sentence_nll(network: Transformer, valid: ParallelIds, max_tokens: int, choices: Choices, group: Group) -> Floats:
    """−log P of each target sentence in nats, unsmoothed; every pair counts, also one longer than training's budget.

    The processes share out whole batches: a sentence stands beside the same others, and is rounded alike, however many
    processes there are.
    """
    budget = max(max_tokens, int(longer_side(valid).max(initial=0)))
    plan = EpochPlan(valid, batch_tokens=budget, max_tokens=budget, seed=0, epoch=0)
    batches = [sentences for update in range(len(plan)) for sentences in plan.micro_batches(update)]
    nll = np.zeros(len(valid))
    for sentences in batches[group.rank :: group.size]:
        batch = collate(valid, sentences).to(torch.device(choices.device))
        with autocast(choices):
            nll[sentences] = _row_nll(network, batch).numpy()
    return group.sum(torch.from_numpy(nll)).numpy()  # a sentence is 0 in all processes but one


def _row_nll(network: Transformer, batch: Batch) -> Tensor:
    """−log P of each row's target: (B,), fp64, on the CPU, which adds a row's tokens in the same order every time."""
    src_mask = padding_mask(batch.src, PAD_ID)
    hidden = network.decode(batch.tgt_in, network.encode(batch.src, src_mask), src_mask)  # (B, T, D)
    hidden = hidden.flatten(0, 1).index_select(0, batch.targets)  # (B · T, D) → (n_tokens, D)
    targets = batch.tgt_out.flatten().index_select(0, batch.targets)
    chunks = zip(torch.split(hidden, CHUNK_ROWS), torch.split(targets, CHUNK_ROWS), strict=True)
    nll = torch.cat([F.cross_entropy(network.project(h).float(), t, reduction="none") for h, t in chunks])
    rows = (batch.targets // batch.tgt_out.size(1)).cpu()
    return torch.zeros(len(batch.src), dtype=torch.float64).index_add_(0, rows, nll.cpu().double())


def is_better(
    new: Evidence, old: Evidence, references: Sequence[str], best_by: str, seed: int, tokenizer: str = DEFAULT
) -> bool:
    """Whether `new` is better than `old` with p < 0.05, by paired bootstrap resampling (Koehn 2004).

    Validation sets as large as this one are drawn from it, with replacement, the same sentences for both: p is the
    share of sets on which `new` is not the better one.

    Args:
        best_by: bleu, chrf or nll.
        seed: of the draws; give the step, and a resumed run decides as an undisturbed one.
        tokenizer: of BLEU.

    Raises:
        RunError: they are not of the same sentences.
    """
    counts = [len(new.hypotheses), len(old.hypotheses), len(references)]
    if len(set(counts)) > 1:  # sacrebleu would compare the first ones in silence
        raise RunError(
            f"the validation data have changed during the run: the newest validation is of {counts[0]} sentences, the "
            f"best one of {counts[1]}, and there are {counts[2]} references. Restore the data, or go on with "
            "train.patience_significance=false"
        )
    if best_by == "nll":
        # The same sentences are drawn for both, so there is no need to divide by their tokens.
        new_nll, old_nll = (np.array(each.nll)[:, None] for each in (new, old))  # (N,) → (N, 1)
        return share_not_better(new_nll, old_nll, lambda sums: -sums[0], seed) < SIGNIFICANCE
    metric = load_bleu(tokenizer) if best_by == "bleu" else CHRF()
    ours, theirs = (Statistics.of(metric, each.hypotheses, [references]) for each in (new, old))
    return share_not_better(ours.counts, theirs.counts, ours.figure_of, seed) < SIGNIFICANCE
