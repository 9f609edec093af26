"""ASHA as Tune sees it: decisions come from `orchestrator.asha`, which is durable; Tune only carries them out."""

from __future__ import annotations

from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from orchestrator.asha import Asha


class AblationASHA(FIFOScheduler):
    """Stops a trial at a rung where `asha` says so. Trials report exactly at rungs, by their own step; other results go on."""

    def __init__(self, asha: Asha, metric: str) -> None:
        super().__init__()
        self.asha, self.rung_metric = asha, metric

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        if "rung" not in result:
            return TrialScheduler.CONTINUE
        good = self.asha.decide(result["run"], int(result["rung"]), result.get(self.rung_metric, float("nan")))
        return TrialScheduler.CONTINUE if good else TrialScheduler.STOP
