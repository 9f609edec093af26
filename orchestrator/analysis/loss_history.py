"""Losses of one run, read from its history: for each validation its loss, the training loss since the previous one, and the epochs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from orchestrator.tracking.history import number

Report = Mapping[str, Any]


@dataclass(frozen=True)
class LossPoint:
    """One validation: `valid` is its nll per target token, `train` the mean of the updates since the previous validation.

    epochs: since the start of the run; None without a whole epoch.
    """

    step: int
    valid: float
    train: float | None
    epochs: float | None


@dataclass(frozen=True)
class Losses:
    """Validations in order of updates. cut: the one after which the learning rate was first cut, or None.

    bad: number of non-finite losses, which are left out.
    """

    points: list[LossPoint]
    cut: LossPoint | None = None
    bad: int = 0

    def until_cut(self) -> Losses:
        """Returns the losses up to the validation that caused the first cut, or all if there is none."""
        cut = self.cut
        return self if cut is None else replace(self, points=[p for p in self.points if p.step <= cut.step])

    def best(self) -> LossPoint:
        """Returns the validation with the lowest loss; of equal ones the first."""
        return min(self.points, key=lambda p: p.valid)

    def reaches(self, nll: float) -> LossPoint | None:
        """Returns the first validation at or below `nll`, or None."""
        return next((p for p in self.points if p.valid <= nll), None)


def losses_of(history: Sequence[Report], record: Report) -> Losses:
    """Reads the losses from a history in order of updates and the training's `record`, whose `rate_cuts` list the cuts of the rate."""
    ends = epoch_ends(history)
    points: list[LossPoint] = []
    bad, total, updates, last = 0, 0.0, 0, 0
    for report in history:
        step = int(report["step"])
        train, valid = (number(report.get(name)) for name in ("train/nll", "valid/nll"))
        bad += sum(value is not None and not math.isfinite(value) for value in (train, valid))
        if train is not None:
            if math.isfinite(train):
                total, updates = total + train * (step - last), updates + step - last
            last = step
        if valid is not None and math.isfinite(valid):
            epochs = float(np.interp(step, *np.array(ends).T)) if len(ends) > 1 else None
            points.append(LossPoint(step, valid, total / updates if updates else None, epochs))
            total, updates = 0.0, 0
    cuts = record.get("rate_cuts") or []
    cut = next((p for p in points if p.step == cuts[0]["step"]), None) if cuts else None
    return Losses(points, cut, bad)


def epoch_ends(history: Sequence[Report]) -> list[tuple[float, float]]:
    """Returns (update, finished epochs) for each report with a newly finished epoch; exact if each is validated, else within 50 updates.

    The last one stands for the epoch that was not finished, of the mean length.
    """
    ends = [(0.0, 0.0)]
    for report in history:
        finished = number(report.get("train/epoch"))
        if finished is not None and finished > ends[-1][1]:
            ends.append((float(report["step"]), finished))
    step, epochs = ends[-1]
    return [*ends, (step + step / epochs, epochs + 1.0)] if epochs else ends
