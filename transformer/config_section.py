"""What every group of settings is made of: the base class, and the types of single values."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _whole_number(value: object) -> object:
    """`1e5` is a float in YAML; where an integer is asked for it means 100000."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole_number)]
# Counts end at a thousand million: more is a slip of the keyboard.
Count = Annotated[int, Field(ge=1, le=10**9), BeforeValidator(_whole_number)]
CountOrZero = Annotated[int, Field(ge=0, le=10**9), BeforeValidator(_whole_number)]
Probability = Annotated[float, Field(ge=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.+-]*$")]  # becomes part of file names


class Section(BaseModel):
    """A group of settings: immutable, unknown keys refused, no silent conversion between types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
