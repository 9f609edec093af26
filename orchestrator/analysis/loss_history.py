"""Losses of one run from its history: at each validation the training loss since the previous one, epochs, seconds, rate cuts."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.tracking.history import number

Report = Mapping[str, Any]


@dataclass(frozen=True)
class Point:
    """One validation. train: mean nll per target token of the updates since the previous validation. epochs, seconds: since the start."""

    step: int
    valid: float
    train: float | None
    epochs: float | None
    seconds: float | None


@dataclass(frozen=True)
class Losses:
    """points: in order of updates. cut: the validation after which the learning rate was first cut, None if it never was.

    bad: number of losses that are not finite, left out.
    """

    points: list[Point]
    cut: Point | None = None
    bad: int = 0

    def until_cut(self) -> Losses:
        """Up to the validation that caused the first cut; all without one."""
        cut = self.cut
        return self if cut is None else replace(self, points=[p for p in self.points if p.step <= cut.step])

    def best(self) -> Point:
        """The first of the lowest validation losses."""
        return min(self.points, key=lambda p: p.valid)

    def reaches(self, nll: float) -> Point | None:
        """The first validation at or below `nll`."""
        return next((p for p in self.points if p.valid <= nll), None)


def losses_of(history: Sequence[Report], record: Report) -> Losses:
    """history: reports in order of updates. record: of the training; its `rate_cuts` hold the updates after which the rate was cut."""
    ends = epoch_ends(history)
    start = next((t for report in history if (t := number(report.get("t"))) is not None), None)
    points: list[Point] = []
    bad, total, updates, last = 0, 0.0, 0, 0
    for report in history:
        step = int(report["step"])
        train, valid, now = (number(report.get(name)) for name in ("train/nll", "valid/nll", "t"))
        bad += sum(value is not None and not math.isfinite(value) for value in (train, valid))
        if train is not None:
            if math.isfinite(train):
                total, updates = total + train * (step - last), updates + step - last
            last = step
        if valid is not None and math.isfinite(valid):
            seconds = None if now is None or start is None else now - start
            points.append(Point(step, valid, total / updates if updates else None, epochs_at(ends, step), seconds))
            total, updates = 0.0, 0
    cuts = record.get("rate_cuts") or []
    cut = next((p for p in points if p.step == cuts[0]["step"]), None) if cuts else None
    return Losses(points, cut, bad)


def epoch_ends(history: Sequence[Report]) -> list[tuple[int, float]]:
    """(update, finished epochs) wherever a report has more of them. Exact where each epoch is validated, else within 50 updates."""
    ends: list[tuple[int, float]] = [(0, 0.0)]
    for report in history:
        finished = number(report.get("train/epoch"))
        if finished is not None and finished > ends[-1][1]:
            ends.append((int(report["step"]), finished))
    return ends


def epochs_at(ends: Sequence[tuple[int, float]], step: int) -> float | None:
    """Epochs at an update, linear between two ends; behind the last end by the mean length of the epochs. None without a whole epoch."""
    if len(ends) == 1:
        return None
    place = bisect_right(ends, (step, math.inf))
    low_step, low = ends[place - 1]
    if place == len(ends):
        return low + min((step - low_step) * low / low_step, 1.0)
    high_step, high = ends[place]
    return low + (high - low) * (step - low_step) / (high_step - low_step)
