"""Sums over a plan: what a run of every row by itself would need, what equal work done once needs, what is done, what is left."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from orchestrator.sweeps.cost import Cost, Sum

if TYPE_CHECKING:
    from orchestrator.sweeps.plan import Planned


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
