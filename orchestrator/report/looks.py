"""The looks that a sweep took at its rows (`sweep --until-decided`), read from the sweep files of a ledger and its mirrors.

"looks": [{"seeds": 3, "all_seeds": [1, 2, 3, 4, 5, 6], "level": 0.0294,
           "rows": {ROW: {"score": key of its first seed, "verdict": word, "reason": text, "continue": false}}}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.ledger import sweep_files
from orchestrator.ledger.results import Ledger
from orchestrator.report.figures import short_id
from orchestrator.report.find import SeedResult
from orchestrator.scoring.significance.estimator import LEVEL

Look = dict[str, Any]
BASELINE = "baseline"
"""In place of the verdict on a row that is compared with no other."""


def recorded(ledger: Ledger, outcomes: Mapping[str, Sequence[SeedResult]]) -> list[Look]:
    """The looks of a sweep that ran some of these rows; [] if there was none."""
    scores = {(row_id, o.keys.score) for row_id, each in outcomes.items() for o in each}
    for head in sweep_files.heads((ledger.root, *ledger.mirrors)):
        taken: list[Look] = head.get("looks", [])
        if any((row_id, one["score"]) in scores for look in taken for row_id, one in look["rows"].items()):
            return taken
    return []


def level(ledger: Ledger, outcomes: Mapping[str, Sequence[SeedResult]]) -> float:
    """The level of significance of a table with these rows: that of its looks, else 0.05."""
    return float(next((look["level"] for look in recorded(ledger, outcomes)), LEVEL))


def notes(ledger: Ledger, outcomes: Mapping[str, Sequence[SeedResult]]) -> list[str]:
    """A note about the looks; none without any."""
    taken = recorded(ledger, outcomes)
    if not taken:
        return []
    first = taken[0]
    left = {row: one for row, one in first["rows"].items() if not one["continue"] and one["verdict"] != BASELINE}
    ended = [f"{short_id(row)} ({one['verdict']})" for row, one in left.items()]
    line = f"looks after {first['seeds']} and {len(first['all_seeds'])} seeds: p-values are compared with {first['level']} (Pocock 1977)"
    return [line + (f"; ended at the first look: {', '.join(ended)}" if ended else "")]
