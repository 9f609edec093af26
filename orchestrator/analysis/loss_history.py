"""The losses of one run as its history has them: at each validation, the training loss since the one before, epochs, seconds, rate cuts."""

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
    """One validation. train: mean nll per target token of the updates since the validation before; epochs, seconds: since the start."""

    step: int
    valid: float
    train: float | None
    epochs: float | None
    seconds: float | None


@dataclass(frozen=True)
class Losses:
    """points: in order of updates. cut: the validation after which the learning rate was cut first, None where it never was.

    bad: losses that are no finite numbers, left out.
    """

    points: list[Point]
    cut: Point | None = None
    bad: int = 0

    def until_cut(self) -> Losses:
        """Up to the validation that made the first cut, which is still of the first rate; all where there is none."""
        cut = self.cut
        return self if cut is None else replace(self, points=[p for p in self.points if p.step <= cut.step])

    def best(self) -> Point:
        """The first of the lowest validation losses."""
        return min(self.points, key=lambda p: p.valid)

    def reaches(self, nll: float) -> Point | None:
        """The first validation at or below `nll`."""
        return next((p for p in self.points if p.valid <= nll), None)


def losses_of(history: Sequence[Report], record: Report) -> Losses:
    """history: reports in order of updates; record: of the training, whose `rate_cuts` say after which updates the rate was cut."""
    clock = Clock(history)
    points: list[Point] = []
    bad, total, updates, last = 0, 0.0, 0, 0
    for report in history:
        step = int(report["step"])
        train, valid = number(report.get("train/nll")), number(report.get("valid/nll"))
        bad += sum(value is not None and not math.isfinite(value) for value in (train, valid))
        if train is not None:
            if math.isfinite(train):
                total, updates = total + train * (step - last), updates + step - last
            last = step
        if valid is not None and math.isfinite(valid):
            points.append(Point(step, valid, total / updates if updates else None, clock.epochs(step), clock.seconds(report)))
            total, updates = 0.0, 0
    cuts = record.get("rate_cuts") or []
    cut = next((p for p in points if p.step == cuts[0]["step"]), None) if cuts else None
    return Losses(points, cut, bad)


class Clock:
    """Epochs and seconds of an update. A report says how many epochs are over; between two ends of epochs updates count evenly.

    An end is known as well as reports are close (every 50 updates, and at validations: exactly where each epoch is validated).
    """

    def __init__(self, history: Sequence[Report]) -> None:
        self.ends: list[tuple[int, float]] = [(0, 0.0)]
        for report in history:
            over = number(report.get("train/epoch"))
            if over is not None and over > self.ends[-1][1]:
                self.ends.append((int(report["step"]), over))
        self.started = next((t for report in history if (t := number(report.get("t"))) is not None), None)

    def epochs(self, step: int) -> float | None:
        """None where no epoch was finished. Behind the last end, by the mean length of the epochs before it."""
        if len(self.ends) == 1:
            return None
        place = bisect_right(self.ends, (step, math.inf))
        low_step, low = self.ends[place - 1]
        if place == len(self.ends):
            return low + min((step - low_step) * low / low_step, 1.0)
        high_step, high = self.ends[place]
        return low + (high - low) * (step - low_step) / (high_step - low_step)

    def seconds(self, report: Report) -> float | None:
        """By the wall clock since the first report: validations, pauses and other work count."""
        now = number(report.get("t"))
        return None if now is None or self.started is None else now - self.started
