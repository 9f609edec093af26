"""What ASHA would have spent on trainings that all ran to their end: its own decisions, replayed over their recorded validations.

A run's reports depend on neither its companions nor the scheduler (trainings are deterministic, rungs change no weights), so the replay
decides what a sweep with this order, these rungs and this many workers would have decided, if time goes as `cost` says.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.sweeps.asha import Asha


@dataclass(frozen=True)
class Curve:
    """One finished run. values: step -> metric at each validation, the last one at its end. cost: of one update, in any unit."""

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
    """stopped: run -> the rung that ended it. spent: run -> cost until its end or that rung. full: cost of all runs to their ends."""

    stopped: dict[str, int]
    spent: dict[str, float]
    full: float

    @property
    def share(self) -> float:
        """Of the full grid's compute."""
        return sum(self.spent.values()) / self.full


def rungs_of(curves: Mapping[str, Curve], reduction_factor: float) -> list[int]:
    """Steps at which every run was validated, nearest to T/r, T/r^2, .. for the shortest run's T: down to its first validation."""
    common = sorted(set.intersection(*(set(curve.values) for curve in curves.values())))
    whole = min(curve.steps for curve in curves.values())
    inner = [step for step in common if step < whole]
    found: set[int] = set()
    wanted = whole / reduction_factor
    while inner and wanted >= 0.75 * inner[0]:
        found.add(min(inner, key=lambda step: abs(step - wanted)))
        wanted /= reduction_factor
    return sorted(found)


def replay(curves: Mapping[str, Curve], asha: Asha, order: Sequence[str], workers: int) -> Replay:
    """`order`: all runs, in the order they start; `workers` at a time, the next one where a run ends or is stopped.

    KeyError where a run was not validated at a rung.
    """
    waiting = list(reversed(order))
    arrivals: list[tuple[float, int, str, int]] = []  # (time, started as, run, step)
    rungs = {run: [r for r in asha.rungs if r < curve.steps] + [curve.steps] for run, curve in curves.items()}
    stopped: dict[str, int] = {}
    spent: dict[str, float] = {}
    begun = 0

    def start(now: float) -> None:
        nonlocal begun
        if waiting:
            run = waiting.pop()
            step = rungs[run][0]
            heapq.heappush(arrivals, (now + step * curves[run].cost, begun, run, step))
            begun += 1

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
