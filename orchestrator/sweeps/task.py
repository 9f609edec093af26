"""One row and seed to run, as plain data that is sent to workers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

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

    also: {"score": section, "keys": {..}} of each other scoring of the training, by name. parent_key: train key of the run whose weights
    initialise this one. weights_needed: a run to be trained starts from this one's weights. rung_bleu: translate the validation set at
    rungs. failed_below: see `ledger.run_view`. mirrors: read-only ledgers. remote: URL of the bucket whose scratch copy `results` is; each
    worker has its own copy.
    """

    id: str
    seed: int
    spec: dict[str, Any]
    keys: dict[str, str | None]
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
    also: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed_below: float | None = None
    remote: str | None = None
    weights_needed: bool = False

    @property
    def name(self) -> str:
        """`row:seed`."""
        return f"{self.id}:{self.seed}"

    @cached_property
    def run_spec(self) -> RunSpec:
        return RunSpec.model_validate(self.spec)

    @property
    def train_key(self) -> str:
        key = self.keys["train"]
        assert key is not None, f"{self.name} has no data"
        return key

    @property
    def run_keys(self) -> Keys:
        return Keys(**self.keys)

    @property
    def scorings(self) -> dict[str, Scoring]:
        """Scorings by name, the row's own (named "") first."""
        own = {"": Scoring(self.run_spec.score, self.run_keys)}
        others = {name: Scoring(ScoreSpec.model_validate(item["score"]), Keys(**item["keys"])) for name, item in self.also.items()}
        return own | others

    @property
    def run_dir(self) -> Path:
        return Path(self.results) / self.train_key[:16]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, data: dict[str, Any]) -> Task:
        here = {} if data.get("remote") is None else {"results": str(attach.opened(data["remote"]).root)}
        return cls(**(data | here))
