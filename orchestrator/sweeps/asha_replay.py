"""Replays ASHA over the recorded validations of finished runs: which runs would have been stopped, and the compute saved.

Trainings are deterministic and rungs change no weights, so a run's reports depend neither on other runs nor on the scheduler. The replay
therefore decides as a sweep with this order, these rungs and this many workers would, if an update takes the time `cost`.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.sweeps.asha import Asha


@dataclass(frozen=True)
class Curve:
    """One finished run. values: metric at each validation by step, the last at its end. cost: of one update, in any unit."""

    values: Mapping[int, float]
    cost: float = 1.0

    @property
    def steps(self) -> int:
        return max(self.values)

    @property
    def final(self) -> float:
        return self.values[self.steps]


@dataclass(frozen=True)
class Replay:
    """stopped: rung by run. spent: cost by run, until its end or that rung. full: cost of all runs to their ends."""

    stopped: dict[str, int]
    spent: dict[str, float]
    full: float

    @property
    def share(self) -> float:
        """Fraction of the full compute that was spent."""
        return sum(self.spent.values()) / self.full


def rungs_of(curves: Mapping[str, Curve], reduction_factor: float) -> list[int]:
    """Common validation steps nearest to T/r, T/r^2, ... for the length T of the shortest run, down to the first validation."""
    common = sorted(set.intersection(*(set(curve.values) for curve in curves.values())))
    length = min(curve.steps for curve in curves.values())
    inner = [step for step in common if step < length]
    rungs: set[int] = set()
    target = length / reduction_factor
    while inner and target >= 0.75 * inner[0]:
        rungs.add(min(inner, key=lambda step: abs(step - target)))
        target /= reduction_factor
    return sorted(rungs)


def replay(curves: Mapping[str, Curve], asha: Asha, order: Sequence[str], workers: int) -> Replay:
    """Replays the runs in the `order` of their start, `workers` at a time; the next starts when a run ends or is stopped.

    KeyError if a run was not validated at a rung.
    """
    waiting = list(reversed(order))
    arrivals: list[tuple[float, int, str, int]] = []  # (time, started as, run, step)
    rungs = {run: [r for r in asha.rungs if r < curve.steps] + [curve.steps] for run, curve in curves.items()}
    stopped: dict[str, int] = {}
    spent: dict[str, float] = {}
    started = 0

    def start(now: float) -> None:
        nonlocal started
        if waiting:
            run = waiting.pop()
            step = rungs[run][0]
            heapq.heappush(arrivals, (now + step * curves[run].cost, started, run, step))
            started += 1

    for _ in range(workers):
        start(0.0)
    while arrivals:
        now, number, run, step = heapq.heappop(arrivals)
        curve = curves[run]
        at_end = step == curve.steps
        if at_end or not asha.decide(run, step, curve.values[step]):
            spent[run] = step * curve.cost
            if not at_end:
                stopped[run] = step
            start(now)
            continue
        following = rungs[run][rungs[run].index(step) + 1]
        heapq.heappush(arrivals, (now + (following - step) * curve.cost, number, run, following))
    return Replay(stopped, spent, sum(curve.steps * curve.cost for curve in curves.values()))
