"""What a driver on a cluster watches for: nodes that do not come back, a head that is gone. Ray would wait for ever, or end in a trace."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ray.tune import Stopper

from orchestrator.engines.ray.address import answers

NODES_WAIT = "NMT_NODES_WAIT_S"
"""Seconds for which rows wait for nodes that were lost; then they fail."""
HEAD_WAIT = "NMT_HEAD_WAIT_S"
"""Seconds for which the head may be out of reach; then the driver ends."""
HEAD_LOST = 5
"""Exit code of a driver whose cluster is gone: the same command on a new one goes on."""


def seconds(variable: str, default: float) -> float:
    return float(os.environ.get(variable, default))


def fits(nodes: Sequence[dict[str, Any]], resource: str, amount: float, workers: int) -> bool:
    """Is there room for `workers`, each of which needs `amount` of `resource` on one node, if nothing else ran?"""
    alive = [node["Resources"].get(resource, 0.0) for node in nodes if node["Alive"]]
    return sum(math.floor(have / amount + 1e-9) for have in alive) >= workers


class Room(Stopper):
    """Ends the trials where, for `limit` seconds on end, the nodes that live have no room for a single one of them.

    Tune and Train wait for a lost node for ever, without a word. Trials that merely wait for each other are left alone.
    """

    def __init__(self, resource: str, amount: float, workers: int, limit: float, nodes: Callable[[], Any]) -> None:
        self.needs, self.limit, self.nodes = (resource, amount, workers), limit, nodes
        self.reason: str | None = None
        self._since: float | None = None
        self._next = 0.0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        now = time.monotonic()
        if self.reason is None and now >= self._next:
            self._next = now + min(5.0, self.limit / 4)
            self._look(now)
        return self.reason is not None

    def _look(self, now: float) -> None:
        nodes = self.nodes()
        if fits(nodes, *self.needs):
            if self._since is not None:
                print("there is room again: going on", file=sys.stderr)
            self._since = None
            return
        resource, amount, workers = self.needs
        have = [f"{node['Resources'].get(resource, 0):g}" for node in nodes if node["Alive"]]
        lack = f"{workers} x {amount:g} {resource} are needed, the nodes that are left have {' + '.join(have) or '0'}"
        if self._since is None:
            self._since = now
            print(f"nodes were lost: {lack}; waiting at most {self.limit:g} s for them ({NODES_WAIT})", file=sys.stderr)
        elif now - self._since >= self.limit:
            self.reason = f"nodes were lost: {lack}; waited {self.limit:g} s"


@contextmanager
def watching(address: str) -> Iterator[None]:
    """Within: this process ends with one line and code 5 when the cluster's head at `address` (host:port) is out of reach for too long.

    It ends at once, from a thread: the main thread may be inside a call of Ray that returns never. What is durable is on disk already.
    """
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(address, seconds(HEAD_WAIT, 30.0), over), name="head-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _watch(address: str, limit: float, over: threading.Event) -> None:
    last = time.monotonic()
    while not over.wait(min(2.0, limit / 4)):
        if answers(address):
            last = time.monotonic()
        elif time.monotonic() - last >= limit and not over.is_set():
            end_with(f"the cluster's head ({address}) has not answered for {limit:g} s; the same command on a new cluster goes on")


def end_with(line: str) -> None:
    print(f"error: {line}", file=sys.stderr, flush=True)
    os._exit(HEAD_LOST)
