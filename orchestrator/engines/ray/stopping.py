"""Where a sweep is asked to end, Tune starts nothing more; what runs saves and ends by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler


class UntilAsked(FIFOScheduler):
    """Trials in their order, until the file `stop` is there: from then on those that wait are over, at once and without a process."""

    def __init__(self, stop: Path) -> None:
        super().__init__()
        self.stop = stop

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Tune asks before it starts any trial."""
        if not self.stop.exists():
            return super().choose_trial_to_run(tune_controller)
        tune_controller.search_alg.set_finished()
        for trial in tune_controller.get_trials():
            if trial.status == Trial.PENDING:
                tune_controller._schedule_trial_stop(trial)  # as where Tune ends all: `stop_trial` would print each
        return None
