"""Settings of `data.mixing`: in which shares the training corpora are used, and when."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from pydantic import Field, model_validator

from transformer.config_section import Count, Name, Section

Weight = Annotated[float, Field(ge=0, le=10**9)]
Weights = Annotated[dict[Name, Weight], Field(min_length=1)]
Temperature = Annotated[float, Field(ge=1, le=1000)]


class MixingStage(Section):
    """Shares that hold for a part of the run."""

    until: Count | None = Field(None, description="Update at which the stage ends; null, in the last: it does not.")
    weights: Weights | None = Field(None, description="As data.mixing.weights, for this stage.")
    temperature: Temperature | None = Field(None, description="As data.mixing.temperature, for this stage.")

    @model_validator(mode="after")
    def _consistent(self) -> MixingStage:
        _refuse_both(self.weights, self.temperature)
        return self


class MixingSettings(Section):
    """Shares of the training corpora among the pairs trained on. A corpus of a large share is used more often."""

    weights: Weights | None = Field(
        None, description="Relative share of each corpus by its name, in pairs; 0 leaves it out."
    )
    temperature: Temperature | None = Field(
        None, description="Instead of weights: shares ∝ pairs^(1/temperature); 1: as they are, large: nearly equal."
    )
    stages: list[MixingStage] = Field(
        [], description="A curriculum: one after the other; a stage without shares of its own has those above."
    )

    @model_validator(mode="after")
    def _consistent(self) -> MixingSettings:
        _refuse_both(self.weights, self.temperature)
        if not self.stages:
            return self
        *ends, last = [stage.until for stage in self.stages]
        if last is not None:
            raise ValueError(f"the last stage has no end: take its until: {last} away")
        if None in ends:
            raise ValueError(f"stage {ends.index(None) + 1} of {len(self.stages)} needs until: the update at its end")
        for one, other in pairwise([end for end in ends if end is not None]):
            if other <= one:
                raise ValueError(f"stages end one after the other, but until: {other} comes after until: {one}")
        return self


def _refuse_both(weights: dict[str, float] | None, temperature: float | None) -> None:
    if weights is not None and temperature is not None:
        raise ValueError("weights and temperature both say what the shares are: give one of them")
    if weights is not None and not any(weights.values()):
        raise ValueError("every weight is 0: give at least one corpus more")
