"""Base class and number types of the run schema's sections."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=1, le=1024)]
"""Of workers, threads and hypotheses: more are a slip of the hand."""
Natural = Annotated[int, Field(ge=0)]


class Strict(BaseModel):
    """Base of every section: frozen, rejects unknown keys, never coerces types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
