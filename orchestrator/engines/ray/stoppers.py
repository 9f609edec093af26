"""Tune's stoppers, which end a sweep that gets no resources or whose nodes were lost. Ray itself would wait for ever without a message."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.tune.stopper import Stopper
from ray.util.state import list_placement_groups

from orchestrator.engines.resources import Capacity, quantity
from orchestrator.safe_text import log

NODES_WAIT = "NMT_NODES_WAIT_S"
"""Environment variable: seconds for which runs wait for lost nodes before they fail."""

NOTICE = 60.0
"""Seconds without resources after which a message is printed; it is repeated after ten times as long."""

POLL_SECONDS, GRACE_SECONDS = 5.0, 30.0
"""Seconds between two polls, and seconds in which running trials may save before the sweep ends."""

PendingGroups = Mapping[str, Mapping[str, float]]
"""Resources for which each pending placement group of this driver waits, by the group's id."""


class _SweepStopper(Stopper):
    """Stops all trials or none. `reason`: why all were stopped, else None."""

    reason: str | None = None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False


class ResourceWaitStopper(_SweepStopper):
    """Ends the sweep after it has waited longer than `limit` seconds for resources (None: never), and reports long waits.

    stop: the file that requests the workers to save. pending: returns the resources waited for; available: returns the free resources.
    """

    def __init__(
        self,
        capacity: Capacity,
        stop: Path,
        limit: float | None,
        *,
        pending: Callable[[], PendingGroups] | None = None,
        available: Callable[[], Mapping[str, float]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        log: Callable[[str], None] = log,
    ) -> None:
        self.capacity, self.stop, self.limit = capacity, stop, limit
        self.pending, self.available = pending or pending_groups, available or ray.available_resources
        self.clock, self.log = clock, log
        self._since: dict[str, float] = {}
        self._last_poll = self._last_notice = self._ended = float("-inf")

    def stop_all(self) -> bool:
        now = self.clock()
        if self.reason is not None:
            return now - self._ended >= GRACE_SECONDS
        if now - self._last_poll < POLL_SECONDS:
            return False
        self._last_poll = now
        pending = self.pending()
        self._since = {id: self._since.get(id, now) for id in pending}
        if not pending:
            self._last_notice = float("-inf")
            return False
        oldest = min(self._since, key=lambda id: self._since[id])
        waited = now - self._since[oldest]
        line = f"waiting for {_describe(pending[oldest])} since {waited:.0f} s: {self._free()}"
        if self.limit is not None and waited >= self.limit:
            self.reason, self._ended = f"{line}; the limit is {self.limit:.0f} s", now
            self.stop.parent.mkdir(parents=True, exist_ok=True)
            self.stop.touch()
        elif waited >= NOTICE and now - self._last_notice >= 10 * NOTICE:
            self._last_notice = now
            self.log(line)
        return False

    def _free(self) -> str:
        free = self.available()
        parts = [f"{free.get('CPU', 0.0):g} of {quantity(self.capacity.cpus, 'CPU')}"]
        if self.capacity.gpus:
            parts.append(f"{free.get('GPU', 0.0):g} of {quantity(self.capacity.gpus, 'GPU')}")
        return f"free are {' and '.join(parts)} that the cluster had at the start"


def _describe(bundle: Mapping[str, float]) -> str:
    return ", ".join(quantity(n, name) if name in ("CPU", "GPU") else f"{name}: {n:g}" for name, n in sorted(bundle.items()))


def pending_groups() -> dict[str, dict[str, float]]:
    """Pending placement groups of this driver, those of its Train runs included; empty if a shared cluster's dashboard does not answer."""
    pending: dict[str, dict[str, float]] = {}
    for group_id, state, bundles in _groups():
        if state in ("PENDING", "RESCHEDULING"):
            total: dict[str, float] = {}
            for bundle in bundles:
                for name, amount in bundle.items():
                    total[name] = total.get(name, 0.0) + float(amount)
            pending[group_id] = total
    return pending


def _groups() -> list[tuple[str, str, list[Mapping[str, float]]]]:
    """Id, state and bundles of the placement groups of this driver."""
    if "RAY_ADDRESS" not in os.environ:  # all groups are this driver's, and there may be no dashboard
        return [(group_id, group["state"], list(group["bundles"].values())) for group_id, group in ray.util.placement_group_table().items()]
    context = ray.get_runtime_context()
    filters = [("creator_job_id", "=", context.get_job_id())]
    try:  # the address is given because a machine may run several clusters
        groups = list_placement_groups(address=context.gcs_address, filters=filters, detail=True, timeout=5, raise_on_missing_output=False)
    except Exception:
        return []
    return [(group.placement_group_id, group.state, [each.get("unit_resources", {}) for each in group.bundles or []]) for group in groups]


class NodeLossStopper(_SweepStopper):
    """Ends the sweep if the live nodes could not hold a single trial for `limit` consecutive seconds.

    Tune and Train wait for a lost node for ever. Trials that merely wait for each other are not affected.
    """

    def __init__(self, resource: str, amount: float, workers: int, limit: float, nodes: Callable[[], Any]) -> None:
        self.demand, self.limit, self.nodes = (resource, amount, workers), limit, nodes
        self._since: float | None = None
        self._next_poll = 0.0

    def stop_all(self) -> bool:
        now = time.monotonic()
        if self.reason is None and now >= self._next_poll:
            self._next_poll = now + min(POLL_SECONDS, self.limit / 4)
            self._poll(now)
        return self.reason is not None

    def _poll(self, now: float) -> None:
        nodes = self.nodes()
        if fits(nodes, *self.demand):
            if self._since is not None:
                print("there is room again: going on", file=sys.stderr)
            self._since = None
            return
        resource, amount, workers = self.demand
        have = [f"{node['Resources'].get(resource, 0):g}" for node in nodes if node["Alive"]]
        lack = f"{workers} x {amount:g} {resource} are needed, the nodes that are left have {' + '.join(have) or '0'}"
        if self._since is None:
            self._since = now
            print(f"nodes were lost: {lack}; waiting at most {self.limit:g} s for them ({NODES_WAIT})", file=sys.stderr)
        elif now - self._since >= self.limit:
            self.reason = f"nodes were lost: {lack}; waited {self.limit:g} s"


def fits(nodes: Sequence[dict[str, Any]], resource: str, amount: float, workers: int) -> bool:
    """Returns whether the live nodes, if idle, could hold `workers` workers, each with `amount` of `resource` on one node."""
    alive = [node["Resources"].get(resource, 0.0) for node in nodes if node["Alive"]]
    return sum(math.floor(have / amount + 1e-9) for have in alive) >= workers
