"""ASHA as Tune sees it: decisions come from `orchestrator.sweeps.asha`, which is durable; Tune only carries them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from orchestrator.engines.ray.stopping import UntilAsked
from orchestrator.sweeps.asha import Asha


class AblationASHA(UntilAsked):
    """Stops a trial at a rung where `asha` says so. Trials report exactly at rungs, by their own step; other results go on."""

    def __init__(self, stop: Path, asha: Asha, metric: str) -> None:
        super().__init__(stop)
        self.asha, self.rung_metric = asha, metric

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        if "rung" not in result:
            return TrialScheduler.CONTINUE
        good = self.asha.decide(result["run"], int(result["rung"]), result.get(self.rung_metric, float("nan")))
        return TrialScheduler.CONTINUE if good else TrialScheduler.STOP
