"""What `SqliteClient` writes and returns, named as in `mlflow.entities`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Metric(NamedTuple):
    key: str
    value: float
    timestamp: int
    step: int
    model_id: str | None = None


class Param(NamedTuple):
    key: str
    value: str


class RunTag(NamedTuple):
    key: str
    value: str


InputTag = RunTag


class Dataset(NamedTuple):
    name: str
    digest: str
    source_type: str
    source: str
    schema: str | None = None
    profile: str | None = None


class DatasetInput(NamedTuple):
    dataset: Dataset
    tags: Sequence[RunTag]


class LoggedModelOutput(NamedTuple):
    model_id: str
    step: int


@dataclass
class RunInfo:
    run_id: str
    run_name: str
    status: str
    start_time: int
    end_time: int | None
    artifact_uri: str


@dataclass
class RunData:
    tags: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    _metric_objs: list[Metric] = field(default_factory=list)


@dataclass
class Run:
    info: RunInfo
    data: RunData


@dataclass
class Experiment:
    experiment_id: str
    artifact_location: str
    lifecycle_stage: str
    tags: dict[str, str]
