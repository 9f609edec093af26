"""Tune's scheduler: FIFO until the sweep is stopped, with the durable decisions of `orchestrator.sweeps.asha`.

And its stopper for lost nodes, for which Ray itself would wait for ever without a message.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.stopper import Stopper

from orchestrator.engines.resources import Capacity, Demand
from orchestrator.sweeps.asha import Asha

NODES_WAIT = "NMT_NODES_WAIT_S"
"""Environment variable: seconds for which runs wait for lost nodes before they fail."""

POLL_SECONDS = 5.0


class AblationASHA(FIFOScheduler):
    """Runs trials in order, and stops one at a rung if `asha` decides so. Results other than of rungs let it continue.

    Once the file `stop` exists, pending trials are terminated at once without starting a process; running ones save and end by themselves.
    """

    stop: Path | None = None
    asha: Asha | None = None
    rung_metric = ""

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
        if self.asha is None or "rung" not in result:
            return TrialScheduler.CONTINUE
        promoted = self.asha.decide(result["run"], int(result["rung"]), result.get(self.rung_metric, float("nan")))
        return TrialScheduler.CONTINUE if promoted else TrialScheduler.STOP


class NodeLossStopper(Stopper):
    """Ends the sweep if the live nodes could not hold a single trial for `limit` consecutive seconds. `reason`: why, else None.

    closed: ends it in any case. Tune and Train wait for a lost node for ever. Trials that merely wait for each other are not affected.
    """

    def __init__(self, demand: Demand, limit: float, capacity: Callable[[], Capacity]) -> None:
        self.demand, self.limit, self.capacity = demand, limit, capacity
        self.reason: str | None = None
        self.closed = False
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

    def _poll(self, now: float) -> None:
        capacity = self.capacity()
        if capacity.slots(self.demand) >= self.demand.workers:
            if self._since is not None:
                print("there is room again: going on", file=sys.stderr)
            self._since = None
            return
        lack = f"needs {self.demand.describe()}; the nodes that are left have {capacity.describe()}"
        if self._since is None:
            self._since = now
            print(f"nodes were lost: {lack}; waiting at most {self.limit:g} s for them ({NODES_WAIT})", file=sys.stderr)
        elif now - self._since >= self.limit:
            self.reason = f"nodes were lost: {lack}; waited {self.limit:g} s"
