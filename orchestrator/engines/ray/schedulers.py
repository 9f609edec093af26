"""Tune's scheduler: FIFO until the sweep is stopped, with the durable decisions of `orchestrator.sweeps.asha`.

And what follows the nodes of the cluster. For lost ones Ray itself would wait for ever without a message.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.stopper import Stopper

from orchestrator.engines.resources import Capacity, Demand, quantity
from orchestrator.sweeps.asha import Asha, goes_on

NODES_WAIT = "NMT_NODES_WAIT_S"
"""Environment variable: seconds for which runs wait for lost nodes before they fail."""

POLL_SECONDS = 5.0


class AblationASHA(FIFOScheduler):
    """Runs trials in order, and stops one at a rung if `asha` decides so. Results other than of rungs let it continue.

    Once the file `stop` exists, pending trials are terminated at once without starting a process; running ones save and end by themselves.
    """

    stop: Path | None = None
    asha: Asha | None = None

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Called by Tune before it starts a trial."""
        if self.stop is None or not self.stop.exists():
            return super().choose_trial_to_run(tune_controller)
        tune_controller.search_alg.set_finished()
        for trial in tune_controller.get_trials():
            if trial.status == Trial.PENDING:
                tune_controller.stop_trial(trial)
        return None

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        ends = "rung" in result and not goes_on(self.asha, result)
        return TrialScheduler.STOP if ends else TrialScheduler.CONTINUE


class Room(Stopper):
    """Follows the nodes of the cluster: `many` trials may run at the same time, at most `concurrency`.

    Ends the sweep if no node, live or addable, could hold a single trial for `limit` consecutive seconds; `reason`: why, else None. Tune
    and Train would wait for ever. Trials that merely wait for each other are not affected. closed: ends it in any case.
    """

    def __init__(self, demand: Demand, limit: float, capacity: Callable[[], Capacity], concurrency: int | None = None) -> None:
        self.demand, self.limit, self.capacity, self.concurrency = demand, limit, capacity, concurrency
        self.reason: str | None = None
        self.closed = False
        self.many = 1
        self._line = ""
        self._since: float | None = None
        self._next_poll = 0.0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        now = time.monotonic()
        if self.reason is None and now >= self._next_poll:
            self._next_poll = now + min(POLL_SECONDS, self.limit / 4)
            self._poll(now)
        return self.closed or self.reason is not None

    def start(self, demand: Demand) -> None:
        """Trials of a sweep begin, which need this much."""
        self.demand, self._line = demand, ""
        self._poll(time.monotonic())

    def _poll(self, now: float) -> None:
        capacity = self.capacity()
        self.many = min(capacity.max_concurrent(self.demand), self.concurrency or capacity.cpus or 1)
        line = f"{self.demand.describe()}: at most {quantity(self.many, 'run')} at a time on {capacity.describe()}"
        if capacity.holds(self.demand):
            if self._since is not None:
                print("there is room again: going on", file=sys.stderr)
            if line != self._line:
                print(line, file=sys.stderr, flush=True)
            self._since, self._line = None, line
            return
        lack = f"needs {self.demand.describe()}; the nodes that are left have {capacity.describe()}"
        if self._since is None:
            self._since = now
            print(f"nodes were lost: {lack}; waiting at most {self.limit:g} s for them ({NODES_WAIT})", file=sys.stderr)
        elif now - self._since >= self.limit:
            self.reason = f"nodes were lost: {lack}; waited {self.limit:g} s"
