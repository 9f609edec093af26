"""Tune's stopper for lost nodes, for which Ray itself would wait for ever without a message."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ray.tune.stopper import Stopper

NODES_WAIT = "NMT_NODES_WAIT_S"
"""Environment variable: seconds for which runs wait for lost nodes before they fail."""

POLL_SECONDS = 5.0


class NodeLossStopper(Stopper):
    """Ends the sweep if the live nodes could not hold a single trial for `limit` consecutive seconds. `reason`: why, else None.

    Tune and Train wait for a lost node for ever. Trials that merely wait for each other are not affected.
    """

    def __init__(self, resource: str, amount: float, workers: int, limit: float, nodes: Callable[[], Any]) -> None:
        self.demand, self.limit, self.nodes = (resource, amount, workers), limit, nodes
        self.reason: str | None = None
        self._since: float | None = None
        self._next_poll = 0.0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

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
