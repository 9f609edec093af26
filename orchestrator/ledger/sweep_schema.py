"""Schema of the fields that readers of a sweep file need. Other fields are not checked."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.files.documents import KEY
from orchestrator.specs.messages import problems_of
from orchestrator.specs.positions import dotted

Key = Annotated[str, Field(pattern=KEY.pattern)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Keys(_Strict):
    train: Key | None = None
    decode: Key | None = None
    score: Key | None = None


class _TrainKeys(_Keys):
    train: Key


class _Spec(_Strict):
    init_from: str | None = None


class _Scoring(_Strict):
    keys: _Keys


class _Row(_Strict):
    id: str
    seed: int
    keys: _TrainKeys
    failed_below: float | None = None
    spec: _Spec | None = None
    also: dict[str, _Scoring] | None = None


class _Claims(_Strict):
    table: str
    recorded: float
    claims: list[dict[str, Any]]


class Content(_Strict):
    name: str | None = None
    claims: list[_Claims] | None = None
    rows: list[_Row]
    earlier: list[_Row] = []


def check(record: Any) -> None:
    """Raises ValueError that names the first value of an unexpected type."""
    try:
        Content.model_validate(record)
    except ValidationError as error:
        first = problems_of(error, Content)[0]
        raise ValueError(f"{dotted(first.path)}{': ' if first.path else ''}{first.message}") from None
