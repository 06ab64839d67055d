"""Settings of `train.augmentation`: how sentence pairs are changed on the fly, each time they are used."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from transformer.config_section import Probability, Section

Alpha = Annotated[float, Field(gt=0, le=10)]


class SubwordSampling(Section):
    """Random cuts of words into pieces, on one side."""

    bpe_dropout: Probability = Field(
        0.0, description="Probability that a merge is left out (Provilkov et al. 2020); vocabulary.type bpe."
    )
    unigram_alpha: Alpha | None = Field(
        None, description="Cuts are drawn with P^alpha (Kudo 2018): smaller is wilder; vocabulary.type unigram."
    )

    @model_validator(mode="after")
    def _consistent(self) -> SubwordSampling:
        if self.bpe_dropout and self.unigram_alpha is not None:
            raise ValueError("bpe_dropout is for a bpe vocabulary, unigram_alpha for a unigram one: give one of them")
        return self


class AugmentationSettings(Section):
    """Changes made to pairs each time they are used; probabilities of a pair. See docs/mixing.md."""

    src: SubwordSampling = Field(SubwordSampling(), description="Subword sampling of the source; 0.1 is usual.")
    tgt: SubwordSampling = Field(SubwordSampling(), description="Subword sampling of the target.")
    upper_case: Probability = Field(0.0, description="Both sides in capitals; 0.07 is usual.")
    title_case: Probability = Field(0.0, description="Every Word Begins With a Capital, both sides; 0.05 is usual.")
    drop_end_punctuation: Probability = Field(
        0.0, description="The mark at the end taken from both sides, if both have one; 0.2 is usual."
    )
    typos: Probability = Field(0.0, description="Slips of the keyboard, source only; 0.05 is usual.")
    markup: Probability = Field(0.0, description="The same pair of tags around both sides or a name; 0.005 is usual.")
    merge_sentences: Probability = Field(0.0, description="Joined with another pair of the same update, both sides.")

    @model_validator(mode="after")
    def _consistent(self) -> AugmentationSettings:
        if self.upper_case + self.title_case > 1:
            raise ValueError("upper_case and title_case exclude each other: together at most 1")
        return self

    def problems(self, vocabulary_type: str) -> list[str]:
        """What contradicts the type of the vocabulary."""
        return [
            f"train.augmentation.{name}: {key} is for a {kind} vocabulary, but vocabulary.type is {vocabulary_type}"
            for name, side in (("src", self.src), ("tgt", self.tgt))
            for key, kind, given in (
                ("bpe_dropout", "bpe", side.bpe_dropout > 0),
                ("unigram_alpha", "unigram", side.unigram_alpha is not None),
            )
            if given and kind != vocabulary_type
        ]
