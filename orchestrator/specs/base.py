"""What every section of a run's schema is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]


class Strict(BaseModel):
    """Base of every section: unknown keys are errors, no coercion, frozen."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
