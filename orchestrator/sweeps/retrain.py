"""Selects the best rows of a search, which are retrained in full with fresh seeds, since a search also selects lucky seeds."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.specs.row import Row
from orchestrator.tracking.history import number


@dataclass(frozen=True)
class RankedRow:
    """value: mean of the metric over the finished runs. finished: number of runs that were not stopped, of `runs`."""

    row: str
    value: float
    finished: int
    runs: int


def check_seeds(retrain: dict[str, Any] | None, seeds: Sequence[int]) -> None:
    """UserError if the search and the retraining share a seed."""
    shared = [] if retrain is None else sorted(set(retrain["seeds"]) & set(seeds))
    if shared:
        raise UserError(
            f"sweep.scheduler.retrain.seeds: found {shared}, which the search trains with; expected other seeds: the best of a search were "
            "chosen by those"
        )


def rank(records: Sequence[dict[str, Any]], ledger: Ledger, metric: str, mode: str) -> list[RankedRow]:
    """Rows with a finished run, best first: by the share of finished runs, then by the mean of the last finite values of `metric`.

    records: results of the search (see `driver.execute`).
    """
    values: dict[str, list[float]] = {}
    for record in records:
        reports = ledger.history(record["keys"]["train"]) if record["status"] == "done" else []
        finite = [value for each in reports if (value := number(each.get(metric))) is not None and math.isfinite(value)]
        if finite:
            values.setdefault(record["id"], []).append(finite[-1])
    runs = Counter(record["id"] for record in records)
    ranked = [RankedRow(row, fmean(each), len(each), runs[row]) for row, each in values.items()]
    sign = 1.0 if mode == "min" else -1.0
    return sorted(ranked, key=lambda r: (-r.finished / r.runs, sign * r.value))


def select(records: Sequence[dict[str, Any]], rows: Sequence[Row], ledger: Ledger, scheduler: dict[str, Any]) -> list[RankedRow]:
    """The best `retrain.top` rows of the search, and its pinned rows as baselines."""
    ranked = rank(records, ledger, scheduler["metric"], scheduler["mode"])
    best = ranked[: scheduler["retrain"]["top"]]
    pinned = {row.id for row in rows if row.pinned}
    return best + [each for each in ranked if each.row in pinned and each not in best]


def describe(selected: Sequence[RankedRow], scheduler: dict[str, Any]) -> str:
    """One line with the selected rows and their metric in the search."""
    rows = ", ".join(f"{r.row} ({r.value:.4g}, {r.finished} of {r.runs} runs)" for r in selected)
    seeds = ", ".join(map(str, scheduler["retrain"]["seeds"]))
    return f"retrained in full with seeds {seeds}: {rows}; by {scheduler['metric']} of the search"
