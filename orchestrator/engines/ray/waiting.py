"""A sweep that gets no resources says so, and ends where it was told how long to wait: Ray itself would wait without a word."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ray.tune.stopper import Stopper

from orchestrator.engines.capacity import Capacity, count

NOTICE = 60.0
"""Seconds without resources after which it is told, and again after ten times as long."""

EVERY, GRACE = 5.0, 30.0
"""Seconds between two looks; and those that running rows have to save before the sweep ends."""

Bundles = Mapping[str, Mapping[str, float]]
"""Id of each group of resources that this driver asked for and has not got -> what it lacks."""


class Waiting(Stopper):
    """Asked by Tune in every turn of its loop. Stops no trial; all of them, where the sweep waited longer than `limit` seconds.

    `reason`: then why, else None. `stop`: the file that asks the workers to save. look: -> what is waited for now; free: -> what is free.
    """

    def __init__(
        self,
        capacity: Capacity,
        stop: Path,
        limit: float | None,
        *,
        look: Callable[[], Bundles] | None = None,
        free: Callable[[], Mapping[str, float]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.capacity, self.stop, self.limit = capacity, stop, limit
        self.look, self.free, self.clock, self.say = look or _pending, free or _free, clock, say or _stderr
        self.reason: str | None = None
        self._since: dict[str, float] = {}
        self._looked = self._told = self._ended = float("-inf")

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        now = self.clock()
        if self.reason is not None:
            return now - self._ended >= GRACE
        if now - self._looked < EVERY:
            return False
        self._looked = now
        pending = self.look()
        self._since = {id: self._since.get(id, now) for id in pending}
        if not pending:
            self._told = float("-inf")
            return False
        oldest = min(self._since, key=lambda id: self._since[id])
        waited = now - self._since[oldest]
        line = f"waiting for {_told(pending[oldest])} since {waited:.0f} s: {self._have()}"
        if self.limit is not None and waited >= self.limit:
            self.reason, self._ended = f"{line}; the limit is {self.limit:.0f} s", now
            self.stop.parent.mkdir(parents=True, exist_ok=True)
            self.stop.touch()
        elif waited >= NOTICE and now - self._told >= 10 * NOTICE:
            self._told = now
            self.say(line)
        return False

    def _have(self) -> str:
        free = self.free()
        parts = [f"{free.get('CPU', 0.0):g} of {count(self.capacity.cpus, 'CPU')}"]
        if self.capacity.gpus:
            parts.append(f"{free.get('GPU', 0.0):g} of {count(self.capacity.gpus, 'GPU')}")
        return f"free are {' and '.join(parts)} that the cluster had at the start"


def _told(bundle: Mapping[str, float]) -> str:
    return ", ".join(count(number, name) if name in ("CPU", "GPU") else f"{name}: {number:g}" for name, number in sorted(bundle.items()))


def _pending() -> dict[str, dict[str, float]]:
    """Placement groups of this driver, its Train runs' included, that wait. None where the dashboard does not answer."""
    import ray
    from ray.util.state import list_placement_groups

    here = ray.get_runtime_context()
    mine, how = [("creator_job_id", "=", here.get_job_id())], {"detail": True, "timeout": 5, "raise_on_missing_output": False}
    try:  # of this cluster: a machine may have several
        groups = list_placement_groups(address=here.gcs_address, filters=mine, **how)
    except Exception:
        return {}
    found: dict[str, dict[str, float]] = {}
    for group in groups:
        if group.state in ("PENDING", "RESCHEDULING"):
            total: dict[str, float] = {}
            for bundle in group.bundles or []:
                for name, number in bundle.get("unit_resources", {}).items():
                    total[name] = total.get(name, 0.0) + float(number)
            found[group.placement_group_id] = total
    return found


def _free() -> dict[str, float]:
    import ray

    return {name: float(number) for name, number in ray.available_resources().items()}


def _stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
