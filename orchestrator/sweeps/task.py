"""One row and seed to run. Workers receive it as JSON."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from orchestrator.ledger.bucket import attach
from orchestrator.ledger.keys import Keys
from orchestrator.specs.schema import RunSpec, ScoreSpec


@dataclass(frozen=True)
class Scoring:
    """A test set and a metric, with the keys of its decoding and score."""

    spec: ScoreSpec
    keys: Keys


@dataclass(frozen=True)
class Task:
    """A row and seed to run. Its keys depend only on `spec`, not on workers, paths, rungs, pinning or the sweep.

    also: the other scorings of the training, by name. parent_key: train key of the run whose weights initialise this one.
    weights_needed: a run to be trained starts from this one's weights. rung_bleu: translate the validation set at rungs.
    failed_below: see `ledger.run_view`. mirrors: read-only ledgers. remote: URL of the bucket whose scratch copy `results` is; each
    worker has its own copy.
    """

    id: str
    seed: int
    spec: RunSpec
    keys: Keys
    results: str
    label: str = ""
    parent_key: str | None = None
    data_dir: str | None = None
    cache_dir: str = ".data-cache"
    mirrors: list[str] = field(default_factory=list)
    workers: int = 1
    pinned: bool = False
    rungs: list[int] = field(default_factory=list)
    rung_bleu: bool = False
    sweep: str | None = None
    also: dict[str, Scoring] = field(default_factory=dict)
    failed_below: float | None = None
    remote: str | None = None
    weights_needed: bool = False

    @property
    def name(self) -> str:
        """`row:seed`."""
        return f"{self.id}:{self.seed}"

    @property
    def train_key(self) -> str:
        key = self.keys.train
        assert key is not None, f"{self.name} has no data"
        return key

    @property
    def scorings(self) -> dict[str, Scoring]:
        """Scorings by name, the row's own (named "") first."""
        return {"": Scoring(self.spec.score, self.keys), **self.also}

    @property
    def scoring_keys(self) -> dict[str, Keys]:
        """Keys by name of the scoring, the row's own (named "") first."""
        return {"": self.keys} | {name: scoring.keys for name, scoring in self.also.items()}

    @property
    def run_dir(self) -> Path:
        return Path(self.results) / self.train_key[:16]

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = _serializer().dump_python(self, mode="json")
        return data

    @classmethod
    def of(cls, data: dict[str, Any]) -> Task:
        here = {} if data.get("remote") is None else {"results": str(attach.opened(data["remote"]).root)}
        return _serializer().validate_python(data | here)


@functools.cache
def _serializer() -> TypeAdapter[Task]:
    return TypeAdapter(Task)
