"""The outcome of a run, derived from the record of its training, the records of its scores and the bound that its row states.

A row may state that its runs are expected to fail (`failed_below: 5`): such a run is `failed`, which is a result and not an error.
The ledger records what happened (`diverged`, or `done` with its score); the bound belongs to the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.specs.table import FAILED

FINISHED = ("done", "diverged")
"""Statuses of a training that does not continue."""


@dataclass(frozen=True)
class Outcome:
    """status: new (no record) | done (with all scores) | trained (scores are missing) | diverged | stopped | failed.

    as_stated: the run is `failed` by the row's own bound, for this `reason`. Other failed runs ended with an error.
    """

    status: str
    reason: str = ""
    as_stated: bool = False

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.as_stated or self.status in FINISHED


def outcome_of(record: Mapping[str, Any] | None, scores: Iterable[Mapping[str, Any] | None], failed_below: float | None = None) -> Outcome:
    """Derives the outcome of one row.

    record: of the training, None if there is none. scores: records of all scorings, the row's own first, None if missing.
    failed_below: the row's bound in BLEU on its own test set; None for rows without one.
    """
    if not record:
        return Outcome("new")
    status, reason, scores = str(record.get("status", "new")), str(record.get("reason") or ""), list(scores)
    if failed_below is not None and status == "diverged":
        return Outcome(FAILED, f"diverged: {reason}" if reason else "diverged", as_stated=True)
    if status != "done":
        return Outcome(status, reason)
    if not all(scores):
        return Outcome("trained", reason)
    bleu = scores[0].get("bleu") if scores and scores[0] else None
    if failed_below is not None and bleu is not None and bleu < failed_below:
        return Outcome(FAILED, f"BLEU {bleu:.2f} is under {failed_below:g}", as_stated=True)
    return Outcome(status, reason)
