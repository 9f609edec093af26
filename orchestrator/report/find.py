"""Results of a row in the ledger: by its keys where its data is here, else by the keys that a run of the same spec was given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from orchestrator.keys import Keys, digest
from orchestrator.plan import Data, keys_for
from orchestrator.results import Ledger
from orchestrator.rows import Row
from orchestrator.spec import RunSpec


@dataclass(frozen=True)
class Outcome:
    """One seed of a row. status: done | stopped | diverged | failed | trained; figures only where it is done."""

    seed: int
    status: str
    reason: str
    steps: int
    params: int | None = None
    bleu: float | None = None
    chrf: float | None = None
    signature: str | None = None
    tokens_per_second: float | None = None
    sentences_per_second: float | None = None
    capsule: dict[str, Any] | None = None


class Finder:
    """Looks rows up; the ledger is read once."""

    def __init__(self, ledger: Ledger, data: Data) -> None:
        self.ledger, self.data = ledger, data
        self._by_spec: dict[str, dict[int, Keys]] | None = None

    def outcomes(self, row: Row, seeds: Iterable[int] = ()) -> list[Outcome]:
        """Every seed of the row that has a record, in order of seeds. `seeds`: to look for besides those in the ledger."""
        if row.spec is None:
            return []
        known = self._index().get(_meaning(row.spec), {})
        found: list[Outcome] = []
        for seed in sorted({*known, *seeds}):
            keys = keys_for(row.at(seed), self.data)
            if keys.train is None:
                keys = known.get(seed, keys)
            if keys.train is not None and keys.decode is not None and keys.score is not None:
                outcome = self._outcome(seed, keys.train, keys.decode, keys.score)
                found += [outcome] if outcome is not None else []
        return found

    def _outcome(self, seed: int, train: str, decode: str, score: str) -> Outcome | None:
        record = self.ledger.read_train(train)
        if record is None:
            return None
        status, reason, steps = str(record["status"]), str(record.get("reason") or ""), int(record.get("steps") or 0)
        if status != "done":
            return Outcome(seed, status, reason, steps)
        scored, decoded = self.ledger.read_score(train, score), self.ledger.read_decode(train, decode)
        if scored is None:
            return Outcome(seed, "trained", "not scored", steps, params=record.get("params"))
        return Outcome(
            seed,
            "done",
            reason,
            steps,
            params=record.get("params"),
            bleu=scored["bleu"],
            chrf=(scored.get("chrf") or {}).get("score"),
            signature=scored.get("signature"),
            tokens_per_second=record.get("tokens_per_second"),
            sentences_per_second=(decoded or {}).get("sentences_per_second"),
            capsule=self.ledger.read_capsule(train),
        )

    def _index(self) -> dict[str, dict[int, Keys]]:
        """Meaning of a spec without its seed -> seed -> keys."""
        if self._by_spec is None:
            self._by_spec = {}
            for record in self._records():
                try:
                    spec, keys = RunSpec.model_validate(record["spec"]), Keys(**record["keys"])
                except (ValidationError, KeyError, TypeError):
                    continue  # of a version whose specs had other fields
                self._by_spec.setdefault(_meaning(spec), {})[spec.seed] = keys
        return self._by_spec

    def _records(self) -> Iterator[dict[str, Any]]:
        """What runs and sweeps say about specs and their keys."""
        for root in (self.ledger.root, *self.ledger.mirrors):
            for path in sorted((root / "sweeps").glob("*.json")):
                yield from _sweep_rows(path)
        for run in self.ledger.runs():
            yield self.ledger.read_spec(run.key) or {}


def _sweep_rows(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text())["rows"]
        return [row for row in rows if isinstance(row, dict)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _meaning(spec: RunSpec) -> str:
    return digest(spec.model_dump(mode="json", exclude={"seed"}))
