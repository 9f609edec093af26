"""Sums over a plan: what a run of every row by itself would need, what equal work done once needs, what is done, what is left."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.cost.estimate import Cost

if TYPE_CHECKING:
    from orchestrator.sweeps.plan import Planned


@dataclass
class Sum:
    """trainings, decodings, scorings: how many. flop: of trainings. hours: device-hours of those that are known; unknown: trainings and
    decodings whose time is not."""

    trainings: int = 0
    decodings: int = 0
    scorings: int = 0
    flop: float = 0.0
    hours: float = 0.0
    unknown: int = 0

    def add(self, kind: str, cost: Cost | None) -> None:
        """A training, decoding or scoring; the seconds of a scoring are left out."""
        if kind == "score":
            self.scorings += 1
            return
        seconds = None if cost is None else cost.training_seconds if kind == "train" else cost.decode
        if kind == "train":
            self.trainings += 1
            self.flop += (cost.flop if cost is not None else None) or 0.0
        else:
            self.decodings += 1
        if cost is None or seconds is None:
            self.unknown += 1
        else:
            self.hours += seconds * cost.devices / 3600

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "hours": round(self.hours, 6)}


def totals(
    rows: Sequence[Planned],
    parents: Sequence[Planned],
    costs: Mapping[str, Cost],
    done: Collection[str],
    lineage: Mapping[str, Sequence[str]],
) -> dict[str, Sum]:
    """{"alone": every row by itself, those that it starts from with it; "shared": equal work once; "done"; "left"}.

    done: keys of trainings, decodings and scores that are in the ledger. lineage: row -> the rows that it starts from. Work without keys
    (its data is absent) is taken for different from all other.
    """
    found = {name: Sum() for name in ("alone", "shared", "done", "left")}
    seen: set[str] = set()

    def once(kind: str, key: str | None, cost: Cost | None) -> None:
        if key in seen:
            return
        if key is not None:
            seen.add(key)
        found["shared"].add(kind, cost)
        found["done" if key in done else "left"].add(kind, cost)

    for row in (*parents, *rows):
        once("train", row.keys.train, costs.get(row.id))
        for keys in (row.keys, *row.also.values()):
            once("decode", keys.decode, costs.get(row.id))
            once("score", keys.score, costs.get(row.id))
    for row in rows:
        for each in (row.id, *lineage.get(row.id, ())):
            found["alone"].add("train", costs.get(each))
        for _ in (row.keys, *row.also):
            found["alone"].add("decode", costs.get(row.id))
            found["alone"].add("score", None)
    return found
