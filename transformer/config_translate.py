"""The settings of `translate`: how the decoder searches, and what is asked of its translations."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from transformer.config_section import Count, CountOrZero, Section, Text, Whole


class DiversitySettings(Section):
    """Diverse beam search (Vijayakumar et al. 2018): groups of beams that avoid each other's choices."""

    groups: Count = Field(2, description="Groups the beam is dealt out to; they divide beam_size.")
    strength: float = Field(
        0.5, ge=0, le=100, description="Taken from log P for each earlier group that chose the same piece here."
    )


class SamplingSettings(Section):
    """Pieces are drawn, not searched for; beam_size is the number of samples."""

    temperature: float = Field(1.0, gt=0, le=100, description="Drawn from P^(1/temperature); below 1: surer choices.")
    top_k: Count | None = Field(None, description="Only the k most probable pieces (Fan et al. 2018); null: all.")
    top_p: float = Field(
        1.0, gt=0, le=1, description="Only the most probable pieces that together hold so much (Holtzman et al. 2020)."
    )
    seed: Whole = Field(1, ge=0, lt=2**32, description="Each line has numbers of its own, whatever surrounds it.")


class TranslateSettings(Section):
    """Beam search (§6.1). Stored with the model; `translate.py` can override each."""

    beam_size: Count = Field(4, description="Hypotheses kept per sentence; 1 is greedy search.")
    n_best: Count = Field(1, description="Translations returned per sentence, the best first; at most beam_size.")
    stop: Literal["first_n", "exact"] = Field(
        "first_n",
        description="first_n: when beam_size hypotheses have ended (fairseq); exact: when provably nothing better can "
        "come, which takes longer.",
    )
    length_penalty: Literal["wu", "average", "none"] = Field(
        "wu",
        description="wu: log P / ((5 + length) / 6)^α (Wu et al. 2016, eq. 14); average: log P / length^α; none.",
    )
    alpha: float = Field(0.6, ge=0, le=10, description="Exponent α of the length penalty.")
    coverage_penalty: float = Field(
        0.0, ge=0, le=10, description="β of Wu et al. 2016, eq. 14: against source words nobody looked at; 0: off."
    )
    max_length_ratio: float = Field(1.0, ge=0, description="Longest output = ratio · source pieces + extra.")
    max_extra_length: Count = Field(50, description="The extra of the line above, in pieces; §6.1 has 50.")
    min_length: CountOrZero = Field(0, description="Shortest output, in pieces without </s>, where the limit allows.")
    repetition_penalty: float = Field(
        1.0,
        ge=1,
        le=100,
        description="log P of a piece that is there already, times this (Keskar et al. 2019); 1: off.",
    )
    no_repeat_ngram: CountOrZero = Field(
        0, description="No so many pieces in a row come twice (Paulus et al. 2018); 0: off."
    )
    diversity: DiversitySettings | None = Field(None, description="Diverse beam search; null: one beam.")
    sampling: SamplingSettings | None = Field(None, description="Drawing instead of searching; null: beam search.")
    minimum_bayes_risk: Literal["chrf", "bleu"] | None = Field(
        None,
        description="Of the beam_size hypotheses, first the one most like all others (Eikema & Aziz 2020); null: off.",
    )
    max_source_length: Count | None = Field(
        None, description="Pieces of a source line that are read at once; null: data.max_length of the training."
    )
    long_input: Literal["split", "truncate"] = Field(
        "split", description="Longer lines: translated in parts, or only their beginning; reported either way."
    )
    copy_unknown: bool = Field(
        False, description="Where the vocabulary has no bytes: copy the source word attended to, for an unknown one."
    )
    alignment_layer: Count | None = Field(
        None, description="Decoder layer whose attention aligns words, 1 the lowest; null: the mean of all."
    )
    precision: Literal["fp32", "bf16", "fp16"] = Field(
        "fp32", description="Of the matrix products; scores are always fp32."
    )
    max_tokens: Count = Field(8192, description="Budget of a batch: sentences × beam × longest source.")
    workers: Count | Literal["auto"] = Field(
        "auto", description="Batches translated side by side; auto: on a CPU one per core with a thread each, else 1."
    )
    tag: Text | None = Field(None, description="The tag of a training corpus, put before every source sentence.")

    @model_validator(mode="after")
    def _consistent(self) -> TranslateSettings:
        problems = []
        if self.n_best > self.beam_size:
            problems.append(
                f"n_best {self.n_best} is more than beam_size {self.beam_size}: a search finds at most as many as its "
                "beam holds. Raise beam_size"
            )
        if self.sampling and self.diversity:
            problems.append("sampling has no groups that could avoid each other: set diversity or sampling to null")
        if self.diversity and self.beam_size % self.diversity.groups:
            problems.append(
                f"diversity.groups {self.diversity.groups} do not divide beam_size {self.beam_size}: every group has "
                "an equal share of the beam"
            )
        if problems:
            raise ValueError("\n".join(problems))
        return self
