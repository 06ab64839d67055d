"""Where a run is, and what its validations have found: the part of a checkpoint that people can read."""

from __future__ import annotations

from dataclasses import dataclass, field

from transformer.training.validation import Validation


@dataclass(frozen=True)
class Skipped:
    """Updates left out when training diverged and went back to a checkpoint: from one place, to before another."""

    first_part: int  # epoch or stage
    first: int
    end_part: int
    end: int
    step: int  # the step that diverged


@dataclass
class Progress:
    """Where a run is. The place in the data is two integers; the rest follows from them, the seed and the settings."""

    step: int = 0  # updates done
    epoch: int = 0  # or stage, where data.mixing is on
    update: int = 0  # updates done, or skipped, of this epoch or stage
    n_tokens: int = 0  # real target tokens trained on
    seconds: float = 0.0  # spent training, validation and saving included
    validations: list[Validation] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    # Of each update that no line of metrics tells of yet: nll, smoothed loss, norm, tokens, real and padded positions.
    unlogged: list[list[float]] = field(default_factory=list)

    def best(self, best_by: str, significant: bool = False) -> Validation | None:
        """The best validation so far, the earlier one where two are equal.

        `significant`: a validation that has been compared takes the place of the best only if it was found better.
        """
        best: Validation | None = None
        for validation in self.validations:
            better = best is None or validation.key(best_by) > best.key(best_by)
            if significant and validation.better is not None:
                better = validation.better
            if better:
                best = validation
        return best

    def validations_since_best(self, best_by: str, significant: bool = False) -> int:
        """How many validations have not improved on the best: what patience is compared with."""
        best = self.best(best_by, significant)
        return sum(v.step > best.step for v in self.validations) if best else 0
