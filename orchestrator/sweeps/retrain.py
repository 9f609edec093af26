"""The best rows of a search train again, in full and with fresh seeds: a search chooses by luck too, its own seeds make no table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.tracking.history import number

if TYPE_CHECKING:
    from orchestrator.specs.row import Row


@dataclass(frozen=True)
class Survivor:
    """value: mean of the metric at the ends of its runs. ended: runs that were not stopped, of `runs`."""

    row: str
    value: float
    ended: int
    runs: int


def check_seeds(retrain: dict[str, Any] | None, seeds: Sequence[int]) -> None:
    """UserError where a seed of the search is to be a replicate too."""
    both = [] if retrain is None else sorted(set(retrain["seeds"]) & set(seeds))
    if both:
        raise UserError(
            f"sweep.scheduler.retrain.seeds: found {both}, which the search trains with; expected other seeds: the best of a search were "
            "chosen by those"
        )


def ranked(records: Sequence[dict[str, Any]], ledger: Ledger, metric: str, mode: str) -> list[Survivor]:
    """Rows that a search (public records, see `driver.execute`) brought to their end with some seed, best first.

    First by the seeds that were not stopped, then by the mean of `metric` at their ends.
    """
    values: dict[str, list[float]] = {}
    runs: dict[str, int] = {}
    for record in records:
        runs[record["id"]] = runs.get(record["id"], 0) + 1
        value = _final(ledger, record["keys"]["train"], metric) if record["status"] == "done" else None
        if value is not None:
            values.setdefault(record["id"], []).append(value)
    found = [Survivor(row, fmean(each), len(each), runs[row]) for row, each in values.items()]
    sign = 1.0 if mode == "min" else -1.0
    return sorted(found, key=lambda s: (-s.ended / s.runs, sign * s.value))


def chosen(records: Sequence[dict[str, Any]], rows: Sequence[Row], ledger: Ledger, scheduler: dict[str, Any]) -> list[Survivor]:
    """The best `retrain.top` of the search; pinned rows come with them, for the others are compared with those."""
    order = ranked(records, ledger, scheduler["metric"], scheduler["mode"])
    best = order[: scheduler["retrain"]["top"]]
    pinned = {row.id for row in rows if row.pinned}
    return best + [survivor for survivor in order if survivor.row in pinned and survivor not in best]


def said(survivors: Sequence[Survivor], scheduler: dict[str, Any]) -> str:
    """One line: who trains again, and why."""
    rows = ", ".join(f"{s.row} ({s.value:.4g}, {s.ended} of {s.runs} runs)" for s in survivors)
    return (
        f"retrained in full with seeds {', '.join(map(str, scheduler['retrain']['seeds']))}: {rows}; by {scheduler['metric']} of the search"
    )


def _final(ledger: Ledger, train_key: str, metric: str) -> float | None:
    """At the last report that has it."""
    found = [number(report.get(metric)) for report in ledger.history(train_key)]
    kept = [value for value in found if value is not None and math.isfinite(value)]
    return kept[-1] if kept else None
