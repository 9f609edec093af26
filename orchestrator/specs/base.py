"""Base class and number types of the run schema's sections."""

from itertools import pairwise
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _increase(values: list[Any]) -> list[Any]:
    if any(later <= earlier for earlier, later in pairwise(values)):
        raise ValueError(f"found {values}, which do not increase; expected increasing numbers")
    return values


def _differ(values: list[Any]) -> list[Any]:
    if len(set(values)) < len(values):
        raise ValueError(f"found {values}, which are not distinct; expected each once")
    return values


Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=1, le=1024)]
"""Number of workers, threads or hypotheses. A larger number is a typing error."""
Natural = Annotated[int, Field(ge=0)]
Exponent = Annotated[float, Field(ge=0, le=10)]  # exponent of a length; larger exponents overflow fp32
VocabSize = Annotated[int, Field(gt=4, le=1_000_000)]
"""Number of pieces of a vocabulary, including its 4 specials."""
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Seeds = Annotated[list[Seed], Field(min_length=1), AfterValidator(_differ)]
Rungs = Annotated[list[Positive], AfterValidator(_increase)]
Bounds = Annotated[list[float], Field(min_length=2, max_length=2), AfterValidator(_increase)]


class Strict(BaseModel):
    """Base of every section: frozen, rejects unknown keys, never coerces types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
