"""Tune's schedulers: FIFO until the sweep is stopped, and ASHA with the durable decisions of `orchestrator.sweeps.asha`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from orchestrator.sweeps.asha import Asha


class StoppableFIFO(FIFOScheduler):
    """Runs trials in order. Once the file `stop` exists, pending trials are terminated at once without starting a process; running ones
    save and end by themselves."""

    def __init__(self, stop: Path) -> None:
        super().__init__()
        self.stop = stop

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Called by Tune before it starts a trial."""
        if not self.stop.exists():
            return super().choose_trial_to_run(tune_controller)
        tune_controller.search_alg.set_finished()
        for trial in tune_controller.get_trials():
            if trial.status == Trial.PENDING:
                tune_controller.stop_trial(trial)
        return None


class AblationASHA(StoppableFIFO):
    """Stops a trial at a rung if `asha` decides so. Results other than of rungs let it continue."""

    def __init__(self, stop: Path, asha: Asha, metric: str) -> None:
        super().__init__(stop)
        self.asha, self.rung_metric = asha, metric

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        if "rung" not in result:
            return TrialScheduler.CONTINUE
        promoted = self.asha.decide(result["run"], int(result["rung"]), result.get(self.rung_metric, float("nan")))
        return TrialScheduler.CONTINUE if promoted else TrialScheduler.STOP
